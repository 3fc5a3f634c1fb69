//! What a writing tool was asked for, and the new content that it makes.

use std::path::Path;

use protocol::{
    failure::ToolErrorCode,
    tool::{Edit, EditMode, NotebookEdit, Write},
};

use crate::executor::{
    display,
    edit::{self, ReplaceMode},
    notebook_edit::{self, CellChange},
    outcome::ToolFailure,
    write,
};

/// A call of one of the writing tools.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// A text is replaced.
    Edit(Edit),
    /// The whole file is written.
    Write(Write),
    /// A cell is changed.
    Notebook(NotebookEdit),
}

/// A new content and how it came about.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) content: Vec<u8>,
    /// As "1 place replaced, in line 3".
    pub(super) what: String,
}

impl Change {
    /// The file, as it was asked for.
    pub(super) fn path(&self) -> &Path {
        Path::new(match self {
            Self::Edit(edit) => &edit.file_path,
            Self::Write(write) => &write.file_path,
            Self::Notebook(edit) => &edit.notebook_path,
        })
    }

    /// How its errors begin.
    pub(super) const fn attempt(&self) -> &'static str {
        match self {
            Self::Edit(_) => "editing",
            Self::Write(_) => "writing",
            Self::Notebook(_) => "editing the notebook",
        }
    }

    /// Whether the file may be new.
    pub(super) const fn may_create(&self) -> bool {
        match self {
            Self::Write(_) => true,
            Self::Edit(_) | Self::Notebook(_) => false,
        }
    }

    /// The new content.
    ///
    /// # Errors
    /// As the tool's own function says; nothing was changed.
    pub(super) fn make(&self, before: Option<&[u8]>) -> Result<Made, ToolFailure> {
        match self {
            Self::Edit(edit) => self.edited(before.unwrap_or_default(), edit),
            Self::Write(write) => {
                let content = write::write(&write.content)
                    .map_err(|error| self.failed(error.code(), &error.to_string()))?;
                let what = if before.is_some() { "written whole" } else { "made" };
                Ok(Made { content, what: what.to_owned() })
            }
            Self::Notebook(edit) => self.cell_edited(before.unwrap_or_default(), edit),
        }
    }

    fn edited(&self, before: &[u8], input: &Edit) -> Result<Made, ToolFailure> {
        let mode = if input.replace_all.unwrap_or(false) { ReplaceMode::Every } else { ReplaceMode::Only };
        let edited = edit::edit(before, &input.old_string, &input.new_string, mode)
            .map_err(|error| self.failed(error.code(), &error.to_string()))?;
        let what = match edited.replaced {
            1 => format!("1 place replaced, in line {}", edited.first_line),
            many => format!("{many} places replaced, the first in line {}", edited.first_line),
        };
        Ok(Made { content: edited.content, what })
    }

    fn cell_edited(&self, before: &[u8], input: &NotebookEdit) -> Result<Made, ToolFailure> {
        let edited =
            CellChange::asked_by(input).and_then(|change| notebook_edit::notebook_edit(before, change));
        let edited = edited.map_err(|error| self.failed(error.code(), &error.to_string()))?;
        let how = match input.edit_mode {
            EditMode::Replace => "replaced",
            EditMode::Insert => "inserted",
            EditMode::Delete => "deleted",
        };
        let id = edited.cell_id.map_or("which has no id".to_owned(), |id| format!("id {id:?}"));
        Ok(Made { content: edited.content, what: format!("cell {} ({id}) {how}", edited.index) })
    }

    fn failed(&self, code: ToolErrorCode, reason: &str) -> ToolFailure {
        ToolFailure::new(code, format!("{} {}: {reason}", self.attempt(), display::path(self.path())))
    }
}

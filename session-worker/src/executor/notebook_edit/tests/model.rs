//! A notebook as a value, and the obvious way to write it as a whole in a given style.

use super::{CellType, kind_name};

/// How a cell's source is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    Whole,
}

#[derive(Debug, Clone)]
pub(super) struct Style {
    /// One step of indent, or none for a notebook on one line.
    pub(super) indent: Option<String>,
    pub(super) crlf: bool,
    pub(super) ascii: bool,
    pub(super) final_newline: bool,
    /// No space behind commas and colons.
    pub(super) tight: bool,
    /// Members by name, as Jupyter writes them, or in another fixed order.
    pub(super) sorted: bool,
    pub(super) form: Form,
}

#[derive(Debug, Clone)]
pub(super) struct ModelCell {
    pub(super) id: Option<String>,
    pub(super) kind: CellType,
    pub(super) source: String,
    /// How many outputs a code cell has.
    pub(super) outputs: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) cells: Vec<ModelCell>,
    pub(super) style: Style,
    pub(super) minor: u64,
}

enum Node {
    Raw(String),
    List(Vec<Node>),
    Object(Vec<(&'static str, Node)>),
}

impl Model {
    pub(super) fn write(&self) -> String {
        let cells = self.cells.iter().map(|cell| self.cell(cell)).collect();
        let title = vec![("title", Node::Raw(self.string("é"))), ("odd", Node::Raw("1.50E+2".to_owned()))];
        let root = Node::Object(vec![
            ("cells", Node::List(cells)),
            ("metadata", Node::Object(title)),
            ("nbformat", Node::Raw("4".to_owned())),
            ("nbformat_minor", Node::Raw(self.minor.to_string())),
        ]);
        let mut text = String::new();
        self.put(&root, 0, &mut text);
        if self.style.final_newline {
            text.push('\n');
        }
        if self.style.crlf { text.replace('\n', "\r\n") } else { text }
    }

    fn cell(&self, cell: &ModelCell) -> Node {
        let mut members = vec![("cell_type", Node::Raw(self.string(kind_name(cell.kind))))];
        if let Some(outputs) = cell.outputs {
            let count = if outputs == 0 { "null".to_owned() } else { outputs.to_string() };
            members.push(("execution_count", Node::Raw(count)));
            members.push(("outputs", Node::List((0..outputs).map(|_| self.output()).collect())));
        }
        members.extend(cell.id.as_ref().map(|id| ("id", Node::Raw(self.string(id)))));
        members.push(("metadata", Node::Object(Vec::new())));
        members.push(("source", self.source(&cell.source)));
        let other = ["metadata", "cell_type", "id", "source", "execution_count", "outputs"];
        if self.style.sorted {
            members.sort_by_key(|(name, _)| *name);
        } else {
            members.sort_by_key(|(name, _)| other.iter().position(|known| known == name));
        }
        Node::Object(members)
    }

    fn output(&self) -> Node {
        Node::Object(vec![
            ("data", Node::Object(vec![("x", Node::Raw("NaN".to_owned()))])),
            ("text", Node::List(vec![Node::Raw(self.string(&"out\n".repeat(500)))])),
        ])
    }

    fn source(&self, source: &str) -> Node {
        match self.style.form {
            Form::Whole => Node::Raw(self.string(source)),
            Form::Lines => {
                Node::List(source.split_inclusive('\n').map(|line| Node::Raw(self.string(line))).collect())
            }
        }
    }

    fn string(&self, value: &str) -> String {
        let literal = serde_json::to_string(value).unwrap();
        if !self.style.ascii {
            return literal;
        }
        literal
            .encode_utf16()
            .map(|unit| match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
                _ => format!("\\u{unit:04x}"),
            })
            .collect()
    }

    fn put(&self, node: &Node, depth: usize, text: &mut String) {
        match node {
            Node::Raw(raw) => text.push_str(raw),
            Node::List(items) => self.put_all(('[', ']', items.iter().map(|item| (None, item))), depth, text),
            Node::Object(members) => {
                let members = members.iter().map(|(name, value)| (Some(*name), value));
                self.put_all(('{', '}', members), depth, text);
            }
        }
    }

    fn put_all<'n>(
        &self,
        (open, close, items): (char, char, impl Iterator<Item = (Option<&'static str>, &'n Node)>),
        depth: usize,
        text: &mut String,
    ) {
        text.push(open);
        let mut any = false;
        for (name, item) in items {
            if any {
                text.push(',');
            }
            any = true;
            if !self.line_break(depth + 1, text) && !text.ends_with(open) && !self.style.tight {
                text.push(' ');
            }
            if let Some(name) = name {
                text.push_str(&format!("\"{name}\":"));
                if !self.style.tight {
                    text.push(' ');
                }
            }
            self.put(item, depth + 1, text);
        }
        if any {
            self.line_break(depth, text);
        }
        text.push(close);
    }

    fn line_break(&self, depth: usize, text: &mut String) -> bool {
        let Some(indent) = &self.style.indent else { return false };
        text.push('\n');
        text.push_str(&indent.repeat(depth));
        true
    }
}

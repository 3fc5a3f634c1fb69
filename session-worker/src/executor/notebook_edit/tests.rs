//! What `notebook_edit` promises: by example, in folders of before and after, and on random notebooks that
//! are written anew by a model.

use proptest::prelude::*;
use protocol::failure::ToolErrorCode;
use serde_json::{Value, json};

use super::*;

mod model;
use model::{Form, Model, ModelCell, Style};

/// Each folder holds a notebook before and after one change.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/notebook_edit");

#[test]
fn every_fixture_gives_its_expected_bytes() {
    let mut seen = 0;
    for entry in std::fs::read_dir(FIXTURES).unwrap() {
        let folder = entry.unwrap().path();
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let mut input: Value = serde_json::from_slice(&read("action.json")).unwrap();
        input["notebook_path"] = json!("before.ipynb");
        let input: NotebookEdit = serde_json::from_value(input).unwrap();
        let edited = notebook_edit(&read("before.ipynb"), CellChange::asked_by(&input).unwrap());
        let edited = edited.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let expected = String::from_utf8(read("after.ipynb")).unwrap();
        assert_eq!(String::from_utf8(edited.content).unwrap(), expected, "{}", folder.display());
        seen += 1;
    }
    assert!(seen >= 5, "the fixtures are missing");
}

fn notebook(minor: u32, cells: &str) -> String {
    format!("{{\"cells\": [{cells}], \"metadata\": {{}}, \"nbformat\": 4, \"nbformat_minor\": {minor}}}")
}

fn code(id: &str) -> String {
    format!(
        "{{\"cell_type\": \"code\", \"execution_count\": 1, \"id\": \"{id}\", \"metadata\": {{}}, \
         \"outputs\": [1], \"source\": [\"print('{id}')\"]}}"
    )
}

fn replace<'a>(cell_id: &'a str, source: &'a str) -> CellChange<'a> {
    CellChange::Replace { cell_id, source: Some(source), kind: None }
}

#[test]
fn a_missing_or_repeated_id_lists_the_cells() {
    let without = "{\"cell_type\": \"raw\", \"metadata\": {}, \"source\": \"plain\"}";
    let cells = [code("a"), code("b"), code("b"), without.to_owned()].join(", ");
    let before = notebook(5, &cells);
    let missing = notebook_edit(before.as_bytes(), replace("zz", "x")).unwrap_err();
    assert!(matches!(missing, NotebookError::CellNotFound { .. }));
    let repeated = notebook_edit(before.as_bytes(), CellChange::Delete { cell_id: "b" }).unwrap_err();
    assert!(matches!(repeated, NotebookError::DuplicateId { .. }));
    for text in [missing.to_string(), repeated.to_string()] {
        for line in ["0: code, id `a`, `print('a')`", "2: code, id `b`", "3: raw, no id, `plain`"] {
            assert!(text.contains(line), "{text}");
        }
    }
    // Another cell's trouble is no reason to refuse.
    assert!(notebook_edit(before.as_bytes(), replace("a", "x")).is_ok());
}

#[test]
fn an_inserted_cell_has_an_id_exactly_where_the_version_knows_them() {
    let insert = CellChange::Insert { after: None, source: "x", kind: CellType::Markdown };
    for (minor, expected) in [(0, false), (4, false), (5, true), (9, true)] {
        let edited = notebook_edit(notebook(minor, "").as_bytes(), insert).unwrap();
        let after: Value = serde_json::from_slice(&edited.content).unwrap();
        let id = after["cells"][0].get("id").and_then(Value::as_str).map(str::to_owned);
        assert_eq!(id.is_some(), expected, "minor version {minor}");
        assert_eq!(id, edited.cell_id);
        assert!(id.is_none_or(|id| id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit())));
    }
    let before = notebook(5, &code("a"));
    let twice = [0, 1].map(|_| notebook_edit(before.as_bytes(), insert).unwrap());
    assert_eq!(twice[0], twice[1], "the same change has the same result");
}

#[test]
fn a_change_of_kind_leaves_a_valid_cell() {
    let before = notebook(5, &code("a"));
    let to = |kind| CellChange::Replace { cell_id: "a", source: None, kind: Some(kind) };
    let markdown = notebook_edit(before.as_bytes(), to(CellType::Markdown)).unwrap().content;
    let value: Value = serde_json::from_slice(&markdown).unwrap();
    let expected = json!({"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["print('a')"]});
    assert_eq!(value["cells"][0], expected);
    let code = notebook_edit(&markdown, to(CellType::Code)).unwrap().content;
    let cleared = before.replace("\"execution_count\": 1", "\"execution_count\": null").replace("[1]", "[]");
    assert_eq!(String::from_utf8(code).unwrap(), cleared);
}

#[test]
fn what_is_no_notebook_of_format_4_is_refused() {
    let refused = |text: &str| notebook_edit(text.as_bytes(), replace("a", "x")).unwrap_err();
    let three = "{\"worksheets\": [], \"nbformat\": 3, \"nbformat_minor\": 0, \"metadata\": {}}";
    assert_eq!(refused(three), NotebookError::UnsupportedFormat { major: 3 });
    assert!(refused(three).to_string().contains("nbconvert"));
    assert!(matches!(
        refused("{\"nbformat\": 4,\n \"x\" 1}"),
        NotebookError::NotJson { line: 2, column: 6, .. }
    ));
    for text in
        ["", "[]", "{}", "nul", "{\"nbformat\": 4}", "{\"nbformat\": 4, \"cells\": {}}", "\"\\x\"", "[1,]"]
    {
        assert!(
            matches!(refused(text), NotebookError::NotJson { .. } | NotebookError::NotANotebook { .. }),
            "{text}"
        );
    }
    let twice = "{\"nbformat\": 4, \"cells\": [], \"ce\\u006cls\": []}";
    assert_eq!(refused(twice), NotebookError::DuplicateKey { key: "cells" });
    let invalid = [b"{\"nbformat\": 4, \"a\": \"\xff\"}".as_slice()].concat();
    assert_eq!(
        notebook_edit(&invalid, replace("a", "x")).unwrap_err(),
        NotebookError::NotUtf8 { offset: 22 }
    );
}

#[test]
fn depth_costs_no_stack() {
    let depth = 300_000;
    let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let cells = format!(
        "{}, {{\"cell_type\": \"raw\", \"id\": \"d\", \"source\": \"\", \"deep\": {deep}}}",
        code("a")
    );
    let before = notebook(5, &cells);
    let edited = notebook_edit(before.as_bytes(), replace("a", "x")).unwrap();
    assert!(String::from_utf8(edited.content).unwrap().contains(&deep));
    let open = notebook(5, &"{\"a\":[".repeat(depth));
    assert!(matches!(notebook_edit(open.as_bytes(), replace("a", "x")), Err(NotebookError::NotJson { .. })));
}

#[test]
fn nothing_asked_and_nothing_changed_are_said() {
    let before =
        notebook(5, "{\"cell_type\": \"raw\", \"id\": \"a\", \"metadata\": {}, \"source\": \"\\u0041\"}");
    let nothing = CellChange::Replace { cell_id: "a", source: None, kind: None };
    assert_eq!(notebook_edit(before.as_bytes(), nothing).unwrap_err(), NotebookError::NothingAsked);
    assert_eq!(notebook_edit(before.as_bytes(), replace("a", "A")).unwrap_err(), NotebookError::Unchanged);
}

#[test]
fn a_call_without_what_its_mode_needs_is_refused() {
    for (mode, field) in [("replace", "cell_id"), ("insert", "new_source"), ("delete", "cell_id")] {
        let input: NotebookEdit =
            serde_json::from_value(json!({"notebook_path": "/n", "edit_mode": mode})).unwrap();
        let refusal = CellChange::asked_by(&input).unwrap_err();
        assert_eq!(refusal.code(), ToolErrorCode::InvalidArgument);
        assert!(refusal.to_string().contains(field), "{refusal}");
    }
}

fn source() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            Just("x = 1\n"),
            Just("é"),
            Just("𝄞\n"),
            Just("\t\"q\"\\"),
            Just("\r\n"),
            Just("\u{1}"),
            Just("a"),
            Just("\n")
        ],
        0..6,
    )
    .prop_map(|parts| parts.concat())
}

fn kind() -> impl Strategy<Value = CellType> {
    prop_oneof![Just(CellType::Code), Just(CellType::Markdown), Just(CellType::Raw)]
}

fn style() -> impl Strategy<Value = Style> {
    let indent = prop_oneof![
        4 => Just(Some(" ".to_owned())), 2 => Just(Some("  ".to_owned())), 1 => Just(Some("    ".to_owned())),
        1 => Just(Some("\t".to_owned())), 1 => Just(Some(String::new())), 2 => Just(None)
    ];
    let form = prop_oneof![3 => Just(Form::Lines), 1 => Just(Form::Whole)];
    (indent, any::<[bool; 5]>(), form).prop_map(|(indent, [crlf, ascii, newline, tight, sorted], form)| {
        Style { indent, crlf, ascii, final_newline: newline, tight, sorted, form }
    })
}

fn model() -> impl Strategy<Value = Model> {
    let cell = (kind(), source(), 0_usize..3).prop_map(|(kind, source, outputs)| ModelCell {
        id: None,
        kind,
        source,
        outputs: Some(outputs).filter(|_| kind == CellType::Code),
    });
    (prop::collection::vec(cell, 0..5), style(), 0_u64..7).prop_map(|(mut cells, style, minor)| {
        // Ids stand in some old notebooks too; without them nothing but an insert at the top is possible.
        for (index, cell) in cells.iter_mut().enumerate() {
            cell.id = (minor != 2).then(|| format!("cell-{index}"));
        }
        Model { cells, style, minor }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_gives_what_writing_the_changed_notebook_anew_would_give(
        model in model(), at in 0_usize..6, new in source(), new_kind in kind(), mode in 0..3
    ) {
        let before = model.write();
        let name = format!("cell-{at}");
        let exists = model.cells.get(at).is_some_and(|cell| cell.id.is_some());
        let mut after = model.clone();
        let change = match mode {
            0 => CellChange::Replace { cell_id: &name, source: Some(&new), kind: None },
            1 => CellChange::Insert { after: exists.then_some(name.as_str()), source: &new, kind: new_kind },
            _ => CellChange::Delete { cell_id: &name },
        };
        let result = notebook_edit(before.as_bytes(), change);
        if mode != 1 && !exists {
            let refused_with_list = matches!(result, Err(NotebookError::CellNotFound { .. }));
            prop_assert!(refused_with_list);
            return Ok(());
        }
        match mode {
            0 => {
                after.cells[at].source = new.clone();
                if let Some(outputs) = &mut after.cells[at].outputs {
                    *outputs = 0;
                }
            }
            1 => {
                let id = result.as_ref().unwrap().cell_id.clone();
                prop_assert_eq!(id.is_some(), model.minor >= 5);
                let outputs = Some(0).filter(|_| new_kind == CellType::Code);
                let cell = ModelCell { id, kind: new_kind, source: new.clone(), outputs };
                // Nothing shows how an empty notebook would write a cell: as Jupyter does, then.
                if model.cells.is_empty() {
                    after.style = Style { sorted: true, form: Form::Lines, ..after.style };
                }
                after.cells.insert(if exists { at + 1 } else { 0 }, cell);
            }
            _ => {
                after.cells.remove(at);
            }
        }
        let expected = after.write();
        match result {
            Ok(edited) => prop_assert_eq!(String::from_utf8(edited.content).unwrap(), expected),
            Err(error) => {
                prop_assert_eq!(error, NotebookError::Unchanged);
                prop_assert_eq!(before, expected);
            }
        }
    }

    #[test]
    fn a_change_of_kind_touches_no_other_cell(model in model(), at in 0_usize..5, new_kind in kind()) {
        let before = model.write();
        let name = format!("cell-{at}");
        let change = CellChange::Replace { cell_id: &name, source: None, kind: Some(new_kind) };
        if let Ok(edited) = notebook_edit(before.as_bytes(), change) {
            let after = String::from_utf8(edited.content).unwrap();
            let (old, new) = (Notebook::read(&before).unwrap(), Notebook::read(&after).unwrap());
            for (index, (old_cell, new_cell)) in old.cells.iter().zip(&new.cells).enumerate() {
                if index != at {
                    prop_assert_eq!(old_cell.span.of(&before), new_cell.span.of(&after));
                }
            }
            prop_assert_eq!(new.cells[at].member("outputs").is_some(), new_kind == CellType::Code);
            prop_assert_eq!(&new.cells[at].kind, kind_name(new_kind));
            let (from, to) = (old.cells[at].span, new.cells[at].span);
            prop_assert_eq!(&before[..from.start], &after[..to.start]);
            prop_assert_eq!(&before[from.end..], &after[to.end..]);
        }
    }

    #[test]
    fn random_text_is_changed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0_usize..200) {
        let _ = notebook_edit(&bytes, replace("a", "x")).map_err(|e| e.to_string());
        let whole = notebook(5, &code("a"));
        let mut cut_off = whole.into_bytes();
        cut_off.truncate(cut);
        cut_off.extend_from_slice(&bytes);
        let _ = notebook_edit(&cut_off, replace("a", "x")).map_err(|e| e.to_string());
    }
}

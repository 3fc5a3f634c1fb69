//! `NotebookEdit`: replaces, inserts or deletes one cell of a notebook by splicing its JSON text.

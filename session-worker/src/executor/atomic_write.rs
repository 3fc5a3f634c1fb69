//! Replaces one file of the project: staged beside it, compared, swapped, made durable.

//! `Write`: the whole new content of a file.

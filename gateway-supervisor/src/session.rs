//! Sessions: what they remember, what they decide, and how they are shown.

pub mod view;

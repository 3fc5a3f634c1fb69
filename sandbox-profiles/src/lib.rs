//! The walls.

//! The three layers of Linux, and the processes that build them: a keeper per session, the first process of each
//! cage, and the program in it.

mod diagnose;
mod elf;
mod files;
mod init;
mod inside;
mod keeper;
mod landlock;
mod launch;
mod mounts;
mod seccomp;
mod small_root;
mod step;
mod sys;
mod wire;

pub(crate) use diagnose::{landlock_abi, second_covers};
pub(crate) use elf::interpreter;
pub(crate) use files::{is_process_information, path_of};
#[cfg(feature = "measure-single-walls")]
pub(crate) use launch::leave_out;
pub(crate) use launch::{Cage, Keeper, helper};

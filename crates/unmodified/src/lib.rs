//! What `sidestep run`, `libsidestep.so` and `sidestep ps` share about unmodified programs.
//!
//! [`options`]: the one table of options, which gives the flags of `sidestep run`, the environment variables that the library
//! reads, the profiles and `docs/run-options.md`. [`status`]: the page of shared memory in which the library keeps the state of a
//! program's sockets. [`program`]: the recognition of programs that the library cannot serve. [`library`]: where it is.
#![forbid(unsafe_code)]

pub mod library;
pub mod options;
pub mod program;
pub mod status;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

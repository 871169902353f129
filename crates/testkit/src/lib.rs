//! Test support: stock kernels in virtual machines, and waiting with a watchdog.
//!
//! [`vm`] boots a stock kernel for tests of features that this host's kernel lacks.
#![forbid(unsafe_code)]

mod lingering;
pub mod vm;
mod waiting;

pub use lingering::lingering;
pub use waiting::{WATCHDOG, drive, wait, wait_until};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

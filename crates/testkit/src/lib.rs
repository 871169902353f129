//! Two hosts on one machine, and a wire between them that can be made bad.
//!
//! [`Lab::up`] makes two hosts out of network namespaces and joins them by a veth pair; nothing of it is visible in the
//! namespace of the machine. [`wire::Impairment`] says how bad the wire between them is, per direction.
//!
//! [`vm`] boots a stock kernel for tests of what the kernel at hand lacks.
#![forbid(unsafe_code)]

pub mod lab;
mod lingering;
pub mod vm;
mod waiting;
pub mod wire;

pub use lab::{Checksums, Host, Lab, Options, Removal, Side};
pub use lingering::lingering;
pub use waiting::{WATCHDOG, drive, wait, wait_until};
pub use wire::Impairment;

//! L0, the unsafe floor: what sidestep asks of the CPU and of the kernel directly.
//!
//! Everything above this crate reaches the machine through these modules or through a safe library.

pub mod bpf;
pub mod clock;
pub mod cpu;
pub mod credentials;
pub mod fork;
pub mod futex;
pub mod interface;
pub mod lock;
pub mod memory;
pub mod netns;
pub mod offload;
pub mod packet;
pub mod problem;
pub mod proc;
pub mod process;
pub mod socket;
pub mod words;
pub mod xdp;

pub use problem::{Kind, Problem};

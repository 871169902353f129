//! L0, the unsafe floor: direct calls of the CPU and the kernel.
//!
//! Crates above reach the machine through these modules or through a safe library.

pub mod accept_ring;
pub mod boot;
pub mod bpf;
pub mod broken_pipe;
pub mod clock;
pub mod cpu;
pub mod credentials;
pub mod descriptors;
pub mod drop_filter;
pub mod epoll_parameters;
pub mod error_queue;
pub mod ethtool;
pub mod file;
pub mod fork;
pub mod futex;
pub mod icmp;
pub mod idle;
pub mod interface;
pub mod lock;
pub mod mapped;
pub mod memory;
pub mod message_batch;
pub mod netns;
pub mod numa;
pub mod offload;
pub mod own_descriptors;
pub mod owner;
pub mod packet;
pub mod perf;
pub mod prefetch;
pub mod printable;
pub mod problem;
pub mod proc;
pub mod process;
pub mod ring_device;
pub mod scan;
pub mod signals;
pub mod socket;
pub mod source_filter;
pub mod stream_options;
pub mod tcp_queue;
pub mod tcp_repair;
pub mod thread;
pub mod timestamping;
pub mod unix_socket;
pub mod uring;
pub mod words;
pub mod xdp;

pub use problem::{Kind, Problem};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

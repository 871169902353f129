//! Hand-over of live connections to the kernel (decision 0031): one, all, or the one that another process asks for.
//!
//! The stack takes the connection out of service ([`sidestep_stack::tcp::Tcp::freeze`]); control makes the kernel's out of the record
//! and gives it the segments; the stream goes on by the kernel's socket. Where control refuses, the connection goes on as before.

mod all;
mod begin;
mod complete;
pub(crate) mod pending;
mod record;
pub(crate) mod twins;

pub use pending::HandOver;

//! The C boundary: the functions that the table exports. Each turns C's arguments into slices and values, has a safe module serve the
//! call, and gives C the result; what is not ours goes to the real function.
//!
//! The safety contract of each is that of the C function of its name.

pub(crate) mod accept;
pub(crate) mod descriptors;
pub(crate) mod epoll;
pub(crate) mod namespaces;
pub(crate) mod options;
pub(crate) mod process;
pub(crate) mod receive;
mod rest;
pub(crate) mod send;
pub(crate) mod sockets;
pub(crate) mod stdio;
pub(crate) mod system_calls;
pub(crate) mod waiting;

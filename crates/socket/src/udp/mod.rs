//! UDP sockets: past the kernel where that can be, by their kernel twins else.

mod accelerate;
pub(crate) mod batch;
mod beside;
mod bind;
pub(crate) mod buffers;
pub(crate) mod datagram;
pub(crate) mod flows;
mod groups;
pub(crate) mod inbox;
mod receive;
pub(crate) mod room;
pub(crate) mod send;
pub(crate) mod socket;
mod status;

//! The kernel twins: sockets of the kernel that hold the ports, and carry what does not go past it.

pub(crate) mod released;
pub(crate) mod tcp;
pub(crate) mod udp;

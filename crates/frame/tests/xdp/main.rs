//! Frame links over AF_XDP, on both ends of a lab's wire. They need root; who uses the link does not.

mod jumbo;
mod lifecycle;
mod support;
mod traffic;
mod unprivileged;

//! Frame links over AF_XDP, on both ends of a lab's wire. The tests need root; a user of a link does not.

mod jumbo;
mod lifecycle;
mod support;
mod traffic;
mod unprivileged;

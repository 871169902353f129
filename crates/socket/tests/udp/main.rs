//! Sockets past the kernel, between two network namespaces, with a control plane of their own each.

mod adversity;
mod asleep;
mod batches;
mod echo;
mod jumbo;
mod lifetimes;
mod multicast;
mod roles;
mod silent;
#[allow(dead_code)] // Shared with the tests of TCP.
mod support;
mod two;

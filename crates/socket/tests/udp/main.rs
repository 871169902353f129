//! Sockets past the kernel, between two network namespaces, with a control plane of their own each.

mod adversity;
mod echo;
mod lifetimes;
mod multicast;
mod roles;
mod support;
mod two;

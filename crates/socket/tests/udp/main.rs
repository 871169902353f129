//! Sockets past the kernel, between two network namespaces, with a control plane of their own each.

mod echo;
mod support;

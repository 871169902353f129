//! Streams past the kernel, between two network namespaces, with a control plane of their own each; the peer is Linux.

#[path = "../udp/support.rs"]
#[allow(dead_code)] // Shared with the tests of UDP.
mod support;

#[path = "../udp/roles.rs"]
#[allow(dead_code)]
mod roles;

mod control;
mod endings;
mod jumbo;
mod leaving;
mod lost;
mod many;
mod mtu;
mod peer;
mod pieces;
mod pool;
mod router;
mod seldom;
mod stopped;
mod strangers;
mod transfer;
mod unread;
mod waiting;
mod ways;
mod wire;

//! An engine that several threads use, between two network namespaces; the peer is Linux.

#[path = "../udp/support.rs"]
#[allow(dead_code)] // Shared with the tests of UDP.
mod support;

mod beside;
mod helper;
mod hub;
mod leaders;
mod threads;
mod waits;

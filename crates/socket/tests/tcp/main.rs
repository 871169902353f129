//! Streams past the kernel, between two network namespaces, with a control plane of their own each; the peer is Linux.

#[path = "../udp/support.rs"]
#[allow(dead_code)] // Shared with the tests of UDP.
mod support;

#[path = "../udp/roles.rs"]
#[allow(dead_code)]
mod roles;

mod alone;
mod congestion;
mod control;
mod endings;
mod hand_over_answers;
mod hand_over_crowd;
mod hand_over_deaths;
mod hand_over_windows;
mod handing_over;
mod jumbo;
mod leaving;
mod lost;
mod many;
mod mtu;
mod peer;
mod pieces;
mod pool;
mod releases;
mod router;
mod seldom;
mod stopped;
mod strangers;
mod transfer;
mod unread;
mod waiting;
mod ways;
mod wire;

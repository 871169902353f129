//! The steering program in the kernel: every verdict, hostile frames, attachment to an interface, real traffic.

mod attach;
mod feed_flood;
mod feeds;
mod frames;
mod handed_over;
mod jumbo;
mod outcomes;
mod ports;
mod soup;
mod support;
mod tables;
mod traffic;
mod verdicts;
mod vlan;
mod xsk;

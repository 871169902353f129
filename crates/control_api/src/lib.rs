//! Types and formats that applications and the control plane share.
//!
//! [`message`]: the bounded protocol on control's Unix socket, with descriptors. [`table`]: the mirror of the kernel's
//! interfaces, addresses, routes and neighbours in shared memory. [`counters`]: a page written by the application and
//! read by others. [`routes`]: the kernel's routing decisions from that mirror. [`rss`]: the device queue that receives
//! a packet. [`heartbeat`]: the application's heartbeat. [`client`]: the application's end of the connection. [`token`]: the
//! right to begin with a request.
#![forbid(unsafe_code)]
// The models cover the sequence lock alone.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(not(loom))]
pub mod client;
#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
pub mod heartbeat;
#[cfg(not(loom))]
pub mod message;
#[cfg(not(loom))]
pub mod place;
#[cfg(not(loom))]
pub mod routes;
#[cfg(not(loom))]
pub mod rss;
pub mod table;
#[cfg(not(loom))]
pub mod token;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

//! What an application and the control plane share, and nothing else does.
//!
//! [`message`]: the bounded protocol on control's Unix socket, with descriptors. [`table`]: the mirror of the kernel's
//! interfaces, addresses, routes and neighbours in shared memory. [`counters`]: a page that the application counts in and
//! others look at. [`routes`]: the kernel's routing decisions from that mirror.
//! [`rss`]: by which queue of a device a packet comes. [`heartbeat`]: the application's sign of life. [`client`]: the application's end of it all.
#![forbid(unsafe_code)]
// The models are of the sequence lock alone.
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

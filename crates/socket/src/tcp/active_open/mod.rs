//! Connections from here (RFC 9293 section 3.10.1, active OPEN): the route, the local port, the steering entry, the SYN.

mod advance;
mod connect;
pub(crate) mod opening;
pub(crate) mod ports;

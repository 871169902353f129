//! L2: IP, UDP and TCP without input or output. Frames and calls in, datagrams, segments and frames out; no socket, no
//! system call, no clock, no thread, and no allocation per packet.
//!
//! * Receiving: [`Stack::receive`] takes a frame. Of a datagram it returns the sockets and the place of the payload; a segment
//!   of TCP it processes, with payload to a `deliver` call and answers to an [`tcp::Output`]; anything else is dropped and
//!   counted by [`DropReason`].
//! * Time: [`Stack::poll`] drives TCP's timers, [`Stack::next_poll`] says when it has to be called.
//! * Sending datagrams: [`udp::FlowHeader`] is built once per flow and writes itself in front of a payload that is already in
//!   the frame. [`PacketHeader`] does the same for whole packets of any protocol.
//! * Routes: [`route`] decides as the kernel does, from a copy of the kernel's tables.
//! * Streams: [`tcp`] has the calls on connections and listeners ([`Stack::tcp_mut`]).
//!
//! The kernel still has every address and port, and does what the stack does not: ARP and neighbour discovery, IGMP and MLD,
//! fragments, options, broadcasts, ICMP. A steering program in front passes up only what the stack takes.

#![forbid(unsafe_code)]

mod drop_reason;
mod flow_error;
mod hash;
mod host;
mod ip;
mod look_ahead;
mod packet_header;
mod receive;
pub mod route;
pub mod tcp;
pub mod udp;

pub use drop_reason::{DropReason, FrameCounters};
pub use flow_error::{FlowError, MTU_MIN_V4, MTU_MIN_V6, Told};
pub use host::{ADDRESSES_MAX, Full, Host, INTERFACES_MAX, Interface};
pub use ip::Checksums;
pub use packet_header::{PacketHeader, Service};
pub use receive::{Datagram, Stack, Verdict};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

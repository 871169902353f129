//! L2: IP, UDP and TCP without input or output. Frames and calls in, datagrams, segments and frames out; no socket, no
//! system call, no clock, no thread, and no allocation per packet.
//!
//! * In: [`Stack::receive`] takes a frame and says which sockets get which of its bytes, or for which [`Reason`] nobody; a
//!   segment of TCP it hands on, parsed, for [`tcp::Tcp::receive`].
//! * Out: [`udp::FlowHeader`] is built once per flow and writes itself in front of a payload that is already in the frame.
//!   [`PacketHeader`] does the same for whole packets of any protocol.
//! * Which way: [`route`] decides as the kernel does, from a copy of the kernel's tables.
//! * Streams: [`tcp`] takes segments and the time, and gives segments and readiness.
//!
//! What the stack does not do it leaves to the kernel, which still has every address and port: ARP and neighbour discovery,
//! IGMP and MLD, fragments, options, broadcasts, answers by ICMP. A steering program in front gives us only what we take.

#![forbid(unsafe_code)]

mod flow_error;
mod hash;
mod host;
mod ip;
mod packet_header;
mod reason;
mod receive;
pub mod route;
pub mod tcp;
pub mod udp;

pub use flow_error::{FlowError, MTU_MIN_V4, MTU_MIN_V6, Told};
pub use host::{ADDRESSES_MAX, Full, Host, INTERFACES_MAX, Interface};
pub use ip::Checksums;
pub use packet_header::PacketHeader;
pub use reason::{Counters, Reason};
pub use receive::{Datagram, Segment, Stack, Verdict};

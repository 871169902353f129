//! L2: IP and UDP without input or output. Frames and calls in, datagrams and frames out; no socket, no system call, no
//! clock, no thread, and no allocation per packet.

#![forbid(unsafe_code)]

mod hash;
pub mod route;

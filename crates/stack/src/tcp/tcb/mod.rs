//! The transmission control block (RFC 9293 section 3.3.1): what is kept of one connection.

pub(crate) mod assembler;
#[cfg(feature = "audit")]
pub(crate) mod audit;
pub(crate) mod buffer;
pub(crate) mod connection;
pub(crate) mod marks;
pub(crate) mod mss;
pub(crate) mod negotiated;
pub(crate) mod notices;
pub(crate) mod owner;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod state;
pub(crate) mod time_wait;
pub(crate) mod timestamps;

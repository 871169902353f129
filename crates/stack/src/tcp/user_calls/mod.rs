//! The user calls of RFC 9293 section 3.10: OPEN, SEND, RECEIVE, CLOSE, ABORT and STATUS.

pub(crate) mod close;
pub(crate) mod data;
mod listen;
mod open;
mod status;

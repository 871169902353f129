//! Connections from elsewhere (RFC 9293 section 3.10.1, passive OPEN): listening, accepting, steering entries of listeners.

mod accept;
mod listen;
pub(crate) mod pending;
mod reaccelerate;

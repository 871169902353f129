//! Connections from elsewhere (RFC 9293 section 3.10.1, passive OPEN): listening, accepting, changes, steering entries of listeners.

mod accept;
mod change;
pub(crate) mod ending;
pub(crate) mod holding;
mod listen;
pub(crate) mod pending;
mod reaccelerate;

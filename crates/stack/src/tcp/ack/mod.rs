//! ACKs: those of the peer (`processing`), and ours (`generation`, `challenge`).

pub(crate) mod challenge;
pub(crate) mod delivery;
pub(crate) mod generation;
mod processing;

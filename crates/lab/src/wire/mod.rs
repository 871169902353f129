//! A wire that drops, duplicates, reorders, delays, corrupts and rate-limits frames, in the same way for the same seed.
//!
//! [`Impairment`] is the user's request, `Impair` decides about each frame (sans I/O, without a clock), and a relay
//! moves the frames between two packet sockets.

mod counters;
mod impair;
mod impairment;
mod quantity;
mod relay;

use serde::{Deserialize, Serialize};

pub use crate::run_wire as run;
pub use counters::{Counters, WireCounters};
pub(crate) use impair::Impair;
pub use impairment::{Impairment, KEYS};
pub use quantity::Share;
pub(crate) use relay::{Ends, Relay};

/// A pair of values, one per direction of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directions<T> {
    /// From host `a` to host `b`.
    pub a_to_b: T,
    /// From host `b` to host `a`.
    pub b_to_a: T,
}

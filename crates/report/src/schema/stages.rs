//! The stages of a round trip by timestamps of the kernel and of the device.

use super::Distribution;
use serde::{Deserialize, Serialize};

/// Stages of messages in slices of their own, some of which were stamped; the figures of the row are from the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// One message in so many was stamped.
    pub every: u64,
    /// Stamped messages that were answered.
    pub stamped: u64,
    /// Messages of these slices without an answer.
    pub lost: u64,
    /// The stages in their order, then whole round trips.
    pub stages: Vec<Stage>,
    /// Stamps that did not come, by station; none where all came.
    #[serde(default)]
    pub missing_stamps: Vec<MissingStamps>,
    /// Stages whose end lay before their beginning, as a clock was set: they are left out.
    pub clock_steps: u64,
    /// The clock of stamps on the wire (`/dev/ptp0`), if there were any.
    #[serde(default)]
    pub device_clock: Option<String>,
    /// What could not be stamped, with its reason.
    #[serde(default)]
    pub unavailable: Vec<String>,
}

/// One stage: a difference of two stamps of one clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// `system` (CLOCK_REALTIME) or `device` (the PHC).
    pub clock: String,
    /// Its duration, nanoseconds.
    #[serde(flatten)]
    pub distribution: Distribution,
}

/// Stamps that did not come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissingStamps {
    /// The station.
    pub station: String,
    /// Messages without its stamp.
    pub count: u64,
}

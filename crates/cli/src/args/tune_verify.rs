//! The flags of `sidestep tune verify`.

use super::tune_subject::{Choice, Subject};
use super::{Output, PlaceKind, StreamKind};
use crate::values::{Target, duration};
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Change settings of this host during the measurement, and revert them
    #[arg(long)]
    pub(crate) change_host: bool,
    /// Move the interface's interrupts to the measuring CPU, and back afterwards
    #[arg(long)]
    pub(crate) pin_irq: bool,
    /// Transport
    #[arg(long, value_enum, default_value = "tcp")]
    pub(crate) transport: StreamKind,
    /// Message size in bytes
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub(crate) size: u32,
    /// Time for each arm of each step that is judged by round trips
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Time for each arm of a setting that shows as pauses of the CPU (daemons, timers, compaction): judged by their rate, not by
    /// round trips
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) pause_time: Duration,
    /// Place of the two ends on this machine
    #[arg(long, value_enum, default_value_t = PlaceKind::Auto)]
    pub(crate) place: PlaceKind,
    /// Measure against `sidestep bench serve` on another machine (default port 7411)
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "place")]
    pub(crate) to: Option<Target>,
    #[command(flatten)]
    pub(crate) output: Output,
}

//! The flags of `sidestep tune verify`.

use super::tune::{Choice, Subject};
use super::{Output, PlaceKind, StreamKind};
use crate::values::Target;
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Change settings of this host for the time of the measurement, and put them back
    #[arg(long)]
    pub(crate) change_host: bool,
    /// Move the interface's interrupts to the measuring CPU, and back
    #[arg(long)]
    pub(crate) pin_irq: bool,
    /// Over what
    #[arg(long, value_enum, default_value = "tcp")]
    pub(crate) transport: StreamKind,
    /// Message size in bytes
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub(crate) size: u32,
    /// Time for each side of each step
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// Where the two ends are, if on this machine
    #[arg(long, value_enum, default_value_t = PlaceKind::Auto)]
    pub(crate) place: PlaceKind,
    /// Measure against `sidestep bench serve` there (port 7411 unless given)
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "place")]
    pub(crate) to: Option<Target>,
    #[command(flatten)]
    pub(crate) output: Output,
}

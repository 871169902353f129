//! An arm: a path over a transport at a message size, with the results of its slices.

use super::record::{Direction, Key, Record};
use crate::causes::Tail;
use crate::measure::{Packets, Target, Trips, Work};
use crate::path::Path;
use crate::stages::Found;
use crate::transport::Transport;
use sidestep_report::schema::{Row, Unavailable};
use sidestep_socket::stream::Waiting;

/// A rung of the ladder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rung {
    /// Number and name ("3 IRQ pinned").
    pub name: String,
    /// Set if the interface's interrupts go to the measuring CPU.
    pub irq: bool,
    /// CPU of the measuring end, if the rung has another one.
    pub cpu: Option<u32>,
    /// Changes of the host that are made on it, by their place in the list of [`Interleave`](super::Interleave).
    pub switches: Vec<usize>,
}

/// One arm.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    /// Path, transport and size.
    pub target: Target,
    /// Its rung, on a ladder.
    pub rung: Option<Rung>,
    pub(super) record: Record,
    napi: bool,
    /// A note on the frame path, of the last slice.
    frames: Option<String>,
    packets: Packets,
    congestion: Option<String>,
    /// Its observed slices.
    pub(super) tail: Tail,
    /// Its stamped slices.
    pub(super) stages: Found,
}

impl Arm {
    /// An arm without samples; `measure` is `rtt` or `half_rtt`.
    pub(crate) fn new(
        scenario: &'static str,
        path: &'static Path,
        transport: Transport,
        size: u32,
        measure: &'static str,
    ) -> Self {
        let key =
            Key { scenario, transport: transport.name(), path: path.name.into(), size, measure, ..Key::default() };
        Self {
            target: Target { work: Work::RoundTrips, transport, path, size },
            rung: None,
            record: Record::new(key),
            napi: false,
            frames: None,
            packets: Packets::default(),
            congestion: None,
            tail: Tail::default(),
            stages: Found::default(),
        }
    }

    /// Sets the work of the arm.
    #[must_use]
    pub(crate) fn doing(mut self, work: Work) -> Self {
        self.target.work = work;
        self
    }

    /// Sets the rung of the ladder.
    #[must_use]
    pub(crate) fn on_rung(mut self, rung: Rung) -> Self {
        self.record.key.rung = Some(rung.name.clone());
        self.rung = Some(rung);
        self
    }

    /// Adds a note.
    #[must_use]
    pub(crate) fn noting(mut self, note: impl Into<String>) -> Self {
        self.record.notes.push(note.into());
        self
    }

    /// Marks the arm as impossible here.
    #[must_use]
    pub(crate) fn refused(mut self, reason: impl Into<String>) -> Self {
        self.record.refuse(reason);
        self
    }

    /// Returns whether it can be measured, as far as is known.
    pub(super) fn is_possible(&self) -> bool {
        self.record.refusal.is_none()
    }

    /// Returns the reason why it cannot be measured, if that is known.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.record.refusal.as_deref()
    }

    /// For a progress bar.
    pub(super) fn label(&self) -> String {
        let Target { transport, path, size, .. } = self.target;
        format!("{transport} {} {size} B", path.name)
    }

    /// Adds the results of a slice.
    pub(super) fn take(&mut self, direction: Direction, trips: Trips) {
        self.record.warmup.messages += trips.settling;
        self.napi |= trips.napi;
        self.frames = trips.note.or(self.frames.take());
        self.congestion = trips.congestion.or(self.congestion.take());
        self.record.cpu.add(trips.cpu);
        if let Some(packets) = trips.packets {
            self.packets.add(packets);
        }
        self.record.take(direction, trips.slice, trips.lost, &trips.noise);
    }

    /// Returns the row of the arm; round trips are halved for `half_rtt`.
    pub(super) fn row(&self) -> Option<Row> {
        let mut row = self.record.row(if self.record.key.measure == "half_rtt" { 2.0 } else { 1.0 })?;
        row.congestion = self.congestion.clone();
        row.loop_kind = matches!(self.target.work, Work::RoundTrips | Work::Connect).then(|| "closed".into());
        row.notes.extend(self.frames.clone());
        row.notes.extend(self.packets.note());
        if self.target.work != Work::RoundTrips {
            row.rate_achieved = self.record.samples.per_message().filter(|each| *each > 0.0).map(|each| 1e9 / each);
        }
        if matches!(self.target.path.waiting, Waiting::BusyPoll { .. }) && !self.napi {
            row.notes.push(
                "SO_BUSY_POLL had nothing to poll: the device has no NAPI instance of its own (veth, loopback), so the \
                 receive sleeps as in kernel-pinned"
                    .into(),
            );
        }
        Some(row)
    }

    /// Returns the entry for `unavailable`, if the arm could not be measured.
    pub(super) fn unavailable(&self) -> Option<Unavailable> {
        self.record.unavailable()
    }
}

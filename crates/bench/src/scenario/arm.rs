//! One thing measured: a path over a transport at a size, with all that its slices found.

use crate::measure::{Target, Trips, noise};
use crate::path::Path;
use crate::stats::Accumulator;
use crate::transport::Transport;
use sidestep_link::Waiting;
use sidestep_report::schema::{Noise, Row, Unavailable, Warmup};

/// A rung of the ladder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rung {
    /// Number and name ("3 IRQ pinned").
    pub name: String,
    /// Whether the interface's interrupts go to the measuring CPU.
    pub irq: bool,
    /// CPU of the measuring end, where the rung wants another one.
    pub cpu: Option<u32>,
}

/// What the two passes of one round found: the path forward, then backward through the list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) forward: Option<Pass>,
    pub(super) backward: Option<Pass>,
}

/// One slice in the eyes of a ratio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) n: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// One thing measured.
#[derive(Clone, Debug)]
pub struct Arm {
    pub(super) scenario: &'static str,
    /// Path, transport and size.
    pub target: Target,
    /// Its rung, on a ladder.
    pub rung: Option<Rung>,
    pub(super) rounds: Vec<Round>,
    pub(super) warmup: Warmup,
    /// Why it cannot be measured.
    pub(super) refusal: Option<String>,
    samples: Accumulator,
    lost: u64,
    noise: Noise,
    napi: bool,
    /// How the frames went, in the words of the last slice.
    frames: Option<String>,
    notes: Vec<String>,
}

impl Arm {
    /// An arm without samples.
    pub fn new(scenario: &'static str, path: &'static Path, transport: Transport, size: u32) -> Self {
        Self {
            scenario,
            target: Target { transport, path, size },
            rung: None,
            rounds: Vec::new(),
            warmup: Warmup::default(),
            refusal: None,
            samples: Accumulator::default(),
            lost: 0,
            noise: Noise::default(),
            napi: false,
            frames: None,
            notes: Vec::new(),
        }
    }

    /// The same on a rung of the ladder.
    #[must_use]
    pub fn on_rung(mut self, rung: Rung) -> Self {
        self.rung = Some(rung);
        self
    }

    /// The same with a remark.
    #[must_use]
    pub fn noting(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same, known from the start to be impossible here.
    #[must_use]
    pub fn refused(mut self, reason: impl Into<String>) -> Self {
        self.refusal = Some(reason.into());
        self
    }

    /// For a progress bar.
    pub(super) fn label(&self) -> String {
        let Target { transport, path, size } = self.target;
        format!("{transport} {} {size} B", path.name)
    }

    /// Keeps what a slice found.
    pub(super) fn take(&mut self, trips: Trips) -> Option<Pass> {
        self.lost += trips.lost;
        self.warmup.messages += trips.settling;
        self.napi |= trips.napi;
        self.frames = trips.note.or(self.frames.take());
        noise::add(&mut self.noise, &trips.noise);
        let slice = &trips.slice;
        let pass = Pass { n: slice.len(), p50: slice.p50(), p99: slice.quantile(0.99) };
        self.samples.push(trips.slice);
        (pass.n > 0).then_some(pass)
    }

    /// The arm as a row; round trips are halved for `half_rtt`.
    pub(super) fn row(&self, measure: &str) -> Option<Row> {
        if self.samples.is_empty() {
            return None;
        }
        let divisor = if measure == "half_rtt" { 2.0 } else { 1.0 };
        Some(Row {
            scenario: self.scenario.into(),
            transport: self.target.transport.name().into(),
            path: self.target.path.name.into(),
            rung: self.rung.as_ref().map(|rung| rung.name.clone()),
            size: self.target.size,
            unit: "ns".into(),
            measure: measure.into(),
            distribution: self.samples.distribution(divisor),
            lost: self.lost,
            warmup: self.warmup.clone(),
            noise: self.noise.clone(),
            blocks: self.samples.blocks(divisor),
            notes: self.remarks(),
            ..Row::default()
        })
    }

    fn remarks(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.extend(self.frames.clone());
        if matches!(self.target.path.waiting, Waiting::BusyPoll { .. }) && !self.napi {
            notes.push(
                "SO_BUSY_POLL had nothing to poll: the device has no NAPI instance of its own (veth, loopback), so the \
                 receive sleeps as in kernel-pinned"
                    .into(),
            );
        }
        if !self.warmup.steady {
            notes.push("no steady state: the median was still moving when counting began".into());
        }
        notes
    }

    /// The arm as something that could not be had.
    pub(super) fn unavailable(&self) -> Option<Unavailable> {
        Some(Unavailable {
            scenario: self.scenario.into(),
            transport: self.target.transport.name().into(),
            path: self.target.path.name.into(),
            rung: self.rung.as_ref().map(|rung| rung.name.clone()),
            reason: self.refusal.clone()?,
        })
    }
}

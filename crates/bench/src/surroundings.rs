//! The surroundings of a measurement: the clock, the host, its noise, and the document at the end.

use crate::host::{self, ClockFacts};
use crate::measure::{Meter, hiccups, loop_cost_ns};
use crate::scenario::Findings;
use sidestep_report::schema::{Document, Host, PathInfo, SCHEMA, Setup, Tool};
use sidestep_sys::Problem;
use sidestep_sys::clock::{Choice, Clock};
use sidestep_sys::proc::Roots;
use std::time::{Duration, Instant, SystemTime};

/// Duration of the hiccup measurement before the run.
const LISTEN: Duration = Duration::from_millis(300);

/// The outcome of a run: a document, and the problem that ended it early, if there was one.
#[derive(Debug)]
pub struct Outcome {
    /// The results.
    pub document: Document,
    /// The problem that ended the run early.
    pub problem: Option<Problem>,
}

/// A run that has begun.
pub(crate) struct Surroundings {
    pub(crate) clock: Clock,
    pub(crate) host: Host,
    /// Remarks on the run as a whole.
    pub(crate) notes: Vec<String>,
    cpus: Vec<u32>,
    begin: Instant,
    started: String,
}

impl Surroundings {
    /// Calibrates the clock and measures the hiccups of `cpus`.
    pub(crate) fn begin(choice: Choice, cpus: Vec<u32>) -> Result<Self, Problem> {
        let begin = Instant::now();
        let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let clock = Clock::calibrate(choice);
        let mut host = host::facts(&ClockFacts::of(&clock));
        host.loop_cost_ns = loop_cost_ns(&clock)?;
        host.noise.load_1m = Roots::default().load_1m();
        host.noise.hiccups = hiccups(&clock, &cpus, LISTEN)?;
        Ok(Self { clock, host, notes: Vec::new(), cpus, begin, started })
    }

    /// Starts to count disturbances of the CPUs of the run.
    pub(crate) fn meter(&self) -> Meter {
        Meter::start(self.cpus.clone())
    }

    /// Returns the document of the run.
    pub(crate) fn end(
        mut self,
        command: String,
        setup: Setup,
        peer: Option<Host>,
        findings: Findings,
        paths: Vec<PathInfo>,
    ) -> Outcome {
        note_drift(&self.clock, &mut self.notes);
        Outcome {
            document: Document {
                schema: SCHEMA,
                tool: Tool { name: "sidestep".into(), version: env!("CARGO_PKG_VERSION").into() },
                started: self.started,
                elapsed_s: self.begin.elapsed().as_secs_f64(),
                command,
                interrupted: findings.problem.is_some(),
                host: self.host,
                peer,
                setup,
                results: findings.rows,
                ratios: findings.ratios,
                unavailable: findings.unavailable,
                paths,
                steps: findings.steps,
                published: Vec::new(),
                notes: self.notes,
            },
            problem: findings.problem,
        }
    }
}

fn note_drift(clock: &Clock, notes: &mut Vec<String>) {
    // Ten times the bound of one calibration: two calibrations differ by their own errors, and by NTP's slewing not at
    // all, because the reference is CLOCK_MONOTONIC_RAW.
    let (drift, bound) = (clock.drift_ppm(), 10.0 * clock.error_ppm().max(1.0));
    if drift > bound {
        notes.push(format!("the TSC drifted by {drift:.1} ppm against the kernel's clock during the run"));
    }
}

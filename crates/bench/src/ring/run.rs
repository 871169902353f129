//! A run: contestants, messages, durations; a document at the end.

use super::channels::ring::bytes_for;
use super::contest::{Contest, MEMORY_BASELINES, compares_memory};
use super::{Contestant, Load, Near, Shape};
use crate::cpus_of_ends::choose_cpus;
use crate::measure::{Cpus, Yardsticks};
use crate::message;
use crate::run::{Outcome, check_duration};
use crate::scenario::{Findings, Pace, Progress};
use crate::surroundings::Surroundings;
use sidestep_report::schema::{PathInfo, Setup};
use sidestep_ring::Cell;
use sidestep_sys::clock::Choice;
use sidestep_sys::{Problem, cpu};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The longest message, bytes: beyond it memory is copied, not handed over.
const SIZE_MAX: u32 = 65_536;
/// The shortest interval of a pace: a reading of the clock takes a fifth of it.
const INTERVAL_MIN: Duration = Duration::from_nanos(100);
/// The longest interval: a slice of 50 ms then has five messages.
const INTERVAL_MAX: Duration = Duration::from_millis(10);
/// Room of a ring, bytes.
const RING_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 30;
/// Messages that find room whatever their size: below that a ring is a rendezvous.
const MESSAGES_MIN: usize = 8;

/// The circumstances of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The clock.
    pub clock: Choice,
    /// CPU of the measuring end; chosen if none.
    pub client_cpu: Option<u32>,
    /// CPU of the far end; chosen if none.
    pub server_cpu: Option<u32>,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
    /// The command that repeats the run.
    pub command: String,
}

/// The load.
#[derive(Clone, Debug)]
pub struct Request {
    /// Message sizes, bytes.
    pub sizes: Vec<u32>,
    /// Loads; each at every size.
    pub loads: Vec<Load>,
    /// Time for each contestant at each size under each load.
    pub duration: Duration,
    /// Room of a ring each way, bytes. Others get room for as many messages as our ring then has.
    pub ring_bytes: usize,
}

impl Request {
    fn check(&self) -> Result<(), Problem> {
        self.sizes.iter().try_for_each(|size| message::check_size(*size, SIZE_MAX))?;
        for load in &self.loads {
            if let Load::Paced(interval) = load
                && !(INTERVAL_MIN..=INTERVAL_MAX).contains(interval)
            {
                let limits = format!("a pace is {INTERVAL_MIN:?} to {INTERVAL_MAX:?}");
                return Err(Problem::usage(format!("cannot send a message every {interval:?}"), limits)
                    .next("give --pace within it, for example hot,1us,1ms"));
            }
        }
        if !RING_BYTES.contains(&self.ring_bytes) {
            let what = format!("cannot create rings of {} bytes", self.ring_bytes);
            return Err(
                Problem::usage(what, "a ring has 1 KiB to 1 GiB").next("give --room within it, in KiB: 1 to 1048576")
            );
        }
        check_duration(self.duration)
    }

    fn shape(&self, size: u32) -> Shape {
        let size = size as usize;
        let one = bytes_for(Shape { size, messages: 1 }, Cell::Line);
        Shape { size, messages: (self.ring_bytes / one).max(MESSAGES_MIN) }
    }

    /// Every load at every size, the same size together.
    fn parts(&self) -> Vec<(Shape, Load)> {
        let loads = |size: &u32| self.loads.iter().map(|load| (self.shape(*size), *load)).collect::<Vec<_>>();
        self.sizes.iter().flat_map(loads).collect()
    }
}

/// Measures `contestants` in turn. Err: nothing was measured.
pub fn run(
    setting: &Setting,
    request: &Request,
    contestants: &[Box<dyn Contestant>],
    progress: &mut dyn Progress,
) -> Result<Outcome, Problem> {
    request.check()?;
    let cpus = two_cpus(setting)?;
    let before = cpu::allowed();
    let outcome = measure(setting, request, contestants, cpus, progress);
    cpu::restrict(&before)?;
    outcome
}

pub(super) fn two_cpus(setting: &Setting) -> Result<Cpus, Problem> {
    let cpus = choose_cpus(setting.client_cpu, setting.server_cpu, true)?;
    if cpus.server == Some(cpus.client) {
        let why = format!("both ends would be on CPU {}", cpus.client);
        return Err(Problem::usage("cannot measure between two CPUs", why)
            .next("run where two CPUs are allowed (taskset -p), or give --cpus two of them"));
    }
    Ok(cpus)
}

fn measure(
    setting: &Setting,
    request: &Request,
    contestants: &[Box<dyn Contestant>],
    cpus: Cpus,
    progress: &mut dyn Progress,
) -> Result<Outcome, Problem> {
    let mut around = Surroundings::begin(setting.clock, [cpus.client].into_iter().chain(cpus.server).collect())?;
    cpu::restrict(&[cpus.client])?;
    let mut near = Near::new(around.clock.clone(), setting.stop.clone());
    around.host.loop_cost_ns = near.loop_cost_ns()?;
    let (stop, clock) = (setting.stop.clone(), around.clock.clone());
    let mut contest = Contest {
        contestants,
        near,
        clock,
        cpus,
        stop,
        yardsticks: Yardsticks::default(),
        progress,
        baselines: MEMORY_BASELINES,
        compares: compares_memory,
    };
    let (parts, pace) = (request.parts(), Pace::of(request.duration));
    let expected_ms = parts.iter().map(|(shape, load)| contest.expected_ms(*shape, *load, pace)).sum();
    contest.progress.begin("ring", expected_ms);
    let meter = around.meter();
    let findings = measure_all(&mut contest, &parts, pace);
    contest.progress.end();
    around.host.noise.during = meter.stop();
    around.host.noise.yardstick = contest.yardsticks.medians();
    around.notes.push(format!(
        "rings have room for {} KiB of messages each way, word and padding included; channels that count messages have \
         room for as many",
        request.ring_bytes >> 10
    ));
    let setup =
        Setup { place: "memory".into(), client_cpu: Some(cpus.client), server_cpu: cpus.server, ..Setup::default() };
    let paths = paths(&findings, contestants);
    Ok(around.end(setting.command.clone(), setup, None, findings, paths))
}

fn measure_all(contest: &mut Contest<'_>, parts: &[(Shape, Load)], pace: Pace) -> Findings {
    let mut all = Findings::default();
    for (shape, load) in parts {
        all.append(contest.measure(*shape, *load, pace));
        if all.problem.is_some() {
            break;
        }
    }
    // The same reason at every size is one reason.
    let mut seen = HashSet::new();
    all.unavailable.retain(|missing| seen.insert((missing.path.clone(), missing.reason.clone())));
    all
}

pub(super) fn paths(findings: &Findings, contestants: &[Box<dyn Contestant>]) -> Vec<PathInfo> {
    let is_measured = |name: &str| findings.rows.iter().any(|row| row.path == name);
    let measured = contestants.iter().filter(|one| is_measured(one.name()));
    let info = |one: &dyn Contestant| PathInfo {
        name: one.name().into(),
        description: one.description(),
        waiting: Some(if one.sleeps() { "block" } else { "spin" }.into()),
    };
    measured.map(|one| info(one.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            sizes: vec![8, 64],
            loads: vec![Load::ClosedLoop, Load::Stream],
            duration: Duration::from_millis(100),
            ring_bytes: 64 << 10,
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        let refused = |request: &Request| request.check().expect_err("out of range").to_string();
        assert!(request().check().is_ok());
        assert!(refused(&Request { sizes: vec![8, 7], ..request() }).contains("7 bytes"));
        assert!(refused(&Request { sizes: vec![9_999_999], ..request() }).contains("9999999 bytes"));
        for interval in [Duration::ZERO, Duration::from_secs(1)] {
            let loads = vec![Load::Paced(interval)];
            assert!(refused(&Request { loads, ..request() }).contains("every"));
        }
        assert!(refused(&Request { ring_bytes: 0, ..request() }).contains("rings of 0 bytes"));
        assert!(refused(&Request { duration: Duration::ZERO, ..request() }).contains("1 ms to 1 h"));
    }

    #[test]
    fn every_load_is_measured_at_every_size() {
        let parts = request().parts();
        assert_eq!(parts.len(), 4);
        assert_eq!(parts[0].0, Shape { size: 8, messages: 1024 });
        assert_eq!(parts[3], (Shape { size: 64, messages: 512 }, Load::Stream));
        assert_eq!(request().shape(SIZE_MAX).messages, MESSAGES_MIN);
    }
}

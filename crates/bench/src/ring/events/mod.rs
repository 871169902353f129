//! Events of the kernel, one way: from the stamp that a timer, an XDP program or the module sets, until a reader has them.
//!
//! Every arm has the same event, stamped once at the top of its program in the kernel before any sink is looked at, the
//! same clock on both sides (CLOCK_MONOTONIC) and the same two CPUs. The arms differ in what lies between: our ring, the
//! BPF ring buffer, a socket, a device; and in how their reader waits. Each is measured with CPUs that may halt and with
//! CPUs kept awake. Readers that spin separate what is not sleeping from what is no system call and no copy.

mod arms;
mod awake;
mod cost;
mod device;
mod reader;
mod readers;
mod stage;
mod wire;
mod words;

use super::contest::Contest;
use super::run::{paths, two_cpus};
use super::{Contestant, Load, Near, Setting, Shape};
use crate::measure::{Cpus, Yardsticks};
use crate::run::{Outcome, check_duration};
use crate::scenario::{Findings, Pace, Progress};
use crate::surroundings::Surroundings;
use arms::{Arm, BASELINES, chosen, compares};
use sidestep_kernel_ring::source::EVENT_BYTES;
use sidestep_report::schema::Setup;
use sidestep_sys::clock::monotonic_ns;
use sidestep_sys::{Problem, cpu};
use stage::Stage;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

/// The shortest interval: below it a timer leaves its CPU no time for anything else.
const INTERVAL_MIN: Duration = Duration::from_micros(10);
/// The longest interval: three of them are shorter than the silence that ends a slice.
const INTERVAL_MAX: Duration = Duration::from_millis(500);
/// The events that a slice should have: then its 99th percentile goes into ratios.
const EVENTS_PER_SLICE: u32 = 1100;
/// Slices of an arm are at least so many, however long they are.
const SLICES_MIN: u32 = 12;
/// Readings of the clock whose median is told.
const READINGS: usize = 1001;

/// The source of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A timer of a BPF program, in softirq.
    Timer,
    /// Datagrams over a veth pair of the lab, at XDP in native mode.
    Xdp,
    /// The timer of the kernel module.
    Module,
}

impl Origin {
    const ALL: [Self; 3] = [Self::Timer, Self::Xdp, Self::Module];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Xdp => "xdp",
            Self::Module => "module",
        }
    }

    /// Its path that blocks, the one that spins in the kernel's way, and the ring.
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Timer => ("bpf-ringbuf-epoll", "bpf-ringbuf-spin", "bpf-ring"),
            Self::Xdp => ("recv-block", "recv-spin", "bpf-ring"),
            Self::Module => ("read-block", "read-spin", "module-ring"),
        }
    }

    /// What the path that spins does besides waiting, and the ring does not.
    fn besides_waiting(self) -> &'static str {
        match self {
            Self::Timer => "two lines of memory more",
            Self::Xdp => "the system call and the copy, and the kernel's receive path before them",
            Self::Module => "the system call and the copy",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Origin {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::ALL.into_iter().find(|origin| origin.name() == text).ok_or_else(|| {
            Problem::usage(format!("no source {text:?}"), "this build does not know it")
                .next("choose from: timer, xdp, module")
        })
    }
}

/// The load.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source.
    pub origin: Origin,
    /// Paths by name; all of the source if there is none.
    pub paths: Vec<String>,
    /// Time from one event to the next.
    pub interval: Duration,
    /// Time for each path under each condition.
    pub duration: Duration,
}

impl Request {
    fn check(&self) -> Result<(), Problem> {
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&self.interval) {
            let limits = format!("an interval is {INTERVAL_MIN:?} to {INTERVAL_MAX:?}");
            return Err(Problem::usage(format!("cannot make an event every {:?}", self.interval), limits)
                .next("give --interval within it, for example 100us"));
        }
        check_duration(self.duration)
    }

    /// Slices with enough events for a 99th percentile, where the time allows it.
    fn pace(&self) -> Pace {
        let usual = Pace::of(self.duration);
        let wanted = (self.interval * EVENTS_PER_SLICE).min(self.duration / SLICES_MIN);
        if wanted <= usual.slice {
            return usual;
        }
        let rounds = self.duration.as_secs_f64() / (2.0 * wanted.as_secs_f64());
        Pace { rounds: (rounds.round() as u32).max(SLICES_MIN / 2), slice: wanted }
    }
}

/// Measures the paths of a source in turn. Err: nothing was measured.
pub fn run(setting: &Setting, request: &Request, progress: &mut dyn Progress) -> Result<Outcome, Problem> {
    request.check()?;
    let paths = chosen(request.origin, &request.paths)?;
    let cpus = two_cpus(setting)?;
    let before = cpu::allowed();
    let stage = Rc::new(Stage::open(request.origin, request.interval, cpus, setting.stop.clone())?);
    let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
    for path in paths {
        for is_awake in path.conditions().iter().copied() {
            contestants.push(Box::new(Arm { path, is_awake, origin: request.origin, stage: Rc::clone(&stage) }));
        }
    }
    let outcome = measure(setting, request, &stage, &contestants, cpus, progress);
    cpu::restrict(&before)?;
    outcome
}

fn measure(
    setting: &Setting,
    request: &Request,
    stage: &Stage,
    contestants: &[Box<dyn Contestant>],
    cpus: Cpus,
    progress: &mut dyn Progress,
) -> Result<Outcome, Problem> {
    let mut around = Surroundings::begin(setting.clock, [cpus.client].into_iter().chain(cpus.server).collect())?;
    cpu::restrict(&[cpus.client])?;
    let clock = around.clock.clone();
    let reading_ns = reading_ns();
    around.host.clock = "monotonic".into();
    around.host.clock_reason = Some("the kernel stamps events with CLOCK_MONOTONIC".into());
    around.host.loop_cost_ns = reading_ns;
    let (near, stop) = (Near::new(clock.clone(), setting.stop.clone()), setting.stop.clone());
    let yardsticks = Yardsticks::default();
    let (baselines, shape) = (BASELINES, Shape { size: EVENT_BYTES, messages: 1 });
    let mut contest = Contest { contestants, near, clock, cpus, stop, yardsticks, progress, baselines, compares };
    let (load, pace) = (Load::Events(request.interval), request.pace());
    let expected_ms = contest.expected_ms(shape, load, pace);
    contest.progress.begin("ring-source", expected_ms);
    let meter = around.meter();
    let mut findings = contest.measure(shape, load, pace);
    contest.progress.end();
    around.host.noise.yardstick = contest.yardsticks.medians();
    add_cost(&mut findings, setting, request, stage, cpus);
    around.host.noise.during = meter.stop();
    around.notes.extend(words::gain(request.origin, &findings.rows));
    around.notes.extend(notes(stage, reading_ns));
    let mut described = paths(&findings, contestants);
    described.extend(cost::paths().filter(|path| findings.rows.iter().any(|row| row.path == path.name)));
    let setup = Setup {
        place: if request.origin == Origin::Xdp { "lab" } else { "memory" }.into(),
        interface: stage.interface().into(),
        client_cpu: Some(cpus.client),
        server_cpu: cpus.server,
        ..Setup::default()
    };
    let mut outcome = around.end(setting.command.clone(), setup, None, findings, described);
    outcome.document.published.push(words::published());
    Ok(outcome)
}

/// The cost of publishing, where the source is a BPF program and every path was asked for.
fn add_cost(findings: &mut Findings, setting: &Setting, request: &Request, stage: &Stage, cpus: Cpus) {
    if findings.problem.is_some() || !(request.paths.is_empty() || request.paths == ["all"]) {
        return;
    }
    if let Some(source) = stage.source() {
        findings.append(cost::measure(source, request.origin, cpus.client, &setting.stop));
    }
}

fn notes(stage: &Stage, reading_ns: f64) -> Vec<String> {
    let mut notes = vec![format!(
        "one way: from the stamp in the kernel to a reading of the same clock after the reader has the event; that reading \
         takes {reading_ns:.0} ns and is in every sample"
    )];
    if let Some(source) = stage.source() {
        if source.timer_is_pinned() {
            notes.push("the timer stays on its CPU (BPF_F_TIMER_CPU_PIN)".into());
        } else {
            notes.push("before Linux 6.7 the timer may leave its CPU (no BPF_F_TIMER_CPU_PIN)".into());
        }
        if let Ok(counts) = source.counts()
            && counts.contended + counts.refused > 0
        {
            notes.push(format!(
                "{} events found another writer at work, {} a full BPF ring buffer",
                counts.contended, counts.refused
            ));
        }
    }
    notes
}

/// The median time of a reading of CLOCK_MONOTONIC, ns.
fn reading_ns() -> f64 {
    /// Readings between two looks: one of them takes less than the clock resolves.
    const EACH: u64 = 64;
    let mut times: Vec<u64> = (0..READINGS)
        .map(|_| {
            let begin = monotonic_ns();
            for _ in 1..EACH {
                std::hint::black_box(monotonic_ns());
            }
            monotonic_ns() - begin
        })
        .collect();
    times.sort_unstable();
    times[READINGS / 2] as f64 / EACH as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            origin: Origin::Timer,
            paths: Vec::new(),
            interval: Duration::from_micros(100),
            duration: Duration::from_secs(10),
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        assert!(request().check().is_ok());
        for interval in [Duration::ZERO, Duration::from_nanos(9_999), Duration::from_secs(1)] {
            let problem = Request { interval, ..request() }.check().unwrap_err().to_string();
            assert!(problem.contains("cannot make an event every"), "{problem}");
        }
        assert!(Request { duration: Duration::ZERO, ..request() }.check().is_err());
        assert_eq!("xdp".parse::<Origin>().unwrap(), Origin::Xdp);
        let problem = "ebpf".parse::<Origin>().unwrap_err().to_string();
        assert!(problem.contains("no source \"ebpf\"") && problem.contains("timer, xdp, module"), "{problem}");
    }

    #[test]
    fn slices_have_events_for_a_tail_where_time_allows() {
        let pace = request().pace();
        assert_eq!((pace.slice, pace.rounds), (Duration::from_millis(110), 45));
        let short = Request { duration: Duration::from_millis(300), ..request() }.pace();
        assert_eq!((short.slice, short.rounds), (Duration::from_millis(25), 6));
        let fast = Request { interval: Duration::from_micros(10), ..request() }.pace();
        assert_eq!(fast.slice, Duration::from_millis(50));
    }
}

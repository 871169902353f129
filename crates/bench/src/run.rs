//! A run: a place, two ends, scenarios in sequence, a document.

mod limits;

use crate::bypass::Consent;
use crate::congestion;
use crate::cpus_of_ends::{both, choose_cpus, cpus_beside, note_same_machine};
use crate::fit::fit;
use crate::measure::{Bench, Work};
use crate::message;
use crate::path::{Medium, Path};
use crate::place::{PeerProgram, Place};
use crate::scenario::{
    Arm, Budget, Findings, Interleave, IrqPins, Means, Offered, OpenLoops, Pace, Progress, Rates, arms, first_isolated,
    ladder, open_loops, sweep,
};
use crate::service_time::{SERVICE_TIME_MAX, ServiceTime};
use crate::stages::Stamping;
pub use crate::surroundings::Outcome;
use crate::surroundings::Surroundings;
use crate::tick;
use crate::transport::Transport;
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Lab, MTU_USUAL, Options as LabOptions};
use sidestep_report::schema::{Host, Setup};
use sidestep_socket::stream::Backend;
use sidestep_sys::clock::Choice;
use sidestep_sys::proc::Roots;
use sidestep_sys::process::unshare_descriptors;
use sidestep_sys::{Problem, cpu, ethtool};
use sidestep_tune::host::Live;
use sidestep_tune::snapshot::Store;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub(crate) use limits::check_duration;
use limits::check_rate;

/// Rungs of the ladder.
const RUNGS: usize = 5;

/// The place to measure at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// A lab if this process may create one, else loopback, with a note.
    Auto,
    /// A lab, or an error.
    Lab,
    /// Loopback.
    Loopback,
    /// Against `sidestep bench serve` on another machine.
    Remote(SocketAddr),
}

/// The circumstances of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The place to measure at.
    pub place: Where,
    /// What this end may do past the kernel, against another machine.
    pub consent: Consent,
    /// Use IPv6 between the hosts of this machine.
    pub ipv6: bool,
    /// Transmit and receive queues of each end of a lab.
    pub queues: u32,
    /// MTU of the wire of a lab.
    pub mtu: u32,
    /// Make a lab with a second pair, over which the kernel sends and receives frame by frame. [`run`] sets it where a path
    /// needs it.
    pub frames_pair: bool,
    /// The impairment of a lab's wire, each way.
    pub impairment: Option<Impairment>,
    /// The program of the peer on this machine.
    pub program: PeerProgram,
    /// The clock.
    pub clock: Choice,
    /// CPU of the measuring end; chosen if none.
    pub client_cpu: Option<u32>,
    /// CPU of the peer; chosen if none (by the peer itself, if it is on another machine).
    pub server_cpu: Option<u32>,
    /// Work of the peer before each answer.
    pub service_time: ServiceTime,
    /// The time that a run takes at most, as far as every arm gets two rounds in it; none: what its scenarios say.
    pub within: Option<Duration>,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
    /// The command that repeats the run.
    pub command: String,
}

/// One thing to measure.
#[derive(Clone, Debug)]
pub enum Scenario {
    /// Request and response.
    RoundTrips(RoundTrips),
    /// The five set-ups from untuned to polling.
    Ladder {
        /// Over TCP or UDP.
        transport: Transport,
        /// Message size, bytes.
        size: u32,
        /// Time for each rung.
        duration: Duration,
        /// Set if the interface's interrupts may be moved (and are moved back).
        pin_irq: bool,
    },
    /// Request and response at rates, whatever the answers do.
    OpenLoop(OpenLoops),
    /// Messages upstream at rising rates.
    Rates(Rates),
    /// TCP throughput in each direction.
    Bulk {
        /// Paths, sizes, duration.
        streams: RoundTrips,
        /// Congestion control of every path; of each its own default if none is given.
        congestion: Option<String>,
    },
    /// TCP connections in sequence.
    Connections(RoundTrips),
    /// A feed to a trader, and its orders.
    Tick(tick::Request),
}

/// Request and response, at one size or many.
#[derive(Clone, Debug)]
pub struct RoundTrips {
    /// TCP, UDP or both.
    pub transports: Vec<Transport>,
    /// The paths.
    pub paths: Vec<&'static Path>,
    /// Message sizes, bytes.
    pub sizes: Vec<u32>,
    /// Time for each path at each size.
    pub duration: Duration,
    /// Set for half round trips per size (`sizes`), else whole ones (`rr`).
    pub half: bool,
    /// Set if the host is to be observed in slices of their own, to tell what caused the slowest samples.
    pub causes: bool,
    /// How messages over UDP are to be stamped in slices of their own, to tell the stages of a round trip.
    pub stamping: Option<Stamping>,
}

impl RoundTrips {
    /// Whole round trips, in plain slices alone.
    pub fn of(transports: Vec<Transport>, paths: Vec<&'static Path>, sizes: Vec<u32>, duration: Duration) -> Self {
        Self { transports, paths, sizes, duration, half: false, causes: false, stamping: None }
    }
}

/// Measures `scenarios` in order. Err: nothing was measured.
pub fn run(setting: &Setting, scenarios: &[Scenario], progress: &mut dyn Progress) -> Result<Outcome, Problem> {
    scenarios.iter().try_for_each(Scenario::check)?;
    scenarios.iter().try_for_each(|scenario| scenario.check_service_time(setting.service_time))?;
    scenarios.iter().try_for_each(Scenario::check_congestion)?;
    let needs_pair = scenarios.iter().any(|scenario| scenario.paths().iter().any(|path| path.frame_by_frame));
    let setting = &Setting { frames_pair: setting.frames_pair || needs_pair, ..setting.clone() };
    let end = setting.within.map(|within| Instant::now() + within);
    between_two_ends(setting, progress, |bench, progress| measure_all(bench, scenarios, end, progress))
}

/// Sets up two ends and the surroundings of a run, and runs `what` between them.
pub(crate) fn between_two_ends(
    setting: &Setting,
    progress: &mut dyn Progress,
    what: impl FnOnce(&mut Bench, &mut dyn Progress) -> Findings + Send,
) -> Result<Outcome, Problem> {
    if !setting.service_time.is_bounded() {
        return Err(Problem::usage(
            "cannot work that long before an answer",
            format!("the limit is {SERVICE_TIME_MAX:?}"),
        )
        .next("give a shorter --service-time"));
    }
    // On a thread of its own, because it moves to the lab's namespace and changes its CPUs for good. No descriptor crosses
    // between the threads, so each may have its own table of them.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare_descriptors().map_err(|error| {
                Problem::failed("cannot measure on a thread of its own", error)
                    .next("raise the limit of open files: ulimit -n")
            })?;
            measure(setting, progress, what)
        });
        let died =
            || Problem::failed("cannot measure", "the measuring thread died").next("report this as a bug of sidestep");
        thread.join().unwrap_or_else(|_| Err(died()))
    })
}

fn measure(
    setting: &Setting,
    progress: &mut dyn Progress,
    what: impl FnOnce(&mut Bench, &mut dyn Progress) -> Findings,
) -> Result<Outcome, Problem> {
    // A peer that serves already has its CPU, which this end may share.
    let served = match setting.place {
        Where::Remote(address) => {
            let place = Place::Remote(address, setting.consent.clone());
            Some(place.open(setting.ipv6, &setting.program, 0)?)
        }
        _ => None,
    };
    let (cpus, same_machine) = match &served {
        Some(ends) => {
            let wished = (setting.client_cpu, setting.server_cpu);
            (cpus_beside(wished, ends.same_machine, ends.peer_cpu)?, ends.same_machine)
        }
        None => (choose_cpus(setting.client_cpu, setting.server_cpu, true)?, true),
    };
    let mut around = Surroundings::begin(setting.clock, both(cpus, same_machine))?;
    // A lab lasts as long as this.
    let place;
    let mut ends = match served {
        Some(ends) => ends,
        None => {
            place = open_place(setting, &mut around.notes)?;
            place.open(setting.ipv6, &setting.program, cpus.server.unwrap_or(cpus.client))?
        }
    };
    around.notes.extend(note_same_machine(ends.place == "remote" && ends.same_machine));
    ends.wire = setting.impairment.as_ref().map(ToString::to_string);
    let mut bench = Bench::new(ends, around.clock.clone(), cpus, setting.stop.clone());
    bench.service_time = setting.service_time;
    let meter = around.meter();
    let findings = what(&mut bench, progress);
    around.host.noise.during = meter.stop();
    around.host.noise.yardstick = bench.yardstick();
    let paths = findings.paths();
    let peer = peer_host(&bench, &mut around.notes);
    Ok(around.end(setting.command.clone(), setup(&bench), peer, findings, paths))
}

fn measure_all(
    bench: &mut Bench,
    scenarios: &[Scenario],
    end: Option<Instant>,
    progress: &mut dyn Progress,
) -> Findings {
    let mut all = Findings::default();
    let planned: Vec<Duration> = scenarios.iter().map(Scenario::planned).collect();
    for (index, scenario) in scenarios.iter().enumerate() {
        bench.budget = Budget::share(Instant::now(), end, &planned[index..]);
        all.append(scenario.measure(bench, progress));
        if all.problem.is_some() {
            break;
        }
    }
    all
}

impl Scenario {
    /// Checks the request before anything is set up.
    fn check(&self) -> Result<(), Problem> {
        match self {
            Self::RoundTrips(trips) | Self::Bulk { streams: trips, .. } | Self::Connections(trips) => {
                let limit = trips.transports.iter().map(|transport| transport.size_max()).min().unwrap_or(u32::MAX);
                trips.sizes.iter().try_for_each(|size| message::check_size(*size, limit))?;
                check_duration(trips.duration)
            }
            Self::Ladder { transport, size, duration, .. } => {
                message::check_size(*size, transport.size_max())?;
                check_duration(*duration)
            }
            Self::OpenLoop(loops) => {
                let limit = loops.transports.iter().map(|transport| transport.size_max()).min().unwrap_or(u32::MAX);
                loops.sizes.iter().try_for_each(|size| message::check_size(*size, limit))?;
                if let Offered::Listed(rates) = &loops.rates {
                    rates.iter().try_for_each(|rate| check_rate("--rate", *rate, 1))?;
                }
                check_duration(loops.duration)
            }
            Self::Tick(request) => request.check(),
            Self::Rates(rates) => {
                message::check_size(rates.size, Transport::Udp.size_max())?;
                rates.rates.iter().try_for_each(|rate| check_rate("--rates", *rate, rates.batch))?;
                check_duration(rates.duration)
            }
        }
    }

    /// The time of its slices, by which scenarios share the time of a run.
    fn planned(&self) -> Duration {
        let times = |count: usize, each: Duration| each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        match self {
            Self::RoundTrips(trips) | Self::Bulk { streams: trips, .. } | Self::Connections(trips) => {
                times(trips.transports.len() * trips.paths.len() * trips.sizes.len(), trips.duration)
            }
            Self::Ladder { duration, .. } => times(RUNGS, *duration),
            Self::Tick(request) => times(request.arms(), request.duration),
            Self::OpenLoop(loops) => {
                let rates = match &loops.rates {
                    Offered::Listed(rates) => rates.len(),
                    Offered::Auto => 1,
                };
                times(loops.transports.len() * loops.paths.len() * loops.sizes.len() * rates, loops.duration)
            }
            Self::Rates(rates) => times(rates.transports.len() * rates.paths.len() * rates.rates.len(), rates.duration),
        }
    }

    /// Refuses a congestion control that one of the paths does not have.
    fn check_congestion(&self) -> Result<(), Problem> {
        match self {
            Self::Bulk { streams, congestion: Some(name) } => congestion::check(name, &streams.paths),
            _ => Ok(()),
        }
    }

    /// The paths asked for; the ladder has its own.
    fn paths(&self) -> &[&'static Path] {
        match self {
            Self::RoundTrips(trips) | Self::Bulk { streams: trips, .. } | Self::Connections(trips) => &trips.paths,
            Self::OpenLoop(loops) => &loops.paths,
            Self::Rates(rates) => &rates.paths,
            Self::Tick(request) => &request.paths,
            Self::Ladder { .. } => &[],
        }
    }

    /// Refuses a service time for scenarios without answers.
    fn check_service_time(&self, service_time: ServiceTime) -> Result<(), Problem> {
        match self {
            Self::Rates(_) | Self::Bulk { .. } | Self::Connections(_) | Self::Tick(_) if !service_time.is_none() => {
                Err(Problem::usage(
                    format!("cannot work {service_time} before each answer"),
                    "only round trips have it",
                )
                .next("leave --service-time out, or use it with bench rr or bench sizes"))
            }
            _ => Ok(()),
        }
    }

    fn measure(&self, bench: &mut Bench, progress: &mut dyn Progress) -> Findings {
        match self {
            Self::RoundTrips(trips) => {
                let (scenario, measure) = if trips.half { ("sizes", "half_rtt") } else { ("rr", "rtt") };
                let arms = arms(scenario, &trips.paths, &trips.transports, &trips.sizes, measure);
                let arms = arms.into_iter().map(|arm| fit(arm, bench)).collect();
                Interleave::new(bench, progress, None)
                    .observing(trips.causes)
                    .stamping(trips.stamping)
                    .run(arms, Pace::of(trips.duration))
            }
            Self::Ladder { transport, size, duration, pin_irq } => {
                let means = means(bench, *pin_irq);
                match ladder(*transport, *size, &means) {
                    Ok(arms) => {
                        let arms = arms.into_iter().map(|arm| fit(arm, bench)).collect();
                        Interleave::new(bench, progress, means.irqs.ok()).run(arms, Pace::of(*duration))
                    }
                    Err(problem) => Findings { problem: Some(problem), ..Findings::default() },
                }
            }
            Self::OpenLoop(loops) => open_loops(bench, loops, progress),
            Self::Rates(rates) => sweep(bench, rates, progress),
            Self::Tick(request) => tick::measure(bench, request, progress),
            Self::Bulk { streams: trips, congestion } => {
                bench.congestion = congestion.clone();
                streams(bench, trips, progress)
            }
            Self::Connections(trips) => {
                let arms = full_speed(bench, trips, "connect", "per_connection", Work::Connect);
                Interleave::new(bench, progress, None).run(arms, Pace::of(trips.duration))
            }
        }
    }
}

/// Both directions, interleaved with each other.
fn streams(bench: &mut Bench, trips: &RoundTrips, progress: &mut dyn Progress) -> Findings {
    let mut arms = full_speed(bench, trips, "bulk", "per_message", Work::Send);
    arms.extend(full_speed(bench, trips, "bulk-back", "per_message", Work::Receive));
    let pace = if bench.ends().wire.is_some() { Pace::of_few } else { Pace::of };
    Interleave::new(bench, progress, None).run(arms, pace(trips.duration))
}

/// Returns the arms at full speed over TCP.
fn full_speed(
    bench: &Bench,
    trips: &RoundTrips,
    scenario: &'static str,
    measure: &'static str,
    work: Work,
) -> Vec<Arm> {
    let arms = arms(scenario, &trips.paths, &[Transport::Tcp], &trips.sizes, measure);
    let possible = |arm: Arm| match arm.target.path {
        path if !matches!(path.medium, Medium::Inet | Medium::Stack) => arm.refused("it is measured over TCP"),
        path if work == Work::Connect && path.sleep().is_some() => {
            arm.refused("it sleeps in established connections; xdp makes them")
        }
        path if work == Work::Connect && path.backend != Backend::Kernel => {
            arm.refused("other back-ends do not connect")
        }
        _ => fit(arm, bench),
    };
    arms.into_iter().map(|arm| possible(arm.doing(work))).collect()
}

pub(crate) fn means(bench: &Bench, pin_irq: bool) -> Means {
    let roots = Roots::default();
    let irqs = IrqPins::of(Live::new, Store::usual(), &bench.ends().interface).and_then(|irqs| {
        if pin_irq { Ok(irqs) } else { Err("add --pin-irq to have them moved to the measuring CPU, and back".into()) }
    });
    let isolated = roots.sys("devices/system/cpu/isolated");
    Means { irqs, isolated_cpu: first_isolated(&isolated, &cpu::allowed()), cpu: bench.cpus.client }
}

fn open_place(setting: &Setting, notes: &mut Vec<String>) -> Result<Place, Problem> {
    match (setting.place, wish_of_lab(setting)) {
        (Where::Remote(address), _) => Ok(Place::Remote(address, setting.consent.clone())),
        (Where::Lab, _) => new_lab(setting),
        (Where::Loopback, Some((flag, wish))) => {
            Err(Problem::usage(format!("cannot give loopback {wish}"), "only a lab is made for the run")
                .next(format!("leave {flag} out, or measure in a lab: --place lab")))
        }
        (Where::Loopback, None) => Ok(Place::Loopback),
        // Loopback would not be what was asked for.
        (Where::Auto, Some(_)) => new_lab(setting),
        (Where::Auto, None) => new_lab(setting).or_else(|problem| {
            notes.push(format!(
                "measured over loopback, which skips the device driver: cannot create a lab of two hosts ({}); run as root for a lab",
                problem.brief()
            ));
            Ok(Place::Loopback)
        }),
    }
}

/// Returns the flag and the value that only a lab can have, if there is one.
fn wish_of_lab(setting: &Setting) -> Option<(&'static str, String)> {
    if setting.queues != 1 {
        return Some(("--queues", format!("{} queues", setting.queues)));
    }
    if setting.impairment.is_some() {
        return Some(("--impair", "an impaired wire".into()));
    }
    (setting.mtu != MTU_USUAL).then(|| ("--mtu", format!("an MTU of {}", setting.mtu)))
}

fn new_lab(setting: &Setting) -> Result<Place, Problem> {
    let Setting { queues, mtu, frames_pair, .. } = *setting;
    let both_ways = |impairment: Impairment| Directions { a_to_b: impairment.clone(), b_to_a: impairment };
    let impairment = setting.impairment.clone().map(both_ways);
    Lab::up(&LabOptions { queues, mtu, frames_pair, impairment, ..LabOptions::default() })
        .map(|lab| Place::Lab(Box::new(lab)))
}

fn peer_host(bench: &Bench, notes: &mut Vec<String>) -> Option<Host> {
    let ends = bench.ends();
    if ends.peer_version != env!("CARGO_PKG_VERSION") {
        notes.push(format!("the peer is version {}, this is {}", ends.peer_version, env!("CARGO_PKG_VERSION")));
    }
    (ends.place == "remote").then(|| ends.peer_host.clone())
}

fn setup(bench: &Bench) -> Setup {
    let ends = bench.ends();
    Setup {
        place: ends.place.into(),
        interface: ends.interface.clone(),
        address: ends.server.to_string(),
        client_cpu: Some(bench.cpus.client),
        server_cpu: bench.cpus.server.or(ends.peer_cpu),
        service_time_ns: bench.service_time.each_ns,
        service_longer_ns: bench.service_time.longer_ns,
        service_longer_every: bench.service_time.every,
        queues: ethtool::receive_queues(&ends.interface).unwrap_or(0),
        mtu: ends.mtus.here.unwrap_or(0),
        wire: ends.wire.clone(),
    }
}

/// Returns this program, to be started as the peer.
pub fn this_program() -> PathBuf {
    // The link in /proc stays valid if a newer build replaces the file during a run.
    PathBuf::from("/proc/self/exe")
}

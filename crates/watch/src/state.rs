//! What has been seen so far. Its size is decided at the start: by the probes, the CPUs and the table of checks.

use crate::event;
use crate::options::Options;
use crate::plane::Plane;
use crate::recent::Recent;
use crate::tuning::Checks;
use sidestep_bench::probe::{Answers, Probe};
use sidestep_metrics::histogram::Histogram;
use sidestep_sys::proc::CpuCounters;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Upper bounds of round trips, ns: the E12 series of IEC 60063 up to 1 ms (a step of at most a quarter), 1-2-5 up to 1 s.
#[rustfmt::skip]
pub(crate) const RTT_BOUNDS_NS: &[u64] = &[
    1_000, 1_200, 1_500, 1_800, 2_200, 2_700, 3_300, 3_900, 4_700, 5_600, 6_800, 8_200,
    10_000, 12_000, 15_000, 18_000, 22_000, 27_000, 33_000, 39_000, 47_000, 56_000, 68_000, 82_000,
    100_000, 120_000, 150_000, 180_000, 220_000, 270_000, 330_000, 390_000, 470_000, 560_000, 680_000, 820_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000, 200_000_000, 500_000_000, 1_000_000_000,
];

/// Upper bounds of hiccups, ns: 1-2-5, since each CPU has a histogram.
#[rustfmt::skip]
pub(crate) const HICCUP_BOUNDS_NS: &[u64] = &[
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    20_000_000, 50_000_000, 100_000_000, 200_000_000, 500_000_000, 1_000_000_000,
];

/// The state, as the threads share it.
pub(crate) type Shared = Arc<Mutex<State>>;

/// Calls `what` with the state.
pub(crate) fn with<T>(shared: &Shared, what: impl FnOnce(&mut State) -> T) -> T {
    what(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The reason why a slice has no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The peer cannot be had.
    NoPeer,
    /// The path cannot be measured between these ends.
    Refused,
    /// The slice ended early.
    Broken,
    /// The host was suspended meanwhile.
    Suspended,
}

impl Cause {
    /// All of them, in the order of the counters.
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::NoPeer, "no_peer"),
        (Self::Refused, "refused"),
        (Self::Broken, "broken"),
        (Self::Suspended, "suspended"),
    ];
}

/// One probe.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) probe: Probe,
    pub(crate) rtt: Histogram,
    pub(crate) longest: Recent,
    pub(crate) slices: u64,
    pub(crate) lost: u64,
    pub(crate) failures: [u64; Cause::ALL.len()],
    pub(crate) involuntary_switches: u64,
    /// Whether the last slice had figures; none before the first.
    pub(crate) is_up: Option<bool>,
    /// Time that the last slice took, with its set-up.
    pub(crate) took: Duration,
}

/// One CPU whose timers are watched.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) cpu: u32,
    pub(crate) late: Histogram,
    pub(crate) longest: Recent,
    pub(crate) is_there: bool,
    pub(crate) counters: CpuCounters,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) place: &'static str,
    pub(crate) peer: String,
    pub(crate) every: Duration,
    pub(crate) started: SystemTime,
    pub(crate) rounds: u64,
    pub(crate) rounds_missed: u64,
    pub(crate) last_round: Option<SystemTime>,
    pub(crate) peer_process: Option<u32>,
    pub(crate) probes: Vec<Probed>,
    pub(crate) cpus: Vec<Watched>,
    pub(crate) checks: Option<Checks>,
    pub(crate) plane: Plane,
}

impl State {
    pub(crate) fn new(options: &Options) -> Self {
        let now = Instant::now();
        let probed = |probe: &Probe| Probed {
            probe: *probe,
            rtt: Histogram::new(RTT_BOUNDS_NS),
            longest: Recent::new(now),
            slices: 0,
            lost: 0,
            failures: [0; Cause::ALL.len()],
            involuntary_switches: 0,
            is_up: None,
            took: Duration::ZERO,
        };
        let watched = |cpu: u32| Watched {
            cpu,
            late: Histogram::new(HICCUP_BOUNDS_NS),
            longest: Recent::new(now),
            is_there: true,
            counters: CpuCounters::default(),
        };
        Self {
            place: options.around.place(),
            peer: options.around.peer.map_or_else(String::new, |peer| peer.to_string()),
            every: options.every,
            started: SystemTime::now(),
            rounds: 0,
            rounds_missed: 0,
            last_round: None,
            peer_process: None,
            probes: options.probes.iter().map(probed).collect(),
            cpus: options.hiccup_cpus().into_iter().map(watched).collect(),
            checks: options.tuning.as_ref().map(|tuning| Checks::new(&tuning.profile.name)),
            plane: Plane::default(),
        }
    }

    /// A round of probes has ended.
    pub(crate) fn round(&mut self, missed: u64, peer_process: Option<u32>) {
        self.rounds += 1;
        self.rounds_missed += missed;
        self.last_round = Some(SystemTime::now());
        self.peer_process = peer_process;
    }

    /// A slice has ended.
    pub(crate) fn slice(&mut self, index: usize, took: Duration, result: Result<&Answers, (Cause, String)>) {
        let (place, probed) = (self.place, &mut self.probes[index]);
        probed.took = took;
        match result {
            Ok(answers) => {
                probed.slices += 1;
                probed.lost += answers.lost;
                probed.involuntary_switches += answers.involuntary_switches;
                answers.each(|ns, times| probed.rtt.record(ns, times));
                probed.longest.record(Instant::now(), answers.max_ns());
                probed.turn(place, true, "answers again");
            }
            Err((cause, why)) => {
                let at = Cause::ALL.iter().position(|(known, _)| *known == cause).unwrap_or_default();
                probed.failures[at] += 1;
                // A suspension says nothing about the path.
                if cause != Cause::Suspended {
                    probed.turn(place, false, &why);
                }
            }
        }
    }

    /// Wake-ups of a CPU have been seen; none if it cannot be had.
    pub(crate) fn hiccups(&mut self, index: usize, now: Instant, late_ns: Option<&[u64]>) {
        let watched = &mut self.cpus[index];
        for ns in late_ns.into_iter().flatten() {
            watched.late.record(*ns, 1);
            watched.longest.record(now, *ns);
        }
        if watched.is_there != late_ns.is_some() {
            watched.is_there = late_ns.is_some();
            let what =
                if watched.is_there { "is back" } else { "cannot be had: offline, or not this process's any more" };
            event::tell(format_args!("hiccups: CPU {} {what}", watched.cpu));
        }
    }

    /// The kernel's counters of the watched CPUs, in their order. A CPU that is offline is not among them: its counters stay.
    pub(crate) fn counters(&mut self, counters: &[CpuCounters]) {
        for (watched, read) in self.cpus.iter_mut().zip(counters) {
            watched.counters.steal_ticks = watched.counters.steal_ticks.max(read.steal_ticks);
            watched.counters.interrupts = watched.counters.interrupts.max(read.interrupts);
        }
    }
}

impl Probed {
    /// Tells a change from up to down, or back.
    fn turn(&mut self, place: &str, is_up: bool, why: &str) {
        // The first slice is told only if it fails.
        if self.is_up.unwrap_or(true) != is_up {
            let Probe { path, transport } = self.probe;
            event::tell(format_args!("probe {} {transport} ({place}): {why}", path.name));
        }
        self.is_up = Some(is_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise_by_a_quarter_at_most_where_paths_differ() {
        let fine = RTT_BOUNDS_NS.iter().filter(|bound| **bound <= 1_000_000).collect::<Vec<_>>();
        assert_eq!((RTT_BOUNDS_NS[0], RTT_BOUNDS_NS.last()), (1_000, Some(&1_000_000_000)));
        assert!(fine.windows(2).all(|pair| *pair[0] < *pair[1] && *pair[1] * 4 <= *pair[0] * 5));
    }
}

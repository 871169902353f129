//! The observer: opened for some rounds of a run, it records what the host does in each slice.

use super::counters::{Counters, Reading, grown};
use super::lanes::{End, Lanes};
use super::names::Names;
use super::slice::{Alignment, Sample, SliceTail, join};
use super::tail::Tail;
use super::threads::{busiest, cpu_of, run_times};
use super::watch::{Decoder, Event, Watch, What};
use crate::stats::Accumulator;
use sidestep_report::schema::Causes;
use sidestep_sys::clock::{Anchor, Clock};
use sidestep_sys::perf::{Record, Recorder, Tracefs};
use sidestep_sys::proc::Roots;
use sidestep_sys::{Problem, process};
use std::collections::HashMap;

/// The most CPUs that are recorded: those of pinned ends come first.
const CPUS_MAX: usize = 64;
/// The ring of a CPU: a slice makes about a megabyte at the worst seen. Where many CPUs are recorded each has less.
const RING_BYTES: usize = 4 << 20;
const RING_BYTES_OF_MANY: usize = 1 << 20;
const MANY: usize = 4;
/// The most threads of the ends that are followed: their numbers go into filters of at most a page.
const THREADS_MAX: usize = 16;
/// The same intervals are drawn every time.
const SEED: u64 = 0x7A11_CA05;
/// Numbers that no thread has, for ends whose threads cannot be told.
const NOBODY: [u32; 2] = [u32::MAX, u32::MAX - 1];

/// Where the ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// CPU of the measuring end, for pinned paths.
    pub(crate) client: u32,
    /// CPU of the peer, for pinned paths; none if it is on another host.
    pub(crate) server: Option<u32>,
    /// The peer's process; none if it is on another host.
    pub(crate) peer: Option<u32>,
}

/// Records what the host does.
#[derive(Debug)]
pub(crate) struct Observer {
    scope: Scope,
    names: Names,
    recording: Option<(Recorder, Decoder)>,
    counters: Counters,
    knows_threads: bool,
    /// What the findings are from.
    source: &'static str,
    /// What cannot be observed here, with its reason.
    missing: Vec<String>,
    /// The time that the result counts from, CLOCK_MONOTONIC_RAW.
    origin: u64,
    slice: Option<Begun>,
    random: fastrand::Rng,
}

/// A slice that has begun.
#[derive(Debug)]
struct Begun {
    is_pinned: bool,
    anchor: Anchor,
    counters: Reading,
    peer_times: Vec<(u32, u64)>,
}

impl Observer {
    /// Looks up what this host allows, and records nothing yet.
    pub(crate) fn new(scope: Scope) -> Self {
        let mut missing = Vec::new();
        if scope.peer.is_none() {
            missing.push("the peer's host is not observed, only this end".into());
        }
        let knows_threads = process::is_in_first_pid_namespace();
        if !knows_threads {
            missing.push(
                "tasks are not observed: this process is in a pid namespace of its own, where threads have other numbers; \
                 run it outside of the container (--pid=host)"
                    .into(),
            );
        }
        let cpus: Vec<u32> = std::iter::once(scope.client).chain(scope.server).collect();
        let (counters, uncounted) = Counters::open(&cpus, Roots::default(), false);
        missing.extend(uncounted);
        Self {
            scope,
            names: Names::default(),
            recording: None,
            counters,
            knows_threads,
            source: "counters",
            missing,
            origin: sidestep_sys::clock::monotonic_raw_ns(),
            slice: None,
            random: fastrand::Rng::with_seed(SEED),
        }
    }

    /// Begins to observe `cpus` besides those of pinned ends. Where the kernel does not allow it only its counters are read.
    pub(crate) fn open(&mut self, cpus: &[u32]) {
        match self.record(cpus) {
            Ok(recording) => {
                self.recording = Some(recording);
                self.source = "tracepoints";
            }
            Err(problem) => {
                let ends: Vec<u32> = std::iter::once(self.scope.client).chain(self.scope.server).collect();
                (self.counters, _) = Counters::open(&ends, Roots::default(), true);
                self.missing.push(format!("events are not recorded, only counted per slice: {problem}"));
            }
        }
    }

    /// Ends observing; what was seen stays known. It may take half a second.
    pub(crate) fn close(&mut self) {
        self.recording = None;
    }

    fn record(&mut self, cpus: &[u32]) -> Result<(Recorder, Decoder), Problem> {
        let tracefs = Tracefs::open()?;
        let mut threads = vec![process::thread_id()];
        threads.extend(self.scope.peer.iter().flat_map(|pid| run_times(*pid)).map(|(tid, _)| tid));
        threads.dedup();
        threads.truncate(THREADS_MAX);
        let watch = Watch::find(&tracefs, &mut self.names, self.knows_threads.then_some(&threads));
        let mut all: Vec<u32> = std::iter::once(self.scope.client).chain(self.scope.server).collect();
        all.extend(cpus);
        let mut seen = std::collections::HashSet::new();
        all.retain(|cpu| seen.insert(*cpu));
        if all.len() > CPUS_MAX {
            self.missing.push(format!("of {} CPUs the first {CPUS_MAX} are observed", all.len()));
            all.truncate(CPUS_MAX);
        }
        let ring_bytes = if all.len() > MANY { RING_BYTES_OF_MANY } else { RING_BYTES };
        let recorder = Recorder::open(&all, &watch.tracepoints, ring_bytes)?;
        if !watch.missing.is_empty() {
            self.missing.push(format!("this kernel has no tracepoint {}", watch.missing.join(", ")));
        }
        Ok((recorder, watch.decoder))
    }

    /// A slice of a path begins, measured by the calling thread.
    pub(crate) fn begin(&mut self, clock: &Clock, is_pinned: bool) {
        let counters = self.counters.read();
        let peer_times = self.scope.peer.map(run_times).unwrap_or_default();
        self.slice = Some(Begun { is_pinned, anchor: clock.anchor(), counters, peer_times });
        let enabled = self.recording.as_ref().map(|(recorder, _)| recorder.enable());
        if let Some(Err(problem)) = enabled {
            self.missing.push(format!("recording ended early: {problem}"));
            self.recording = None;
        }
    }

    /// The slice is over: joins its samples, given by their first readings of the clock and their lengths, both in ticks.
    pub(crate) fn end(&mut self, clock: &Clock, starts: &[u64], lengths: &[u64]) -> SliceTail {
        let Some(begun) = self.slice.take() else { return SliceTail::default() };
        if let Some((recorder, _)) = &self.recording {
            recorder.disable();
        }
        let last = clock.anchor();
        let alignment = Alignment::new(begun.anchor, last);
        let samples = starts.iter().zip(lengths);
        let samples: Vec<Sample> =
            samples.map(|(at, ticks)| Sample { at: alignment.raw_ns(*at), ns: clock.ns(*ticks) }).collect();
        let (events, lost, covered) = self.drain();
        let ends = self.ends(&begun);
        let lanes = Lanes::of(&events, &ends, (begun.anchor.raw_ns, last.raw_ns), &mut self.names);
        let mut tail = join(&samples, &lanes, covered, self.origin, &mut self.random);
        tail.counters = grown(&begun.counters, &self.counters.read(), &mut self.names);
        tail.slowest.iter_mut().for_each(|slow| slow.counters.clone_from(&tail.counters));
        SliceTail { events: events.len() as u64, lost, clock_error_ns: alignment.error_ns, ..tail }
    }

    /// The recorded events in time order, the number of lost ones, and the time from which on the record has gaps.
    fn drain(&mut self) -> (Vec<Event>, u64, u64) {
        let Some((recorder, decoder)) = &mut self.recording else { return (Vec::new(), 0, 0) };
        let (mut events, mut lost): (Vec<Event>, u64) = (Vec::new(), 0);
        let names = &mut self.names;
        let full = recorder.drain(|cpu, record| match record {
            Record::Event { ns, bytes } => decoder.read(names, ns, cpu, bytes, |event| events.push(event)),
            Record::Lost(count) => lost += count,
        });
        let last = |cpu: &u32| events.iter().filter(|event| event.cpu == *cpu).map(|event| event.ns).max().unwrap_or(0);
        let covered = full.iter().map(last).min().unwrap_or(u64::MAX);
        events.sort_by_key(|event| event.ns);
        let gaps = gaps(&events);
        if gaps > 0 && !self.missing.iter().any(|reason| reason == GAPS) {
            self.missing.push(GAPS.into());
        }
        (events, lost + gaps, covered)
    }

    fn ends(&self, begun: &Begun) -> Vec<End> {
        let Scope { client, server, peer } = self.scope;
        let (this, tid) = (std::process::id(), process::thread_id());
        let end = |pid: u32, tid: u32, pinned: u32, nobody: u32| {
            let cpu = if begun.is_pinned { pinned } else { cpu_of(pid, tid).unwrap_or(pinned) };
            End { tid: if self.knows_threads { tid } else { nobody }, cpu, is_pinned: begun.is_pinned }
        };
        let mut ends = vec![end(this, tid, client, NOBODY[0])];
        if let (Some(pid), Some(server)) = (peer, server) {
            let busy = busiest(&begun.peer_times, &run_times(pid), tid).unwrap_or(pid);
            ends.push(end(pid, busy, server, NOBODY[1]));
        }
        ends
    }

    /// Says what was found of an arm; `plain` are its slices that were not observed.
    pub(crate) fn findings(&self, tail: &Tail, plain: &Accumulator) -> Option<Causes> {
        tail.findings(&self.names, plain, self.source, &self.missing)
    }
}

/// The reason why waits may be too long.
const GAPS: &str = "some switches of tasks are missing from the kernel's record, counted as lost; around them a wait for a CPU may be shown too \
                    long (seen on Linux 6.18: all switches from the idle task of one CPU)";

/// Switches that must have been between two others of a CPU: the task that leaves is not the one that had come.
fn gaps(events: &[Event]) -> u64 {
    let mut current: HashMap<u32, u32> = HashMap::new();
    let mut gaps = 0;
    for event in events {
        if let What::Switch { from, to, .. } = event.what {
            let before = current.insert(event.cpu, to.tid);
            gaps += u64::from(before.is_some_and(|tid| tid != from.tid));
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_sys::clock::Choice;

    fn observed(open: impl FnOnce(&mut Observer)) -> (Observer, SliceTail) {
        let clock = Clock::calibrate(Choice::Auto);
        let cpus = sidestep_sys::cpu::allowed();
        let scope = Scope { client: cpus[0], server: cpus.last().copied(), peer: Some(std::process::id()) };
        let mut observer = Observer::new(scope);
        open(&mut observer);
        observer.begin(&clock, false);
        let (mut starts, mut lengths) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let begin = clock.start();
            std::thread::sleep(std::time::Duration::from_millis(1));
            lengths.push(clock.stop() - begin);
            starts.push(begin);
        }
        let tail = observer.end(&clock, &starts, &lengths);
        (observer, tail)
    }

    #[test]
    fn a_sleep_is_joined_with_the_timer_that_ends_it() {
        let (observer, tail) = observed(|observer| observer.open(&sidestep_sys::cpu::allowed()));
        assert_eq!(tail.slowest.len(), 2);
        if observer.source == "counters" {
            assert!(observer.missing.iter().any(|reason| reason.contains("events are not recorded")));
            return eprintln!("skipped: tracepoints cannot be recorded here: {:?}", observer.missing);
        }
        assert!(tail.events > 0, "{tail:?}");
        if tail.lost > 0 {
            // A busy machine fills the rings: what they did not cover is not explained, and that is said.
            return eprintln!("skipped: {} events were lost", tail.lost);
        }
        assert!(tail.slowest.iter().all(|slow| slow.is_covered && !slow.times.is_empty()), "{tail:?}");
        let met = |what: &str| {
            tail.slowest.iter().flat_map(|slow| &slow.times).any(|(id, _)| observer.names.what(*id) == what)
        };
        assert!(met("local timer") || !process::is_in_first_pid_namespace(), "{tail:?}");
    }

    #[test]
    fn a_switch_that_is_missing_is_noticed() {
        use super::super::names::Class;
        use super::super::watch::Task;
        let name = Names::default().id(Class::Task, "any");
        let switch = |cpu, from, to| Event {
            ns: 0,
            cpu,
            what: What::Switch { from: Task { tid: from, name }, could_go_on: false, to: Task { tid: to, name } },
        };
        assert_eq!(gaps(&[switch(0, 7, 0), switch(1, 8, 9), switch(0, 0, 7), switch(1, 9, 8)]), 0);
        assert_eq!(gaps(&[switch(0, 7, 0), switch(0, 15, 0), switch(0, 0, 7)]), 1, "0 to 15 is missing");
    }

    #[test]
    fn without_events_the_counters_remain() {
        let (observer, tail) = observed(|observer| {
            (observer.counters, _) = Counters::open(&sidestep_sys::cpu::allowed(), Roots::default(), true);
        });
        assert_eq!((observer.source, tail.events), ("counters", 0));
        assert!(tail.slowest.iter().all(|slow| !slow.is_covered));
        let interrupts =
            tail.counters.iter().map(|id| observer.names.what(*id)).filter(|name| name.starts_with("interrupt"));
        assert!(interrupts.count() > 0, "20 ms without any interrupt");
    }
}

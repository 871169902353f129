//! One slice: its slowest samples, random intervals of the same lengths, and ordinary samples, each with what was in it.

use super::lanes::{Lanes, Span};
use super::names::Id;
use sidestep_sys::clock::Anchor;

/// The slowest samples of a slice that are joined; the slice as a whole has some thousands. The 0.1 % of all slices that are
/// shown may lie in few of them.
const SLOWEST_MAX: usize = 256;
/// Random intervals for each of them, and attempts to find those.
const CONTROLS: usize = 4;
const CONTROL_ATTEMPTS: usize = 4 * CONTROLS;
/// Ordinary samples of a slice that are joined, for the time that each cause takes in every sample.
const ORDINARY: usize = 64;
/// Spans of one sample that are kept for a picture.
const SPANS_MAX: usize = 24;

/// A sample: its beginning, CLOCK_MONOTONIC_RAW, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: u64,
    pub(super) ns: u64,
}

/// A slow sample, joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Slow {
    /// Its beginning, nanoseconds since the observer began.
    pub(super) at: u64,
    /// How long it took.
    pub(super) ns: u64,
    /// Set if the events in its time were all recorded.
    pub(super) is_covered: bool,
    /// The time of each cause in it, 0 for what has no duration.
    pub(super) times: Vec<(Id, u64)>,
    /// Random intervals of the same length that were looked at.
    pub(super) controls: u32,
    /// In how many of them each cause was.
    pub(super) usual: Vec<(Id, u32)>,
    /// The spans in it, from its beginning on.
    pub(super) spans: Vec<Span>,
    /// Counters that grew in its slice.
    pub(super) counters: Vec<Id>,
}

/// What is found of a slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceTail {
    pub(super) slowest: Vec<Slow>,
    /// Ordinary samples looked at, and the time of each cause in all of them.
    pub(super) ordinary: u64,
    pub(super) ordinary_times: Vec<(Id, u64)>,
    /// Counters that grew in it.
    pub(super) counters: Vec<Id>,
    /// Events recorded, and events known to be lost.
    pub(super) events: u64,
    pub(super) lost: u64,
    /// Bound on the distance of the clocks of samples and events.
    pub(super) clock_error_ns: f64,
}

/// Ticks of the measuring clock as CLOCK_MONOTONIC_RAW, by readings of both before and after the slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alignment {
    first: Anchor,
    ns_per_tick: f64,
    pub(super) error_ns: f64,
}

impl Alignment {
    pub(super) fn new(first: Anchor, last: Anchor) -> Self {
        let ticks = last.ticks.saturating_sub(first.ticks).max(1) as f64;
        let ns_per_tick = last.raw_ns.saturating_sub(first.raw_ns) as f64 / ticks;
        Self { first, ns_per_tick, error_ns: first.error_ns.max(last.error_ns) }
    }

    pub(super) fn raw_ns(&self, ticks: u64) -> u64 {
        let since = ticks.saturating_sub(self.first.ticks) as f64 * self.ns_per_tick;
        self.first.raw_ns + since.round() as u64
    }
}

/// Joins the samples of a slice with its lanes. What happened from `covered` on was not recorded completely; `origin` is the
/// time that [`Slow::at`] counts from.
pub(super) fn join(
    samples: &[Sample],
    lanes: &Lanes,
    covered: u64,
    origin: u64,
    random: &mut fastrand::Rng,
) -> SliceTail {
    let (slowest, ordinary) = select(samples, random);
    // Random intervals keep clear of the tail itself: of the slowest thousandth.
    let apart = slowest.iter().take((samples.len() / 1000).max(1));
    let mut times: Vec<(u64, u64)> = apart.map(|sample| (sample.at, sample.at + sample.ns)).collect();
    times.sort_unstable();
    let end = samples.last().map_or(0, |sample| sample.at + sample.ns);
    let is_free = |from: u64, to: u64| {
        let next = times.partition_point(|(_, other)| *other <= from);
        to <= end.min(covered) && times.get(next).is_none_or(|(other, _)| *other >= to)
    };
    let mut tail = SliceTail::default();
    for sample in &slowest {
        let mut slow = one(*sample, lanes, covered);
        for _ in 0..CONTROL_ATTEMPTS {
            let from = samples[random.usize(..samples.len())].at;
            if slow.is_covered && is_free(from, from + sample.ns) {
                slow.controls += 1;
                summed(lanes.within(from, from + sample.ns)).iter().for_each(|(id, _)| add(&mut slow.usual, *id, 1));
            }
            if slow.controls as usize == CONTROLS {
                break;
            }
        }
        slow.at = slow.at.saturating_sub(origin);
        tail.slowest.push(slow);
    }
    for sample in ordinary.iter().filter(|sample| sample.at + sample.ns <= covered) {
        tail.ordinary += 1;
        for (id, ns) in summed(lanes.within(sample.at, sample.at + sample.ns)) {
            add(&mut tail.ordinary_times, id, ns);
        }
    }
    tail
}

fn one(sample: Sample, lanes: &Lanes, covered: u64) -> Slow {
    let (from, to) = (sample.at, sample.at + sample.ns);
    let mut spans: Vec<Span> = lanes.within(from, to).collect();
    let times = summed(spans.iter().copied());
    spans.sort_by_key(|span| std::cmp::Reverse(span.to - span.from));
    spans.truncate(SPANS_MAX);
    spans.iter_mut().for_each(|span| (span.from, span.to) = (span.from - from, span.to - from));
    spans.sort_by_key(|span| span.from);
    Slow { at: from, ns: sample.ns, is_covered: to <= covered, times, spans, ..Slow::default() }
}

/// The slowest samples, and random ones of the others that were not slower than nine in ten.
fn select(samples: &[Sample], random: &mut fastrand::Rng) -> (Vec<Sample>, Vec<Sample>) {
    let mut order = samples.to_vec();
    order.sort_unstable_by_key(|sample| std::cmp::Reverse(sample.ns));
    let slow = order.len().min(SLOWEST_MAX).min((order.len() / 10).max(1));
    let usual = &order[order.len().div_ceil(10).min(order.len())..];
    let ordinary = (0..ORDINARY).filter(|_| !usual.is_empty()).map(|_| usual[random.usize(..usual.len())]).collect();
    order.truncate(slow);
    (order, ordinary)
}

/// The time of each cause.
fn summed(spans: impl Iterator<Item = Span>) -> Vec<(Id, u64)> {
    let mut times = Vec::new();
    spans.for_each(|span| add(&mut times, span.id, span.to - span.from));
    times
}

/// Adds to the number of a cause. There are few in one sample.
pub(super) fn add<T: Copy + std::ops::AddAssign>(numbers: &mut Vec<(Id, T)>, id: Id, more: T) {
    match numbers.iter_mut().find(|(known, _)| *known == id) {
        Some((_, number)) => *number += more,
        None => numbers.push((id, more)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::End;
    use super::super::names::{Class, Names};
    use super::super::watch::{Event, What};
    use super::*;

    /// 1000 samples of 10 us; the 500th took 100 us, of which an interrupt had 80. Every 20th sample has a softirq of 2 us.
    fn slice(names: &mut Names) -> (Vec<Sample>, Vec<Event>, (Id, Id)) {
        let (irq, softirq) = (names.id(Class::Interrupt, "eth0 (IRQ 9)"), names.id(Class::Softirq, "TIMER"));
        let (mut samples, mut events, mut at) = (Vec::new(), Vec::new(), 1_000_000);
        let mut put = |ns, what| events.push(Event { ns, cpu: 3, what });
        for i in 0..1000 {
            let ns = if i == 500 { 100_000 } else { 10_000 };
            samples.push(Sample { at, ns });
            if i == 500 {
                put(at + 5_000, What::Enter(Class::Interrupt, irq));
                put(at + 85_000, What::Exit(Class::Interrupt));
            } else if i % 20 == 0 {
                put(at + 1_000, What::Enter(Class::Softirq, softirq));
                put(at + 3_000, What::Exit(Class::Softirq));
            }
            at += ns;
        }
        (samples, events, (irq, softirq))
    }

    fn joined(covered: u64) -> (SliceTail, (Id, Id)) {
        let mut names = Names::default();
        let (samples, events, ids) = slice(&mut names);
        let end = End { tid: 7, cpu: 3, is_pinned: true };
        let lanes = Lanes::of(&events, &[end], (1_000_000, 20_000_000), &mut names);
        (join(&samples, &lanes, covered, 1_000_000, &mut fastrand::Rng::with_seed(1)), ids)
    }

    #[test]
    fn the_slowest_sample_is_joined_with_what_was_in_it() {
        let (tail, (irq, softirq)) = joined(u64::MAX);
        let slow = &tail.slowest[0];
        assert_eq!((slow.at, slow.ns, slow.is_covered), (5_000_000, 100_000, true));
        assert_eq!(slow.times, [(irq, 80_000)]);
        assert_eq!(slow.spans, [Span { from: 5_000, to: 85_000, id: irq }]);
        // An interval of 100 us has a softirq in every second case, and never the interrupt.
        assert_eq!(slow.controls as usize, CONTROLS);
        assert!(slow.usual.iter().all(|(id, count)| *id == softirq && *count <= slow.controls));
        assert_eq!(tail.slowest.len(), 100);
        assert_eq!(tail.ordinary, ORDINARY as u64);
        assert!(tail.ordinary_times.iter().all(|(id, ns)| *id == softirq && ns % 2_000 == 0));
    }

    #[test]
    fn what_was_not_recorded_to_the_end_is_not_covered() {
        let (tail, _) = joined(5_000_000 + 1_000_000 + 50_000);
        assert!(!tail.slowest[0].is_covered && tail.slowest[0].controls == 0);
        assert!(tail.slowest.iter().any(|slow| slow.is_covered));
        assert!(tail.ordinary < ORDINARY as u64);
    }

    #[test]
    fn few_samples_or_none_do_no_harm() {
        let lanes = Lanes::default();
        let mut random = fastrand::Rng::with_seed(1);
        assert!(join(&[], &lanes, u64::MAX, 0, &mut random).slowest.is_empty());
        let tail = join(&[Sample { at: 5, ns: 7 }], &lanes, u64::MAX, 9, &mut random);
        assert_eq!((tail.slowest.len(), tail.slowest[0].at, tail.ordinary), (1, 0, 0));
    }

    #[test]
    fn ticks_become_the_time_of_events() {
        let anchor = |ticks, raw_ns, error_ns| Anchor { ticks, raw_ns, error_ns };
        let alignment = Alignment::new(anchor(1000, 50_000, 20.0), anchor(3000, 51_000, 30.0));
        assert_eq!([alignment.raw_ns(1000), alignment.raw_ns(2000), alignment.raw_ns(0)], [50_000, 50_500, 50_000]);
        assert_eq!(alignment.error_ns, 30.0);
    }
}

//! The slices of an arm added up: which causes the slowest samples have in common, and what they explain.

use super::names::{Class, Id, Names};
use super::slice::{SliceTail, Slow, add};
use crate::stats::{Accumulator, Slice, Statistic};
use sidestep_report::schema::{Cause, Causes, ObserverEffect, Outlier, OutlierEvent};
use std::collections::HashMap;

/// One sample in this many is looked at: those beyond p99.9.
const ONE_IN: u64 = 1000;
/// The most samples that are looked at, and twice as many are held meanwhile: 100,000 a row would be of no use to anyone.
const SLOWEST_MAX: usize = 4096;
/// Samples that the result tells one by one, for a picture, and how many of them with their events.
const TOLD_MAX: usize = 200;
const TOLD_WITH_EVENTS: usize = 8;
/// The most causes that the result tells.
const CAUSES_MAX: usize = 40;
/// What explains at least this share of a sample's excess is its cause.
const EXPLAINS: f64 = 0.5;

/// What was observed of an arm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    samples: Accumulator,
    slowest: Vec<Slow>,
    ordinary: u64,
    ordinary_times: HashMap<Id, u64>,
    slices: u64,
    counters: HashMap<Id, u64>,
    events: u64,
    lost: u64,
    clock_error_ns: f64,
    /// Medians of the observed slices, in their order.
    medians: Vec<f64>,
}

impl Tail {
    /// Adds an observed slice.
    pub(crate) fn take(&mut self, slice: Slice, found: SliceTail) {
        if slice.is_empty() {
            return;
        }
        self.medians.push(slice.p50());
        self.samples.push(slice);
        self.slices += 1;
        self.ordinary += found.ordinary;
        found.ordinary_times.iter().for_each(|(id, ns)| *self.ordinary_times.entry(*id).or_default() += ns);
        found.counters.iter().for_each(|id| *self.counters.entry(*id).or_default() += 1);
        self.events += found.events;
        self.lost += found.lost;
        self.clock_error_ns = self.clock_error_ns.max(found.clock_error_ns);
        self.slowest.extend(found.slowest);
        if self.slowest.len() > 2 * SLOWEST_MAX {
            keep_slowest(&mut self.slowest, SLOWEST_MAX);
        }
    }

    /// The findings; `plain` are the slices that were not observed, and `source` says what the events are from.
    /// None if nothing was observed.
    pub(crate) fn findings(
        &self,
        names: &Names,
        plain: &Accumulator,
        source: &str,
        missing: &[String],
    ) -> Option<Causes> {
        let distribution = self.samples.distribution(1.0, Statistic::Mean);
        let p50 = distribution.p50.or_else(|| middle(&self.medians))?;
        let wanted = usize::try_from((self.samples.len() / ONE_IN).max(1)).unwrap_or(usize::MAX);
        let mut slowest = self.slowest.clone();
        keep_slowest(&mut slowest, wanted.min(SLOWEST_MAX));
        let covered: Vec<Explained<'_>> =
            slowest.iter().filter(|slow| slow.is_covered).map(|slow| self.explain(slow, p50)).collect();
        let mut told: Vec<Outlier> = slowest.iter().take(TOLD_MAX).map(|slow| self.tell(slow, p50, names)).collect();
        told.iter_mut().skip(TOLD_WITH_EVENTS).for_each(|outlier| outlier.events.clear());
        Some(Causes {
            source: source.into(),
            n: distribution.n,
            p50,
            p99_9: distribution.p99_9,
            max: distribution.max.unwrap_or_default(),
            slowest: slowest.len() as u64,
            from_ns: slowest.last().map_or(0.0, |slow| slow.ns as f64),
            uncovered: (slowest.len() - covered.len()) as u64,
            events: self.events,
            lost: self.lost,
            clock_error_ns: self.clock_error_ns,
            observer: observer(&self.samples, plain),
            causes: self.causes(&covered, &slowest, names),
            outliers: told,
            missing: missing.to_vec(),
        })
    }

    /// The time that a cause takes in an ordinary sample, on average.
    fn usual_ns(&self, id: Id) -> f64 {
        self.ordinary_times.get(&id).map_or(0.0, |ns| *ns as f64 / self.ordinary.max(1) as f64)
    }

    fn explain<'a>(&self, slow: &'a Slow, p50: f64) -> Explained<'a> {
        let excess = (slow.ns as f64 - p50).max(1.0);
        let share = |(id, ns): &(Id, u64)| (*id, ((*ns as f64 - self.usual_ns(*id)) / excess).clamp(0.0, 1.0));
        let shares: Vec<_> = slow.times.iter().map(share).collect();
        Explained { slow, excess, known: shares.iter().map(|(_, share)| share).sum::<f64>().min(1.0), shares }
    }

    fn causes(&self, covered: &[Explained<'_>], slowest: &[Slow], names: &Names) -> Vec<Cause> {
        let mut found: HashMap<Id, Found> = HashMap::new();
        for one in covered {
            for ((id, ns), (_, share)) in one.slow.times.iter().zip(&one.shares) {
                let found = found.entry(*id).or_default();
                found.samples += 1;
                found.ns += *ns as f64;
                found.explained_ns += share * one.excess;
                found.explains += u64::from(*share >= EXPLAINS);
            }
        }
        let controls: u64 = covered.iter().map(|one| u64::from(one.slow.controls)).sum();
        let mut usual: Vec<(Id, u64)> = Vec::new();
        covered.iter().flat_map(|one| &one.slow.usual).for_each(|(id, count)| add(&mut usual, *id, u64::from(*count)));
        let excess: f64 = covered.iter().map(|one| one.excess).sum();
        let cause = |(id, found): (&Id, &Found)| {
            let is_timed = names.class(*id) != Class::Event;
            let count = usual.iter().find(|(known, _)| known == id).map_or(0, |(_, count)| *count);
            Cause {
                what: names.what(*id).into(),
                class: names.class(*id).name().into(),
                samples: found.samples,
                explains: found.explains,
                mean_ns: is_timed.then(|| found.ns / found.samples as f64),
                share: is_timed.then(|| found.explained_ns / excess),
                usual: (controls > 0).then(|| count as f64 / controls as f64),
            }
        };
        let mut causes: Vec<Cause> = found.iter().map(cause).chain(self.counted(slowest, names)).collect();
        let key = |cause: &Cause| (cause.explains, cause.share.unwrap_or(0.0), cause.samples);
        causes.sort_by(|one, two| {
            let (one_key, two_key) = (key(one), key(two));
            let by_count = (two_key.0.cmp(&one_key.0)).then(two_key.1.total_cmp(&one_key.1));
            by_count.then(two_key.2.cmp(&one_key.2)).then_with(|| one.what.cmp(&two.what))
        });
        causes.truncate(CAUSES_MAX);
        causes.extend(unknown(covered, excess));
        causes
    }

    /// Counters that grew in the slices of the slowest samples; the usual share is that of all slices.
    fn counted(&self, slowest: &[Slow], names: &Names) -> Vec<Cause> {
        let mut samples: Vec<(Id, u64)> = Vec::new();
        slowest.iter().flat_map(|slow| &slow.counters).for_each(|id| add(&mut samples, *id, 1));
        let cause = |(id, samples): (Id, u64)| Cause {
            what: names.what(id).into(),
            class: names.class(id).name().into(),
            samples,
            usual: Some(self.counters.get(&id).copied().unwrap_or(0) as f64 / self.slices.max(1) as f64),
            ..Cause::default()
        };
        samples.into_iter().map(cause).collect()
    }

    fn tell(&self, slow: &Slow, p50: f64, names: &Names) -> Outlier {
        let explained = self.explain(slow, p50);
        let main = explained.shares.iter().max_by(|one, two| one.1.total_cmp(&two.1));
        let (class, cause) = match main.filter(|_| slow.is_covered) {
            Some((id, share)) if *share >= EXPLAINS => (names.class(*id).name(), names.what(*id)),
            Some((id, _)) if explained.known >= EXPLAINS => (names.class(*id).name(), SEVERAL),
            _ => (UNKNOWN, UNKNOWN),
        };
        let event = |span: &super::lanes::Span| OutlierEvent {
            what: names.what(span.id).into(),
            class: names.class(span.id).name().into(),
            from_ns: span.from as f64,
            ns: (span.to - span.from) as f64,
        };
        Outlier {
            at_ms: slow.at as f64 / 1e6,
            ns: slow.ns as f64,
            class: class.into(),
            cause: cause.into(),
            events: slow.spans.iter().map(event).collect(),
        }
    }
}

fn keep_slowest(samples: &mut Vec<Slow>, most: usize) {
    samples.sort_unstable_by_key(|slow| std::cmp::Reverse(slow.ns));
    samples.truncate(most);
}

/// The middle one of the values; of few samples it stands for their median.
fn middle(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The word for what no event explains.
const UNKNOWN: &str = "unknown";
/// The name of causes that explain half of a sample only together.
const SEVERAL: &str = "several together";

/// A slow sample and the share of its excess that each cause explains.
struct Explained<'a> {
    slow: &'a Slow,
    /// What it took above the median.
    excess: f64,
    shares: Vec<(Id, f64)>,
    known: f64,
}

#[derive(Default)]
struct Found {
    samples: u64,
    explains: u64,
    ns: f64,
    explained_ns: f64,
}

/// The rest: samples of which all causes together explain less than half.
fn unknown(covered: &[Explained<'_>], excess: f64) -> Option<Cause> {
    let open: Vec<_> = covered.iter().filter(|one| one.known < EXPLAINS).collect();
    let rest = |one: &Explained<'_>| one.excess * (1.0 - one.known);
    (!open.is_empty()).then(|| Cause {
        what: "no event of the kernel explains half of it".into(),
        class: UNKNOWN.into(),
        samples: open.len() as u64,
        explains: 0,
        mean_ns: Some(open.iter().map(|one| rest(one)).sum::<f64>() / open.len() as f64),
        share: Some(covered.iter().map(rest).sum::<f64>() / excess),
        usual: None,
    })
}

/// The ratio of the medians with and without the observer.
fn observer(observed: &Accumulator, plain: &Accumulator) -> Option<ObserverEffect> {
    let estimate = observed.ratio_apart(plain, Statistic::Quantile(0.5))?;
    Some(ObserverEffect { p50_ratio: estimate.value, ci95: estimate.ci95 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2,000 samples of 10 us. Two slow ones: an interrupt explains one, the other has only a softirq that all have.
    fn observed() -> (Tail, Names) {
        let mut names = Names::default();
        let irq = names.id(Class::Interrupt, "eth0 (IRQ 9)");
        let softirq = names.id(Class::Softirq, "NET_RX");
        let fault = names.id(Class::Event, "page fault");
        let steal = names.id(Class::Counter, "steal time");
        let slow = |ns, times: &[(Id, u64)]| Slow {
            ns,
            is_covered: true,
            times: times.to_vec(),
            controls: 4,
            usual: vec![(softirq, 4)],
            counters: vec![steal],
            ..Slow::default()
        };
        let mut tail = Tail::default();
        for number in 0..2 {
            let slow = match number {
                0 => slow(110_000, &[(softirq, 2_000), (irq, 90_000)]),
                _ => slow(60_000, &[(softirq, 3_000), (fault, 0)]),
            };
            let found = SliceTail {
                slowest: vec![slow, Slow { ns: 11_000, is_covered: true, ..Slow::default() }],
                ordinary: 10,
                ordinary_times: vec![(softirq, 20_000)],
                counters: if number == 0 { vec![steal] } else { Vec::new() },
                events: 7,
                lost: number,
                clock_error_ns: 30.0 + number as f64,
            };
            let samples = (0..1000).map(|i| {
                if i > 0 {
                    10_000
                } else if number == 0 {
                    110_000
                } else {
                    60_000
                }
            });
            tail.take(Slice::of(samples), found);
        }
        (tail, names)
    }

    fn causes() -> Causes {
        let (tail, names) = observed();
        tail.findings(&names, &Accumulator::default(), "tracepoints", &["x".into()]).unwrap()
    }

    #[test]
    fn a_cause_explains_what_it_takes_more_than_usual() {
        let found = causes();
        assert_eq!((found.n, found.slowest, found.from_ns, found.uncovered), (2000, 2, 60_000.0, 0));
        assert_eq!((found.events, found.lost, found.clock_error_ns), (14, 1, 31.0));
        let cause = |what: &str| found.causes.iter().find(|cause| cause.what.starts_with(what)).unwrap();
        let irq = cause("eth0");
        assert_eq!((irq.samples, irq.explains, irq.mean_ns, irq.usual), (1, 1, Some(90_000.0), Some(0.0)));
        assert!((irq.share.unwrap() - 90.0 / 150.0).abs() < 0.01, "{irq:?}");
        let softirq = cause("NET_RX");
        assert_eq!((softirq.samples, softirq.explains, softirq.usual), (2, 0, Some(1.0)), "it is in every interval");
        assert!(softirq.share.unwrap() < 0.01);
        let fault = cause("page fault");
        assert_eq!((fault.samples, fault.explains, fault.mean_ns, fault.share), (1, 0, None, None));
        let steal = cause("steal");
        assert_eq!(
            (steal.samples, steal.explains, steal.usual),
            (2, 0, Some(0.5)),
            "counters explain nothing by themselves"
        );
        let unknown = found.causes.last().unwrap();
        assert_eq!((unknown.class.as_str(), unknown.samples), (UNKNOWN, 1));
        assert_eq!(found.causes[0].what, "eth0 (IRQ 9)", "the one that explains most is first");
    }

    #[test]
    fn samples_are_told_slowest_first_with_their_main_cause() {
        let found = causes();
        let told: Vec<_> = found.outliers.iter().map(|one| (one.ns, one.class.as_str(), one.cause.as_str())).collect();
        assert_eq!(told, [(110_000.0, "interrupt", "eth0 (IRQ 9)"), (60_000.0, UNKNOWN, UNKNOWN)]);
    }

    #[test]
    fn causes_that_explain_half_only_together_are_several() {
        let (mut tail, mut names) = observed();
        let task = |name: &str, names: &mut Names| (names.id(Class::Task, name), 20_000);
        tail.slowest[2].times = vec![task("rustc", &mut names), task("cc", &mut names)];
        let found = tail.findings(&names, &Accumulator::default(), "tracepoints", &[]).unwrap();
        assert_eq!((found.outliers[1].class.as_str(), found.outliers[1].cause.as_str()), ("task", SEVERAL));
        assert!(found.causes.iter().all(|cause| cause.class != UNKNOWN));
    }

    #[test]
    fn the_observer_is_measured_and_nothing_observed_is_none() {
        let slices = |ns: u64| {
            let mut all = Accumulator::default();
            (0..8).for_each(|_| all.push(Slice::of((0..500).map(|at| ns + at % 7))));
            all
        };
        let effect = observer(&slices(11_000), &slices(10_000)).unwrap();
        assert!((effect.p50_ratio - 1.1).abs() < 0.01 && effect.ci95[0] <= effect.p50_ratio);
        assert!(causes().observer.is_none(), "of two slices there is no interval");
        assert!(Tail::default().findings(&Names::default(), &Accumulator::default(), "", &[]).is_none());
        let mut empty = Tail::default();
        empty.take(Slice::default(), SliceTail::default());
        assert!(empty.findings(&Names::default(), &Accumulator::default(), "", &[]).is_none());
    }

    #[test]
    fn what_is_not_covered_is_counted_and_not_explained() {
        let (mut tail, names) = observed();
        tail.slowest.iter_mut().for_each(|slow| slow.is_covered = false);
        let found = tail.findings(&names, &Accumulator::default(), "tracepoints", &[]).unwrap();
        assert_eq!((found.slowest, found.uncovered), (2, 2));
        assert!(found.causes.iter().all(|cause| cause.class == "counter"), "{:?}", found.causes);
        assert!(found.outliers.iter().all(|one| one.cause == UNKNOWN) && found.observer.is_none());
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut tail = Tail::default();
        for _ in 0..100 {
            let slowest = (0..256).map(|ns| Slow { ns, ..Slow::default() }).collect();
            tail.take(Slice::of(1..=10), SliceTail { slowest, ..SliceTail::default() });
        }
        assert!(tail.slowest.len() <= 2 * SLOWEST_MAX);
    }
}

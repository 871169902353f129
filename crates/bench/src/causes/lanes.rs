//! From events to spans of time: what was on the CPUs of the ends, in lanes whose spans follow each other.

use super::names::{Class, Id, Names};
use super::watch::{Event, Task, What};

/// Interrupts within interrupts, and softirqs below them; deeper ones are not told apart.
const DEPTH_MAX: usize = 8;
/// The kernel thread that carries on with softirqs: it is part of a path wherever it runs.
const SOFTIRQ_THREAD: &str = "ksoftirqd/";
/// A thread of the measurement that was where the other one wanted to run.
const OTHER_END: &str = "the other end, on the same CPU";

/// A cause from one moment to another, CLOCK_MONOTONIC_RAW; both the same where its duration is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) id: Id,
}

/// An end on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Its thread.
    pub(super) tid: u32,
    /// The CPU that it is pinned to, or was on last.
    pub(super) cpu: u32,
    /// Set if it is pinned there.
    pub(super) is_pinned: bool,
}

/// Lanes of spans in time order that do not overlap within a lane.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<Vec<Span>>);

impl Lanes {
    /// Finds what was where the ends were. `events` are in time order; only events between `begin` and `end` count.
    pub(super) fn of(events: &[Event], ends: &[End], (begin, end): (u64, u64), names: &mut Names) -> Self {
        let other = names.id(Class::Task, OTHER_END);
        let courses: Vec<Course> = ends.iter().map(|one| Course::of(one, events, (begin, end))).collect();
        let mut cpus: Vec<u32> = courses.iter().flat_map(|course| course.homes.iter().map(|home| home.cpu)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let mut lanes = Vec::new();
        let mut waits: Vec<Vec<Span>> = vec![Vec::new(); ends.len()];
        for cpu in cpus {
            let done = segments(events, cpu, (begin, end));
            let here = union(courses.iter().flat_map(|course| course.times_on(cpu)).collect());
            let always = |segment: &Segment| match segment.who {
                Who::Kernel(_) => true,
                Who::Task(task) => names.what(task.name).starts_with(SOFTIRQ_THREAD),
            };
            lanes.push(clip(done.iter().filter(|segment| always(segment)), &here, |who| Some(who.id())));
            for (waits, (course, one)) in waits.iter_mut().zip(courses.iter().zip(ends)) {
                let waiting = intersection(&course.waits, &course.times_on(cpu));
                let name = |who: Who| match who {
                    Who::Task(task) if task.tid == one.tid => None,
                    Who::Task(task) if ends.iter().any(|end| end.tid == task.tid) => Some(other),
                    who => Some(who.id()),
                };
                waits.extend(clip(done.iter().filter(|segment| !always(segment)), &waiting, name));
            }
        }
        // Woken on one CPU and run on another: the parts of a wait were found CPU by CPU.
        waits.iter_mut().for_each(|waits| waits.sort_by_key(|span| span.from));
        lanes.append(&mut waits);
        lanes.push(points(events, ends, &courses));
        Self(lanes)
    }

    /// The spans that reach into an interval, cut to it.
    pub(super) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = Span> + '_ {
        self.0.iter().flat_map(move |lane| {
            let first = lane.partition_point(|span| span.to < from);
            let reaching = lane[first..].iter().take_while(move |span| span.from < to);
            reaching.map(move |span| Span { from: span.from.max(from), to: span.to.min(to), id: span.id })
        })
    }
}

/// Where an end was, and when it waited for the CPU.
#[derive(Debug, Default)]
struct Course {
    homes: Vec<Home>,
    waits: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Home {
    from: u64,
    to: u64,
    cpu: u32,
}

impl Course {
    fn of(one: &End, events: &[Event], (begin, end): (u64, u64)) -> Self {
        let mut course = Self::default();
        let first = if one.is_pinned { one.cpu } else { first_cpu(one.tid, events).unwrap_or(one.cpu) };
        let (mut cpu, mut since) = (first, begin);
        let (mut waiting, mut sleeps): (Option<u64>, bool) = (None, false);
        for event in events {
            let at = event.ns.clamp(begin, end);
            let place = match event.what {
                What::Switch { from, could_go_on, to } if from.tid == one.tid && to.tid != one.tid => {
                    waiting = could_go_on.then_some(at);
                    sleeps = !could_go_on;
                    event.cpu
                }
                What::Switch { to, .. } if to.tid == one.tid => {
                    sleeps = false;
                    course.waits.extend(waiting.take().map(|from| (from, at)));
                    event.cpu
                }
                // One that has not yet gone to sleep goes on.
                What::Woken(tid) if tid == one.tid && sleeps => {
                    waiting = waiting.or(Some(at));
                    cpu
                }
                What::Moved { tid, to } if tid == one.tid => to,
                _ => continue,
            };
            if place != cpu {
                course.homes.push(Home { from: since, to: at, cpu });
                (cpu, since) = (place, at);
            }
        }
        course.homes.push(Home { from: since, to: end, cpu });
        course.waits.extend(waiting.map(|from| (from, end)));
        course
    }

    fn times_on(&self, cpu: u32) -> Vec<(u64, u64)> {
        self.homes.iter().filter(|home| home.cpu == cpu).map(|home| (home.from, home.to)).collect()
    }

    fn is_on(&self, cpu: u32, at: u64) -> bool {
        self.homes.iter().any(|home| home.cpu == cpu && home.from <= at && at <= home.to)
    }
}

fn first_cpu(tid: u32, events: &[Event]) -> Option<u32> {
    events.iter().find_map(|event| match event.what {
        What::Switch { from, to, .. } if from.tid == tid || to.tid == tid => Some(event.cpu),
        _ => None,
    })
}

/// What a CPU did from one moment to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    from: u64,
    to: u64,
    who: Who,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Kernel(Id),
    Task(Task),
}

impl Who {
    fn id(self) -> Id {
        match self {
            Self::Kernel(id) => id,
            Self::Task(task) => task.name,
        }
    }
}

/// Divides the time of a CPU: the innermost interrupt or softirq has it, else the task, where it is known.
fn segments(events: &[Event], cpu: u32, (begin, end): (u64, u64)) -> Vec<Segment> {
    let first = events.iter().find_map(|event| match event.what {
        What::Switch { from, .. } if event.cpu == cpu => Some(from),
        _ => None,
    });
    let mut now = Now { since: begin, task: first, nested: Vec::new(), done: Vec::new() };
    for event in events.iter().filter(|event| event.cpu == cpu) {
        now.take(event.what, event.ns.clamp(begin, end));
    }
    now.close(end);
    now.done
}

/// A CPU on its way through its events.
struct Now {
    since: u64,
    task: Option<Task>,
    nested: Vec<(Class, Id)>,
    done: Vec<Segment>,
}

impl Now {
    fn take(&mut self, what: What, at: u64) {
        match what {
            What::Enter(class, id) => {
                self.close(at);
                if self.nested.len() < DEPTH_MAX {
                    self.nested.push((class, id));
                }
            }
            What::Exit(class) => {
                self.close(at);
                // An exit without its entry belongs to what began before the record did.
                if let Some(place) = self.nested.iter().rposition(|(known, _)| *known == class) {
                    self.nested.truncate(place);
                }
            }
            What::Switch { to, .. } => {
                self.close(at);
                // No interrupt is left by a switch of tasks: what still stands here has lost its exit.
                self.nested.clear();
                self.task = Some(to);
            }
            What::Nmi { id, ns } => {
                self.close(at.saturating_sub(ns));
                self.end_segment(at, Some(Who::Kernel(id)));
            }
            What::Woken(_) | What::Moved { .. } | What::Point { .. } => {}
        }
    }

    /// Ends what the CPU was at.
    fn close(&mut self, at: u64) {
        let who = self.nested.last().map(|(_, id)| Who::Kernel(*id)).or(self.task.map(Who::Task));
        self.end_segment(at, who);
    }

    fn end_segment(&mut self, at: u64, who: Option<Who>) {
        // An event that is older than the one before it takes no time.
        let from = self.since;
        if from < at {
            self.done.extend(who.map(|who| Segment { from, to: at, who }));
            self.since = at;
        }
    }
}

/// The parts of segments that lie in `times`, under the names that `name` gives them.
fn clip<'a>(
    segments: impl Iterator<Item = &'a Segment>,
    times: &[(u64, u64)],
    name: impl Fn(Who) -> Option<Id>,
) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut first = 0;
    for segment in segments {
        let Some(id) = name(segment.who) else { continue };
        first += times[first..].iter().take_while(|(_, to)| *to <= segment.from).count();
        for (from, to) in times[first..].iter().take_while(|(from, _)| *from < segment.to) {
            spans.push(Span { from: segment.from.max(*from), to: segment.to.min(*to), id });
        }
    }
    spans
}

/// Events without a duration: those of an end, and those of a CPU while an end was there.
fn points(events: &[Event], ends: &[End], courses: &[Course]) -> Vec<Span> {
    let point = |event: &Event| match event.what {
        What::Point { id, tid: Some(tid) } => ends.iter().any(|end| end.tid == tid).then_some(id),
        What::Point { id, tid: None } => courses.iter().any(|course| course.is_on(event.cpu, event.ns)).then_some(id),
        _ => None,
    };
    events.iter().filter_map(|event| Some(Span { from: event.ns, to: event.ns, id: point(event)? })).collect()
}

/// Times in order, without overlaps.
fn union(mut times: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    times.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (from, to) in times {
        match union.last_mut() {
            Some((_, last)) if from <= *last => *last = to.max(*last),
            _ => union.push((from, to)),
        }
    }
    union
}

/// What two lists of times have in common; each is in order and without overlaps.
fn intersection(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut both = Vec::new();
    let mut first = 0;
    for (from, to) in one {
        first += other[first..].iter().take_while(|(_, end)| end <= from).count();
        let reaching = other[first..].iter().take_while(|(begin, _)| begin < to);
        both.extend(reaching.map(|(begin, end)| (*from.max(begin), *to.min(end))));
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: End = End { tid: 7, cpu: 0, is_pinned: true };
    const PEER: End = End { tid: 8, cpu: 1, is_pinned: true };

    struct Script {
        names: Names,
        events: Vec<Event>,
    }

    impl Script {
        fn new() -> Self {
            Self { names: Names::default(), events: Vec::new() }
        }

        fn add(&mut self, ns: u64, cpu: u32, what: What) -> &mut Self {
            self.events.push(Event { ns, cpu, what });
            self
        }

        fn task(&mut self, tid: u32, name: &str) -> Task {
            Task { tid, name: self.names.id(if tid == 0 { Class::Idle } else { Class::Task }, name) }
        }

        fn spans(&mut self, ends: &[End], from: u64, to: u64) -> Vec<(String, u64, u64)> {
            let lanes = Lanes::of(&self.events, ends, (0, 1000), &mut self.names);
            let mut spans: Vec<_> = lanes.within(from, to).collect();
            spans.sort_by_key(|span| (span.from, span.to));
            spans.iter().map(|span| (self.names.what(span.id).to_owned(), span.from, span.to)).collect()
        }
    }

    fn named(wanted: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
        wanted.iter().map(|(name, from, to)| ((*name).to_owned(), *from, *to)).collect()
    }

    #[test]
    fn the_innermost_interrupt_has_the_time() {
        let mut script = Script::new();
        let softirq = script.names.id(Class::Softirq, "NET_RX");
        let timer = script.names.id(Class::Interrupt, "local timer");
        script
            .add(100, 0, What::Enter(Class::Softirq, softirq))
            .add(120, 0, What::Enter(Class::Interrupt, timer))
            .add(130, 0, What::Exit(Class::Interrupt))
            .add(150, 0, What::Exit(Class::Softirq))
            .add(160, 5, What::Enter(Class::Interrupt, timer));
        let wanted = [("NET_RX", 110, 120), ("local timer", 120, 130), ("NET_RX", 130, 150)];
        assert_eq!(script.spans(&[US], 110, 400), named(&wanted), "cut to the interval, and only where an end is");
    }

    #[test]
    fn a_task_counts_only_while_an_end_waits_for_its_cpu() {
        let mut script = Script::new();
        let (ours, other, idle) = (script.task(7, "bench"), script.task(50, "kworker/0:1"), script.task(0, "idle"));
        script
            // Preempted from 100 to 140.
            .add(100, 0, What::Switch { from: ours, could_go_on: true, to: other })
            .add(140, 0, What::Switch { from: other, could_go_on: false, to: ours })
            // It sleeps from 200 on, is woken at 260 and runs at 280.
            .add(200, 0, What::Switch { from: ours, could_go_on: false, to: other })
            .add(250, 0, What::Switch { from: other, could_go_on: false, to: idle })
            .add(260, 1, What::Woken(7))
            .add(280, 0, What::Switch { from: idle, could_go_on: true, to: ours });
        assert_eq!(script.spans(&[US], 0, 1000), named(&[("kworker/0:1", 100, 140), ("idle", 260, 280)]));
    }

    #[test]
    fn an_end_that_is_woken_while_it_runs_does_not_wait() {
        let mut script = Script::new();
        let (ours, other) = (script.task(7, "bench"), script.task(50, "kworker/0:1"));
        script
            .add(50, 1, What::Woken(7))
            .add(100, 0, What::Switch { from: ours, could_go_on: false, to: other })
            .add(150, 1, What::Woken(7))
            // As its CPU has seen it, later.
            .add(170, 0, What::Woken(7))
            .add(200, 0, What::Switch { from: other, could_go_on: false, to: ours });
        assert_eq!(script.spans(&[US], 0, 1000), named(&[("kworker/0:1", 150, 200)]));
    }

    #[test]
    fn softirqs_go_on_in_their_thread_while_an_end_sleeps() {
        let mut script = Script::new();
        let (ours, thread) = (script.task(7, "bench"), script.task(20, "ksoftirqd/0"));
        script.add(100, 0, What::Switch { from: ours, could_go_on: false, to: thread }).add(
            300,
            0,
            What::Switch { from: thread, could_go_on: false, to: ours },
        );
        assert_eq!(script.spans(&[US], 0, 1000), named(&[("ksoftirqd/0", 100, 300)]));
    }

    #[test]
    fn an_end_that_moves_is_followed_and_the_other_end_is_named() {
        let mut script = Script::new();
        let free = End { is_pinned: false, ..US };
        let (ours, theirs, idle) = (script.task(7, "bench"), script.task(8, "bench"), script.task(0, "idle"));
        let timer = script.names.id(Class::Interrupt, "local timer");
        let moved = script.names.id(Class::Event, "migration");
        script
            .add(50, 0, What::Enter(Class::Interrupt, timer))
            .add(60, 0, What::Exit(Class::Interrupt))
            .add(100, 0, What::Switch { from: ours, could_go_on: false, to: theirs })
            .add(110, 0, What::Woken(7))
            .add(120, 0, What::Moved { tid: 7, to: 1 })
            .add(120, 0, What::Point { id: moved, tid: Some(7) })
            .add(121, 0, What::Point { id: moved, tid: Some(9) })
            .add(140, 1, What::Switch { from: idle, could_go_on: true, to: ours })
            .add(300, 0, What::Enter(Class::Interrupt, timer))
            .add(310, 0, What::Exit(Class::Interrupt))
            .add(400, 1, What::Enter(Class::Interrupt, timer))
            .add(420, 1, What::Exit(Class::Interrupt));
        let spans = script.spans(&[free], 0, 1000);
        let wanted = [
            ("local timer", 50, 60),
            ("bench", 110, 120),
            ("migration", 120, 120),
            ("idle", 120, 140),
            ("local timer", 400, 420),
        ];
        assert_eq!(spans, named(&wanted));
        let both = script.spans(&[free, End { is_pinned: false, ..PEER }], 100, 115);
        assert_eq!(both, named(&[(OTHER_END, 110, 115)]));
    }

    proptest! {
        #[test]
        fn any_events_make_spans_in_order(
            raw in proptest::collection::vec((0_u64..1000, 0_u32..3, 0_u32..7, 0_u32..4), 0..60)
        ) {
            let mut script = Script::new();
            let ids: Vec<_> = (0..4).map(|i| script.names.id(Class::Task, &format!("t{i}"))).collect();
            let mut raw = raw;
            raw.sort_unstable();
            for (ns, cpu, kind, x) in raw {
                let task = |tid: u32| Task { tid: tid + 6, name: ids[tid as usize % 4] };
                script.add(ns, cpu, match kind {
                    0 => What::Enter(Class::Interrupt, ids[x as usize]),
                    1 => What::Exit(Class::Interrupt),
                    2 => What::Switch { from: task(x), could_go_on: ns % 2 == 0, to: task((x + 1) % 4) },
                    3 => What::Woken(x + 6),
                    4 => What::Moved { tid: x + 6, to: x },
                    5 => What::Nmi { id: ids[0], ns: ns / 2 },
                    _ => What::Point { id: ids[1], tid: None },
                });
            }
            let free = End { is_pinned: false, ..US };
            let lanes = Lanes::of(&script.events, &[free, PEER], (100, 900), &mut script.names);
            for lane in &lanes.0 {
                prop_assert!(lane.iter().all(|span| span.from <= span.to));
                prop_assert!(lane.windows(2).all(|pair| pair[0].to <= pair[1].from), "{lane:?}");
            }
            prop_assert!(lanes.within(300, 400).all(|span| 300 <= span.from && span.from <= span.to && span.to <= 400));
        }
    }
}

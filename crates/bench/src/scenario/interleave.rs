//! Arms measured in turn, A B C C B A, repeatedly, so that disturbances of the host affect all alike.
//!
//! Every round takes each arm twice, forward and back. The two passes are the arm's A/A control: their
//! difference is the noise of this host.

use super::arm::{Arm, Rung};
use super::budget::{Budget, SLICE_MIN};
use super::irq::IrqPins;
use super::ratio::{self, Baseline};
use super::record::Direction;
use super::{Findings, Progress, Switch};
use crate::causes::Observer;
use crate::measure::{Bench, settling_time};
use crate::stages::{Stamper, Stamping};
use sidestep_report::schema::Row;
use sidestep_sys::Problem;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Length of one slice. Long enough for hundreds of blocking round trips, short enough for tens of rounds.
const SLICE: Duration = Duration::from_millis(50);
/// Time to open and close a slice, besides settling, for the estimate.
pub(crate) const SLICE_OVERHEAD_MS: u64 = 8;
/// Fewer rounds than this give no interval worth the name.
pub(crate) const ROUNDS_MIN: u32 = 8;
/// Time after which the death of a peer shows on its control connection, too.
const DEATH_SHOWS: Duration = Duration::from_millis(100);
/// Length of a warm-up window.
pub(crate) const WINDOW: Duration = Duration::from_millis(25);

/// The division of the time into rounds and slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rounds; each takes every arm twice.
    pub rounds: u32,
    /// Length of one slice.
    pub slice: Duration,
}

impl Pace {
    /// Divides `per_arm`, the time each arm is measured for.
    pub(crate) fn of(per_arm: Duration) -> Self {
        let slice = SLICE.min(per_arm / (2 * ROUNDS_MIN)).max(Duration::from_millis(1));
        let rounds = (per_arm.as_secs_f64() / (2.0 * slice.as_secs_f64())).round() as u32;
        Self { rounds: rounds.max(ROUNDS_MIN), slice }
    }

    /// The same for streams over an impaired wire: as few and as long slices as an interval needs, as each begins with slow start.
    pub(crate) fn of_few(per_arm: Duration) -> Self {
        Self { rounds: ROUNDS_MIN, slice: (per_arm / (2 * ROUNDS_MIN)).max(Duration::from_millis(1)) }
    }

    /// The same time in shorter slices where a run has to end at a time: an interval and a control need rounds more than long slices.
    fn within(self, budget: Budget) -> Self {
        let slice = self.slice.min(SLICE_MIN);
        let rounds = self.rounds.saturating_mul((self.slice.as_millis() / slice.as_millis().max(1)) as u32);
        if budget.left().is_some() && slice > Duration::ZERO { Self { rounds, slice } } else { self }
    }

    /// Returns the expected time of `arm`, warm-up included.
    fn expected_ms(self, arm: &Arm) -> u64 {
        let around_ms = settling_time(arm.target.path.waiting).as_millis() as u64 + SLICE_OVERHEAD_MS;
        let slices = 2 * u64::from(self.rounds);
        slices * (self.slice.as_millis() as u64 + around_ms) + 5 * (WINDOW.as_millis() as u64 + around_ms)
    }
}

/// Measures arms in turn.
pub(crate) struct Interleave<'a> {
    pub(super) bench: &'a mut Bench,
    progress: &'a mut dyn Progress,
    irqs: Option<IrqPins>,
    switches: &'a mut [Switch],
    /// CPU of the measuring end, where no rung wants another.
    client_cpu: u32,
    baseline: Baseline,
    /// Set if the host is to be observed in rounds of their own.
    observes: bool,
    /// What was observed.
    pub(super) observer: Option<Observer>,
    /// How messages are to be stamped, in rounds of their own.
    stamping: Option<Stamping>,
    /// What stamped them.
    pub(super) stamper: Option<Stamper>,
}

impl<'a> Interleave<'a> {
    /// With the interface's interrupts, where a rung moves them.
    pub(crate) fn new(bench: &'a mut Bench, progress: &'a mut dyn Progress, irqs: Option<IrqPins>) -> Self {
        let client_cpu = bench.cpus.client;
        Self {
            bench,
            progress,
            irqs,
            switches: &mut [],
            client_cpu,
            baseline: Baseline::Steady,
            observes: false,
            observer: None,
            stamping: None,
            stamper: None,
        }
    }

    /// With changes of the host that rungs name by their place in this list.
    #[must_use]
    pub(crate) fn switching(mut self, switches: &'a mut [Switch]) -> Self {
        self.switches = switches;
        self
    }

    /// Compares all with the first arm, whatever it is.
    #[must_use]
    pub(crate) fn against_first(mut self) -> Self {
        self.baseline = Baseline::First;
        self
    }

    /// With as many rounds more in which the host is observed, if `observes`.
    #[must_use]
    pub(crate) fn observing(mut self, observes: bool) -> Self {
        self.observes = observes;
        self
    }

    /// With as many rounds more in which messages are stamped, if they are.
    #[must_use]
    pub(crate) fn stamping(mut self, stamping: Option<Stamping>) -> Self {
        self.stamping = stamping;
        self
    }

    /// Measures `arms` and gives their rows.
    pub(crate) fn run(&mut self, mut arms: Vec<Arm>, pace: Pace) -> Findings {
        let pace = pace.within(self.bench.budget);
        let runnable = arms.iter().filter(|arm| arm.is_possible());
        let expected_ms: u64 = runnable.map(|arm| pace.expected_ms(arm)).sum();
        let expected_ms = expected_ms * (1 + u64::from(self.observes) + u64::from(self.stamping.is_some()));
        let expected_ms = self.bench.budget.expected_ms(expected_ms);
        self.progress.begin(arms.first().map_or("", |arm| arm.record.key.scenario), expected_ms);
        let problem = self.warm_up(&mut arms, pace).and_then(|()| self.all_rounds(&mut arms, pace)).err();
        self.progress.end();
        self.bench.cpus.client = self.client_cpu;
        if problem.is_none() {
            arms.iter_mut().for_each(|arm| arm.record.refuse_if_empty());
        }
        Findings {
            rows: arms.iter().filter_map(|arm| self.row(arm)).collect(),
            ratios: ratio::of_arms(&arms, self.baseline),
            unavailable: arms.iter().filter_map(Arm::unavailable).collect(),
            problem,
            ..Findings::default()
        }
    }

    /// Runs each arm until its median has settled, and measures its first slice, so that a run that is stopped early has something of
    /// each; an arm that cannot run at all is set aside with its reason.
    fn warm_up(&mut self, arms: &mut [Arm], pace: Pace) -> Result<(), Problem> {
        let longest = self.bench.budget.warm_up(arms.len());
        self.bench.take_yardstick();
        for arm in arms.iter_mut().filter(|arm| arm.is_possible()) {
            let begin = Instant::now();
            match self.warm_up_arm(arm, longest.map(|longest| begin + longest)) {
                Ok(()) => arm.record.warmup.ms = begin.elapsed().as_secs_f64() * 1e3,
                Err(problem) if self.is_alive() => arm.record.refuse(problem.brief()),
                Err(problem) => return Err(problem),
            }
            self.advance(&arm.label(), begin);
            self.slice(arm, pace.slice, Direction::Forward)?;
        }
        Ok(())
    }

    fn warm_up_arm(&mut self, arm: &mut Arm, end: Option<Instant>) -> Result<(), Problem> {
        let (target, rung) = (arm.target, arm.rung.clone());
        arm.record.warm_up_until(end, || {
            self.check_stop()?;
            self.prepare(rung.as_ref())?;
            let trips = self.bench.round_trips(target, WINDOW)?;
            Ok((trips.settling + trips.slice.len(), trips.slice.p50()))
        })
    }

    fn row(&self, arm: &Arm) -> Option<Row> {
        Some(arm.divide(arm.explain(arm.row()?, self.observer.as_ref()), self.stamper.as_ref()))
    }

    /// The rounds that count; where others are asked for, half of them before those and half afterwards.
    fn all_rounds(&mut self, arms: &mut [Arm], pace: Pace) -> Result<(), Problem> {
        if !self.observes && self.stamping.is_none() {
            return self.rounds(arms, pace, 0..pace.rounds);
        }
        let before = pace.rounds / 2;
        self.rounds(arms, pace, 0..before)?;
        if self.observes {
            self.observe(arms, pace)?;
        }
        if let Some(stamping) = self.stamping {
            self.stamp(arms, pace, stamping)?;
        }
        self.rounds(arms, pace, before..pace.rounds)
    }

    /// Some of the rounds of a run. The forward passes of the first one came with the warm-up.
    fn rounds(&mut self, arms: &mut [Arm], pace: Pace, numbers: Range<u32>) -> Result<(), Problem> {
        let mut round = Duration::ZERO;
        for number in numbers {
            if number > 1 && !self.bench.budget.has_room_for(round) {
                break;
            }
            let begin = Instant::now();
            if number > 0 {
                self.bench.take_yardstick();
                for arm in arms.iter_mut() {
                    self.slice(arm, pace.slice, Direction::Forward)?;
                }
            }
            for arm in arms.iter_mut().rev() {
                self.slice(arm, pace.slice, Direction::Backward)?;
            }
            round = begin.elapsed();
        }
        Ok(())
    }

    fn slice(&mut self, arm: &mut Arm, duration: Duration, direction: Direction) -> Result<(), Problem> {
        if !arm.is_possible() {
            return Ok(());
        }
        self.check_stop()?;
        let begin = Instant::now();
        self.prepare(arm.rung.as_ref())?;
        match self.bench.round_trips(arm.target, duration) {
            Ok(mut trips) => {
                if self.bench.ends().same_host {
                    trips.slice.ran_on(trips.cpu.here.last_cpu, trips.cpu.peer.last_cpu);
                }
                arm.take(direction, trips);
            }
            // One that fails says nothing about the others; what it has until then is not shown.
            Err(problem) if self.goes_on() => arm.record.refuse(problem.brief()),
            Err(problem) => return Err(problem),
        }
        self.advance(&arm.label(), begin);
        Ok(())
    }

    /// Puts CPU, interrupts and settings where the arm's rung wants them, or where they belong.
    pub(super) fn prepare(&mut self, rung: Option<&Rung>) -> Result<(), Problem> {
        for (place, switch) in self.switches.iter_mut().enumerate() {
            switch.turn(rung.is_some_and(|rung| rung.switches.contains(&place)))?;
        }
        let cpu = rung.and_then(|rung| rung.cpu).unwrap_or(self.client_cpu);
        self.bench.cpus.client = cpu;
        match &mut self.irqs {
            Some(irqs) if rung.is_some_and(|rung| rung.irq) => irqs.pin(cpu),
            Some(irqs) => irqs.restore(),
            None => Ok(()),
        }
    }

    /// Returns whether the run goes on without an arm that failed in mid-run. A peer that dies closes what it measured with
    /// before, or after, its control connection.
    pub(super) fn goes_on(&self) -> bool {
        std::thread::sleep(DEATH_SHOWS);
        self.is_alive()
    }

    pub(super) fn check_stop(&self) -> Result<(), Problem> {
        if self.bench.is_stopped() { Err(interrupted()) } else { Ok(()) }
    }

    /// Returns whether the run can go on after an arm failed.
    fn is_alive(&self) -> bool {
        !self.bench.is_stopped() && !self.bench.ends().control.is_closed()
    }

    pub(super) fn advance(&mut self, label: &str, begin: Instant) {
        self.progress.advance(label, begin.elapsed().as_millis() as u64);
    }
}

/// A signal ended the run; the command line names it.
pub(crate) fn interrupted() -> Problem {
    Problem::new(sidestep_sys::Kind::Interrupted, "stopped", "a signal")
        .next("the rows hold what was measured until then")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_into_rounds() {
        let long = Pace::of(Duration::from_secs(2));
        assert_eq!((long.rounds, long.slice), (20, SLICE));
        let short = Pace::of(Duration::from_millis(160));
        assert_eq!((short.rounds, short.slice), (ROUNDS_MIN, Duration::from_millis(10)));
        let none = Pace::of(Duration::ZERO);
        assert_eq!((none.rounds, none.slice), (ROUNDS_MIN, Duration::from_millis(1)));
        let now = Instant::now();
        let limited = Budget::share(now, Some(now + Duration::from_secs(9)), &[Duration::from_secs(1)]);
        let within = long.within(limited);
        assert_eq!((within.rounds, within.slice), (40, SLICE_MIN));
        assert_eq!(none.within(limited).slice, none.slice);
        assert_eq!(long.within(Budget::default()).rounds, long.rounds);
    }
}

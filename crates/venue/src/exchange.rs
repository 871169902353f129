//! A day of the exchange without its doors: the opening, the load at its pace, the end.

use crate::core::Core;
use crate::load::{Load, LoadSettings, Pace, Profile, Recording};
use crate::matching::{Limits, Matching};
use crate::service::Time;

/// Messages per second of the opening: the directory, and the orders that stand in the books before trading.
pub const OPENING_RATE: u64 = 200_000;

/// Messages of the load in one call of [`Day::poll`]: what comes from outside waits no longer than they take, about 0.5 ms.
pub const STEPS_MAX: usize = 512;

/// Settings of a day.
#[derive(Debug, Clone, Copy)]
pub struct DaySettings {
    /// The load.
    pub load: LoadSettings,
    /// The course of its rate.
    pub profile: Profile,
    /// Messages per second of the steady profile; 0: no load after the opening.
    pub rate: u64,
    /// How many times faster than the profile's times messages come, 1 to 1,000.
    pub speed: u64,
    /// Messages that are kept for re-requests.
    pub history: usize,
    /// Bounds of the books.
    pub limits: Limits,
}

/// The part of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Begins,
    Lists(u16),
    Fills,
    Trades,
    Replays,
    Closed,
}

/// Where the orders of the load come from.
#[derive(Debug)]
enum Source {
    Made { load: Box<Load>, pace: Pace },
    Recorded(Box<Recording>),
}

/// A day of trading.
#[derive(Debug)]
pub struct Day {
    /// The books, and the messages that came of them.
    pub core: Core,
    source: Source,
    settings: DaySettings,
    part: Part,
    /// When this part has begun, ns.
    since_ns: u64,
    /// ns since then at which the next message of the load is due.
    due_ns: u64,
    steps: u64,
    late_max_ns: u64,
}

impl Day {
    /// A day that begins now.
    pub fn new(settings: &DaySettings, now_ns: u64) -> Self {
        let matching = Matching::new(Load::symbols(&settings.load), settings.limits);
        let load = Box::new(Load::new(&settings.load));
        let pace = Pace::new(settings.profile, settings.rate.max(1), settings.load.seed);
        Self::of(Source::Made { load, pace }, matching, settings, now_ns)
    }

    /// A recorded day that begins now. It has the instruments, orders and times of the recording; load, profile, rate and speed of the
    /// settings are not looked at. It is over with the recording.
    pub fn recorded(recording: Recording, settings: &DaySettings, now_ns: u64) -> Self {
        let matching = Matching::new([], settings.limits);
        Self::of(Source::Recorded(Box::new(recording)), matching, settings, now_ns)
    }

    fn of(source: Source, matching: Matching, settings: &DaySettings, now_ns: u64) -> Self {
        Self {
            core: Core::new(matching, settings.history),
            source,
            settings: *settings,
            part: Part::Begins,
            since_ns: now_ns,
            due_ns: 0,
            steps: 0,
            late_max_ns: 0,
        }
    }

    /// Does what is due. Returns the messages of the opening or the load that were published.
    pub fn poll(&mut self, time: Time) -> usize {
        let mut steps = 0;
        while steps < STEPS_MAX {
            if let (Part::Replays, Source::Recorded(recording)) = (self.part, &mut self.source) {
                recording.fetch();
            }
            if !self.is_due(time.mono_ns) {
                break;
            }
            self.step(time);
            steps += 1;
        }
        steps
    }

    /// ns until the next message is due; `None` if none will be.
    pub fn due_in_ns(&self, now_ns: u64) -> Option<u64> {
        let due_ns = match (self.part, &self.source) {
            (Part::Closed, _) => None,
            (Part::Trades, _) => (self.settings.rate > 0).then_some(self.due_ns),
            (Part::Replays, Source::Recorded(recording)) => recording.due_ns(now_ns.saturating_sub(self.since_ns)),
            _ => Some(self.due_ns),
        };
        due_ns.map(|due_ns| (self.since_ns + due_ns).saturating_sub(now_ns))
    }

    /// True from the start of market hours, or of a recording's times, to the end.
    pub fn is_trading(&self) -> bool {
        match self.part {
            Part::Trades => true,
            Part::Replays => self.recording().is_some_and(Recording::is_trading),
            _ => false,
        }
    }

    /// True when a recording has nothing more. A load that is made never ends.
    pub fn is_over(&self) -> bool {
        self.recording().is_some_and(Recording::is_over)
    }

    /// The recording.
    pub fn recording(&self) -> Option<&Recording> {
        match &self.source {
            Source::Recorded(recording) => Some(recording),
            Source::Made { .. } => None,
        }
    }

    /// Messages of the load since it is [trading](Self::is_trading).
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How late a message of the load was at most, ns.
    pub fn late_max_ns(&self) -> u64 {
        self.late_max_ns
    }

    /// Ends the day: the last events. Orders are not matched by a load any more.
    pub fn close(&mut self, time: Time) {
        if self.part != Part::Closed {
            self.part = Part::Closed;
            self.core.matching.close(time.day_ns, &mut self.core.output);
        }
    }

    fn is_due(&self, now_ns: u64) -> bool {
        self.due_in_ns(now_ns) == Some(0)
    }

    fn step(&mut self, time: Time) {
        match (self.part, &mut self.source) {
            (Part::Closed, _) => {}
            (Part::Begins, source) => {
                self.core.matching.begin(time.day_ns, &mut self.core.output);
                let is_recorded = matches!(source, Source::Recorded(_));
                self.part = if is_recorded { Part::Replays } else { Part::Lists(1) };
                self.due_ns += 1_000_000_000 / OPENING_RATE;
            }
            (_, Source::Recorded(recording)) => {
                if recording.is_trading() {
                    self.steps += 1;
                    let due_ns = recording.due_ns(0).unwrap_or_default();
                    self.late_max_ns = self.late_max_ns.max(time.mono_ns.saturating_sub(self.since_ns + due_ns));
                }
                recording.step(time.day_ns, &mut self.core);
            }
            (_, Source::Made { .. }) => self.step_of_load(time),
        }
    }

    /// One message of the opening or of the load that is made.
    fn step_of_load(&mut self, time: Time) {
        let Source::Made { load, .. } = &mut self.source else { return };
        let Core { matching, output, .. } = &mut self.core;
        match self.part {
            Part::Lists(locate) if usize::from(locate) <= matching.instruments() => {
                matching.list(time.day_ns, locate, output);
                self.part = if locate < u16::MAX { Part::Lists(locate + 1) } else { Part::Fills };
            }
            Part::Lists(_) => self.part = Part::Fills,
            Part::Fills if load.open(time.day_ns, matching, output) => {}
            Part::Fills => {
                matching.start(time.day_ns, output);
                (self.part, self.since_ns) = (Part::Trades, time.mono_ns);
                self.due_ns = self.next_due_ns();
                return;
            }
            Part::Trades => {
                self.late_max_ns = self.late_max_ns.max(time.mono_ns - self.since_ns - self.due_ns);
                load.step(time.day_ns, matching, output);
                self.steps += 1;
                self.due_ns = self.next_due_ns();
                return;
            }
            Part::Begins | Part::Replays | Part::Closed => return,
        }
        self.due_ns += 1_000_000_000 / OPENING_RATE;
    }

    fn next_due_ns(&mut self) -> u64 {
        match &mut self.source {
            Source::Made { pace, .. } => pace.next_due_ns() / self.settings.speed.max(1),
            Source::Recorded(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive::Naive;

    fn settings() -> DaySettings {
        DaySettings {
            load: LoadSettings { seed: 5, symbols: 20, live_orders: 400 },
            profile: Profile::Steady,
            rate: 100_000,
            speed: 2,
            history: 100_000,
            limits: Limits { orders: 10_000, levels: 1_000 },
        }
    }

    fn run(settings: &DaySettings, until_ns: u64) -> Day {
        let mut day = Day::new(settings, 0);
        let mut now_ns = 0;
        while now_ns < until_ns {
            now_ns += 50_000;
            day.poll(Time { mono_ns: now_ns, day_ns: now_ns });
        }
        day
    }

    #[test]
    fn a_day_opens_trades_at_its_speed_and_closes() {
        let mut day = run(&settings(), 100_000_000);
        assert!(day.is_trading());
        assert!((17_500..20_500).contains(&day.steps()), "{}", day.steps());
        day.close(Time { mono_ns: 100_000_000, day_ns: 1 });
        assert_eq!(day.due_in_ns(200_000_000), None);
        let history = &day.core.output.history;
        let kinds: Vec<u8> = (1..history.next()).map(|sequence| history.message(sequence).unwrap()[0]).collect();
        assert_eq!((&kinds[..5], &kinds[kinds.len() - 3..]), (&b"SSRHR"[..], &b"SSS"[..]));
        let mut naive = Naive::default();
        (1..history.next()).for_each(|sequence| naive.apply(history.message(sequence).unwrap()));
        (1..=20).for_each(|locate| naive.assert_equal(&day.core.matching, locate));
    }

    #[test]
    fn without_a_rate_only_the_opening_is_published() {
        let day = run(&DaySettings { rate: 0, ..settings() }, 100_000_000);
        assert_eq!((day.steps(), day.due_in_ns(100_000_000)), (0, None));
        assert_eq!(day.core.output.history.next() - 1, 2 + 2 * 20 + day.core.matching.live() as u64 + 1);
    }

    #[test]
    fn a_day_that_is_behind_does_a_bounded_step_at_a_time() {
        let mut day = run(&settings(), 10_000_000);
        assert!(day.is_trading());
        let late = Time { mono_ns: 60_000_000_000, day_ns: 0 };
        assert_eq!(day.poll(late), STEPS_MAX);
        assert_eq!(day.poll(late), STEPS_MAX);
    }
}

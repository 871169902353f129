//! Pauses of the measuring CPU, without a step and with it in turn, for minutes: the way in which settings of daemons, timers and
//! the scheduler show. A median of round trips does not see what comes a few times an hour.

use super::decision::{Decision, Outcome};
use super::rates::{Counts, compare, pauses_needed, visible_ratio};
use crate::measure::{Bench, watch};
use crate::scenario::interleave::interrupted;
use crate::scenario::{Progress, Rung, Switch};
use sidestep_report::schema::Hiccups;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::time::{Duration, Instant};

/// The lengths from which on pauses are counted, each by itself: those that delay a message, a burst, a session.
const LENGTHS: [Duration; 3] = [Duration::from_micros(10), Duration::from_micros(100), Duration::from_millis(1)];
/// The level of significance of all lengths together; each has its share (Bonferroni).
const LEVEL: f64 = 0.05;
/// Length of a turn, and the least number of turns of an arm: their spread shows whether pauses come in clusters.
const TURN: Duration = Duration::from_secs(15);
const TURNS_MIN: u32 = 4;
/// Time without a look at Ctrl-C.
const LOOK: Duration = Duration::from_secs(1);
/// Time between a switch and the first look: the switch itself disturbs.
const SETTLE: Duration = Duration::from_millis(100);

/// What was seen of one arm.
#[derive(Clone, Debug, Default)]
pub(super) struct Arm {
    /// All pauses that the observer counts.
    pub(super) heard: Hiccups,
    /// Pauses of at least each length.
    counts: [Counts; LENGTHS.len()],
}

/// The arms: without the step, and with it.
pub(super) struct Arms<'a> {
    pub(super) bench: &'a Bench,
    pub(super) switches: &'a mut [Switch],
    pub(super) rungs: [&'a Rung; 2],
    /// Set if the switch wakes a daemon of the kernel, whose work is waited for.
    pub(super) wakes_daemon: bool,
}

impl Arms<'_> {
    /// Watches each arm for about `per_arm`, in the order A B B A.
    pub(super) fn watch(
        &mut self,
        name: &str,
        per_arm: Duration,
        progress: &mut dyn Progress,
    ) -> Result<[Arm; 2], Problem> {
        let turns = (per_arm.div_duration_f64(TURN).ceil() as u32).max(TURNS_MIN).next_multiple_of(2);
        let length = (per_arm / turns).max(Duration::from_millis(1));
        progress.begin("pauses", (2 * turns * (length + SETTLE)).as_millis() as u64);
        let mut arms = [Arm::default(), Arm::default()];
        let watched = (0..2 * turns).try_for_each(|turn| {
            let side = usize::from(matches!(turn % 4, 1 | 2));
            self.turn(&mut arms[side], side, length, name, progress)
        });
        progress.end();
        watched.map(|()| arms)
    }

    fn turn(
        &mut self,
        arm: &mut Arm,
        side: usize,
        length: Duration,
        name: &str,
        progress: &mut dyn Progress,
    ) -> Result<(), Problem> {
        let rung = self.rungs[side];
        for (place, switch) in self.switches.iter_mut().enumerate() {
            switch.turn(rung.switches.contains(&place))?;
        }
        std::thread::sleep(SETTLE);
        if self.wakes_daemon {
            super::settle::settle(|| self.bench.is_stopped())?;
        }
        let cpu = rung.cpu.unwrap_or(self.bench.cpus.client);
        let mut counted = [0; LENGTHS.len()];
        let mut left = length;
        while !left.is_zero() {
            if self.bench.is_stopped() {
                return Err(interrupted());
            }
            let (part, begin) = (left.min(LOOK), Instant::now());
            let heard = listen(&self.bench.clock, cpu, part, &mut counted)?;
            super::add(&mut arm.heard, &heard);
            arm.counts.iter_mut().for_each(|counts| counts.seconds += heard.watched_ms / 1e3);
            left -= part;
            progress.advance(name, begin.elapsed().as_millis() as u64);
        }
        arm.counts.iter_mut().zip(counted).for_each(|(counts, count)| counts.turns.push(count));
        Ok(())
    }
}

/// Watches a CPU from a thread of its own, as a thread does not leave the CPU that it was pinned to.
fn listen(clock: &Clock, cpu: u32, duration: Duration, counted: &mut [u64; LENGTHS.len()]) -> Result<Hiccups, Problem> {
    let count = |pause_ns: u64| {
        let lengths = LENGTHS.iter().zip(counted.iter_mut());
        lengths.filter(|(length, _)| u128::from(pause_ns) >= length.as_nanos()).for_each(|(_, count)| *count += 1);
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || watch(clock, cpu, duration, count));
        thread.join().unwrap_or_else(|_| Err(Problem::failed("cannot listen for pauses", "a thread died")))
    })
}

/// Decides by the rates of pauses of each length.
pub(super) fn decide([without, with]: &[Arm; 2]) -> Decision {
    let level = LEVEL / LENGTHS.len() as f64;
    let (mut fewer, mut more) = (Vec::new(), Vec::new());
    for ((length, before), after) in LENGTHS.iter().zip(&without.counts).zip(&with.counts) {
        let ratio = compare(before, after, level);
        let [low, high] = ratio.interval;
        let words = || {
            format!(
                "pauses of {length:?} or more: {:.0} an hour instead of {:.0}, ratio {:.2} ({low:.2} to {high:.2})",
                after.per_hour(),
                before.per_hour(),
                ratio.value,
            )
        };
        match () {
            () if high < 1.0 => fewer.push(words()),
            () if low > 1.0 => more.push(words()),
            () => {}
        }
    }
    let (outcome, reason) = match (fewer.is_empty(), more.is_empty()) {
        (false, true) => (Outcome::Kept, format!("fewer {}", fewer.join("; "))),
        (true, false) => (Outcome::Dropped, format!("more {}", more.join("; "))),
        (false, false) => (Outcome::Dropped, format!("more {}, though fewer {}", more.join("; "), fewer.join("; "))),
        (true, true) => undecided(without, with, level),
    };
    Decision { outcome, reason }
}

/// Tells "no difference" from "too short to see one", for each length: what would have been seen, or the time that it needs.
fn undecided(without: &Arm, with: &Arm, level: f64) -> (Outcome, String) {
    let (mut seen, mut unseen) = (Vec::new(), Vec::new());
    for ((length, before), after) in LENGTHS.iter().zip(&without.counts).zip(&with.counts) {
        match judged(*length, before, after, level) {
            Ok(words) => seen.push(words),
            Err(words) => unseen.push(words),
        }
    }
    if unseen.is_empty() {
        return (Outcome::Dropped, format!("no measurable difference here; {}", seen.join("; ")));
    }
    let rest = if seen.is_empty() { String::new() } else { format!("; no difference of others: {}", seen.join("; ")) };
    (Outcome::Unseen, format!("could not have been seen in this time: {} (--pause-time){rest}", unseen.join("; ")))
}

/// Returns what would have been seen of pauses of a length; Err has the time that it needs, if nothing would.
fn judged(length: Duration, before: &Counts, after: &Counts, level: f64) -> Result<String, String> {
    let ratio = compare(before, after, level);
    let pauses = ratio.count as f64 / 2.0 / ratio.dispersion;
    if let Some(visible) = visible_ratio(pauses, level) {
        let (drop, rates) = ((1.0 - visible) * 100.0, [before, after].map(Counts::per_hour));
        return Ok(format!(
            "pauses of {length:?} or more: {:.0} and {:.0} an hour, a drop of {drop:.0} % would have been seen in half of such runs",
            rates[0], rates[1]
        ));
    }
    let (needed, each) = (pauses_needed(level), Duration::from_secs_f64(before.seconds.max(0.0)));
    let time = match ratio.count {
        0 => format!("what happens once an hour needs {needed:.0} hours for each arm"),
        _ => {
            let factor = needed / pauses;
            format!("to see that they end needs {:.0} s for each arm", (before.seconds * factor).ceil())
        }
    };
    Err(format!("{} pauses of {length:?} or more came in twice {each:.1?}, and {time}", ratio.count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(turns: [[u64; 3]; 4]) -> Arm {
        let counts =
            [0, 1, 2].map(|length| Counts { turns: turns.iter().map(|turn| turn[length]).collect(), seconds: 120.0 });
        Arm { counts, ..Arm::default() }
    }

    fn decided(without: [[u64; 3]; 4], with: [[u64; 3]; 4]) -> Decision {
        decide(&[arm(without), arm(with)])
    }

    #[test]
    fn rates_of_pauses_decide() {
        let none = [[0, 0, 0]; 4];
        let kept = decided([[9, 5, 0], [8, 5, 0], [9, 4, 0], [10, 5, 0]], none);
        assert_eq!(kept.outcome, Outcome::Kept, "{}", kept.reason);
        assert!(kept.reason.starts_with("fewer pauses of 10µs or more: 0 an hour instead of 1080"), "{}", kept.reason);
        let dropped = decided(none, [[9, 5, 0], [8, 5, 0], [9, 4, 0], [10, 5, 0]]);
        assert!(dropped.outcome == Outcome::Dropped && dropped.reason.starts_with("more"), "{}", dropped.reason);
        // Rare long pauses show beside common short ones.
        let long = decided([[1000, 9, 9]; 4], [[1000, 9, 0]; 4]);
        assert!(long.outcome == Outcome::Kept && long.reason.contains("1ms"), "{}", long.reason);
        let mixed = decided([[10, 0, 0]; 4], [[20, 20, 9]; 4]);
        assert_eq!(mixed.outcome, Outcome::Dropped);
        let traded = decided([[100, 9, 9]; 4], [[200, 9, 0]; 4]);
        assert!(traded.outcome == Outcome::Dropped && traded.reason.contains("though fewer"), "{}", traded.reason);
    }

    #[test]
    fn what_could_not_have_been_seen_is_said_with_the_time_needed() {
        let nothing = decided([[0, 0, 0]; 4], [[0, 0, 0]; 4]);
        assert_eq!((nothing.outcome, nothing.word()), (Outcome::Unseen, "unseen"));
        assert!(nothing.reason.contains("once an hour needs 7 hours"), "{}", nothing.reason);
        let few = decided([[1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], [[0, 0, 0]; 4]);
        assert_eq!(few.outcome, Outcome::Unseen);
        assert!(few.reason.contains("2 pauses of 10µs") && few.reason.contains("840 s"), "{}", few.reason);
        let same = decided([[100, 90, 80]; 4], [[100, 90, 80]; 4]);
        assert!(
            same.outcome == Outcome::Dropped && same.reason.contains("would have been seen in half"),
            "{}",
            same.reason
        );
    }

    /// Many short pauses say nothing of long ones, which are what most of these settings cause.
    #[test]
    fn a_length_that_could_not_be_judged_is_not_dropped() {
        let short_alone = decided([[100, 0, 0]; 4], [[100, 0, 0]; 4]);
        assert_eq!(short_alone.outcome, Outcome::Unseen, "{}", short_alone.reason);
        for words in ["0 pauses of 100µs", "0 pauses of 1ms", "no difference of others: pauses of 10µs"] {
            assert!(short_alone.reason.contains(words), "{words}: {}", short_alone.reason);
        }
        let no_long = decided([[100, 90, 1]; 4], [[100, 90, 0]; 4]);
        assert!(no_long.outcome == Outcome::Unseen && no_long.reason.contains("4 pauses of 1ms"), "{}", no_long.reason);
    }
}

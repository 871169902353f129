//! The plan of a slice, from which both ends make the same messages, and what the exchange plays of it.
//!
//! A tape of crate `venue` has the datagrams of line A; line B has the same messages, one fewer in each datagram, so that no trader may
//! compare datagrams. Every slice plays the same tape: what differs is the machine.

use super::judge::Order;
use super::{Place, Profile};
use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;
use sidestep_venue::load::{self, LoadSettings};
use sidestep_venue::tape::{MESSAGES_PER_PACKET_MAX, Tape, TapeSettings, Trigger, TriggerAt};
use sidestep_venue::units::Side;

/// The most messages of a slice: some 150 MB at both ends.
const MESSAGES_MAX: u64 = 4 << 20;
/// The most instruments: ITCH numbers them with 16 bits.
const SYMBOLS_MAX: u32 = 65_535;
/// Live orders of each instrument, as the venue's own default has them: 200,000 of 8,000.
const LIVE_ORDERS_EACH: usize = 25;
/// The length of the burst of the opening: most of a slice.
const BURST_NS: u64 = 300_000_000;
/// The most lines.
pub(crate) const LINES_MAX: u8 = 2;

/// What both ends must know to make the same messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Of everything that is random.
    pub seed: u64,
    /// Instruments.
    pub symbols: u32,
    /// Messages per second of the steady profile, at single speed.
    pub rate: u64,
    /// The course of the rate.
    pub profile: Profile,
    /// Messages for each tick that asks for an order.
    pub trigger_every: u64,
    /// The place of such a tick in its datagram.
    pub place: Place,
    /// Messages of a datagram of line A.
    pub messages_per_packet: u16,
    /// Messages after those that build the books.
    pub messages: u64,
}

impl Plan {
    /// Refuses what no end can make: the other one may be a stranger.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn check(&self) -> Result<(), Problem> {
        let ranges = [
            ("--symbols", u64::from(self.symbols), 1, u64::from(SYMBOLS_MAX)),
            ("--rate", self.rate, 1, 100_000_000),
            ("--trigger-every", self.trigger_every, 1, MESSAGES_MAX),
            ("--messages-per-packet", self.messages_per_packet.into(), 1, MESSAGES_PER_PACKET_MAX.into()),
            ("messages of a slice", self.messages, 1, MESSAGES_MAX),
        ];
        for (name, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                let what = format!("cannot play {name} {value}");
                return Err(Problem::usage(what, format!("it is {low} to {high}")).next(
                    "choose a number within it; fewer messages: a lower --rate or --speed, or a shorter --duration",
                ));
            }
        }
        Ok(())
    }

    /// Makes the messages.
    pub(crate) fn tape(&self) -> Tape {
        let symbols = self.symbols as usize;
        let load = LoadSettings { seed: self.seed, symbols, live_orders: LIVE_ORDERS_EACH * symbols };
        Tape::generate(&TapeSettings {
            load,
            messages: self.messages,
            profile: match self.profile {
                Profile::Steady => load::Profile::Steady,
                Profile::Open => load::Profile::Open { burst_ns: BURST_NS },
                Profile::Sparse => load::Profile::Sparse,
            },
            rate: self.rate,
            messages_per_packet: self.messages_per_packet,
            trigger_every: Some(self.trigger_every),
            trigger_at: match self.place {
                Place::First => TriggerAt::First,
                Place::Last => TriggerAt::Last,
                Place::Any => TriggerAt::Any,
            },
            ..TapeSettings::default()
        })
    }
}

/// The order that a tick asks for.
pub(crate) fn asked(trigger: &Trigger) -> Order {
    Order {
        reference: trigger.reference,
        symbol: trigger.symbol.0,
        buys: trigger.side == Side::Buy,
        price: trigger.price,
        quantity: trigger.shares,
    }
}

/// One datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// When it is due at single speed, ns after the first one.
    pub(super) due_ns: u64,
    /// Its line.
    pub(super) line: u8,
    /// Its place among the datagrams of its line.
    datagram: u32,
    /// The tick in it that asks for an order.
    pub(super) tick: Option<u32>,
}

/// What the exchange plays.
pub(super) struct Play {
    tapes: Vec<Tape>,
    steps: Vec<Step>,
    /// The orders that ticks ask for.
    pub(super) asked: Vec<Order>,
}

impl Play {
    /// The datagrams of so many lines, in the order in which they are due.
    pub(super) fn new(plan: &Plan, lines: u8) -> Self {
        let a = plan.tape();
        let asked = a.triggers.iter().map(asked).collect();
        let mut tapes = vec![a];
        if lines > 1 {
            tapes.push(tapes[0].recut(plan.messages_per_packet.saturating_sub(1).max(1)));
        }
        let of_line = |(line, tape): (usize, &Tape)| -> Vec<Step> {
            let trading = tape.datagrams.iter().enumerate().skip(tape.prologue);
            let step = |(at, datagram): (usize, &sidestep_venue::tape::Datagram)| Step {
                due_ns: datagram.due_ns,
                line: line as u8,
                datagram: at as u32,
                tick: datagram.trigger,
            };
            trading.map(step).collect()
        };
        let mut steps: Vec<Step> = tapes.iter().enumerate().flat_map(of_line).collect();
        // Of two that are due at once, line A's is first.
        steps.sort_by_key(|step| (step.due_ns, step.line));
        let first = steps.first().map_or(0, |step| step.due_ns);
        steps.iter_mut().for_each(|step| step.due_ns -= first);
        Self { tapes, steps, asked }
    }

    /// The datagrams that are due within `length_ns` at `speed`, the earliest first.
    pub(super) fn steps(&self, speed: u32, length_ns: u64) -> &[Step] {
        let end = length_ns.saturating_mul(speed.into());
        &self.steps[..self.steps.partition_point(|step| step.due_ns < end)]
    }

    /// The mean length of a datagram of line A, bytes.
    pub(super) fn datagram_bytes(&self) -> u32 {
        let tape = &self.tapes[0];
        let trading = &tape.datagrams[tape.prologue..];
        let sum: u64 = trading.iter().map(|datagram| u64::from(datagram.length)).sum();
        (sum / (trading.len() as u64).max(1)) as u32
    }

    /// The bytes of a datagram.
    #[inline]
    pub(super) fn bytes(&self, step: &Step) -> &[u8] {
        let tape = &self.tapes[usize::from(step.line)];
        tape.datagrams[step.datagram as usize].bytes(&tape.bytes)
    }

    /// The datagram that ends the session.
    pub(super) fn end(&self) -> Vec<u8> {
        self.tapes[0].empty(sidestep_venue::mold::END_OF_SESSION).to_vec()
    }
}

/// Chooses, by seed, the datagrams of line A that do not leave.
pub(super) struct Gaps {
    random: fastrand::Rng,
    share: f64,
}

impl Gaps {
    /// A share of `percent` in a hundred.
    pub(super) fn new(seed: u64, percent: f64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), share: percent / 100.0 }
    }

    /// Returns whether this datagram is left out.
    pub(super) fn leaves_out(&mut self, step: &Step) -> bool {
        step.line == 0 && self.share > 0.0 && self.random.f64() < self.share
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::HashSet;

    pub(in crate::tick) const PLAN: Plan = Plan {
        seed: 7,
        symbols: 20,
        rate: 100_000,
        profile: Profile::Steady,
        trigger_every: 50,
        place: Place::Any,
        messages_per_packet: 4,
        messages: 4_000,
    };

    #[test]
    fn both_lines_carry_every_tick_and_are_due_in_order() {
        let play = Play::new(&PLAN, 2);
        let steps = play.steps(1, u64::MAX);
        assert!(steps.is_sorted_by_key(|step| (step.due_ns, step.line)) && steps[0].due_ns == 0);
        for line in 0..2 {
            let ticks: HashSet<u32> =
                steps.iter().filter(|step| step.line == line).filter_map(|step| step.tick).collect();
            assert_eq!(ticks.len(), play.asked.len());
        }
        let count = |line| steps.iter().filter(|step| step.line == line).count();
        assert!(count(1) > count(0), "the lines are cut differently");
        assert!(play.asked.len() > 50, "{} ticks of 4,000 messages", play.asked.len());
    }

    #[test]
    fn a_higher_speed_plays_more_in_the_same_time() {
        let play = Play::new(&PLAN, 1);
        let count = |speed| play.steps(speed, 5_000_000).len();
        assert!(count(2) > count(1) && count(8) > count(2));
        assert_eq!(play.steps(1, 0).len(), 0);
    }

    #[test]
    fn both_ends_make_the_same_messages() {
        assert_eq!(PLAN.tape(), PLAN.tape());
        assert_ne!(PLAN.tape().bytes, Plan { seed: 8, ..PLAN }.tape().bytes);
    }

    #[test]
    fn a_plan_that_no_end_can_make_is_refused() {
        assert!(PLAN.check().is_ok());
        let wrong = [
            Plan { symbols: 0, ..PLAN },
            Plan { symbols: 70_000, ..PLAN },
            Plan { rate: 0, ..PLAN },
            Plan { trigger_every: 0, ..PLAN },
            Plan { messages_per_packet: 0, ..PLAN },
            Plan { messages_per_packet: 1_000, ..PLAN },
            Plan { messages: u64::MAX, ..PLAN },
        ];
        for plan in wrong {
            assert!(plan.check().is_err(), "{plan:?}");
        }
    }

    #[test]
    fn gaps_are_of_line_a_alone_and_the_same_each_time() {
        let play = Play::new(&PLAN, 2);
        let left_out = |percent| {
            let mut gaps = Gaps::new(3, percent);
            play.steps(1, u64::MAX).iter().filter(|step| gaps.leaves_out(step)).copied().collect::<Vec<_>>()
        };
        let some = left_out(10.0);
        assert!(some.len() > 50 && some.iter().all(|step| step.line == 0));
        assert_eq!(some, left_out(10.0));
        assert!(left_out(0.0).is_empty());
        assert_eq!(left_out(100.0).len(), play.tapes[0].datagrams.len() - play.tapes[0].prologue);
    }
}

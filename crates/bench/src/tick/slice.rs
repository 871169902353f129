//! What a slice of the exchange has found: when ticks left, which orders came, and the judged result.

use super::intake::Intake;
use super::judge::{Judgement, Tick, judge};
use super::play::{Play, Step};
use super::text::Reader;
use crate::cpu_time::{BothSpent, Spent};
use crate::peer::protocol::Done;
use crate::stats::Slice;
use sidestep_report::schema::Noise;
use sidestep_sys::clock::Clock;
use std::collections::HashMap;

/// The results of a slice.
#[derive(Debug, Default)]
pub(super) struct TickSlice {
    /// From when the datagram of a tick was due to the first byte of its order.
    pub(super) from_due: Slice,
    /// From just before it was handed over.
    pub(super) from_left: Slice,
    /// From just after its last byte was handed over.
    pub(super) from_handed_over: Slice,
    /// From when it was due until it left.
    pub(super) lateness: Slice,
    pub(super) judgement: Judgement,
    /// Ticks that were due when samples count, sent or not.
    pub(super) counted: u64,
    /// Of those, without a right order.
    pub(super) lost: u64,
    /// Datagrams that left.
    pub(super) sent: u64,
    /// Datagrams of line A that were left out.
    pub(super) left_out: u64,
    pub(super) elapsed_s: f64,
    pub(super) noise: Noise,
    pub(super) cpu: BothSpent,
    pub(super) done: Done,
    pub(super) note: Option<String>,
}

/// When a tick left, ticks of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) due: u64,
    pub(super) left: u64,
    pub(super) handed_over: u64,
}

/// What a slice has found.
pub(super) struct Record<'a> {
    pub(super) play: &'a Play,
    pub(super) intake: Intake,
    /// Of each tick: when its first datagram left.
    times: Vec<Option<Times>>,
    /// Of ticks that were due in the slice and that the exchange, which was far behind, has not sent: when each was due.
    withheld: HashMap<usize, u64>,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Datagrams that left.
    pub(super) sent: u64,
    pub(super) left_out: u64,
    /// Ticks of the clock from the start on, in which nothing is a sample.
    settling: u64,
}

impl<'a> Record<'a> {
    /// Of a slice of which the first `settling` ticks of the clock are no samples.
    pub(super) fn new(play: &'a Play, settling: u64) -> Self {
        let ticks = play.asked.len();
        let (intake, times) = (Intake::for_orders(ticks), vec![None; ticks]);
        Self { play, intake, times, withheld: HashMap::new(), start: 0, end: 0, sent: 0, left_out: 0, settling }
    }

    /// A datagram has left. The first one of a tick is the one that counts.
    #[inline]
    pub(super) fn sent(&mut self, step: &Step, times: Times) {
        self.sent += 1;
        if let Some(tick) = step.tick
            && let Some(place @ None) = self.times.get_mut(tick as usize)
        {
            *place = Some(times);
        }
    }

    /// A datagram was due at `due`, and was not sent before the slice ended.
    pub(super) fn withheld(&mut self, step: &Step, due: u64) {
        let Some(tick) = step.tick.map(|tick| tick as usize) else { return };
        if self.times.get(tick).is_some_and(Option::is_none) {
            self.withheld.entry(tick).or_insert(due);
        }
    }

    /// The number of ticks that have left.
    pub(super) fn ticks_sent(&self) -> usize {
        self.times.iter().flatten().count()
    }

    /// The number of orders that have come.
    pub(super) fn orders(&self, reader: Reader) -> usize {
        let ticks = self.play.asked.iter().map(|asks| Tick { asks: *asks, due_ns: None }).collect::<Vec<_>>();
        self.intake.orders(reader, &ticks).0.len()
    }

    /// The judged slice.
    pub(super) fn slice(&self, clock: &Clock, reader: Reader, here: Spent) -> TickSlice {
        let ns = |at: u64| clock.ns(at.saturating_sub(self.start));
        let tick = |(asks, times): (&_, &Option<Times>)| Tick { asks: *asks, due_ns: times.map(|times| ns(times.due)) };
        // The tape is longer than a slice at single speed: ticks behind its end are no ticks of this slice.
        let ticks: Vec<Tick> = self.play.asked.iter().zip(&self.times).map(tick).collect();
        let (orders, problem) = self.intake.orders(reader, &ticks);
        let stamped: Vec<_> = orders.into_iter().map(|(order, seen)| (order, ns(seen))).collect();
        let mut judgement = judge(&ticks, &stamped);
        if let Some(problem) = problem {
            judgement.wrong += 1;
            judgement.fault.get_or_insert(problem);
        }
        judgement.withhold(self.withheld.len() as u64);
        let from = self.start + self.settling;
        let is_counted = |times: &Times| times.due >= from;
        let sent = self.times.iter().flatten().filter(|times| is_counted(times)).count();
        let withheld = self.withheld.values().filter(|due| **due >= from).count();
        let counted = (sent + withheld) as u64;
        let answered: Vec<(Times, u64)> = judgement
            .answered
            .iter()
            .filter_map(|answered| Some((self.times[answered.tick].filter(is_counted)?, answered.seen_ns)))
            .collect();
        let since = |of: fn(&Times) -> u64| {
            Slice::of(answered.iter().map(|(times, seen_ns)| seen_ns.saturating_sub(ns(of(times)))))
        };
        TickSlice {
            from_due: since(|times| times.due),
            from_left: since(|times| times.left),
            from_handed_over: since(|times| times.handed_over),
            lateness: Slice::of(answered.iter().map(|(times, _)| clock.ns(times.left.saturating_sub(times.due)))),
            counted,
            lost: counted.saturating_sub(answered.len() as u64),
            judgement,
            sent: self.sent,
            left_out: self.left_out,
            elapsed_s: clock.ns(self.end.saturating_sub(self.start)).max(1) as f64 / 1e9,
            cpu: BothSpent { here, peer: Spent::default() },
            ..TickSlice::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::OrderForm;
    use super::super::play::tests::PLAN;
    use super::super::text::write;
    use super::*;
    use sidestep_sys::clock::Choice;
    use std::time::Duration;

    /// Plays the steps that `sends` lets through, one each millisecond, and answers every tick after so many ms, by the clock of the slice.
    fn found(answered_after_ms: Option<u64>, sends: impl Fn(usize) -> bool) -> (TickSlice, u64) {
        let (play, clock) = (Play::new(&PLAN, 1), Clock::calibrate(Choice::Monotonic));
        let at = |ms: u64| clock.ticks(Duration::from_millis(ms));
        let mut record = Record::new(&play, at(5));
        let (mut ticks, mut bytes) = (0, Vec::new());
        for (number, step) in play.steps(1, u64::MAX).iter().enumerate().take(200) {
            let due = at(number as u64);
            let is_sample = step.tick.is_some() && number >= 5;
            ticks += u64::from(is_sample);
            if !sends(number) {
                record.withheld(step, due);
                continue;
            }
            record.sent(step, Times { due, left: due, handed_over: due });
            let (Some(tick), Some(after)) = (step.tick, answered_after_ms) else { continue };
            bytes.clear();
            write(&mut bytes, OrderForm::Raw, &play.asked[tick as usize], 1);
            record.intake.spare()[..bytes.len()].copy_from_slice(&bytes);
            record.intake.took(bytes.len(), due + at(after));
        }
        assert!(ticks > 5, "{ticks} ticks");
        (record.slice(&clock, Reader::new(OrderForm::Raw), Spent::default()), ticks)
    }

    #[test]
    fn every_tick_that_is_due_is_a_sample_or_lost() {
        let (all, ticks) = found(Some(1), |_| true);
        assert_eq!((all.counted, all.lost, all.from_due.len()), (ticks, 0, ticks));
        let (none, _) = found(None, |_| true);
        assert_eq!((none.counted, none.lost, none.from_due.len()), (ticks, ticks, 0));
        assert!(none.judgement.missed >= ticks && none.judgement.fault.is_none());
    }

    /// An exchange that its trader holds up, or that has no CPU, would else show the times of those ticks only that it had time for.
    #[test]
    fn a_tick_that_was_due_and_never_sent_is_lost() {
        let (cut, ticks) = found(Some(1), |number| number < 100);
        assert_eq!(cut.counted, ticks, "those behind the break count");
        assert!(cut.lost > 0 && cut.from_due.len() + cut.lost == ticks);
        assert_eq!(cut.judgement.missed, cut.lost);
    }

    #[test]
    fn a_late_order_is_a_sample_of_its_whole_delay() {
        let (late, ticks) = found(Some(150), |_| true);
        assert_eq!((late.lost, late.from_due.len()), (0, ticks));
        assert!(late.judgement.late >= ticks && late.from_due.quantile(0.0) > 149e6, "{}", late.from_due.quantile(0.0));
    }

    #[test]
    fn a_tick_is_withheld_once_and_not_if_another_line_has_sent_it() {
        let play = Play::new(&PLAN, 2);
        let mut record = Record::new(&play, 0);
        let of_tick: Vec<&Step> = play.steps(1, u64::MAX).iter().filter(|step| step.tick == Some(3)).collect();
        record.withheld(of_tick[0], 10);
        record.withheld(of_tick[1], 20);
        assert_eq!(record.withheld, HashMap::from([(3, 10)]));
        let mut other = Record::new(&play, 0);
        other.sent(of_tick[0], Times::default());
        other.withheld(of_tick[1], 20);
        assert!(other.withheld.is_empty() && other.ticks_sent() == 1);
    }
}

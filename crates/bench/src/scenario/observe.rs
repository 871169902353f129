//! The rounds of a run in which the host is observed.
//!
//! They are in the middle of it, as many as the others: a host that drifts affects both alike, and the others, which the row's
//! figures are from, are not slowed. Tracepoints are open during these rounds only.

use super::arm::Arm;
use super::interleave::{Interleave, Pace};
use crate::causes::Observer;
use crate::path::Medium;
use sidestep_report::schema::Row;
use sidestep_sys::Problem;
use std::time::Instant;

/// The note of a row whose samples another program or a bare loop takes.
const NOT_OBSERVED: &str =
    "causes of its tail are not observed: its samples are not taken by this program's loop over sockets";

impl Interleave<'_> {
    /// Measures as many rounds as were asked for, observed.
    pub(super) fn observe(&mut self, arms: &mut [Arm], pace: Pace) -> Result<(), Problem> {
        let observed = || arms.iter().filter(|arm| arm.is_possible() && arm.is_observable());
        if observed().next().is_none() {
            return Ok(());
        }
        self.bench.observe(observed().all(|arm| arm.target.path.pinned));
        let measured = (0..pace.rounds).try_for_each(|_| {
            arms.iter_mut().try_for_each(|arm| self.observed_slice(arm, pace))?;
            arms.iter_mut().rev().try_for_each(|arm| self.observed_slice(arm, pace))
        });
        self.observer = self.bench.observed();
        measured
    }

    fn observed_slice(&mut self, arm: &mut Arm, pace: Pace) -> Result<(), Problem> {
        if !arm.is_possible() || !arm.is_observable() {
            return Ok(());
        }
        self.check_stop()?;
        let begin = Instant::now();
        self.prepare(arm.rung.as_ref())?;
        match self.bench.round_trips(arm.target, pace.slice) {
            Ok(trips) => arm.tail.take(trips.slice, trips.tail.unwrap_or_default()),
            Err(problem) if self.goes_on() => arm.record.refuse(problem.brief()),
            Err(problem) => return Err(problem),
        }
        self.advance(&arm.label(), begin);
        Ok(())
    }
}

impl Arm {
    fn is_observable(&self) -> bool {
        !matches!(self.target.path.medium, Medium::CacheLine | Medium::Unmodified)
    }

    /// Adds what was observed to its row.
    pub(super) fn explain(&self, mut row: Row, observer: Option<&Observer>) -> Row {
        let Some(observer) = observer else { return row };
        if !self.is_observable() {
            row.notes.push(NOT_OBSERVED.into());
        }
        row.causes = observer.findings(&self.tail, &self.record.samples).map(Box::new);
        row
    }
}

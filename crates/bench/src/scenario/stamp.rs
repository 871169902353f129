//! The rounds of a run in which messages are stamped; as the observed ones they are in its middle, and no figure is from them.

use super::arm::Arm;
use super::interleave::{Interleave, Pace};
use crate::stages::{Stamper, Stamping};
use sidestep_report::schema::Row;
use sidestep_sys::Problem;
use std::time::Instant;

impl Interleave<'_> {
    /// Measures as many rounds as were asked for, stamped.
    pub(super) fn stamp(&mut self, arms: &mut [Arm], pace: Pace, stamping: Stamping) -> Result<(), Problem> {
        let stamper = Stamper::new(&self.bench.ends().interface, stamping);
        let measured = (0..pace.rounds).try_for_each(|_| {
            arms.iter_mut().try_for_each(|arm| self.stamped_slice(arm, pace, &stamper))?;
            arms.iter_mut().rev().try_for_each(|arm| self.stamped_slice(arm, pace, &stamper))
        });
        self.stamper = Some(stamper);
        measured
    }

    fn stamped_slice(&mut self, arm: &mut Arm, pace: Pace, stamper: &Stamper) -> Result<(), Problem> {
        if !arm.is_possible() || Stamper::refusal(&arm.target).is_some() {
            return Ok(());
        }
        self.check_stop()?;
        let begin = Instant::now();
        self.prepare(arm.rung.as_ref())?;
        match self.bench.stamped(arm.target, pace.slice, stamper, &mut arm.stages) {
            Ok(()) => {}
            Err(problem) if self.goes_on() => arm.record.notes.push(format!("a stamped slice failed: {problem}")),
            Err(problem) => return Err(problem),
        }
        self.advance(&arm.label(), begin);
        Ok(())
    }
}

impl Arm {
    /// Adds the stages to its row.
    pub(super) fn divide(&self, mut row: Row, stamper: Option<&Stamper>) -> Row {
        let Some(stamper) = stamper else { return row };
        if let Some(reason) = Stamper::refusal(&self.target) {
            row.notes.push(format!("no stages: {reason}"));
        }
        row.stages = self.stages.stages(stamper.device(), stamper.unavailable()).map(Box::new);
        if row.stages.is_none() && Stamper::refusal(&self.target).is_none() {
            row.notes.push("no stages: no stamped message of it was answered; give it more time (--duration)".into());
        }
        row
    }
}

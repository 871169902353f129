//! One run per side. What differs from run to run is not known: a floor stands for it, the largest of the runs' own controls, the
//! difference of their yardsticks, and what equal runs were seen to differ by.

use super::statistic::{Reading, Statistic};
use super::{Difference, circumstances};
use sidestep_report::schema::{Document, Row};

/// Compares a statistic of a row of two independent runs: their errors add in squares.
pub(super) fn compare(
    statistic: Statistic,
    (before, first): (&Row, &Document),
    (after, second): (&Row, &Document),
) -> Option<Difference> {
    let (one, other) = (statistic.read(before)?, statistic.read(after)?);
    let controls = [statistic.control(before, first), statistic.control(after, second)];
    let change = circumstances::machine_change(std::slice::from_ref(first), std::slice::from_ref(second));
    Some(of_readings(statistic, [one, other], controls, change))
}

/// The same of what the runs say, with their controls and the change of the machine between them.
pub(crate) fn of_readings(
    statistic: Statistic,
    [one, other]: [Reading; 2],
    controls: [Option<f64>; 2],
    change: f64,
) -> Difference {
    // Without a control the floor of equal runs stands alone; it is from runs of seconds.
    let control = controls.into_iter().flatten().fold(0.0, f64::max);
    let floor = control.max(change).max(statistic.floor_of_single_runs());
    if statistic == Statistic::Lost {
        let error = one.errors[0].hypot(other.errors[0]);
        let (shares, logs) = ([one.value, other.value], [one.log, other.log]);
        return Difference::of_shares(shares, logs, error, one.freedom.min(other.freedom), floor.ln_1p());
    }
    Difference {
        log: other.log - one.log,
        errors: [other.errors[0].hypot(one.errors[1]), other.errors[1].hypot(one.errors[0])],
        freedom: one.freedom.min(other.freedom),
        floor: floor.ln_1p(),
    }
}

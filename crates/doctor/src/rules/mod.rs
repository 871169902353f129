//! Checks made of facts and trials. They read and try nothing: a test gives them any host.

mod bypass;
mod host;
mod interfaces;
mod measure;
mod trade;
mod tune;

use crate::check::{Check, Group, State};
use crate::facts::Facts;
use crate::trials::{Outcome, Trials};
use sidestep_sys::Problem;

/// Makes all checks, in the order of the groups.
pub fn checks(facts: &Facts, trials: &Trials) -> Vec<Check> {
    let mut all = host::checks(facts);
    all.extend(measure::checks(facts, trials));
    all.extend(tune::checks(facts, trials));
    all.extend(bypass::checks(facts, trials));
    all.extend(trade::checks(facts, trials));
    all
}

/// A check that is ok if the trial succeeded, and else of the given state, with the problem's next step unless there is a better one.
fn tried(group: Group, id: &str, outcome: &Outcome, otherwise: State, next: impl FnOnce(&Problem) -> String) -> Check {
    match outcome {
        Ok(found) => Check::new(group, id, State::Ok, found),
        Err(problem) => Check::new(group, id, otherwise, problem.brief()).next(next(problem)),
    }
}

/// A long run of whole units: "1.2 GiB".
fn bytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests;

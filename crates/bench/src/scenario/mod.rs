//! The scenarios: what is measured, in which order, and the rows it becomes.

mod arm;
mod budget;
mod climb;
pub(crate) mod interleave;
mod irq;
mod ladder;
mod observe;
mod open_loop;
mod rates;
mod ratio;
pub(crate) mod record;
mod stamp;
mod switch;

pub use crate::measure::Arrival;
pub(crate) use arm::{Arm, Rung};
pub(crate) use budget::Budget;
pub use climb::Offered;
pub(crate) use interleave::{Interleave, Pace};
pub(crate) use irq::IrqPins;
pub(crate) use ladder::{Means, first_isolated, ladder};
pub use open_loop::OpenLoops;
pub(crate) use open_loop::open_loops;
pub use rates::Rates;
pub(crate) use rates::sweep;
pub use switch::Change;
pub(crate) use switch::Switch;

use crate::transport::Transport;
use sidestep_report::schema::{PathInfo, Ratio, Row, Step, Unavailable};
use sidestep_sys::Problem;
use std::collections::HashSet;

/// The findings of a scenario, complete or cut short.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The rows.
    pub rows: Vec<Row>,
    /// The ratios.
    pub ratios: Vec<Ratio>,
    /// Measurements that were not possible.
    pub unavailable: Vec<Unavailable>,
    /// The steps and their effects.
    pub steps: Vec<Step>,
    /// Descriptions of what is no path of the table.
    pub infos: Vec<PathInfo>,
    /// The problem that ended it early, if there was one.
    pub problem: Option<Problem>,
}

impl Findings {
    /// Adds those of another scenario.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
        self.ratios.append(&mut other.ratios);
        self.unavailable.append(&mut other.unavailable);
        self.steps.append(&mut other.steps);
        self.infos.append(&mut other.infos);
        self.problem = self.problem.take().or(other.problem);
    }

    /// Returns the descriptions of the paths in the rows.
    pub(crate) fn paths(&self) -> Vec<PathInfo> {
        let mut seen = HashSet::new();
        let names = self.rows.iter().map(|row| row.path.as_str()).filter(|name| seen.insert(*name));
        let told = |name: &str| self.infos.iter().find(|info| info.name == name).cloned();
        names.filter_map(|name| told(name).or_else(|| Some(crate::path::Path::named(name).ok()?.info()))).collect()
    }
}

/// The display of a run's progress. On a terminal, a progress bar.
pub trait Progress: Send {
    /// A scenario begins; it will take about `expected_ms`.
    fn begin(&mut self, what: &str, expected_ms: u64);
    /// A part of `taken_ms` is done; `now` is next.
    fn advance(&mut self, now: &str, taken_ms: u64);
    /// The scenario is over.
    fn end(&mut self);
}

/// No display.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: &str, _: u64) {}
    fn end(&mut self) {}
}

/// The arms of a request: every path over every transport at every size, each once.
pub(crate) fn arms(
    scenario: &'static str,
    paths: &[&'static crate::path::Path],
    transports: &[Transport],
    sizes: &[u32],
    measure: &'static str,
) -> Vec<Arm> {
    let mut seen = HashSet::new();
    let mut arms = Vec::new();
    for &size in sizes {
        for &asked in transports {
            for &path in paths {
                let transport = path.transport(asked);
                // A cache line has no message size: it is measured once, as its own.
                let size = if transport == Transport::Memory { 8 } else { size };
                if seen.insert((path.name, transport, size)) {
                    arms.push(Arm::new(scenario, path, transport, size, measure));
                }
            }
        }
    }
    arms
}

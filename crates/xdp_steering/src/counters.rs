//! How many frames went where, and why.

use libbpf_rs::{MapCore, MapFlags};
use sidestep_sys::Problem;

use crate::reason::{Reason, Verdict};
use crate::tables::Tables;

/// One counter: frames since the program was loaded, over all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What it counts.
    pub reason: Reason,
    /// Frames.
    pub value: u64,
}

impl Counter {
    /// The name it is shown under.
    pub fn name(&self) -> &'static str {
        self.reason.name()
    }

    /// One sentence for people.
    pub fn description(&self) -> &'static str {
        self.reason.description()
    }

    /// Where such frames go.
    pub fn verdict(&self) -> Verdict {
        self.reason.verdict()
    }

    /// Whether a value other than zero says that something is wrong on this host.
    pub fn should_be_zero(&self) -> bool {
        self.reason.should_be_zero()
    }
}

impl Tables {
    /// All counters, in the order of [`Reason::ALL`].
    pub fn counters(&self) -> Result<Vec<Counter>, Problem> {
        Reason::ALL.iter().map(|&reason| Ok(Counter { reason, value: self.counter(reason)? })).collect()
    }

    /// One counter: frames since the program was loaded, over all processors.
    pub fn counter(&self, reason: Reason) -> Result<u64, Problem> {
        let problem = |why: String| Problem::failed(format!("cannot read the counter {reason}"), why);
        let map = &self.maps.counters;
        let values = map.lookup_percpu(&reason.index().to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(|error| problem(error.to_string()))?;
        let values = values.ok_or_else(|| problem("the program does not have it".to_owned()))?;
        let numbers = values.iter().map(|value| u64::from_ne_bytes(crate::layout::take(value, 0)));
        Ok(numbers.fold(0, u64::wrapping_add))
    }
}

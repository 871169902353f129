//! Counters of frames, by outcome and reason.

use libbpf_rs::{MapCore, MapFlags};
use sidestep_sys::Problem;

use crate::reason::{Reason, Verdict};
use crate::tables::Tables;

/// One counter: frames since the program was loaded, over all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The reason that it counts.
    pub reason: Reason,
    /// Frames.
    pub value: u64,
}

impl Counter {
    /// The displayed name.
    pub fn name(&self) -> &'static str {
        self.reason.name()
    }

    /// The description, one sentence.
    pub fn description(&self) -> &'static str {
        self.reason.description()
    }

    /// The outcome of such frames.
    pub fn verdict(&self) -> Verdict {
        self.reason.verdict()
    }

    /// Returns whether a value other than zero means that something is wrong on this host.
    pub fn should_be_zero(&self) -> bool {
        self.reason.should_be_zero()
    }
}

impl Tables {
    /// All counters, in the order of [`Reason::ALL`].
    pub fn counters(&self) -> Result<Vec<Counter>, Problem> {
        Reason::ALL.iter().map(|&reason| Ok(Counter { reason, value: self.counter(reason)? })).collect()
    }

    /// One counter: frames since the program was loaded, over all CPUs.
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

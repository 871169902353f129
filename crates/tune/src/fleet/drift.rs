//! What differs between a known-good host and another one: checks whose verdict has changed, and settings whose value has.

use crate::audit::{Audit, Finding, Status};
use crate::check::Check;
use crate::host::Absence;
use crate::reading::Reading;
use crate::table;
use std::collections::{BTreeMap, BTreeSet};

/// The most values of one check that are listed.
const VALUES_MAX: usize = 64;

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The subject: `cpu3`, `eth0`; empty for the host.
    pub subject: String,
    /// The value of the good host; none if it has no such subject.
    pub good: Option<String>,
    /// The value of the other host.
    pub other: Option<String>,
}

/// A check that differs.
#[derive(Clone, Debug)]
pub struct Drift {
    /// The check.
    pub check: &'static Check,
    /// Its verdict on the good host.
    pub good: Status,
    /// Its verdict on the other one.
    pub other: Status,
    /// The values that differ, at most 64.
    pub values: Vec<Difference>,
}

impl Drift {
    /// Returns whether the verdict has become worse.
    pub fn is_worse(&self) -> bool {
        self.other < self.good
    }
}

/// Returns the checks that differ, in the order of the documents. Checks whose values change by themselves (counts, processes)
/// are compared by their verdicts alone.
pub fn between(good: &Audit, other: &Audit) -> Vec<Drift> {
    let both = |check: &'static Check| Some((check, good.finding(check.id)?, other.finding(check.id)?));
    table::checks().filter_map(both).filter_map(|(check, good, other)| compare(check, good, other)).collect()
}

fn compare(check: &'static Check, good: &Finding, other: &Finding) -> Option<Drift> {
    let mut values = if check.volatile { Vec::new() } else { differences(good, other) };
    values.truncate(VALUES_MAX);
    let differs = good.status != other.status || !values.is_empty();
    differs.then_some(Drift { check, good: good.status, other: other.status, values })
}

fn differences(good: &Finding, other: &Finding) -> Vec<Difference> {
    let (good, other) = (by_subject(good), by_subject(other));
    let subjects: BTreeSet<&String> = good.keys().chain(other.keys()).collect();
    let difference = |subject: &String| {
        let (before, now) = (good.get(subject), other.get(subject));
        let one = |value: Option<&String>| value.cloned();
        (before != now).then(|| Difference { subject: subject.clone(), good: one(before), other: one(now) })
    };
    subjects.into_iter().filter_map(difference).collect()
}

/// Returns the values by their subjects. A setting that a host does not have has no value there.
fn by_subject(finding: &Finding) -> BTreeMap<String, String> {
    let pair = |reading: &Reading| {
        let value = match &reading.value {
            Ok(value) => value.clone(),
            Err(Absence::Missing) => return None,
            Err(Absence::Denied) => "only root may read it".to_owned(),
            Err(Absence::Unreadable(why)) => why.clone(),
        };
        Some((reading.subject.clone(), value))
    };
    finding.values.iter().filter_map(|checked| pair(&checked.reading)).collect()
}

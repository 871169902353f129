//! The audit: every row of the table is read and compared with a profile.

use crate::check::{Check, Effect, Hosts, Read};
use crate::driver;
use crate::host::Absence;
use crate::location::Location;
use crate::profile::{Profile, Severity, Wish};
use crate::reading::Reading;
use crate::scope::Scope;
use crate::table;
use crate::want::Want;
use serde::Serialize;

/// The status of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The value is not the wanted one, and that is severe.
    Fail,
    /// The value is not the wanted one.
    Warn,
    /// Only root may read it.
    NeedsRoot,
    /// The value is the wanted one.
    Pass,
    /// A fact without a wanted value.
    Info,
    /// The check does not apply to this host.
    NotApplicable,
}

impl Status {
    /// All of them, worst first.
    pub const ALL: [Self; 6] = [Self::Fail, Self::Warn, Self::NeedsRoot, Self::Pass, Self::Info, Self::NotApplicable];

    /// Returns the words for it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::NeedsRoot => "needs root",
            Self::Pass => "pass",
            Self::Info => "info",
            Self::NotApplicable => "not applicable",
        }
    }
}

/// One value with its status.
#[derive(Clone, Debug)]
pub struct CheckedValue {
    /// The value.
    pub reading: Reading,
    /// The comparison with the wanted value.
    pub status: Status,
}

/// One check's result.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The row of the table.
    pub check: &'static Check,
    /// The worst of its values.
    pub status: Status,
    /// The values.
    pub values: Vec<CheckedValue>,
    /// The wanted value.
    pub want: Option<Want>,
    /// The value that the profile sets, if the wanted value does not determine it.
    pub set: Option<String>,
    /// The reason why the check was not evaluated; empty if it was.
    pub reason: String,
}

/// All findings, and their subject.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The profile's name.
    pub profile: String,
    /// Name and driver of each interface.
    pub interfaces: Vec<(String, String)>,
    /// The hot CPUs as a list; empty if none are named.
    pub hot: String,
    /// Set if the host is a virtual machine.
    pub(crate) is_guest: bool,
    /// The findings: values that are not the wanted ones first, then by effect, then by status, then in the order of the table.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Reads and evaluates every check.
    pub fn of(scope: &Scope<'_>, profile: &Profile) -> Self {
        let refined = driver::refined(profile, scope.interfaces.iter().map(|one| one.driver.as_str()));
        let mut findings: Vec<Finding> =
            table::checks().filter_map(|check| Some(evaluate(scope, check, refined.wish(check.id)?))).collect();
        findings.sort_by_key(Finding::rank);
        Self {
            profile: profile.name.clone(),
            interfaces: scope.interfaces.iter().map(|one| (one.name.clone(), one.driver.clone())).collect(),
            hot: if scope.cpus.hot.is_empty() { String::new() } else { scope.cpus.hot.to_string() },
            is_guest: scope.is_guest,
            findings,
        }
    }

    /// Returns the number of findings with this status.
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }

    /// Returns the finding of a check.
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check.id == id)
    }
}

impl Finding {
    /// Returns the sort key: values that are not the wanted ones first, then the greatest effect.
    fn rank(&self) -> (bool, Effect, Status) {
        (self.status > Status::Warn, self.check.effect, self.status)
    }

    /// Returns the values that decided the status.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = &Reading> {
        self.values.iter().filter(|checked| checked.status == self.status).map(|checked| &checked.reading)
    }
}

/// Reads one row.
pub(crate) fn readings(scope: &Scope<'_>, check: &Check) -> Result<Vec<Reading>, String> {
    match check.hosts {
        Hosts::Metal if scope.is_guest => return Err("in a virtual machine the hypervisor decides".into()),
        Hosts::Guest if !scope.is_guest => return Err("this is not a virtual machine".into()),
        _ => {}
    }
    match check.read {
        Read::Setting(template) => scope.expand(template, check.form),
        Read::Boot(name) => {
            let value = scope.boot(name).unwrap_or("unset");
            Ok(vec![Reading::of("", value).at(Location::of("proc:cmdline"))])
        }
        Read::Derived(_, derive) => derive(scope),
    }
}

fn evaluate(scope: &Scope<'_>, check: &'static Check, wish: &Wish) -> Finding {
    let finding = |status, values, reason: &str| Finding {
        check,
        status,
        values,
        want: wish.want.clone(),
        set: wish.set.clone(),
        reason: reason.into(),
    };
    let needs_hot = wish.want.as_ref().is_some_and(Want::needs_hot) && scope.cpus.hot.is_empty();
    if needs_hot {
        return finding(Status::NotApplicable, Vec::new(), "the hot CPUs are unknown: name them with --cpus");
    }
    let readings = match readings(scope, check) {
        Ok(readings) => readings,
        Err(reason) => return finding(Status::NotApplicable, Vec::new(), &reason),
    };
    let values: Vec<CheckedValue> = readings.into_iter().map(|reading| evaluate_value(scope, reading, wish)).collect();
    let status = values.iter().map(|checked| checked.status).min().unwrap_or(Status::NotApplicable);
    let reason = match status {
        Status::NotApplicable => unreadable(&values).unwrap_or_else(|| check.absent.to_owned()),
        Status::NeedsRoot => "only root may read it".to_owned(),
        _ => String::new(),
    };
    finding(status, values, &reason)
}

fn evaluate_value(scope: &Scope<'_>, reading: Reading, wish: &Wish) -> CheckedValue {
    let status = match (&reading.value, &wish.want) {
        (Err(Absence::Denied), _) => Status::NeedsRoot,
        (Err(_), _) => Status::NotApplicable,
        (Ok(_), None) => Status::Info,
        (Ok(value), Some(want)) if want.is_met(value, &scope.cpus) => Status::Pass,
        _ if wish.severity == Severity::Fail => Status::Fail,
        _ => Status::Warn,
    };
    CheckedValue { reading, status }
}

/// Returns the kernel's error for the first value that cannot be read.
fn unreadable(values: &[CheckedValue]) -> Option<String> {
    values.iter().find_map(|checked| match &checked.reading.value {
        Err(Absence::Unreadable(why)) => Some(format!("it cannot be read: {why}")),
        _ => None,
    })
}

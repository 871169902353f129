//! The check itself: every row of the table read, and judged by a profile.

use crate::check::{Check, Effect, Hosts, Read, Reading};
use crate::driver;
use crate::host::Absence;
use crate::place::Place;
use crate::profile::{Profile, Severity, Wish};
use crate::scope::Scope;
use crate::table;
use crate::want::Want;
use serde::Serialize;

/// What came out of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The wish is not fulfilled, and that is bad.
    Fail,
    /// The wish is not fulfilled.
    Warn,
    /// Only root may read it.
    NeedsRoot,
    /// The wish is fulfilled.
    Pass,
    /// A fact without a wish.
    Info,
    /// It means nothing on this host.
    NotApplicable,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Fail, Self::Warn, Self::NeedsRoot, Self::Pass, Self::Info, Self::NotApplicable];

    /// In a word or two.
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

/// One value, judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The value.
    pub reading: Reading,
    /// Whether it is as wished.
    pub verdict: Verdict,
}

/// One check's result.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The row of the table.
    pub check: &'static Check,
    /// The worst of its values.
    pub verdict: Verdict,
    /// The values.
    pub values: Vec<Judged>,
    /// What is wished.
    pub want: Option<Want>,
    /// The value that the profile sets, where the wish does not say it.
    pub set: Option<String>,
    /// Why there is no verdict; empty where there is one.
    pub reason: String,
}

/// All results, with what they are about.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The profile's name.
    pub profile: String,
    /// Name and driver of each interface.
    pub interfaces: Vec<(String, String)>,
    /// The hot CPUs as a list; empty where nobody has named them.
    pub hot: String,
    /// Whether the host is a virtual machine.
    pub(crate) is_guest: bool,
    /// By what a change is worth, then by verdict, then as the table has them.
    pub findings: Vec<Finding>,
}

impl Audit {
    /// Reads and judges everything.
    pub fn of(scope: &Scope<'_>, profile: &Profile) -> Self {
        let refined = driver::refined(profile, scope.interfaces.iter().map(|one| one.driver.as_str()));
        let mut findings: Vec<Finding> =
            table::checks().filter_map(|check| Some(judge(scope, check, refined.wish(check.id)?))).collect();
        findings.sort_by_key(Finding::rank);
        Self {
            profile: profile.name.clone(),
            interfaces: scope.interfaces.iter().map(|one| (one.name.clone(), one.driver.clone())).collect(),
            hot: if scope.cpus.hot.is_empty() { String::new() } else { scope.cpus.hot.to_string() },
            is_guest: scope.is_guest,
            findings,
        }
    }

    /// How many have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// The finding of a check.
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check.id == id)
    }
}

impl Finding {
    /// What is not as wished first, and of that what matters most.
    fn rank(&self) -> (bool, Effect, Verdict) {
        (self.verdict > Verdict::Warn, self.check.effect, self.verdict)
    }

    /// The values that decided the verdict.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = &Reading> {
        self.values.iter().filter(|judged| judged.verdict == self.verdict).map(|judged| &judged.reading)
    }
}

/// Reads one row.
pub(crate) fn readings(scope: &Scope<'_>, check: &Check) -> Result<Vec<Reading>, String> {
    match check.hosts {
        Hosts::Metal if scope.is_guest => return Err("in a virtual machine the hypervisor decides".into()),
        Hosts::Guest if !scope.is_guest => return Err("this is no virtual machine".into()),
        _ => {}
    }
    match check.read {
        Read::Setting(template) => scope.expand(template, check.form),
        Read::Boot(name) => {
            let value = scope.boot(name).unwrap_or("unset");
            Ok(vec![Reading::of("", value).at(Place::of("proc:cmdline"))])
        }
        Read::Derived(_, derive) => derive(scope),
    }
}

fn judge(scope: &Scope<'_>, check: &'static Check, wish: &Wish) -> Finding {
    let finding = |verdict, values, reason: &str| Finding {
        check,
        verdict,
        values,
        want: wish.want.clone(),
        set: wish.set.clone(),
        reason: reason.into(),
    };
    let needs_hot = wish.want.as_ref().is_some_and(Want::needs_hot) && scope.cpus.hot.is_empty();
    if needs_hot {
        return finding(
            Verdict::NotApplicable,
            Vec::new(),
            "nobody has said which CPUs are hot: name them with --cpus",
        );
    }
    let readings = match readings(scope, check) {
        Ok(readings) => readings,
        Err(reason) => return finding(Verdict::NotApplicable, Vec::new(), &reason),
    };
    let values: Vec<Judged> = readings.into_iter().map(|reading| judge_one(scope, reading, wish)).collect();
    let verdict = values.iter().map(|judged| judged.verdict).min().unwrap_or(Verdict::NotApplicable);
    let reason = match verdict {
        Verdict::NotApplicable => unreadable(&values).unwrap_or_else(|| check.absent.to_owned()),
        Verdict::NeedsRoot => "only root may read it".to_owned(),
        _ => String::new(),
    };
    finding(verdict, values, &reason)
}

fn judge_one(scope: &Scope<'_>, reading: Reading, wish: &Wish) -> Judged {
    let verdict = match (&reading.value, &wish.want) {
        (Err(Absence::Denied), _) => Verdict::NeedsRoot,
        (Err(_), _) => Verdict::NotApplicable,
        (Ok(_), None) => Verdict::Info,
        (Ok(value), Some(want)) if want.is_met(value, &scope.cpus) => Verdict::Pass,
        _ if wish.severity == Severity::Fail => Verdict::Fail,
        _ => Verdict::Warn,
    };
    Judged { reading, verdict }
}

/// What the kernel said instead of a value, if it said anything.
fn unreadable(values: &[Judged]) -> Option<String> {
    values.iter().find_map(|judged| match &judged.reading.value {
        Err(Absence::Unreadable(why)) => Some(format!("it cannot be read: {why}")),
        _ => None,
    })
}

//! Findings of the audit over time: which checks have not the wanted value, and what has changed.

use crate::event;
use crate::options::Tuning;
use sidestep_sys::Problem;
use sidestep_tune::audit::{Audit, Finding, Status};
use sidestep_tune::host::Live;
use sidestep_tune::scope::Scope;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Values of a check that an event names.
const VALUES_MAX: usize = 3;

/// The checks by their ids, which are the table's.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) profile: String,
    /// The status of each in the last audit.
    seen: BTreeMap<&'static str, Status>,
    /// Checks that have been a finding, by severity, and the number of their values that are not as wanted now.
    pub(crate) findings: BTreeMap<(&'static str, &'static str), usize>,
    pub(crate) changes: u64,
    pub(crate) last: Option<SystemTime>,
    /// Whether the last audit could be made.
    pub(crate) is_up: bool,
}

/// Audits the host.
pub(crate) fn audit(tuning: &Tuning) -> Result<Audit, Problem> {
    let host = Live::new();
    let scope = Scope::of(&host, &tuning.request)?;
    Ok(Audit::of(&scope, &tuning.profile))
}

impl Checks {
    pub(crate) fn new(profile: &str) -> Self {
        Self {
            profile: profile.to_owned(),
            seen: BTreeMap::new(),
            findings: BTreeMap::new(),
            changes: 0,
            last: None,
            is_up: true,
        }
    }

    /// Takes an audit, and tells what has changed since the one before.
    pub(crate) fn take(&mut self, audit: Result<&Audit, &Problem>) {
        let audit = match audit {
            Ok(audit) => audit,
            Err(problem) => {
                if std::mem::replace(&mut self.is_up, false) {
                    event::tell(format_args!("tune: {}", problem.line()));
                }
                return;
            }
        };
        self.is_up = true;
        self.last = Some(SystemTime::now());
        self.findings.values_mut().for_each(|values| *values = 0);
        let is_first = self.seen.is_empty();
        for finding in &audit.findings {
            self.take_one(finding, is_first);
        }
        if is_first {
            let count = |status| format!("{} {}", audit.count(status), Status::words(status));
            let counts = Status::ALL.map(count).join(", ");
            event::tell(format_args!("tune: profile {}: {counts}", audit.profile));
        }
    }

    fn take_one(&mut self, finding: &Finding, is_first: bool) {
        let (id, status) = (finding.check.id, finding.status);
        if let Some(severity) = severity(status) {
            let values = finding.values.iter().filter(|value| value.status == status).count();
            self.findings.insert((id, severity), values.max(1));
        }
        let before = self.seen.insert(id, status);
        if before == Some(status) || is_first {
            return;
        }
        self.changes += 1;
        let before = before.map_or("unknown", Status::words);
        event::tell(format_args!("tune: {id}: {before} -> {}{}", status.words(), values(finding)));
    }

    /// Checks of the last audit by their status.
    pub(crate) fn count(&self, status: Status) -> usize {
        self.seen.values().filter(|seen| **seen == status).count()
    }
}

fn severity(status: Status) -> Option<&'static str> {
    match status {
        Status::Fail => Some("fail"),
        Status::Warn => Some("warn"),
        _ => None,
    }
}

/// The first of the values that have decided.
fn values(finding: &Finding) -> String {
    let deciding = finding.values.iter().filter(|value| value.status == finding.status);
    let told = deciding.take(VALUES_MAX).filter_map(|value| {
        let shown = value.reading.value.as_ref().ok()?;
        Some(format!("{} {shown}", value.reading.subject).trim().to_owned())
    });
    let told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() { told } else { format!(" ({told})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_tune::host::Tree;
    use sidestep_tune::profile::Profile;
    use sidestep_tune::scope::Request;
    use std::fs;

    fn audit_of(tree: &Tree) -> Audit {
        let scope = Scope::of(tree, &Request::default()).expect("a host");
        Audit::of(&scope, &Profile::built_in("latency").expect("built in"))
    }

    #[test]
    fn a_change_is_counted_once_and_a_cured_check_counts_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = folder.path().join("proc/sys/kernel/timer_migration");
        fs::create_dir_all(setting.parent().expect("below")).expect("made");
        fs::create_dir_all(folder.path().join("sys")).expect("made");
        let set = |value: &str| fs::write(&setting, value).expect("written");
        let tree = Tree::at(folder.path());
        set("1");
        let mut checks = Checks::new("latency");
        let first = audit_of(&tree);
        let id = first
            .findings
            .iter()
            .find(|finding| finding.values.iter().any(|value| value.reading.value.as_deref() == Ok("1")))
            .map(|finding| (finding.check.id, finding.status))
            .expect("a check reads it");
        checks.take(Ok(&first));
        checks.take(Ok(&audit_of(&tree)));
        assert_eq!(checks.changes, 0, "nothing has changed");
        let severity = severity(id.1).expect("it is a finding");
        assert_eq!(checks.findings.get(&(id.0, severity)), Some(&1));
        set("0");
        checks.take(Ok(&audit_of(&tree)));
        assert_eq!((checks.changes, checks.findings.get(&(id.0, severity))), (1, Some(&0)));
        set("1");
        checks.take(Ok(&audit_of(&tree)));
        assert_eq!((checks.changes, checks.findings.get(&(id.0, severity))), (2, Some(&1)));
        checks.take(Err(&Problem::failed("cannot audit", "a test")));
        assert!(!checks.is_up && checks.last.is_some());
        assert_eq!(Status::ALL.map(|status| checks.count(status)).iter().sum::<usize>(), first.findings.len());
    }
}

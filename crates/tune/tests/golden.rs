//! Hosts written down, and what is found there: the verdicts of every check stand beside them, and change only knowingly.

mod support;

use sidestep_tune::audit::{Audit, Status};
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::host::Tree;
use sidestep_tune::profile::{self, Profile};
use sidestep_tune::scope::{Request, Scope};
use sidestep_tune::table;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use support::{HOSTS, unpack};

/// The profile that each host is checked by, and its hot CPUs (none: those that are isolated).
fn subject(host: &str) -> (&'static str, Option<&'static str>) {
    match host {
        "metal-intel-untuned" => ("latency", Some("2-3")),
        "guest-firecracker" => ("latency", Some("1")),
        "guest-ena-tuned" => ("cloud", None),
        "metal-intel-queues" => ("polling", None),
        _ => ("latency", None),
    }
}

fn look(text: &str, profile: &str, hot: Option<&str>) -> Audit {
    look_at(unpack(text).path(), profile, hot)
}

fn look_at(folder: &Path, profile: &str, hot: Option<&str>) -> Audit {
    let host = Tree::at(folder);
    let request = Request { hot: hot.and_then(CpuSet::list), ..Request::default() };
    let scope = Scope::of(&host, &request).unwrap();
    Audit::of(&scope, &Profile::built_in(profile).unwrap())
}

#[test]
fn each_host_gets_the_verdicts_that_stand_beside_it() {
    for (name, text) in HOSTS {
        let (profile, hot) = subject(name);
        let audit = look(text, profile, hot);
        let mut found = String::new();
        for check in table::checks() {
            let finding = audit.finding(check.id).unwrap();
            let seen = sidestep_tune::show::text::seen(finding);
            let _ = writeln!(found, "{:<15} {:<25} {seen}", finding.status.words(), check.id);
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/hosts/{name}.verdicts"));
        if std::env::var_os("SIDESTEP_BLESS").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        for (found, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{name}");
    }
}

/// A check that cannot pass, or cannot fail, is none.
#[test]
fn every_check_has_a_host_where_it_passes_and_one_where_it_does_not() {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, text) in HOSTS {
        let folder = unpack(text);
        for profile in profile::names() {
            for finding in look_at(folder.path(), profile, subject(name).1).findings {
                let kind = match finding.status {
                    Status::Fail | Status::Warn => "bad",
                    Status::Pass => "good",
                    Status::Info => "told",
                    _ => continue,
                };
                seen.entry(finding.check.id).or_default().insert(kind);
            }
        }
    }
    let mut missing = Vec::new();
    for check in table::checks() {
        let is_wished =
            profile::names().iter().any(|name| Profile::built_in(name).unwrap().wish(check.id).unwrap().want.is_some());
        let needed: &[&str] = if is_wished { &["good", "bad"] } else { &["told"] };
        let kinds = seen.get(check.id).cloned().unwrap_or_default();
        missing.extend(
            needed.iter().filter(|kind| !kinds.contains(**kind)).map(|kind| format!("{} is nowhere {kind}", check.id)),
        );
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_policy_made_from_a_host_is_fulfilled_there_and_not_elsewhere() {
    let (tuned, untuned) = (HOSTS[1].1, HOSTS[0].1);
    let policy = sidestep_tune::policy::of(&look(tuned, "latency", None), "good \"host\"");
    let policy = Profile::parse(&policy, "the policy").unwrap();
    let evaluate = |text: &str, hot| {
        let folder = unpack(text);
        let host = Tree::at(folder.path());
        let scope = Scope::of(&host, &Request { hot, ..Request::default() }).unwrap();
        Audit::of(&scope, &policy)
    };
    let there = evaluate(tuned, None);
    let bad: Vec<_> = there.findings.iter().filter(|one| one.status == Status::Fail).map(|one| one.check.id).collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(there.count(Status::Pass) > 60, "{}", there.count(Status::Pass));
    let elsewhere = evaluate(untuned, CpuSet::list("2-3"));
    assert!(elsewhere.count(Status::Fail) > 60, "{}", elsewhere.count(Status::Fail));
}

#[test]
fn what_a_driver_wants_counts_for_its_interface() {
    let audit = look(HOSTS[3].1, "cloud", None);
    assert_eq!(audit.finding("busy-read").unwrap().status, Status::Pass);
    let poll = audit.finding("busy-poll").unwrap();
    assert_eq!(poll.want.as_ref().unwrap().to_string(), ">=70", "60 would do without an ENA");
}

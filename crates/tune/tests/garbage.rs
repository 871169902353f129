//! Whatever a host's files hold: no panic, no end without end, and an answer.

#[path = "support/memory.rs"]
mod memory;
mod support;

use memory::Babble;
use proptest::prelude::*;
use sidestep_tune::audit::{Audit, Status};
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::host::{Host, Tree};
use sidestep_tune::plan::{Choice, Plan};
use sidestep_tune::profile::{self, Profile};
use sidestep_tune::scope::{Request, Scope};
use sidestep_tune::show::{json, text};
use sidestep_tune::{policy, table};
use std::fs;
use support::{HOSTS, bytes, unpack};

/// No escape sequence, and no other control character reaches the terminal.
fn is_plain(shown: &str) {
    assert!(!shown.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{shown:?}");
}

/// Everything that is computed from the files of a host.
fn everything(host: &dyn Host, hot: Option<CpuSet>, profiles: &[&str]) {
    let Ok(scope) = Scope::of(host, &Request { hot, ..Request::default() }) else { return };
    for name in profiles {
        let audit = Audit::of(&scope, &Profile::built_in(name).unwrap());
        assert_eq!(audit.findings.len(), table::checks().count());
        let page = text::Page { colour: false, width: 1 };
        is_plain(&text::audit(&audit, true, page));
        json::audit(&audit).unwrap();
        let allow = table::checks().filter(|check| check.dangerous).map(|check| check.id.to_owned()).collect();
        let plan = Plan::of(&scope, &audit, &Choice { allow, ..Choice::default() }).unwrap();
        assert!(plan.changes.iter().all(|change| change.location.is_settable() && change.before != change.after));
        is_plain(&text::plan(&plan, page));
        let policy = policy::of(&audit, "x");
        Profile::parse(&policy, "x").unwrap_or_else(|problem| panic!("{problem}\n{policy}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind(bytes in prop::collection::vec(any::<u8>(), 0..400), hot in any::<bool>()) {
        everything(&Babble(&bytes), hot.then(|| [2, 3].into_iter().collect()), &["latency"]);
    }

    #[test]
    fn words_that_nearly_fit(text in "[0-9a-f,:= \\n-]{0,200}(cpu|irq|flags\t: hypervisor|\\[|\\]|none){0,5}[0-9 ]{0,40}") {
        everything(&Babble(text.as_bytes()), Some([2].into_iter().collect()), &["cloud"]);
    }

    #[test]
    fn answers_over_netlink(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        sidestep_tune::decode_any(&bytes);
    }

    #[test]
    fn snapshots_and_policies(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        sidestep_tune::snapshot::parse_any(&bytes);
        sidestep_tune::fleet::parse_any(&bytes);
        let _ = Profile::parse(&String::from_utf8_lossy(&bytes), "x");
    }
}

/// Each file of a host, one after the other, holds garbage.
#[test]
fn every_file_may_hold_anything() {
    const NASTY: [&[u8]; 3] =
        [b"", b"\xff\xfe\x00 18446744073709551616 -1 [ ]", b"0-4294967295,99999999999999999999\n="];
    let folder = unpack(HOSTS[0].1);
    let host = Tree::at(folder.path());
    let profile = Profile::built_in("latency").unwrap();
    let request = Request { hot: CpuSet::list("2-3"), ..Request::default() };
    for ((path, before), nasty) in bytes(folder.path()).into_iter().zip(NASTY.into_iter().cycle()) {
        fs::write(&path, nasty).unwrap();
        if let Ok(scope) = Scope::of(&host, &request) {
            text::audit(&Audit::of(&scope, &profile), true, text::Page { colour: false, width: 80 });
        }
        fs::write(&path, before).unwrap();
    }
}

#[test]
fn a_host_without_anything() {
    let folder = tempfile::tempdir().unwrap();
    everything(&Tree::at(folder.path()), None, &profile::names());
    everything(&Tree::at(folder.path()), CpuSet::list("2-3"), &profile::names());
}

#[test]
fn a_file_that_only_root_may_read_is_told() {
    struct Denied;
    impl Host for Denied {
        fn read(&self, _: &sidestep_tune::location::Location) -> Result<String, sidestep_tune::host::Absence> {
            Err(sidestep_tune::host::Absence::Denied)
        }
        fn list(&self, _: &sidestep_tune::location::Location) -> Vec<String> {
            Vec::new()
        }
        fn pids(&self) -> Vec<u32> {
            Vec::new()
        }
        fn resolve(&self, _: &sidestep_tune::location::Location) -> Option<sidestep_tune::location::Location> {
            None
        }
        fn write(&self, _: &sidestep_tune::location::Location, _: &str) -> std::io::Result<()> {
            Err(std::io::ErrorKind::PermissionDenied.into())
        }
        fn identity(&self) -> sidestep_tune::host::Identity {
            Default::default()
        }
    }
    let scope = Scope::of(&Denied, &Request::default()).unwrap();
    let audit = Audit::of(&scope, &Profile::built_in("latency").unwrap());
    for id in ["mem-swappiness", "busy-read", "cpu-clocksource"] {
        assert_eq!(audit.finding(id).unwrap().status, Status::NeedsRoot, "{id}");
    }
}

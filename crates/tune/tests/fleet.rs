//! Hosts in files: what is recorded is what the checks read, and hosts are compared by it.

#[path = "support/memory.rs"]
mod memory;
mod support;

use memory::Babble;
use proptest::prelude::*;
use sidestep_tune::audit::{Audit, Status};
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::fleet::drift::between;
use sidestep_tune::fleet::{Fleet, Member, Saved, audit, parse_any, record};
use sidestep_tune::host::Tree;
use sidestep_tune::plan::{Choice, Plan};
use sidestep_tune::profile::{self, Profile};
use sidestep_tune::scope::{Request, Scope};
use sidestep_tune::show::text::{self, Page, seen};
use sidestep_tune::show::{fleet as show, json};
use std::fs;
use support::{HOSTS, unpack};

const PAGE: Page = Page { colour: false, width: 80 };

fn saved(text: &str) -> Saved {
    let folder = unpack(text);
    let taken = record(&Tree::at(folder.path()), &[], None).unwrap();
    // What is written is what is read, without the folder.
    let read = parse_any(taken.to_json().unwrap().as_bytes()).unwrap();
    assert_eq!(read, taken);
    read
}

fn latency() -> Profile {
    Profile::built_in("latency").unwrap()
}

/// Whatever CPUs are hot later, by whatever profile, the file says what the host said.
#[test]
fn a_saved_host_gets_the_findings_of_the_host_itself() {
    for (name, text) in HOSTS {
        let folder = unpack(text);
        let host = Tree::at(folder.path());
        let saved = saved(text);
        for hot in [None, CpuSet::list("1"), CpuSet::list("0-1"), Some(CpuSet::default())] {
            for profile in profile::names() {
                let profile = Profile::built_in(profile).unwrap();
                let request = Request { hot: hot.clone(), ..Request::default() };
                let there = Audit::of(&Scope::of(&host, &request).unwrap(), &profile);
                let here = audit(&saved, &request, &profile).unwrap();
                for (there, here) in there.findings.iter().zip(&here.findings) {
                    assert_eq!((here.check.id, seen(here)), (there.check.id, seen(there)), "{name} {hot:?}");
                }
                assert_eq!(json::audit(&here).unwrap(), json::audit(&there).unwrap(), "{name} {hot:?}");
            }
        }
    }
}

#[test]
fn the_hot_cpus_of_the_file_count_unless_others_are_named() {
    let folder = unpack(HOSTS[0].1);
    let taken = record(&Tree::at(folder.path()), &[], CpuSet::list("2-3").as_ref()).unwrap();
    let hot = |request: &Request| audit(&taken, request, &latency()).unwrap().hot;
    assert_eq!(hot(&Request::default()), "2-3");
    assert_eq!(hot(&Request { hot: CpuSet::list("1"), ..Request::default() }), "1");
    let unasked = Request { interfaces: vec!["lo".into()], ..Request::default() };
    let audit = audit(&taken, &unasked, &latency()).unwrap();
    let finding = audit.finding("nic-rx-usecs").unwrap();
    assert!(finding.status == Status::NotApplicable && seen(finding).contains("take it again"), "{}", seen(finding));
}

#[test]
fn what_programs_keep_in_their_status_is_not_recorded() {
    let text = "sys/devices/system/cpu/online: 0-1\nproc/50/comm: x\nproc/50/status <<\nName:\tx\nSecret:\t7\nPPid:\t1\n\
                Cpus_allowed_list:\t0-1\n>>\n";
    let file = saved(text).to_json().unwrap();
    assert!(file.contains("Cpus_allowed_list") && !file.contains("Secret"), "{file}");
}

#[test]
fn hosts_stand_side_by_side() {
    let members = HOSTS.iter().map(|(name, text)| {
        let audit = audit(&saved(text), &Request::default(), &latency()).unwrap();
        Member { name: (*name).to_owned(), source: format!("{name}.json"), audit }
    });
    let fleet = Fleet { profile: "latency".into(), members: members.collect() };
    assert_eq!(fleet.worst(), Some(Status::Fail));
    let table = show::table(&fleet, false, PAGE);
    let row = |id: &str| table.lines().find(|line| line.starts_with(id)).unwrap_or_default().split_whitespace();
    assert_eq!(row("mem-huge-transparent").collect::<Vec<_>>(), ["mem-huge-transparent", "F", ".", ".", "-", "."]);
    assert!(!table.contains("\ncpu-fabric "), "{table}");
    assert!(table.contains("mem-swappiness             1: "), "{table}");
    let document: serde_json::Value = serde_json::from_str(&show::table_json(&fleet).unwrap()).unwrap();
    assert_eq!(document["hosts"].as_array().unwrap().len(), HOSTS.len());
    let check = document["checks"].as_array().unwrap().iter().find(|one| one["id"] == "mem-huge-transparent").unwrap();
    assert_eq!(check["verdicts"], serde_json::json!(["fail", "pass", "pass", "not-applicable", "pass"]));
    // Many hosts are shown in blocks that fit the page.
    let narrow = show::table(&fleet, true, Page { colour: false, width: 32 });
    assert_eq!(narrow.matches("\ncheck ").count(), 2, "{narrow}");
}

#[test]
fn drift_names_values_and_verdicts() {
    let folder = unpack(HOSTS[1].1);
    let take = || record(&Tree::at(folder.path()), &[], None).unwrap();
    let look = |saved: &Saved| audit(saved, &Request::default(), &latency()).unwrap();
    let good = look(&take());
    let write = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
    // What counts by itself is no drift, nor is another process.
    write("sys/class/net/eth0/statistics/rx_fifo_errors", "0\n");
    let counted = fs::read_to_string(folder.path().join("proc/interrupts")).unwrap().replace("9000", "9999");
    write("proc/interrupts", &counted);
    write("proc/31/comm", "rcuog/7\n");
    assert!(between(&good, &look(&take())).is_empty(), "{:?}", between(&good, &look(&take())));
    write("proc/sys/vm/swappiness", "60\n");
    write("ethtool/eth0/rings/rx", "2048\n");
    fs::remove_file(folder.path().join("sys/kernel/mm/ksm/run")).unwrap();
    let drifts = between(&good, &look(&take()));
    let ids: Vec<&str> = drifts.iter().map(|one| one.check.id).collect();
    assert_eq!(ids, ["mem-swappiness", "mem-same-page", "nic-ring-rx", "owner-sysctl-files"]);
    assert!(drifts[0].is_worse() && !drifts[2].is_worse());
    let text = show::drift("good", "now", &drifts, PAGE);
    for words in ["pass -> warn", "10 -> 60", "512 -> 2048 (eth0)", "0 -> none", "checks that differ: 4, worse: "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let all = [("now".to_owned(), drifts)];
    let document: serde_json::Value = serde_json::from_str(&show::drift_json("good", &all).unwrap()).unwrap();
    assert_eq!(document["hosts"][0]["checks"][0]["values"][0]["now"], "60");
}

/// Escape sequences in values, names and reasons do not reach the terminal.
#[test]
fn a_hostile_file_writes_plain_text() {
    let escape = "\u{1b}]0;x\u{7}\u{202e}";
    let text = format!(
        "sys/devices/system/cpu/online: 0-1\nsys/class/net/eth0/device -> ../../../devices/pci0\n\
         sys/devices/pci0/uevent: DRIVER=x{escape}\nproc/sys/vm/swappiness: 60{escape}\n\
         sys/kernel/mm/ksm/run: 1{escape}\nproc/swaps <<\nx\n/dev/{escape} x\n>>\n"
    );
    let file = saved(&text).to_json().unwrap();
    let read = parse_any(file.as_bytes()).expect("values may hold anything");
    let look = audit(&read, &Request::default(), &latency()).unwrap();
    let scope = Scope::of(&read, &Request::default()).unwrap();
    let plan = Plan::of(&scope, &look, &Choice::default()).unwrap();
    let fleet =
        Fleet { profile: "x".into(), members: vec![Member { name: "x".into(), source: "x".into(), audit: look }] };
    let look = audit(&read, &Request::default(), &latency()).unwrap();
    for shown in [text::audit(&look, true, PAGE), text::plan(&plan, PAGE), show::table(&fleet, true, PAGE)] {
        assert!(shown.contains("swappiness"), "{shown}");
        assert!(!shown.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{shown:?}");
    }
}

/// Many interfaces, each with many rows of /proc/interrupts, many CPUs: what is read of them is bounded.
#[test]
fn a_hostile_file_is_read_in_bounds() {
    let mut text = "sys/devices/system/cpu/online: 0-8191\nproc/uptime: 100.0 1\n".to_owned();
    for number in 0..400 {
        text.push_str(&format!("sys/class/net/e{number}/device -> ../../../devices/virtio0\n"));
    }
    text.push_str("sys/devices/virtio0/uevent: DRIVER=x\nproc/interrupts <<\nCPU0\n");
    (0..10_000).for_each(|irq| text.push_str(&format!("{irq}: 1 virtio0-x\n")));
    text.push_str(">>\n");
    let folder = unpack(&text);
    let taken = record(&Tree::at(folder.path()), &[], CpuSet::list("0-3").as_ref()).unwrap();
    let audit = audit(&taken, &Request::default(), &latency()).unwrap();
    assert_eq!(audit.interfaces.len(), 256);
    assert!(audit.findings.iter().all(|finding| finding.values.len() <= 10_000));
}

/// What the fuzzer begins with is a host.
#[test]
fn the_seed_is_a_saved_host() {
    let seed = parse_any(include_bytes!("../../../fuzz/seeds/tune_files/saved")).expect("it is one");
    let audit = audit(&seed, &Request::default(), &latency()).unwrap();
    assert_eq!(audit.finding("mem-swappiness").unwrap().status, Status::Warn);
    assert_eq!(audit.finding("cpu-smi").unwrap().status, Status::NotApplicable, "the seed knows no time since boot");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// A host that says anything can be recorded, read again, and checked.
    #[test]
    fn any_host(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let Ok(taken) = record(&Babble(&bytes), &["eth0".to_owned()], None) else { return Ok(()) };
        // A name that no host can have is refused.
        let Some(read) = parse_any(taken.to_json().unwrap().as_bytes()) else { return Ok(()) };
        let Ok(audit) = audit(&read, &Request::default(), &latency()) else { return Ok(()) };
        let member = Member { name: read.name.clone(), source: "x".into(), audit };
        let fleet = Fleet { profile: "x".into(), members: vec![member] };
        let shown = show::table(&fleet, true, PAGE);
        prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{:?}", shown);
    }

    /// A file that was changed anywhere is refused, or is a host.
    #[test]
    fn a_changed_file(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = saved(HOSTS[2].1).to_json().unwrap().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(read) = parse_any(&bytes) {
            let _ = audit(&read, &Request::default(), &latency());
        }
    }
}

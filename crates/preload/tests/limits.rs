//! Descriptors and memory of a program under the library: it closes what it does not know, has no descriptor left, makes very many
//! connections.
//!
//! `SIDESTEP_CONNECTIONS` is how many are opened and closed (10000).

#[path = "support/host.rs"]
mod host;
mod support;

use host::{Hosts, Running};
use sidestep_sys::Problem;
use std::time::Duration;

/// RLIMIT_NOFILE of a program with few descriptors.
const FEW: u32 = 64;

/// What has grown by less than this since a quarter of the connections, grows with none of them. KiB.
const GROWTH_MAX: i64 = 4096;

/// The connections of a second at the very least, on a machine that does other things, too.
const RATE_MIN: u64 = 100;

const PORT: &str = "9000";

fn echo(hosts: &Hosts) -> (Running, String) {
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("echo_all.py", &[&address, PORT]);
    server.wait_for("listens");
    (server, address)
}

#[test]
fn a_program_may_close_every_descriptor_that_it_does_not_know() {
    let Some(hosts) = Hosts::up() else { return };
    let (_server, address) = echo(&hosts);
    for manner in ["listed", "counted", "ranges", "replaced", "child"] {
        let arguments = [&address, PORT, manner];
        let (bare, _) = hosts.start_bare("closes_others.c", &arguments).finish();
        let (out, told) = hosts.start_ours("closes_others.c", &arguments).finish();
        assert_eq!(out, bare, "{manner}: {told}");
        assert_eq!(told.matches("accelerated").count(), 2, "{manner}: {told}");
    }
}

/// The first number of a text.
fn number_in(text: &str) -> u32 {
    let digits = text.split(|letter: char| !letter.is_ascii_digit()).find(|part| !part.is_empty());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no number in {text:?}"))
}

#[test]
fn where_no_descriptor_is_left_a_program_is_told_what_the_kernel_tells() {
    let Some(hosts) = Hosts::up() else { return };
    let (_server, address) = echo(&hosts);
    let few = FEW.to_string();
    // Connections that there are before the limit is set.
    for before in ["0", "5"] {
        for which in ["soft", "hard"] {
            let arguments = ["dial", &address, PORT, which, &few, before];
            let (bare, _) = hosts.start_bare("few_descriptors.c", &arguments).finish();
            let (out, told) = hosts.start_ours("few_descriptors.c", &arguments).finish();
            println!("{which}, {before} before: bare: {bare}under the library: {out}");
            assert!(told.contains("accelerated"), "{told}");
            if which == "soft" {
                // The library's are beyond the limit.
                assert_eq!(out, bare, "{told}");
                assert!(!told.contains("kernel"), "{told}");
            } else {
                // The library has the last quarter; without a descriptor for it a connection is the kernel's.
                assert!(number_in(&out) >= FEW / 4 * 3 - 6, "{out}{told}");
                assert!(told.contains("leaves no descriptor for the library"), "{told}");
            }
        }
    }
}

#[test]
fn connections_for_which_there_was_no_descriptor_are_accepted_later() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.ours().ipv4.to_string();
    let few = FEW.to_string();
    for which in ["soft", "hard"] {
        for waiting in ["30", "200"] {
            for is_ours in [false, true] {
                let arguments = ["accept", &address, PORT, which, &few, waiting];
                let start = if is_ours { Hosts::start_ours } else { Hosts::start_bare };
                let mut server = start(&hosts, "few_descriptors.c", &arguments);
                server.wait_for("listens");
                let peer = ["peer", &address, PORT, which, "0", waiting];
                let (out, _) = hosts.start_linux("few_descriptors.c", &peer).finish();
                assert_eq!(out, format!("{waiting} answered\n"));
                let (out, told) = server.finish();
                let refused = if waiting == "30" { "none refused" } else { "some later" };
                assert_eq!(out, format!("{waiting} served, {refused}\n"), "{which}: {told}");
                assert_eq!(told.contains("accelerated"), is_ours, "{told}");
            }
        }
    }
}

/// What a program says of memory and descriptors, KiB and numbers: after a quarter of the connections, and after all.
fn growth(said: &str) -> [i64; 2] {
    let numbers: Vec<i64> =
        said.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect();
    let [_, memory_before, memory, descriptors_before, descriptors] = numbers[..] else { panic!("{said:?}") };
    [memory - memory_before, descriptors - descriptors_before]
}

fn many_connections(dials_from_ours: bool) {
    let Some(hosts) = Hosts::up() else { return };
    let count = std::env::var("SIDESTEP_CONNECTIONS").unwrap_or_else(|_| "10000".to_owned());
    let longest = Duration::from_secs(60 + count.parse::<u64>().expect("SIDESTEP_CONNECTIONS is a number") / RATE_MIN);
    // Linux may connect from a port again before a minute is over, as the stack does.
    for (key, value) in [("tcp_tw_reuse", "1"), ("ip_local_port_range", "10000 60000")] {
        let file = format!("/proc/sys/net/ipv4/{key}");
        let write = || std::fs::write(&file, value).map_err(|error| Problem::failed(&file, error));
        hosts.linux().within(write).expect("root can set it");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let start = |is_ours: bool, arguments: &[&str]| {
        if is_ours {
            hosts.start_logging("many_connections.c", arguments, &log)
        } else {
            hosts.start_linux("many_connections.c", arguments)
        }
    };
    let address = if dials_from_ours { hosts.linux().ipv4 } else { hosts.ours().ipv4 }.to_string();
    let mut server = start(!dials_from_ours, &["serve", &address, PORT, &count]);
    server.wait_for("listens");
    let (dialed, _) = start(dials_from_ours, &["dial", &address, PORT, &count]).finish_within(longest);
    let (served, _) = server.finish_within(longest);
    let said = if dials_from_ours { &dialed } else { &served };
    println!("{said}");
    let [memory, descriptors] = growth(said);
    assert!(memory <= GROWTH_MAX && descriptors <= 0, "{said}");
    let told = std::fs::read_to_string(&log).expect("it says what becomes of its connections");
    let by_kernel = told.lines().filter(|line| line.contains("kernel")).count();
    let past = told.lines().filter(|line| line.contains("accelerated")).count();
    println!("{past} past the kernel, {by_kernel} by it");
    assert!(
        past >= count.parse::<usize>().expect("a number") && by_kernel == 0,
        "{past} past the kernel, {by_kernel} by it"
    );
}

#[test]
fn what_a_program_dials_costs_nothing_when_it_is_closed() {
    many_connections(true);
}

#[test]
fn what_a_program_accepts_costs_nothing_when_it_is_closed() {
    many_connections(false);
}

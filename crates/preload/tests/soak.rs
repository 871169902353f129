//! Threads that open, close, duplicate, fork and execute at random, with streams whose every byte is known: none is lost, none is another's,
//! no descriptor stays open, nothing hangs.
//!
//! `SIDESTEP_SOAK_SECONDS` is the time of each test (4), `SIDESTEP_SEED` the seed of one that failed.

#[path = "support/host.rs"]
mod host;
mod support;

use host::Hosts;
use std::time::Duration;

/// What the library may have beside the program's descriptors when no connection is left.
const OWN_MAX: usize = 40;

/// After the time of the test, for what ends then.
const ENDING: Duration = Duration::from_secs(40);

fn of_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Runs the dialing and the serving end; one of them is under the library.
fn soak(dials_from_ours: bool, is_ipv6: bool) {
    let Some(hosts) = Hosts::up() else { return };
    let seconds = of_environment("SIDESTEP_SOAK_SECONDS").unwrap_or(4);
    let seed = of_environment("SIDESTEP_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SIDESTEP_SEED={seed}");
    let to = if dials_from_ours { hosts.linux() } else { hosts.ours() };
    let address = if is_ipv6 { to.ipv6.expect("this kernel has IPv6").to_string() } else { to.ipv4.to_string() };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let start = |is_ours: bool, arguments: &[&str]| {
        if is_ours { hosts.start_logging("soak.c", arguments, &log) } else { hosts.start_linux("soak.c", arguments) }
    };
    let longest = Duration::from_secs(seconds) + ENDING;
    let mut server = start(!dials_from_ours, &["serve", &address, "9000", &seed.to_string()]);
    server.wait_for("listens");
    // CLOCK_MONOTONIC, as the program counts.
    let end_ms = sidestep_control_api::heartbeat::monotonic_ns() / 1_000_000 + seconds * 1000;
    let client = start(dials_from_ours, &["dial", &address, "9000", &seed.to_string(), &end_ms.to_string()]);
    let (dialed, dialed_well, dialed_err) = client.end_within(longest);
    if dialed.success() {
        server.say("end");
    }
    // One that has failed has ended before.
    let (served, served_well, served_err) = server.end_within(ENDING);
    assert!(
        dialed.success() && served.success(),
        "dial: {dialed}, {dialed_well}{dialed_err}\nserve: {served}, {served_well}{served_err}"
    );
    let said = if dials_from_ours { &dialed_well } else { &served_well };
    let told = std::fs::read_to_string(&log).expect("it says what becomes of its connections");
    println!("{said}{} past the kernel", told.matches("accelerated").count());
    assert!(said.contains("good: "), "{said}");
    // Some connections went past the kernel, and some of those to it when children had them.
    assert!(told.matches("accelerated").count() > 10, "{told}");
    assert!(told.contains("to the kernel"), "{told}");
    let own = said.split(", ").last().and_then(|last| last.split(' ').next()?.parse::<usize>().ok());
    assert!(own.is_some_and(|own| own <= OWN_MAX), "{said}");
}

#[test]
fn what_a_program_dials_is_whole_whatever_its_threads_do_to_it() {
    soak(true, false);
}

#[test]
fn what_a_program_accepts_is_whole_whatever_its_threads_do_to_it() {
    soak(false, true);
}

//! SIGKILL, of a program under the library and of its peer, while bytes are under way: what the other end is told.

#[path = "support/host.rs"]
mod host;
mod support;

use host::{Hosts, Running};
use std::collections::BTreeSet;

const CONNECTIONS: usize = 12;
const PORT: &str = "9000";

/// Both ends of [`CONNECTIONS`] connections, of which one is under the library: the end that dials, and the one that serves.
struct Ends {
    dials: Running,
    serves: Running,
}

fn start(hosts: &Hosts, dials_from_ours: bool, load: &str, is_library_used: bool) -> Ends {
    let to = if dials_from_ours { hosts.linux() } else { hosts.ours() };
    let address = to.ipv4.to_string();
    let count = CONNECTIONS.to_string();
    let start = |is_ours: bool, role: &str| {
        let arguments = [role, &address, PORT, &count, load];
        match (is_ours, is_library_used) {
            (true, true) => hosts.start_ours("outcomes.py", &arguments),
            (true, false) => hosts.start_bare("outcomes.py", &arguments),
            (false, _) => hosts.start_linux("outcomes.py", &arguments),
        }
    };
    let mut serves = start(!dials_from_ours, "serve");
    serves.wait_for("listens");
    let mut dials = start(dials_from_ours, "dial");
    dials.wait_for("going");
    serves.wait_for("going");
    Ends { dials, serves }
}

/// What a program was told of each of its connections: by its receiving thread, and by its sending one.
fn outcomes(mut survivor: Running, load: &str) -> (Vec<String>, String) {
    if load == "idle" {
        survivor.say("send");
    }
    let (out, told) = survivor.finish();
    let outcomes: Vec<String> = out.lines().map(str::to_owned).collect();
    assert_eq!(outcomes.len(), CONNECTIONS, "{out}{told}");
    (outcomes, told)
}

/// A program under the library goes past the kernel by the queue that the killed one had.
fn is_queue_free(hosts: &Hosts) {
    let address = hosts.ours().ipv4.to_string();
    let mut server = hosts.start_ours("closing_server.py", &[&address]);
    let port = server.line();
    let (out, _) = hosts.start_linux("closing_server.py", &[&address, &port]).finish();
    assert_eq!(out, "echoed\n");
    let (_, told) = server.finish();
    assert!(told.contains("accelerated"), "{told}");
}

#[test]
fn the_peers_of_a_program_that_is_killed_are_reset_when_they_send() {
    let Some(hosts) = Hosts::up() else { return };
    for dials_from_ours in [true, false] {
        for load in ["busy", "idle"] {
            let Ends { dials, serves } = start(&hosts, dials_from_ours, load, true);
            let (killed, survivor) = if dials_from_ours { (dials, serves) } else { (serves, dials) };
            drop(killed);
            let (outcomes, _) = outcomes(survivor, load);
            let expected: &[&str] = match load {
                // The thread that comes second is told by EPIPE, or by the end.
                "busy" => &["ECONNRESET EPIPE", "end ECONNRESET", "ECONNRESET ECONNRESET"],
                _ => &["ECONNRESET sent"],
            };
            assert!(outcomes.iter().all(|outcome| expected.contains(&outcome.as_str())), "{load}: {outcomes:?}");
            is_queue_free(&hosts);
        }
    }
}

#[test]
fn a_program_is_told_of_a_peer_that_is_killed_as_by_the_kernel() {
    let Some(hosts) = Hosts::up() else { return };
    for dials_from_ours in [true, false] {
        for load in ["busy", "idle"] {
            let [bare, ours] = [false, true].map(|is_library_used| {
                let Ends { dials, serves } = start(&hosts, dials_from_ours, load, is_library_used);
                let (killed, survivor) = if dials_from_ours { (serves, dials) } else { (dials, serves) };
                drop(killed);
                let (outcomes, told) = outcomes(survivor, load);
                assert_eq!(told.contains("accelerated"), is_library_used, "{told}");
                outcomes
            });
            println!("{load}: by the kernel {bare:?}, under the library {ours:?}");
            if load == "idle" {
                // Nothing was unread: a FIN, and what is sent after it is still taken.
                assert_eq!(ours, bare);
                continue;
            }
            let possible = ["ECONNRESET EPIPE", "end ECONNRESET", "ECONNRESET ECONNRESET", "end EPIPE"];
            let possible = BTreeSet::from(possible.map(str::to_owned));
            for outcomes in [bare, ours] {
                assert!(outcomes.iter().all(|outcome| possible.contains(outcome)), "{outcomes:?}");
            }
        }
    }
}

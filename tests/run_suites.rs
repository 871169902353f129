//! Suites of others under the library: Python's tests of its network modules and the stressors of stress-ng, which say the same as without
//! it. All of them take a quarter of an hour, so they are asked for: `cargo test --test run_suites -- --ignored --nocapture`. A short part
//! runs always.

mod support;

use sidestep_lab::Side;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::unmodified::Hosts;
use support::{finish_within, is_root, my_turn};

/// A Python test module may take this long.
const MODULE: Duration = Duration::from_secs(500);

const PYTHON: &str = "/usr/bin/python3";

/// Modules of libpython3.11-testsuite.
const MODULES: &[&str] = &[
    "test_socket",
    "test_selectors",
    "test_asyncio",
    "test_socketserver",
    "test_ssl",
    "test_httpservers",
    "test_ftplib",
];

/// The module that asks for the network, and means loopback. For others it would be the Internet.
const ASKS_FOR_NETWORK: &str = "test_socketserver";

/// Those whose servers can be put at the lab's address.
const MODULES_AT_INTERFACE: &[&str] = &["test_socket", "test_ssl", "test_httpservers"];

/// Runs modules with the address of an interface where they would take a loopback address.
const AT_INTERFACE: &str = "
import sys
from test.support import socket_helper
socket_helper.HOST = socket_helper.HOSTv4 = sys.argv.pop(1)
socket_helper.HOSTv6 = sys.argv.pop(1)
socket_helper.bind_port.__defaults__ = (socket_helper.HOST,)
from test.libregrtest import main
main()
";

/// Stressors, on loopback and at the lab's interface.
const STRESSORS: &[&str] = &[
    "--sock 2",
    "--sock 2 --sock-if lab0",
    "--epoll 2",
    "--poll 2",
    "--udp 2",
    "--udp 2 --udp-if lab0",
    "--sockmany 1",
    "--sockmany 1 --sockmany-if lab0",
    "--sockfd 2",
    "--sockpair 2",
    "--sockabuse 1",
];

/// Those of a few seconds.
const SHORT_MODULES: &[&str] = &["test_selectors", "test_socketserver", "test_httpservers"];
const SHORT_STRESSORS: &[&str] = &["--sock 1 --sock-if lab0"];

/// The outcome of a module: how many tests ran, and which failed.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    ran: Option<String>,
    skipped: usize,
    failed: BTreeSet<String>,
}

impl Outcome {
    fn of(output: &str) -> Self {
        let starts = |line: &&str| line.starts_with("FAIL: ") || line.starts_with("ERROR: ");
        let ran =
            output.lines().find_map(|line| line.strip_prefix("Ran ")?.split_once(" tests").map(|(count, _)| count));
        let skipped = output.lines().filter(|line| line.contains("... skipped ")).count();
        Self {
            ran: ran.map(str::to_owned),
            skipped,
            failed: output.lines().filter(starts).map(str::to_owned).collect(),
        }
    }
}

/// A command of both ways: bare, and under the library.
fn command(hosts: &Hosts, program: &str, log: Option<&Path>) -> Command {
    let mut command = hosts.command(Side::B, program);
    command.current_dir(hosts.folder.path()).env("TMPDIR", hosts.folder.path());
    if let Some(log) = log {
        hosts.accelerate(Side::B, &mut command, log);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run_module(hosts: &Hosts, start: &[String], module: &str, log: Option<&Path>) -> Outcome {
    let mut command = command(hosts, PYTHON, log);
    // A virtual machine's sockets (VSOCK) have nobody at the other end here.
    command.args(start).args(["-v", "--timeout", "400", "-i", "*VSOCK*"]);
    if module == ASKS_FOR_NETWORK {
        command.args(["-u", "network"]);
    }
    command.arg(module);
    let done = finish_within(MODULE, command.spawn().expect("Python is there"));
    let outcome = Outcome::of(&(done.stdout.clone() + &done.stderr));
    assert!(outcome.ran.is_some(), "{module}: {}\n{}", done.stdout, done.stderr);
    assert_eq!(done.code == 0, outcome.failed.is_empty(), "{module}: exit code {}: {outcome:?}", done.code);
    outcome
}

fn compare_modules(modules: &[&str], start: impl Fn(&Hosts) -> Vec<String>) {
    let hosts = Hosts::accelerated(&[Side::B]);
    let start = start(&hosts);
    let mut differing = Vec::new();
    for module in modules {
        let bare = run_module(&hosts, &start, module, None);
        let under = run_module(&hosts, &start, module, Some(&hosts.folder.path().join("why")));
        println!(
            "{module}: {} tests, {} skipped, failing without the library: {:?}",
            bare.ran.as_deref().unwrap_or(""),
            bare.skipped,
            bare.failed
        );
        if bare != under {
            differing.push(format!("{module}: bare {bare:?}, under the library {under:?}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn is_there(path: &str) -> bool {
    let is_there = Path::new(path).exists();
    if !is_there {
        eprintln!("skipped: no {path} (scripts/bootstrap programs)");
    }
    is_there
}

#[test]
#[ignore = "takes minutes"]
fn pythons_tests_pass_as_without_the_library() {
    let _turn = my_turn();
    if is_root() && is_there("/usr/lib/python3.11/test/test_socket.py") {
        compare_modules(MODULES, |_| vec!["-m".to_owned(), "test".to_owned()]);
    }
}

#[test]
#[ignore = "takes minutes"]
fn pythons_tests_at_an_interface_pass_as_without_the_library() {
    let _turn = my_turn();
    if is_root() && is_there("/usr/lib/python3.11/test/test_socket.py") {
        compare_modules(MODULES_AT_INTERFACE, |hosts| {
            let host = hosts.lab.host(Side::B);
            let ipv6 = host.ipv6.expect("this kernel has IPv6");
            vec!["-c".to_owned(), AT_INTERFACE.to_owned(), host.ipv4.to_string(), ipv6.to_string()]
        });
    }
}

#[test]
fn the_short_ones_of_pythons_tests_pass_as_without_the_library() {
    let _turn = my_turn();
    if is_root() && is_there("/usr/lib/python3.11/test/test_socket.py") {
        compare_modules(SHORT_MODULES, |_| vec!["-m".to_owned(), "test".to_owned()]);
    }
}

#[test]
#[ignore = "takes minutes"]
fn stressors_succeed_as_without_the_library() {
    stress(STRESSORS, "20s");
}

#[test]
fn a_stressor_succeeds_for_a_moment_as_without_the_library() {
    stress(SHORT_STRESSORS, "3s");
}

fn stress(stressors: &[&str], time: &str) {
    let _turn = my_turn();
    if !(is_root() && is_there("/usr/bin/stress-ng")) {
        return;
    }
    let hosts = Hosts::accelerated(&[Side::B]);
    for stressor in stressors {
        for log in [None, Some(hosts.folder.path().join("why"))] {
            let mut command = command(&hosts, "stress-ng", log.as_deref());
            command.args(stressor.split(' ')).args(["--timeout", time, "--verify"]);
            let done = finish_within(MODULE, command.spawn().expect("stress-ng is there"));
            assert_eq!(done.code, 0, "{stressor}, {log:?}: {}{}", done.stdout, done.stderr);
        }
        println!("{stressor}: no failure");
    }
}

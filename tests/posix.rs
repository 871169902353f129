//! The conformance program of socket behaviour (tests/posix, C): all of it holds on the kernel, and what differs under the library
//! stands in tests/posix/differences.txt.
//!
//! `SIDESTEP_POSIX=PART_OF_A_NAME` runs the tests of that name alone; `SIDESTEP_POSIX_OUT=FOLDER` keeps what they said.

mod support;

use sidestep_lab::Side;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::unmodified::Hosts;
use support::{is_root, my_turn};

/// An assertion that failed, with what it said.
type Failures = BTreeMap<String, String>;

/// What a run is called in messages.
const LOOPBACK: &str = "kernel over loopback";
const TWO_HOSTS: &str = "kernel between two hosts";
const LIBRARY: &str = "library between two hosts";

/// Compiles the program: warnings are errors.
fn compile(folder: &Path, more: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/posix");
    let program = folder.join(format!("conformance{}", more.len()));
    let is_source = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "c");
    let listed = std::fs::read_dir(sources).expect("the sources are there").flatten().map(|entry| entry.path());
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread"]).args(more);
    command.args(listed.filter(is_source)).arg("-o").arg(&program);
    assert!(command.status().expect("cc is there").success(), "cc {more:?}");
    program
}

/// The peer, which ends with its value.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run of the program on host a.
struct Run {
    hosts: Hosts,
    /// The host of the peer; on its own host the tests go over loopback.
    peer: Side,
    is_accelerated: bool,
}

impl Run {
    fn addresses(&self) -> [String; 4] {
        if self.peer == Side::A {
            return ["127.0.0.1", "::1", "127.0.0.1", "::1"].map(str::to_owned);
        }
        let of = |side| {
            let host = self.hosts.lab.host(side);
            (host.ipv4.to_string(), host.ipv6.expect("this kernel has IPv6").to_string())
        };
        let ((ours_4, ours_6), (theirs_4, theirs_6)) = (of(Side::A), of(Side::B));
        [ours_4, ours_6, theirs_4, theirs_6]
    }

    /// Returns what the program said of the tests that have `only` in their names, or of all.
    fn output(&self, program: &Path, name: &str, only: Option<&str>) -> String {
        let control = self.hosts.folder.path().join("peer");
        let mut peer = self.hosts.command(self.peer, program);
        let _peer = Peer(peer.arg("peer").arg(&control).spawn().expect("it was compiled"));
        let mut command = self.hosts.command(Side::A, program);
        command.arg("run").arg(&control).args(self.addresses()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command.args(only);
        let log = self.hosts.folder.path().join("log");
        if self.is_accelerated {
            self.hosts.accelerate(Side::A, &mut command, &log);
        }
        let output = command.output().expect("it was compiled");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some(folder) = std::env::var_os("SIDESTEP_POSIX_OUT").map(PathBuf::from) {
            std::fs::write(folder.join(name), &text).expect("the folder is there");
            let _ = std::fs::copy(log, folder.join(format!("{name}.log")));
        }
        text
    }
}

/// The tests that the user asks for.
fn wanted() -> Option<String> {
    std::env::var("SIDESTEP_POSIX").ok()
}

/// Names of all assertions, and those that failed. A name stands for one assertion.
fn results(output: &str) -> (BTreeSet<String>, Failures) {
    let (mut names, mut failures) = (BTreeSet::new(), Failures::new());
    for line in output.lines().filter(|line| !line.starts_with('#')) {
        let (failed, rest) = line.strip_prefix("not ").map_or((false, line), |rest| (true, rest));
        let rest = rest.strip_prefix("ok ").unwrap_or_else(|| panic!("not a result: {line}"));
        let (name, details) = rest.split_once(' ').unwrap_or((rest, ""));
        assert!(names.insert(name.to_owned()) || failed, "two assertions have the name {name}");
        if failed {
            failures.insert(name.to_owned(), details.to_owned());
        }
    }
    (names, failures)
}

fn list(failures: &Failures) -> String {
    failures.iter().map(|(name, details)| format!("{name} {details}\n")).collect()
}

/// Everything holds on the kernel; returns the names.
fn check_kernel(program: &Path, peer: Side, name: &str) -> BTreeSet<String> {
    let run = Run { hosts: Hosts::bare(), peer, is_accelerated: false };
    let (names, failures) = results(&run.output(program, name, wanted().as_deref()));
    assert!(failures.is_empty(), "{name}: {} of {}:\n{}", failures.len(), names.len(), list(&failures));
    println!("{name}: {} assertions hold", names.len());
    names
}

#[test]
fn linux_does_what_the_program_says_over_loopback() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let names = check_kernel(&compile(folder.path(), &[]), Side::A, LOOPBACK);
    assert!(names.len() > 3_000 || wanted().is_some(), "{}", names.len());
}

#[test]
fn linux_does_what_the_program_says_between_two_hosts() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    check_kernel(&compile(folder.path(), &["-D_FORTIFY_SOURCE=2"]), Side::B, TWO_HOSTS);
}

/// Returns whether a pattern, in which `*` stands for any letters, fits a name.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut is_last_open = false;
    for part in parts {
        let Some(at) = rest.rfind(part) else { return false };
        rest = &rest[at + part.len()..];
        is_last_open = part.is_empty();
    }
    rest.is_empty() || is_last_open
}

/// A pattern of assertions that may differ.
struct Difference {
    pattern: String,
    /// Not in every run.
    is_rare: bool,
}

fn known_differences() -> Vec<Difference> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/posix/differences.txt");
    let text = std::fs::read_to_string(path).expect("the list is there");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let entries = lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("no reason: {line}")).0);
    entries
        .map(|entry| Difference { pattern: entry.trim_start_matches('~').to_owned(), is_rare: entry.starts_with('~') })
        .collect()
}

/// Those of the failures that fail in a second run of their tests, too, or are not come to there, and what fails there in the same
/// tests. The others are told: they had too little time, or a fault is a rare one.
fn differing_again(run: &Run, program: &Path, failures: &Failures) -> Failures {
    let group = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let test = |name: &str| name.rsplit_once('.').map_or(name, |(test, _)| test).to_owned();
    let groups: BTreeSet<String> = failures.keys().map(|name| group(name)).collect();
    let tests: BTreeSet<String> = failures.keys().map(|name| test(name)).collect();
    let mut twice = Failures::new();
    for of_group in groups {
        let (names, again) = results(&run.output(program, &format!("{of_group} again"), Some(&of_group)));
        twice.extend(again.clone().into_iter().filter(|(name, _)| tests.contains(&test(name))));
        for (name, details) in failures.iter().filter(|(name, _)| group(name) == of_group) {
            if !names.contains(name) {
                twice.insert(name.clone(), format!("{details}, and was not come to in a second run"));
            } else if !again.contains_key(name) {
                eprintln!("{name} differed in one of two runs: {details}");
            }
        }
    }
    twice
}

/// What fails under the library is listed, and what is listed fails.
fn check_accelerated(peer: Side, name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), &[]);
    let run = Run { hosts: Hosts::accelerated(&[Side::A]), peer, is_accelerated: true };
    let (names, failures) = results(&run.output(&program, name, wanted().as_deref()));
    println!("{name}: {} of {} assertions hold", names.len() - failures.len(), names.len());
    assert!(names.len() > 3_000 || wanted().is_some(), "{}", names.len());
    let known = known_differences();
    let is_known = |name: &String| known.iter().any(|known| fits(&known.pattern, name));
    let new: Failures =
        failures.iter().filter(|(name, _)| !is_known(name)).map(|(a, b)| (a.clone(), b.clone())).collect();
    let new: Failures = differing_again(&run, &program, &new).into_iter().filter(|(name, _)| !is_known(name)).collect();
    assert!(new.is_empty(), "{name}: {} differ:\n{}", new.len(), list(&new));
    let is_stale = |known: &&Difference| !known.is_rare && !failures.keys().any(|name| fits(&known.pattern, name));
    let stale: Vec<&String> = known.iter().filter(is_stale).map(|known| &known.pattern).collect();
    assert!(stale.is_empty() || wanted().is_some(), "these differ no longer: {stale:?}");
}

#[test]
fn the_library_does_what_linux_does_between_two_hosts() {
    let _turn = my_turn();
    if is_root() {
        check_accelerated(Side::B, LIBRARY);
    }
}

#[test]
fn patterns_of_differences_fit_whole_names() {
    assert!(fits("a.b", "a.b") && fits("a.*.c", "a.b.c") && fits("a.*", "a.b.c"));
    assert!(!fits("a.b", "a.bc") && !fits("a.*.c", "a.c") && !fits("*.x", "a.b"));
}

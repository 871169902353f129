//! The examples that need no privilege and no interface, as a reader of the book runs them: streams of each kind, and FIX.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::finish;

/// Killed when the test ends, however it does.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where cargo puts an example. `cargo test` builds them all; `cargo test --test example_programs` alone does not.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its file");
    let path = test.parent().and_then(Path::parent).expect("deps is in a folder").join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --example {name}", path.display());
    path
}

fn start(name: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(example(name));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn streams_of_each_kind_are_echoed() {
    for arguments in [["tcp", "spin"], ["tcp", "block"], ["unix", "epoll"], ["shm", "spin"], ["shm", "block"]] {
        let ended = finish(start("echo", &arguments));
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stdout.ends_with(" for each of 10000 round trips\n"), "{arguments:?}: {}", ended.stdout);
    }
}

#[test]
fn an_initiator_gets_its_orders_acknowledged() {
    let mut acceptor = Process(start("fix_acceptor", &["127.0.0.1:0"]));
    let mut told = String::new();
    // Read to the end of the test: the acceptor goes on writing.
    let mut output = BufReader::new(acceptor.0.stdout.take().unwrap());
    output.read_line(&mut told).unwrap();
    let address = told.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{told}"));
    let ended = finish(start("fix_initiator", &[address]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let orders: Vec<_> = ended.stdout.lines().filter(|line| line.starts_with("order ")).collect();
    assert_eq!(orders.len(), 10, "{}", ended.stdout);
    let mut logon = String::new();
    output.read_line(&mut logon).unwrap();
    assert_eq!(logon, "FIX.4.4:VENUE->CLIENT is logged on\n");
}

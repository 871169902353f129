//! `sidestep ring` as a user types it, on rings that this test makes.

mod support;

use serde_json::Value;
use sidestep::ring::broadcast::Publisher;
use sidestep::ring::layout::{ABI_AND_KIND_AT, HEADER_BYTES};
use sidestep::ring::spsc::Resume;
use sidestep::ring::{Access, Cell, Kind, Options, Segment, Waking};
use sidestep_ring::seqlock::{self, Array};
use sidestep_sys::process::die_with_parent;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use support::{Finished, WATCHDOG, finish, run, send_signal, sidestep};

const CHILD: &str = "SIDESTEP_RING_TEST_FILE";

fn make(folder: &Path, kind: Kind, bytes: usize) -> (Segment, PathBuf) {
    let file = folder.join("ring");
    (Segment::create(&file, &Options { kind, cell: Cell::Line, bytes, waking: Waking::Barrier }).expect("a ring"), file)
}

fn text(file: &Path) -> &str {
    file.to_str().expect("UTF-8")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < WATCHDOG, "{what}");
        std::thread::yield_now();
    }
}

/// A tail that runs, and the lines that it prints.
struct Tail {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Tail {
    fn start(file: &Path, options: &[&str]) -> Self {
        let arguments: Vec<&str> = ["ring", "tail", text(file)].into_iter().chain(options.iter().copied()).collect();
        let mut command = sidestep(&arguments);
        die_with_parent(&mut command);
        let mut child = command.spawn().expect("the binary is built");
        let lines = BufReader::new(child.stdout.take().expect("its output is caught"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("UTF-8");
        line
    }

    /// The rest of what it prints, and how it ends.
    fn end(mut self) -> (String, Finished) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("UTF-8");
        (rest, finish(self.child))
    }
}

/// Messages and lost messages of the sentence at the end.
fn summary(stderr: &str) -> (u64, u64) {
    let last = stderr.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last.split([' ', '(']).filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.len(), 3, "{stderr}");
    (numbers[0], numbers[1])
}

#[test]
fn stat_of_both_kinds() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (segment, file) = make(folder.path(), Kind::Spsc, 4096);
    let mut producer = segment.producer().expect("the side is free");
    let mut consumer = segment.consumer(Resume::Unread).expect("the side is free");
    for message in [&b"one"[..], b"three", &[0; 100]] {
        producer.try_send(message).expect("room");
    }
    drop(consumer.try_read().expect("a message"));
    drop(consumer);
    let stat = run(&["ring", "stat", text(&file), "--json", "-"]).json();
    assert_eq!(stat["kind"], "spsc");
    assert_eq!(stat["capacity_bytes"], 4096);
    assert_eq!(stat["written"], serde_json::json!({ "messages": 3, "bytes": 108, "cells": 4 }));
    assert_eq!(stat["read"]["messages"], 1);
    assert_eq!((&stat["writer"]["pid"], &stat["writer"]["alive"]), (&std::process::id().into(), &true.into()));
    assert_eq!((&stat["reader"]["pid"], &stat["reader"]["closed"]), (&Value::Null, &true.into()));
    assert_eq!((&stat["fault"], &stat["lost"]), (&Value::Null, &0.into()));
    let shown = run(&["ring", "stat", text(&file)]);
    for words in ["spsc ring of 4096 bytes", "unread     2 messages", "nobody, closed", "3 messages, 108 bytes"] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    let json = folder.path().join("stat.json");
    assert_eq!(run(&["ring", "stat", text(&file), "--json", text(&json)]).stdout, "");
    assert_eq!(serde_json::from_slice::<Value>(&fs::read(&json).expect("written")).expect("JSON")["lost"], 0);

    fs::remove_file(&file).expect("it exists");
    let (segment, file) = make(folder.path(), Kind::Broadcast, 4096);
    segment.publisher().expect("the side is free").publish(b"tick").expect("short enough");
    let stat = run(&["ring", "stat", text(&file), "--json", "-"]).json();
    assert_eq!((&stat["kind"], &stat["read"], &stat["reader"]), (&"broadcast".into(), &Value::Null, &Value::Null));
    assert_eq!((&stat["written"]["messages"], &stat["writer"]["closed"]), (&1.into(), &true.into()));
}

#[test]
fn stat_of_an_array_of_records_tells_its_size_its_writer_and_its_newest_stamp() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tops");
    let options = seqlock::Options { records: 100, tag: u64::from_ne_bytes(*b"TOPS0001") };
    let mut writer = Array::<7>::create(&file, &options).expect("an array").writer().expect("the side is free");
    writer.write(42, 7001, &[1; 7]).expect("there is such a record");
    let stat = run(&["ring", "stat", text(&file), "--json", "-"]).json();
    assert_eq!((&stat["kind"], &stat["tag"]), (&"array".into(), &"TOPS0001".into()));
    assert_eq!((&stat["records"], &stat["record_bytes"]), (&100.into(), &64.into()));
    assert_eq!((&stat["written"], &stat["busy"], &stat["newest_stamp"]), (&1.into(), &0.into(), &7001.into()));
    assert_eq!((&stat["writer"]["pid"], &stat["writer"]["alive"]), (&std::process::id().into(), &true.into()));
    drop(writer);
    let shown = run(&["ring", "stat", text(&file)]);
    for words in ["array of 100 records of 64 bytes, kind TOPS0001", "1 records, newest stamp 7001", "nobody"] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    let tailed = run(&["ring", "tail", text(&file)]);
    assert!(tailed.code == 1 && tailed.stderr.contains("an array of records, not a ring"), "{}", tailed.stderr);
    let second = run(&["ring", "stat", text(&file), "--ring", "1"]);
    assert_eq!((second.code, second.stdout.as_str()), (1, ""), "{}", second.stderr);
    File::options().write(true).open(&file).expect("a file").set_len(4096 + 6400).expect("shorter");
    let whole = run(&["ring", "stat", text(&file)]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    File::options().write(true).open(&file).expect("a file").set_len(4096 + 6399).expect("shorter");
    let cut = run(&["ring", "stat", text(&file)]);
    assert_eq!((cut.code, cut.stdout.as_str()), (1, ""), "{}", cut.stderr);
    assert!(cut.stderr.contains("the array needs 10496") && cut.stderr.contains("next:"), "{}", cut.stderr);
}

#[test]
fn a_file_has_one_ring() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_segment, file) = make(folder.path(), Kind::Broadcast, 4096);
    assert_eq!(run(&["ring", "stat", text(&file), "--ring", "0", "--json", "-"]).json()["kernel_writes"], false);
    let refused = run(&["ring", "stat", text(&file), "--ring", "1"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("only a BPF map has several rings"), "{}", refused.stderr);
}

#[test]
fn what_is_no_ring_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, good) = make(folder.path(), Kind::Spsc, 4096);
    let bytes = fs::read(&good).expect("a file");
    let mut newer = bytes.clone();
    newer[ABI_AND_KIND_AT] = 9;
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo can be run").success());
    for (name, content, words) in [
        ("empty", Some(&[][..]), "the file has 0 bytes"),
        ("header", Some(&bytes[..HEADER_BYTES]), "the ring needs"),
        ("truncated", Some(&bytes[..bytes.len() - 1]), "the ring needs"),
        ("garbage", Some(&[0x5a; 10_000]), "does not begin with SIDESTEP"),
        ("newer", Some(&newer), "its ABI version is 9"),
        ("missing", None, "No such file"),
        ("fifo", None, "not a regular file"),
        (".", None, "not a regular file"),
        ("/dev/null", None, "the device is not sidestep's"),
    ] {
        let path = folder.path().join(name);
        if let Some(content) = content {
            fs::write(&path, content).expect("written");
        }
        for command in ["stat", "tail"] {
            let refused = run(&["ring", command, text(&path)]);
            assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{name}: {refused:?}");
            for words in [words, text(&path), "next:"] {
                assert!(refused.stderr.contains(words), "{command} {name}: no {words}: {}", refused.stderr);
            }
        }
    }
    let shared = run(&["ring", "tail", text(&good), "--raw", "--lines"]);
    assert_eq!(shared.code, 2, "{shared:?}");
    assert_eq!(run(&["ring", "tail", text(&good), "--count", "0"]).code, 2);
}

#[test]
fn tail_prints_bytes_for_people_and_for_programs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (segment, file) = make(folder.path(), Kind::Broadcast, 4096);
    let mut publisher = segment.publisher().expect("the side is free");
    for message in [&b"8=FIX\x01"[..], b"", b"a\\b"] {
        publisher.publish(message).expect("short enough");
    }
    let tail = |more: &[&str]| {
        let arguments = ["ring", "tail", text(&file), "--from", "oldest"];
        run(&arguments.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let two = tail(&["--count", "2"]);
    assert_eq!(two.code, 0, "{two:?}");
    assert!(two.stdout.starts_with("#0 6 bytes\n  0000  38 3d 46 49 58 01  "), "{}", two.stdout);
    assert!(two.stdout.ends_with("  8=FIX.\n#1 0 bytes\n"), "{}", two.stdout);
    assert_eq!(summary(&two.stderr), (2, 0));
    drop(publisher);
    assert_eq!(tail(&["--lines"]).stdout, "8=FIX\\x01\n\na\\\\b\n");
    assert_eq!(tail(&["--raw"]).stdout, "8=FIX\x01a\\b");
    let newest = run(&["ring", "tail", text(&file)]);
    assert_eq!((newest.code, newest.stdout.as_str(), summary(&newest.stderr)), (0, "", (0, 0)));
}

#[test]
fn tail_knows_exactly_what_a_fast_writer_took_from_it() {
    const MESSAGES: u64 = 200_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (segment, file) = make(folder.path(), Kind::Broadcast, 64 << 10);
    let mut publisher = segment.publisher().expect("the side is free");
    let publish = |publisher: &mut Publisher| {
        let number = publisher.messages();
        let message = format!("{number} {}", "x".repeat((number % 90) as usize));
        publisher.publish(message.as_bytes()).expect("short enough");
    };
    publish(&mut publisher);
    let mut tail = Tail::start(&file, &["--from", "oldest", "--lines"]);
    assert_eq!(tail.line(), "0 \n");
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        loop {
            match tail.line() {
                line if line.is_empty() => return (seen, finish(tail.child)),
                line => seen.push(line.split(' ').next().and_then(|word| word.parse::<u64>().ok()).expect("a number")),
            }
        }
    });
    while publisher.messages() < MESSAGES {
        publish(&mut publisher);
    }
    drop(publisher);
    let (seen, finished) = reader.join().expect("whole lines");
    let (received, lost) = summary(&finished.stderr);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!((received, received + lost), (1 + seen.len() as u64, MESSAGES));
    assert!(seen.is_sorted_by(|one, next| one < next), "in order, none twice");
}

#[test]
fn a_tail_that_stood_still_loses_exactly_the_rest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (segment, file) = make(folder.path(), Kind::Broadcast, 4096);
    let mut publisher = segment.publisher().expect("the side is free");
    publisher.publish(b"first").expect("short enough");
    let mut tail = Tail::start(&file, &["--from", "oldest"]);
    assert_eq!(tail.line(), "#0 5 bytes\n");
    send_signal(tail.child.id(), "STOP");
    let state = format!("/proc/{}/stat", tail.child.id());
    until("it stops", || fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") T ")));
    for _ in 0..1000 {
        publisher.publish(b"more").expect("short enough");
    }
    drop(publisher);
    send_signal(tail.child.id(), "CONT");
    let (rest, finished) = tail.end();
    let (received, lost) = summary(&finished.stderr);
    assert!(lost > 900, "the ring holds 64: {}", finished.stderr);
    assert_eq!(received + lost, 1001);
    assert!(rest.contains(&format!(" {lost} messages lost ({} bytes)", 4 * lost)), "{rest}");
}

#[test]
fn tail_changes_no_byte_and_ends_with_ctrl_c() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (segment, file) = make(folder.path(), Kind::Spsc, 4096);
    let mut producer = segment.producer().expect("the side is free");
    let mut consumer = segment.consumer(Resume::Unread).expect("the side is free");
    for number in 0..50_u8 {
        producer.try_send(&[number; 40]).expect("room");
        assert_eq!(consumer.try_read().expect("a message")[0], number);
    }
    producer.try_send(b"unread").expect("room");
    let before = fs::read(&file).expect("a file");
    let mut tail = Tail::start(&file, &["--from", "oldest", "--lines"]);
    until("the message that the reader of the ring has not read", || tail.line() == "unread\n");
    let maps = fs::read_to_string(format!("/proc/{}/maps", tail.child.id())).expect("it runs");
    let mapped: Vec<&str> = maps.lines().filter(|line| line.ends_with(text(&file))).collect();
    assert!(mapped.len() == 1 && mapped[0].contains(" r--s "), "loads only: {mapped:?}");
    assert!(before == fs::read(&file).expect("a file"), "a byte has changed while the tail ran");
    send_signal(tail.child.id(), "INT");
    let (rest, finished) = tail.end();
    assert_eq!((finished.code, rest.as_str()), (130, ""), "{finished:?}");
    assert_eq!(summary(&finished.stderr).1, 0);
    assert!(before == fs::read(&file).expect("a file"), "a byte has changed");
    assert_eq!(*consumer.try_read().expect("still there"), *b"unread");
}

/// Writes and waits to be killed; in the parent's run of all tests, nothing.
#[test]
fn child() {
    let Some(file) = std::env::var_os(CHILD) else { return };
    let segment = Segment::open(file.as_ref(), Access::ReadWrite).expect("a ring");
    let mut producer = segment.producer().expect("the side is free");
    producer.try_send(b"last words").expect("room");
    std::thread::sleep(WATCHDOG);
}

#[test]
fn tail_says_that_the_writer_died_and_follows_the_next() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (segment, file) = make(folder.path(), Kind::Spsc, 4096);
    let mut tail = Tail::start(&file, &["--from", "oldest", "--lines"]);
    let mut command = Command::new(std::env::current_exe().expect("a program knows its file"));
    command.args(["--exact", "child"]).env(CHILD, &file).stdout(Stdio::null());
    die_with_parent(&mut command);
    let mut writer = command.spawn().expect("this program");
    assert_eq!(tail.line(), "last words\n");
    writer.kill().expect("it runs");
    writer.wait().expect("it was started");
    let mut words = BufReader::new(tail.child.stderr.take().expect("it is caught"));
    let mut said = String::new();
    words.read_line(&mut said).expect("UTF-8");
    assert!(said.contains(&format!("the writer (process {}) ended", writer.id())), "{said}");
    segment.producer().expect("the side of the dead is free").try_send(b"next").expect("room");
    let mut end = String::new();
    words.read_to_string(&mut end).expect("UTF-8");
    assert_eq!(summary(&end), (2, 0));
    assert_eq!(tail.end().0, "next\n");
}

#[test]
fn a_scribbled_ring_ends_the_tail_with_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (segment, file) = make(folder.path(), Kind::Broadcast, 4096);
    let mut tail = Tail::start(&file, &["--lines", "--from", "oldest"]);
    segment.publisher().expect("the side is free").publish(b"good").expect("short enough");
    assert_eq!(tail.line(), "good\n");
    let (rest, finished) = tail.end();
    assert_eq!((finished.code, rest.as_str()), (0, ""), "closed");
    let word = 1_u64 << 32 | 1 << 31 | 3 << 29;
    let raw = File::options().write(true).open(&file).expect("a file");
    raw.write_all_at(&word.to_le_bytes(), HEADER_BYTES as u64 + 64).expect("written");
    let faulty = run(&["ring", "tail", text(&file), "--from", "oldest"]);
    assert_eq!(faulty.code, 1, "{faulty:?}");
    assert!(faulty.stderr.contains("unknown kind") && faulty.stderr.contains("next:"), "{}", faulty.stderr);
}

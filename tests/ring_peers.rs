//! The example programs of the ring, Rust and C, talk to each other and take each other's place.

#[path = "../examples/ring.rs"]
#[allow(dead_code, unreachable_pub)] // Its main is not ours.
mod example;
mod support;

use sidestep::ring::{Access, Segment};
use sidestep_sys::process::{Process, die_with_parent};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{WATCHDOG, finish};

const ROLE: &str = "SIDESTEP_RING_PEERS_ROLE";
const FILE: &str = "SIDESTEP_RING_PEERS_FILE";
/// Some hundred times what the ring holds.
const MESSAGES: u64 = 1_000_000;

/// A folder with the C twin, and the file of the ring.
struct Stage(tempfile::TempDir);

#[derive(Clone, Copy)]
enum Language {
    C,
    Rust,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let libraries = std::env::current_exe().expect("a program knows its file");
        let library = libraries.parent().expect("a file is in a folder").join("libsidestep_c.so");
        symlink(&library, folder.path().join("libsidestep_c.so.1")).expect("a link");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut cc = Command::new("cc");
        cc.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(root.join("include"));
        cc.arg(root.join("examples/ring.c")).arg(library).arg(format!("-Wl,-rpath,{}", folder.path().display()));
        assert!(cc.arg("-o").arg(folder.path().join("twin")).status().expect("cc can be run").success());
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("ring")
    }

    fn start(&self, language: Language, role: &str) -> Child {
        let mut command = match language {
            Language::C => {
                let mut command = Command::new(self.0.path().join("twin"));
                command.arg(role).arg(self.file()).arg(MESSAGES.to_string());
                command
            }
            Language::Rust => {
                let mut command = Command::new(std::env::current_exe().expect("a program knows its file"));
                command.args(["--exact", "child", "--nocapture"]).env(ROLE, role).env(FILE, self.file());
                command
            }
        };
        die_with_parent(&mut command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built")
    }

    /// Opens the ring, once the other process has made it.
    fn segment(&self) -> Segment {
        let begin = Instant::now();
        loop {
            match Segment::open(&self.file(), Access::ReadOnly) {
                Ok(segment) => return segment,
                Err(problem) => assert!(begin.elapsed() < WATCHDOG, "{problem}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What a Rust child does; in the parent's run of all tests, nothing.
#[test]
fn child() {
    let (Ok(role), Some(file)) = (std::env::var(ROLE), std::env::var_os(FILE)) else { return };
    let done = if role == "send" { example::send(file.as_ref(), MESSAGES) } else { example::receive(file.as_ref()) };
    done.expect("the example ends well");
}

/// Waits until so many messages are read, and stops the reader there: while it stands, the writer cannot end either.
fn stop_at(segment: &Segment, messages: u64, reader: &Child) -> Process {
    let begin = Instant::now();
    while segment.stat().read.messages < messages {
        assert!(begin.elapsed() < WATCHDOG, "{:?}", segment.stat());
        std::thread::yield_now();
    }
    let process = Process::of(reader.id()).expect("/proc").expect("it runs");
    assert!(process.signal(19).expect("a signal"), "SIGSTOP");
    let left = MESSAGES - segment.stat().read.messages;
    assert!(left > 10_000, "the ring holds at most 1024 messages, so the writer is not at its end; left: {left}");
    process
}

fn kill(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it was started");
}

fn ends_well(child: Child, words: &str) {
    let finished = finish(child);
    assert!(finished.code == 0 && finished.stdout.contains(words), "{finished:?}");
}

/// Killed in the middle: the writer, then the reader; each is replaced by its twin in the other language.
fn talk(writers: [Language; 2], readers: [Language; 2]) {
    let stage = Stage::new();
    let (writer, reader) = (stage.start(writers[0], "send"), stage.start(readers[0], "receive"));
    let segment = stage.segment();

    let stopped = stop_at(&segment, MESSAGES / 50, &reader);
    kill(writer);
    assert!(stopped.signal(18).expect("a signal"), "SIGCONT");
    let writer = stage.start(writers[1], "send");

    stop_at(&segment, MESSAGES / 20, &reader);
    kill(reader);
    let reader = stage.start(readers[1], "receive");

    ends_well(writer, "");
    ends_well(reader, &format!("{MESSAGES} messages, all of them whole"));
    let stat = segment.stat();
    assert_eq!((stat.written.messages, stat.read.messages), (MESSAGES, MESSAGES));
    assert_eq!((stat.written.bytes, stat.fault, stat.lost), (stat.read.bytes, None, 0));
    assert!(stat.abandoned <= 1, "at most what was claimed when the writer died: {stat:?}");
}

#[test]
fn c_writes_rust_reads_and_their_twins_go_on() {
    talk([Language::C, Language::Rust], [Language::Rust, Language::C]);
}

#[test]
fn rust_writes_c_reads_and_their_twins_go_on() {
    talk([Language::Rust, Language::C], [Language::C, Language::Rust]);
}

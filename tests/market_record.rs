//! `sidestep market record` when something goes wrong: the disk is full, the process is killed or too slow. The file is readable up to its
//! last whole block, and what is missing is told. And a recording as a table for research.

mod support;

use sidestep_lab::{Lab, Side};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::exchange::{Process, exchange, lab};
use support::{WATCHDOG, finish, my_turn, run, send_signal, sidestep};

const LINES: [&str; 4] = ["--line", "lab0:239.192.0.1:26400", "--line", "lab0:239.192.0.2:26400"];

/// A recorder on host B that has written something.
fn recorder(lab: &Lab, file: &Path, flags: &[&str]) -> Process {
    let arguments = [&["market", "record", file.to_str().unwrap()], &LINES[..], flags].concat();
    let process = Process(lab.host(Side::B).spawn(&mut sidestep(&arguments)).unwrap());
    let begin = Instant::now();
    while fs::metadata(file).map_or(0, |facts| facts.len()) < 4_096 {
        assert!(begin.elapsed() < WATCHDOG, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    process
}

fn told(process: &mut Process) -> (i32, String) {
    let mut told = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    (process.0.wait().unwrap().code().unwrap_or(-1), told)
}

#[test]
fn a_full_disk_ends_the_recording_and_leaves_what_was_written() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let _exchange = exchange(&lab, &["--rate", "20k"]);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let program = env!("CARGO_BIN_EXE_sidestep");
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs {at} && {program} market record {at}/day.pcapng {}; echo record $?
         {program} market decode --summary --json {at}/day.pcapng > {at}.json; echo decode $?; cat {at}.json; rm {at}.json",
        LINES.join(" ")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = finish(lab.host(Side::B).spawn(&mut command).unwrap());
    let (words, summary) = ended.stdout.split_once('{').unwrap_or_else(|| panic!("{}{}", ended.stdout, ended.stderr));
    assert!(words.starts_with("record 1\n"), "{words}");
    assert!(ended.stderr.contains("No space left on device") && ended.stderr.contains("next:"), "{}", ended.stderr);
    assert!(ended.stderr.contains("what was written before can be read"), "{}", ended.stderr);
    let summary: serde_json::Value = serde_json::from_str(&format!("{{{summary}")).unwrap();
    assert!(summary["streams"][0]["messages"].as_u64() > Some(1_000), "{summary}");
}

#[test]
fn a_recording_that_was_killed_is_read_to_its_last_whole_block() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let _exchange = exchange(&lab, &["--rate", "5k"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day.pcapng");
    let mut killed = recorder(&lab, &file, &[]);
    std::thread::sleep(Duration::from_millis(1_500));
    send_signal(killed.0.id(), "KILL");
    killed.0.wait().unwrap();
    let summary = |file: &Path| run(&["market", "decode", "--summary", "--json", file.to_str().unwrap()]);
    let whole = summary(&file);
    assert_eq!(whole.code, 0, "the buffer is flushed by whole blocks: {}", whole.stderr);
    let messages = |json: &serde_json::Value| json["streams"][0]["messages"].as_u64().unwrap();
    assert!(messages(&whole.json()) > 1_000, "{}", whole.stdout);
    // As after a power failure: the last block is cut.
    let (bytes, cut) = (fs::read(&file).unwrap(), folder.path().join("cut.pcapng"));
    fs::write(&cut, &bytes[..bytes.len() - 7]).unwrap();
    let cut = summary(&cut);
    assert!(cut.code == 1 && cut.stderr.contains("at byte"), "{}", cut.stderr);
    assert!(messages(&cut.json()) > 1_000, "{}", cut.stdout);
}

/// The counts of each interface in the statistics blocks of a file: dropped by the system, delivered.
fn statistics(file: &[u8]) -> Vec<(u32, [u64; 2])> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (0, Vec::new());
    while at < file.len() {
        if word(at) == 5 {
            // Head, interface, time; then received, dropped by the interface, by the system, delivered, each after its code and length.
            let count = |place: usize| u64::from_le_bytes(file[at + 24 + 12 * place..][..8].try_into().unwrap());
            found.push((word(at + 8), [count(2), count(3)]));
        }
        at += word(at + 4) as usize;
    }
    found
}

#[test]
fn what_the_kernel_drops_while_the_recorder_is_stopped_is_told_and_stands_in_the_file() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let exchange = exchange(&lab, &["--rate", "20k"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day.pcapng");
    let mut recorder = recorder(&lab, &file, &["--by-kernel"]);
    send_signal(recorder.0.id(), "STOP");
    std::thread::sleep(Duration::from_secs(3));
    // What is dropped is over before the recorder counts.
    drop(exchange);
    send_signal(recorder.0.id(), "CONT");
    std::thread::sleep(Duration::from_millis(300));
    send_signal(recorder.0.id(), "INT");
    let (code, told) = told(&mut recorder);
    let bytes = fs::read(&file).unwrap();
    let [(0, [of_a, delivered]), (1, [of_b, _])] = statistics(&bytes)[..] else { panic!("{:?}", statistics(&bytes)) };
    assert!(code == 1 && of_a > 0 && of_b > 0 && delivered > 0, "{code} {of_a} {of_b} {told}");
    assert!(told.contains(&format!("A {of_a}, B {of_b} datagrams were not fetched in time")), "{told}");
    assert!(told.contains(&format!("datagrams: A {delivered}, ")), "{told}");
}

/// The program that writes Parquet is a workspace of its own, which not everyone builds.
fn parquet_program() -> Option<PathBuf> {
    let built = ["release", "debug"].map(|profile| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("parquet/target").join(profile).join("sidestep-parquet")
    });
    let named = std::env::var_os("SIDESTEP_PARQUET").map(PathBuf::from);
    let found = named.into_iter().chain(built).find(|program| program.exists());
    if found.is_none() {
        eprintln!("skipped: needs sidestep-parquet (make parquet), or its path in SIDESTEP_PARQUET");
    }
    found
}

#[test]
fn replay_hands_a_capture_to_the_program_that_writes_parquet() {
    let Some(program) = parquet_program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (capture, table) = (folder.path().join("day"), folder.path().join("day.parquet"));
    // A BinaryFILE: a system event and a delete.
    fs::write(&capture, b"\0\x0cS\0\0\0\0\0\0\0\0\0\0O\0\x13D\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\0\0").unwrap();
    let replay = |program: &Path| {
        let mut command =
            sidestep(&["market", "replay", capture.to_str().unwrap(), "--parquet", table.to_str().unwrap()]);
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        finish(command.env("PATH", path).spawn().unwrap())
    };
    let written = replay(&program);
    assert_eq!(written.code, 0, "{}{}", written.stdout, written.stderr);
    let bytes = fs::read(&table).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
    let again = replay(&program);
    assert!(again.code != 0 && again.stderr.contains("next:"), "a table that exists is kept: {}", again.stderr);
    fs::remove_file(&table).unwrap();
    fs::write(&capture, b"no capture at all").unwrap();
    let refused = replay(&program);
    assert!(refused.code == 1 && !table.exists(), "{}{}", refused.stdout, refused.stderr);
}

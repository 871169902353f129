//! The journal under SIGKILL, on a full disk and on one that cannot be written.

use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{Durability, Journal, Options, SEGMENT_BYTES_MIN, Writing};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

const SESSION: &str = "FIX.4.4:A->B";
/// The variable that gives a child process of the test its role.
const JOB: &str = "SIDESTEP_JOURNAL_JOB";
const FOLDER: &str = "SIDESTEP_JOURNAL_FOLDER";

/// The pause between two messages of a child that is to get the error of a full disk: the thread that makes segments has time to find it.
const PACE: Duration = Duration::from_micros(300);

fn options(job: &str) -> Options {
    let durability = if job == "disk" { Durability::Disk } else { Durability::PageCache };
    let writing = if job == "by-calls" { Writing::Call } else { Writing::Mapped };
    Options { durability, writing, segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT }
}

fn message(seq: u64) -> Vec<u8> {
    format!("8=FIX.4.4\x019=99\x0135=8\x0134={seq}\x01{}10=000\x01", "58=text\x01".repeat(seq as usize % 40))
        .into_bytes()
}

/// Not a test: what the children run. It writes until it is killed, and says what was acknowledged.
#[test]
fn child() {
    let Some(job) = std::env::var_os(JOB).and_then(|job| job.into_string().ok()) else { return };
    let folder = std::env::var_os(FOLDER).expect("the parent says where");
    if job == "grow" {
        return grow(Path::new(&folder));
    }
    let (mut journal, _) = Journal::open(Path::new(&folder), SESSION, options(&job), 1).expect("it opens");
    // Standard output is the test harness's; this is the parent's pipe.
    let mut report = std::io::stderr();
    loop {
        if job == "paced" {
            std::thread::sleep(PACE);
        }
        let result = next_message(&mut journal);
        match result {
            Ok(seq) => writeln!(report, "ack {seq}").expect("the parent listens"),
            Err(problem) => {
                writeln!(report, "stopped {} {}", journal.next_outbound(), problem.brief())
                    .expect("the parent listens");
                return;
            }
        }
        if let Some(problem) = journal.nearly_full() {
            writeln!(report, "nearly {}", problem.brief()).expect("the parent listens");
        }
    }
}

/// A journal that has numbers and no messages, on a disk that has no room for what its user then asks for.
fn grow(folder: &Path) {
    let open = |segment_bytes| Journal::open(folder, SESSION, Options { segment_bytes, ..options("") }, 1);
    let (mut journal, _) = open(SEGMENT_BYTES_MIN).expect("it opens");
    journal.set_next_outbound(10).expect("there is room");
    journal.record_inbound(20).expect("there is room");
    drop(journal);
    drop(open(SEGMENT_BYTES_MIN).expect("it opens again"));
    let too_large = open(1 << 20).expect_err("there is no room for a segment of a MiB");
    let (journal, _) = open(SEGMENT_BYTES_MIN).expect("it opens once more");
    eprintln!("after {}: {} {}", too_large.brief(), journal.next_outbound(), journal.next_inbound());
}

fn next_message(journal: &mut Journal) -> Result<u64, sidestep_sys::Problem> {
    let seq = journal.next_outbound();
    journal.record_inbound(seq + 1)?;
    journal.record_outbound(seq, &message(seq))?;
    journal.commit()?;
    while !journal.is_durable()? {
        std::thread::yield_now();
    }
    Ok(seq)
}

fn spawn(job: &str, folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(JOB, job).env(FOLDER, folder);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Lines that the child has written whole.
fn lines(output: impl BufRead) -> Vec<String> {
    let lines = output.lines().map_while(Result::ok);
    lines.filter(|line| ["ack ", "stopped", "nearly"].iter().any(|word| line.starts_with(word))).collect()
}

/// Waits for the child's first acknowledgement.
fn first_ack(output: &mut impl BufRead) -> String {
    let mut lines = output.lines().map(|line| line.expect("it is text"));
    lines.find(|line| line.starts_with("ack ")).expect("the child writes until it is killed")
}

fn last_ack(lines: &[String]) -> u64 {
    lines.iter().rev().find_map(|line| line.strip_prefix("ack ")?.parse().ok()).unwrap_or(0)
}

#[test]
fn nothing_acknowledged_is_lost_by_sigkill_and_numbers_never_go_back() {
    let mut random = fastrand::Rng::new();
    for job in ["page-cache", "by-calls", "disk"] {
        let folder = tempdir().unwrap();
        let mut highest = 0;
        for round in 0..6 {
            let mut child = spawn(job, folder.path());
            let mut output = BufReader::new(child.stderr.take().expect("it is piped"));
            // However slow the machine is: it is killed while it writes. The other rounds may kill it while it opens.
            let first = if round % 2 == 0 { first_ack(&mut output) } else { String::new() };
            std::thread::sleep(Duration::from_micros(random.u64(1_000..60_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            let acknowledged = last_ack(&lines(output)).max(last_ack(&[first])).max(highest);
            let (mut journal, _) = Journal::open(folder.path(), SESSION, options(job), 1).expect("it recovers");
            let next = journal.next_outbound();
            assert!(next > acknowledged, "{job}: {acknowledged} was acknowledged, {next} is next");
            assert!(journal.next_inbound() >= next);
            let mut expected = 1;
            let visited = journal.outbound(1, u64::MAX, &mut |seq, bytes| {
                assert_eq!((seq, bytes), (expected, &message(seq)[..]));
                expected += 1;
                ControlFlow::Continue(())
            });
            visited.unwrap();
            assert_eq!(expected, next);
            highest = next - 1;
        }
        assert!(highest > 0, "the children have written something");
    }
}

/// Runs the child where `folder` is a tmpfs of these options, in a mount namespace of its own.
fn in_tmpfs(mount_options: &str, job: &str) -> Option<Vec<String>> {
    if !sidestep_sys::process::is_root() {
        eprintln!("skipped: needs root");
        return None;
    }
    let folder = tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o {mount_options} none {0} && exec {1} --exact child --nocapture",
        folder.path().display(),
        std::env::current_exe().unwrap().display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).env(JOB, job).env(FOLDER, folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("unshare is there");
    let reader = BufReader::new(child.stderr.take().expect("it is piped"));
    let lines = reader.lines().map_while(Result::ok).collect();
    child.wait().unwrap();
    Some(lines)
}

#[test]
fn a_full_disk_is_announced_while_there_is_room_and_then_stops_the_journal() {
    let Some(lines) = in_tmpfs("size=400k", "paced") else { return };
    let stopped = lines.iter().find(|line| line.starts_with("stopped")).expect("it stops");
    assert!(stopped.contains("No space left"), "{stopped}");
    let nearly = lines.iter().position(|line| line.starts_with("nearly")).expect("it says so before");
    let later = lines[nearly..].iter().filter(|line| line.starts_with("ack")).count();
    assert!(later > 5, "room for a Logout is left: {later} more messages were written");
    assert!(stopped.starts_with(&format!("stopped {}", last_ack(&lines) + 1)), "{stopped}");
}

#[test]
fn a_disk_without_room_for_the_next_segment_does_not_cost_the_numbers() {
    let Some(lines) = in_tmpfs("size=400k", "grow") else { return };
    let after = lines.iter().find(|line| line.starts_with("after")).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(after.contains("No space left") && after.ends_with(": 10 20"), "{after}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let Some(lines) = in_tmpfs("ro", "page-cache") else { return };
    let text = lines.join("\n");
    assert!(text.contains("for a journal") && text.contains("Read-only file system"), "{text}");
}

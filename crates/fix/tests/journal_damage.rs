//! Damage to a journal that no crash can do: it is refused by name, and accepted by whoever says so, with nothing lost but what
//! is damaged.

use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{Durability, Journal, Options, Recovery, SEGMENT_BYTES_MIN, Writing};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

const SESSION: &str = "FIX.4.4:A->B";
const SMALL: Options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };
const MODES: [(&str, Options); 3] = [
    ("mapped", SMALL),
    ("call", Options { writing: Writing::Call, ..SMALL }),
    ("group-commit", Options { durability: Durability::Disk, ..SMALL }),
];
/// What the exchange had sent.
const SENT: u64 = 800;

fn message(seq: u64) -> Vec<u8> {
    format!("8=FIX.4.4\x019=99\x0135=8\x0134={seq}\x01{}10=000\x01", "58=text\x01".repeat(22)).into_bytes()
}

/// What is done to a folder, and its name.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

/// A journal of [`SENT`] messages as its process leaves it when it is killed, and when it ends.
struct Made {
    killed: TempDir,
    closed: TempDir,
}

fn make(options: Options) -> Made {
    let (killed, closed) = (tempdir().unwrap(), tempdir().unwrap());
    let (mut journal, _) = Journal::open(&closed.path().join("j"), SESSION, options, 1).unwrap();
    for seq in 1..=SENT {
        journal.record_inbound(seq + 1).unwrap();
        journal.record_outbound(seq, &message(seq)).unwrap();
        journal.commit().unwrap();
    }
    while !journal.is_durable().unwrap() {
        std::thread::yield_now();
    }
    copy(&closed.path().join("j"), &killed.path().join("j"));
    drop(journal);
    Made { killed, closed }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        // A segment that is being prepared may be gone by now.
        let _ = fs::copy(entry.path(), to.join(entry.file_name()));
    }
}

/// Segments that have records.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "journal") && used(path) > 4096);
    paths.sort();
    paths
}

/// Bytes up to the last that is not zero.
fn used(path: &Path) -> usize {
    fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// A copy that something was done to.
fn damaged(made: &TempDir, damage: &dyn Fn(&Path)) -> TempDir {
    let folder = tempdir().unwrap();
    copy(&made.path().join("j"), &folder.path().join("j"));
    damage(&folder.path().join("j"));
    folder
}

fn open(folder: &TempDir, options: Options) -> Result<(Journal, Recovery), sidestep_sys::Problem> {
    Journal::open(&folder.path().join("j"), SESSION, options, 1)
}

fn numbers(journal: &mut Journal) -> Vec<u64> {
    let mut seen = Vec::new();
    let read = journal.outbound(1, u64::MAX, &mut |seq, bytes| {
        assert_eq!(bytes, message(seq), "message {seq}");
        seen.push(seq);
        ControlFlow::Continue(())
    });
    read.unwrap();
    seen
}

/// It is refused, and the way on leads on: gives the next number and the messages that are left.
fn refused(folder: &TempDir, options: Options, what: &str) -> (u64, Vec<u64>) {
    let Err(problem) = open(folder, options) else { panic!("{what}: it was taken in silence") };
    let place = folder.path().join("j").display().to_string();
    assert!(problem.brief().contains(&place), "{what}: {problem}");
    assert!(problem.next_step().contains("--accept-loss"), "{what}: {problem}");
    let (mut journal, recovery) = open(folder, Options { accept_loss: true, ..options }).unwrap();
    let aside = recovery.damaged.clone().unwrap_or_else(|| panic!("{what}: nothing was set aside"));
    assert!(aside.is_dir() && recovery.words(&journal)[0].contains("~damaged"), "{what}");
    let (next, left) = (journal.next_outbound(), numbers(&mut journal));
    journal.record_outbound(next, &message(next)).unwrap();
    drop(journal);
    let (mut journal, recovery) = open(folder, Options { accept_loss: true, ..options }).unwrap();
    assert_eq!((recovery.damaged, recovery.torn_bytes), (None, 0), "{what}: it is accepted once");
    assert_eq!((journal.next_outbound(), numbers(&mut journal).len()), (next + 1, left.len() + 1), "{what}");
    (next, left)
}

#[test]
fn a_segment_that_is_gone_is_missed() {
    for (mode, options) in MODES {
        let made = make(options);
        for (state, journal) in [("killed", &made.killed), ("closed", &made.closed)] {
            let count = segments(&journal.path().join("j")).len();
            assert!(count > 2, "{mode}: {count} segments");
            for at in 0..count {
                let pick = |folder: &Path| segments(folder).swap_remove(at);
                let damages: [Damage<'_>; 4] = [
                    ("removed", &|folder| fs::remove_file(pick(folder)).unwrap()),
                    ("emptied", &|folder| fs::write(pick(folder), "").unwrap()),
                    ("zeroed", &|folder| {
                        let path = pick(folder);
                        fs::write(&path, vec![0; fs::metadata(&path).unwrap().len() as usize]).unwrap();
                    }),
                    ("halved", &|folder| {
                        let path = pick(folder);
                        let half = used(&path) / 2;
                        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(half as u64).unwrap();
                    }),
                ];
                for (how, damage) in damages {
                    let what = format!("{mode}, {state}, segment {at} of {count} {how}");
                    let (next, left) = refused(&damaged(journal, damage), options, &what);
                    let is_last = at + 1 == count;
                    assert!(next == SENT + 1 || is_last, "{what}: the next number is {next}");
                    assert!(left.len() as u64 > SENT / 3, "{what}: only {} are left", left.len());
                }
            }
        }
    }
}

#[test]
fn a_journal_that_is_gone_altogether_is_missed() {
    let every = |folder: &Path, damage: &dyn Fn(&Path)| {
        fs::read_dir(folder).unwrap().for_each(|entry| damage(&entry.unwrap().path()));
    };
    let is_segment = |path: &Path| path.extension().is_some_and(|ending| ending == "journal");
    for (mode, options) in MODES {
        let made = make(options);
        for (state, journal) in [("killed", &made.killed), ("closed", &made.closed)] {
            let damages: [Damage<'_>; 5] = [
                ("all files emptied", &|folder| every(folder, &|path| fs::write(path, "").unwrap())),
                ("all segments emptied", &|folder| {
                    every(folder, &|path| {
                        if is_segment(path) {
                            fs::write(path, "").unwrap();
                        }
                    });
                }),
                ("all segments removed", &|folder| {
                    every(folder, &|path| {
                        if is_segment(path) {
                            fs::remove_file(path).unwrap();
                        }
                    });
                }),
                ("all but the lock removed", &|folder| {
                    every(folder, &|path| {
                        if !path.ends_with("lock") {
                            fs::remove_file(path).unwrap();
                        }
                    });
                }),
                ("all zeroed", &|folder| {
                    every(folder, &|path| fs::write(path, vec![0; fs::read(path).unwrap().len()]).unwrap());
                }),
            ];
            for (how, damage) in damages {
                let (next, left) = refused(&damaged(journal, damage), options, &format!("{mode}, {state}, {how}"));
                assert_eq!((next, left), (1, Vec::new()), "{mode}, {state}, {how}");
            }
            for how in ["removed", "changed"] {
                let damage = |folder: &Path| {
                    let path = folder.join("manifest");
                    let mut bytes = fs::read(&path).unwrap();
                    bytes[20] ^= 1;
                    if how == "removed" { fs::remove_file(path).unwrap() } else { fs::write(path, bytes).unwrap() }
                };
                let what = format!("{mode}, {state}, manifest {how}");
                let (next, left) = refused(&damaged(journal, &damage), options, &what);
                assert_eq!((next, left.len() as u64), (SENT + 1, SENT), "{what}: the segments have everything");
            }
        }
    }
}

#[test]
fn a_changed_bit_is_noticed_at_every_kilobyte() {
    for (mode, options) in MODES {
        let made = make(options);
        for (state, journal) in [("killed", &made.killed), ("closed", &made.closed)] {
            let paths = segments(&journal.path().join("j"));
            for (number, path) in paths.iter().enumerate() {
                // The header's page has a sector and a mark; the rest of it says nothing.
                for at in [0, 8, 40].into_iter().chain((4096..used(path)).step_by(1024)) {
                    let what = format!("{mode}, {state}, segment {number} changed at {at}");
                    let folder = damaged(journal, &|folder| {
                        let path = segments(folder).swap_remove(number);
                        let mut bytes = fs::read(&path).unwrap();
                        bytes[at] ^= 8;
                        fs::write(path, bytes).unwrap();
                    });
                    if at % 8192 != 0 {
                        assert!(open(&folder, options).is_err(), "{what}: it was taken in silence");
                        continue;
                    }
                    let (next, left) = refused(&folder, options, &what);
                    // The loss of the very last message cannot be detected.
                    assert!(next >= SENT, "{what}: the next number is {next}");
                    assert!(left.len() as u64 + 2 >= SENT, "{what}: only {} are left", left.len());
                }
            }
        }
    }
}

#[test]
fn what_a_torn_write_leaves_is_dropped_and_what_was_before_is_kept() {
    for (mode, options) in MODES {
        let made = make(options);
        for cut in [1, 8, 100, 200] {
            let folder = damaged(&made.killed, &|folder| {
                let path = segments(folder).pop().unwrap();
                let mut bytes = fs::read(&path).unwrap();
                let end = used(&path).next_multiple_of(8);
                // A message that was being written: the first bytes of its record, as they would have been.
                let torn = bytes[4096 + 16..4096 + 16 + cut].to_vec();
                bytes[end..end + cut].copy_from_slice(&torn);
                fs::write(path, bytes).unwrap();
            });
            let (mut journal, recovery) = open(&folder, options).unwrap();
            assert!(recovery.torn_bytes > 0 && recovery.words(&journal)[0].contains("torn"), "{mode}, {cut}");
            assert_eq!(
                (journal.next_outbound(), numbers(&mut journal).len() as u64),
                (SENT + 1, SENT),
                "{mode}, {cut}"
            );
            journal.record_outbound(SENT + 1, &message(SENT + 1)).unwrap();
            drop(journal);
            let (mut journal, again) = open(&folder, options).unwrap();
            assert_eq!(again.torn_bytes, 0, "the first opening has dropped it");
            assert_eq!(numbers(&mut journal).len() as u64, SENT + 1);
        }
    }
}

//! Whatever a crash can leave opens with what was promised; by enumeration of what the writes and syncs of a journal allow.
//!
//! The journal runs for real, its changes are recorded (`trace`), and `disk` makes from every part of the record what a kill or a
//! power cut at that point could leave.

mod disk;
pub(super) mod trace;

use super::format::{HEADER_BYTES, Header, Kind};
use super::recover::open_in;
use super::{Durability, Journal, Options, SEGMENT_BYTES_MIN, Writing, manifest, read_segment};
use crate::store::Store;
use disk::{Disk, Image};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trace::{Operation, Step};

const SESSION: &str = "FIX.4.4:A->B";
const BOOT: manifest::Boot = [1; 16];
const NEXT_BOOT: manifest::Boot = [2; 16];
const PAGE_CACHE: Options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };
const MODES: [(&str, Options); 3] = [
    ("mapped", PAGE_CACHE),
    ("call", Options { writing: Writing::Call, ..PAGE_CACHE }),
    ("group-commit", Options { durability: Durability::Disk, ..PAGE_CACHE }),
];

/// The disk is simulated: files are best in memory.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Any mix-up of messages shows.
fn message(generation: u64, seq: u64) -> Vec<u8> {
    format!("8=FIX.4.4\x019=99\x0135=8\x0134={seq}\x01{}50={generation}\x0110=000\x01", "58=text\x01".repeat(190))
        .into_bytes()
}

/// Generation and next number, which only ever rise.
type Reached = (u64, u64);

/// The records, and the promises: after this many steps at least this.
struct Run {
    steps: Vec<Step>,
    /// The content that survives a kill.
    committed: Vec<(usize, Reached)>,
    /// The content that survives a power cut: with group commit all that was acknowledged.
    durable: Vec<(usize, Reached)>,
}

impl Run {
    fn promised(promises: &[(usize, Reached)], at: usize) -> Reached {
        promises.iter().rev().find(|(steps, _)| *steps <= at).map_or((0, 1), |(_, reached)| *reached)
    }
}

/// Three openings with rolls and a reset between them, recorded.
fn record(options: Options) -> Run {
    let folder = folder();
    trace::begin(folder.path());
    let (mut committed, mut durable) = (Vec::new(), Vec::new());
    for opening in 0..3 {
        let (mut journal, _) = open_in(folder.path(), SESSION, options, 1, &BOOT).unwrap();
        for turn in 0..60 {
            if opening == 1 && turn == 20 {
                journal.reset(77).unwrap();
            }
            let seq = journal.next_outbound();
            journal.record_inbound(seq + 1).unwrap();
            let text = message(journal.generation(), seq);
            journal.record_outbound(seq, &text).unwrap();
            journal.commit().unwrap();
            let reached = (journal.generation(), journal.next_outbound());
            committed.push((trace::count(folder.path()), reached));
            if options.durability == Durability::Disk {
                while !journal.is_durable().unwrap() {
                    std::thread::yield_now();
                }
                durable.push((trace::count(folder.path()), reached));
            }
        }
        let reached = (journal.generation(), journal.next_outbound());
        drop(journal);
        // A journal that was closed has everything on the disk.
        durable.push((trace::count(folder.path()), reached));
    }
    Run { steps: trace::end(folder.path()), committed, durable }
}

/// Opens what a crash has left, reads all of it, goes on, and opens it again.
fn check(image: &Image, options: Options, boot: &manifest::Boot, promised: Reached, what: &dyn Fn() -> String) {
    let folder = folder();
    image.write_to(folder.path());
    let opened = open_in(folder.path(), SESSION, options, 1, boot);
    let (mut journal, recovery) = opened.unwrap_or_else(|problem| panic!("{}: {problem}", what()));
    let reached = (journal.generation(), journal.next_outbound());
    assert!(reached >= promised, "{}: {reached:?} of {promised:?}, {recovery:?}", what());
    let next = read_all(&mut journal, what);
    let text = message(journal.generation(), next);
    journal.record_outbound(next, &text).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let (mut journal, again) = open_in(folder.path(), SESSION, options, 1, boot).unwrap();
    assert_eq!((again.torn_bytes, again.restarted), (0, false), "{}: the first opening has settled it", what());
    assert_eq!(read_all(&mut journal, what), next + 1, "{}", what());
}

/// There is every message of the generation up to the next number.
fn read_all(journal: &mut Journal, what: &dyn Fn() -> String) -> u64 {
    let (generation, mut expected) = (journal.generation(), 1);
    let read = journal.outbound(1, u64::MAX, &mut |seq, bytes| {
        assert!(seq == expected && bytes == message(generation, seq), "{}: {seq} instead of {expected}", what());
        expected += 1;
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert_eq!(expected, journal.next_outbound(), "{}", what());
    // Either of the two records of an iteration may be the last.
    assert!((expected - 1..=expected + 1).contains(&journal.next_inbound()), "{}", what());
    expected
}

/// The points at which something other than a write happens, and their neighbours: a crash elsewhere is like one of these.
fn points(steps: &[Step]) -> Vec<usize> {
    let is_event = |step: &Step| !matches!(step.operation, Operation::Write(..));
    let events: Vec<usize> = (0..steps.len()).filter(|at| is_event(&steps[*at])).collect();
    let near = |at: usize| events.iter().any(|event| event.abs_diff(at) <= 2);
    (0..=steps.len()).filter(|at| near(*at) || at % 16 == 0).collect()
}

#[test]
fn whatever_a_kill_leaves_opens_with_all_that_was_committed() {
    for (name, options) in MODES {
        let run = record(options);
        let mut random = fastrand::Rng::with_seed(11);
        let mut disk = Disk::default();
        for (at, step) in run.steps.iter().enumerate() {
            let promised = Run::promised(&run.committed, at);
            if points(&run.steps).binary_search(&at).is_ok() || random.u8(..) < 16 {
                check(&disk.all(), options, &BOOT, promised, &|| format!("{name}, before step {at}"));
                if let Some(torn) = disk.torn(step, &mut random) {
                    check(&torn, options, &BOOT, promised, &|| format!("{name}, within step {at}"));
                }
            }
            disk.apply(step);
        }
        let promised = Run::promised(&run.committed, run.steps.len());
        check(&disk.all(), options, &BOOT, promised, &|| format!("{name}, at the end"));
    }
}

#[test]
fn whatever_a_power_cut_leaves_opens_with_all_that_was_promised() {
    for (name, options) in MODES {
        let run = record(options);
        let mut random = fastrand::Rng::with_seed(12);
        let mut disk = Disk::default();
        let points = points(&run.steps);
        for at in 0..=run.steps.len() {
            if points.binary_search(&at).is_ok() {
                let promised = Run::promised(&run.durable, at).max(synced(&disk.none()));
                let mut images = vec![disk.none(), disk.all()];
                images.extend((0..3).map(|_| disk.some(&mut random, 4096)));
                images.extend((0..1).map(|_| disk.some(&mut random, 512)));
                if at % 16 == 0 {
                    images.extend(disk.all_but_one());
                }
                for (number, image) in images.iter().enumerate() {
                    check(image, options, &NEXT_BOOT, promised, &|| format!("{name}, step {at}, image {number}"));
                }
            }
            if let Some(step) = run.steps.get(at) {
                disk.apply(step);
            }
        }
    }
}

/// Opens what a power cut has left; gives the disk as it was before, and what the opening did to it.
fn recovered(image: &Image, options: Options) -> (Disk, Vec<Step>) {
    let folder = folder();
    image.write_to(folder.path());
    let disk = Disk::of(image, folder.path());
    trace::begin_with(folder.path());
    drop(open_in(folder.path(), SESSION, options, 1, &NEXT_BOOT).unwrap());
    (disk, trace::end(folder.path()))
}

#[test]
fn a_power_cut_during_the_recovery_from_one_costs_no_more() {
    for (name, options) in MODES {
        let run = record(options);
        let mut random = fastrand::Rng::with_seed(13);
        let mut disk = Disk::default();
        for (at, step) in run.steps.iter().enumerate() {
            disk.apply(step);
            // Where a segment is begun, and now and then.
            let is_begun =
                matches!(&step.operation, Operation::Write(at, bytes) if *at == 0 && bytes.starts_with(b"SIDEFIXJ"));
            if !is_begun && at % 64 != 0 {
                continue;
            }
            let promised = Run::promised(&run.durable, at + 1).max(synced(&disk.none()));
            let (mut again, steps) = recovered(&disk.some(&mut random, 4096), options);
            for (second, step) in steps.iter().enumerate() {
                again.apply(step);
                for image in [again.none(), again.some(&mut random, 4096)] {
                    check(&image, options, &[3; 16], promised, &|| format!("{name}, step {at}, then {second}"));
                }
            }
        }
    }
}

/// The content of the segments that are on the disk for certain, read by other means: up to the first missing number.
fn synced(image: &Image) -> Reached {
    let folder = folder();
    image.write_to(folder.path());
    let mut reached = (0, 1);
    let mut names: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let mut is_whole = true;
    for path in names.iter().filter(|path| path.extension().is_some_and(|ending| ending == "journal")) {
        let read = read_segment(path, &mut |entry| match entry.kind {
            Kind::Outbound if is_whole && entry.number == reached.1 => reached.1 += 1,
            Kind::Outbound => is_whole = false,
            Kind::Reset if is_whole => reached = (entry.number, 1),
            _ => {}
        });
        if read.is_err() {
            break;
        }
    }
    // The oldest segment may begin within a generation, which only its header shows.
    if is_whole { reached } else { (0, 1) }
}

#[test]
fn a_closed_journal_is_known_to_its_last_byte_also_after_a_restart() {
    for (name, options) in MODES {
        let run = record(options);
        let mut disk = Disk::default();
        run.steps.iter().for_each(|step| disk.apply(step));
        let image = disk.none();
        check(&image, options, &NEXT_BOOT, Run::promised(&run.durable, run.steps.len()), &|| name.to_owned());
        let segments: Vec<&String> = image
            .files
            .iter()
            .filter(|(name, bytes)| name.ends_with(".journal") && bytes.starts_with(b"SIDEFIXJ"))
            .map(|(name, _)| name)
            .collect();
        assert!(segments.len() > 1, "{name}: {segments:?}");
        let refused = |files: Image, what: String| {
            let folder = folder();
            files.write_to(folder.path());
            let Err(problem) = open_in(folder.path(), SESSION, options, 1, &NEXT_BOOT) else {
                panic!("{name}: {what}")
            };
            assert!(problem.next_step().contains("--accept-loss"), "{name}: {what}: {problem}");
        };
        for segment in segments {
            let bytes = &image.files[segment];
            refused(image.without(segment), format!("{segment} removed"));
            refused(image.with(segment, vec![0; bytes.len()]), format!("{segment} zeroed"));
            refused(image.with(segment, Vec::new()), format!("{segment} emptied"));
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            for at in (HEADER_BYTES..used).step_by(1024) {
                refused(image.with(segment, bytes[..at].to_vec()), format!("{segment} cut at {at}"));
                let mut changed = bytes.clone();
                changed[at] ^= 4;
                refused(image.with(segment, changed), format!("{segment} changed at {at}"));
            }
        }
    }
}

#[test]
fn a_journal_of_the_first_layout_is_read_and_gone_on_with() {
    let folder = folder();
    let (mut journal, _) = open_in(folder.path(), SESSION, PAGE_CACHE, 1, &BOOT).unwrap();
    for seq in 1..=60 {
        journal.record_inbound(seq + 1).unwrap();
        journal.record_outbound(seq, &message(0, seq)).unwrap();
        journal.commit().unwrap();
    }
    drop(journal);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "journal"));
    paths.sort();
    for path in &paths {
        let mut bytes = fs::read(path).unwrap();
        bytes[8] = 1;
        let crc = crc32fast::hash(&bytes[..508]);
        bytes[508..512].copy_from_slice(&crc.to_le_bytes());
        bytes[512..520].fill(0);
        assert_eq!(Header::decode(&bytes).unwrap().version, 1);
        fs::write(path, bytes).unwrap();
    }
    fs::remove_file(manifest::path(folder.path())).unwrap();
    let Err(problem) = open_in(folder.path(), SESSION, PAGE_CACHE, 1, &BOOT) else {
        panic!("the lock tells of a manifest")
    };
    assert!(problem.brief().contains("manifest"), "{problem}");
    fs::write(folder.path().join("lock"), "12345     \n").unwrap();
    let first = fs::read(&paths[0]).unwrap();
    fs::write(&paths[0], vec![0; first.len()]).unwrap();
    assert!(open_in(folder.path(), SESSION, PAGE_CACHE, 1, &BOOT).is_err(), "its first segment was zeroed");
    fs::write(&paths[0], first).unwrap();
    for opening in 0..3 {
        let (mut journal, recovery) = open_in(folder.path(), SESSION, PAGE_CACHE, 1, &BOOT).unwrap();
        assert_eq!(recovery.torn_bytes, 0);
        assert_eq!(read_all(&mut journal, &|| format!("opening {opening}")), 61);
    }
}

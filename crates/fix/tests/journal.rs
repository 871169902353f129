//! The journal from outside: what it gives back after a clean end, a crash, a torn write, a full disk.

use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{
    Durability, Journal, Kind, Options, Recovery, SEGMENT_BYTES_MIN, Writing, read_segment,
};
use sidestep_sys::Problem;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

const SESSION: &str = "FIX.4.4:A->B";
const SMALL: Options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };

fn open(folder: &TempDir) -> (Journal, Recovery) {
    Journal::open(folder.path(), SESSION, SMALL, 1).unwrap()
}

/// What the test writes as message `seq`: any mix-up shows.
fn message(seq: u64) -> Vec<u8> {
    format!("8=FIX.4.4\x019=99\x0135=8\x0134={seq}\x01{}10=000\x01", "58=text\x01".repeat(seq as usize % 40))
        .into_bytes()
}

fn write(journal: &mut Journal, numbers: std::ops::RangeInclusive<u64>) {
    for seq in numbers {
        journal.record_inbound(seq + 1).unwrap();
        journal.record_outbound(seq, &message(seq)).unwrap();
        journal.commit().unwrap();
    }
}

fn read(journal: &mut Journal, from: u64, to: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    let visited = journal.outbound(from, to, &mut |seq, bytes| {
        assert_eq!(bytes, message(seq), "message {seq}");
        seen.push(seq);
        ControlFlow::Continue(())
    });
    visited.unwrap();
    seen
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "journal"));
    paths.sort();
    paths
}

fn refused(folder: &TempDir) -> Problem {
    Journal::open(folder.path(), SESSION, SMALL, 1).expect_err("it must be refused")
}

#[test]
fn a_journal_reads_back_over_many_segments_and_openings() {
    let folder = tempdir().unwrap();
    let (mut journal, recovery) = open(&folder);
    assert_eq!((journal.next_outbound(), journal.next_inbound(), recovery), (1, 1, Recovery::default()));
    write(&mut journal, 1..=1000);
    assert_eq!(read(&mut journal, 1, u64::MAX), (1..=1000).collect::<Vec<_>>());
    drop(journal);
    for round in 1..=3 {
        let (mut journal, recovery) = open(&folder);
        assert_eq!(recovery.torn_bytes, 0);
        assert_eq!((journal.next_outbound(), journal.next_inbound()), (1000 + round, 1000 + round));
        assert_eq!(read(&mut journal, 998, 1000), [998, 999, 1000]);
        write(&mut journal, 1000 + round..=1000 + round);
    }
    assert!(segments(folder.path()).len() > 4, "64 KiB do not hold a thousand messages");
}

#[test]
fn numbers_set_by_hand_are_kept_and_replace_what_followed() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    write(&mut journal, 1..=5);
    journal.set_next_outbound(3).unwrap();
    journal.record_outbound(3, &message(3)).unwrap();
    journal.set_next_outbound(10).unwrap();
    journal.record_outbound(10, &message(10)).unwrap();
    journal.record_outbound(11, b"").unwrap();
    journal.record_inbound(2).unwrap();
    drop(journal);
    let (mut journal, _) = open(&folder);
    assert_eq!((journal.next_outbound(), journal.next_inbound()), (12, 2));
    assert_eq!(read(&mut journal, 1, 20), [1, 2, 3, 10]);
}

#[test]
fn a_reset_begins_anew_and_old_segments_go_away() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    write(&mut journal, 1..=1000);
    let before = segments(folder.path()).len();
    journal.reset(77).unwrap();
    write(&mut journal, 1..=2);
    assert_eq!(read(&mut journal, 1, 9), [1, 2]);
    assert_eq!((journal.generation(), journal.created_utc_ns()), (1, 77));
    drop(journal);
    assert!(segments(folder.path()).len() < before, "nothing can be asked for of them");
    let (mut journal, _) = open(&folder);
    assert_eq!((journal.generation(), journal.created_utc_ns(), journal.next_outbound()), (1, 77, 3));
    assert_eq!(read(&mut journal, 1, 9), [1, 2]);
}

#[test]
fn old_segments_go_away_also_where_the_disk_is_waited_for() {
    let folder = tempdir().unwrap();
    let options = Options { durability: Durability::Disk, ..SMALL };
    let (mut journal, _) = Journal::open(folder.path(), SESSION, options, 1).unwrap();
    write(&mut journal, 1..=1000);
    let before = segments(folder.path()).len();
    journal.reset(77).unwrap();
    for seq in 1..=2 {
        write(&mut journal, seq..=seq);
        while !journal.is_durable().unwrap() {
            std::thread::yield_now();
        }
    }
    drop(journal);
    let after = segments(folder.path()).len();
    assert!(after < before, "{after} of {before} segments are left, though nothing can be asked for of most");
    let (mut journal, _) = open(&folder);
    assert_eq!(read(&mut journal, 1, 9), [1, 2]);
}

#[test]
fn a_journal_is_for_its_user_alone() {
    let folder = tempdir().unwrap();
    let place = folder.path().join("deep").join("down");
    let _journal = Journal::open(&place, SESSION, SMALL, 1).unwrap().0;
    let mut paths = segments(&place);
    paths.extend([place.join("lock"), place.clone(), folder.path().join("deep")]);
    assert!(paths.len() > 3);
    for path in paths {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
    }
}

#[test]
fn numbers_without_messages_live_through_any_number_of_openings() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    journal.set_next_outbound(10).unwrap();
    journal.record_inbound(20).unwrap();
    drop(journal);
    for _ in 0..3 {
        let (journal, _) = open(&folder);
        assert_eq!((journal.next_outbound(), journal.next_inbound()), (10, 20));
    }
    assert!(segments(folder.path()).len() <= 2, "what the newest says makes the others superfluous");
}

#[test]
fn damage_that_is_no_torn_write_is_refused() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    write(&mut journal, 1..=1000);
    drop(journal);
    let first = &segments(folder.path())[0];
    let mut bytes = fs::read(first).unwrap();
    bytes[5000] ^= 1;
    fs::write(first, bytes).unwrap();
    assert!(refused(&folder).to_string().contains("damaged"), "a segment that others follow");
}

#[test]
fn a_record_that_vouches_for_a_damaged_one_is_believed() {
    let folder = tempdir().unwrap();
    let options = Options { durability: Durability::Disk, ..SMALL };
    let (mut journal, _) = Journal::open(folder.path(), SESSION, options, 1).unwrap();
    for seq in 1..=10 {
        journal.record_outbound(seq, &message(seq)).unwrap();
        journal.commit().unwrap();
        while !journal.is_durable().unwrap() {
            std::thread::yield_now();
        }
    }
    drop(journal);
    let path = &segments(folder.path())[0];
    let mut bytes = fs::read(path).unwrap();
    bytes[4096 + 20] ^= 1;
    fs::write(path, bytes).unwrap();
    assert!(refused(&folder).to_string().contains("damaged at byte 4096"));
}

#[test]
fn other_files_other_sessions_and_other_processes_are_refused_by_name() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    write(&mut journal, 1..=1);
    let second = refused(&folder).to_string();
    assert!(second.contains(&format!("process {} has it open", std::process::id())), "{second}");
    drop(journal);
    let other = Journal::open(folder.path(), "FIX.4.2:X->Y", SMALL, 1).expect_err("another's");
    assert!(other.to_string().contains(SESSION), "{other}");
    fs::write(folder.path().join("0000000000000009.journal"), "20261121-10:00:00 : 8=FIX.4.2").unwrap();
    assert!(refused(&folder).to_string().contains("not a journal of sidestep"));
    fs::rename(folder.path().join("0000000000000009.journal"), folder.path().join("notes.journal")).unwrap();
    assert!(refused(&folder).to_string().contains("notes.journal"));
    fs::remove_file(folder.path().join("notes.journal")).unwrap();
    assert_eq!(open(&folder).0.next_outbound(), 2);
}

#[test]
fn a_missing_segment_is_noticed() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    write(&mut journal, 1..=1000);
    drop(journal);
    fs::remove_file(&segments(folder.path())[1]).unwrap();
    assert!(refused(&folder).to_string().contains("missing"));
}

#[test]
fn a_segment_is_read_by_others_while_it_is_written() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    write(&mut journal, 1..=3);
    let mut seen = Vec::new();
    let session = read_segment(&segments(folder.path())[0], &mut |entry| seen.push((entry.kind, entry.number)));
    assert_eq!(session.unwrap().session, SESSION);
    let expected = [2, 1, 3, 2, 4, 3].map(|number| number as u64);
    let kinds = [Kind::NextInbound, Kind::Outbound].into_iter().cycle();
    assert_eq!(seen, kinds.zip(expected).take(6).collect::<Vec<_>>());
}

#[test]
fn a_message_that_fits_no_segment_stops_the_journal() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(&folder);
    write(&mut journal, 1..=1);
    assert!(journal.record_outbound(2, &vec![b'x'; 64 << 10]).is_err());
    assert!(journal.record_outbound(2, b"short").is_err(), "it stays stopped");
    assert!(journal.commit().is_err());
}

#[test]
fn both_ways_of_writing_leave_the_same_records() {
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    let mut mapped = 0;
    for (folder, writing) in folders.iter().zip([Writing::Mapped, Writing::Call]) {
        let (mut journal, _) = Journal::open(folder.path(), SESSION, Options { writing, ..SMALL }, 1).unwrap();
        mapped += usize::from(journal.is_mapped());
        assert!(writing == Writing::Mapped || !journal.is_mapped());
        // Across several segments.
        write(&mut journal, 1..=1000);
        assert_eq!(read(&mut journal, 1, u64::MAX).len(), 1000);
    }
    if mapped == 0 {
        eprintln!("skipped: the file system of the temporary folder does not write in place");
    }
    let records = |folder: &TempDir| -> Vec<Vec<u8>> {
        let mut names: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|name| name.extension().is_some_and(|ending| ending == "journal"));
        names.sort();
        names.iter().map(|name| fs::read(name).unwrap()).collect()
    };
    let [one, other] = folders.each_ref().map(records);
    assert!(one.len() > 2 && one == other, "{} and {} segments", one.len(), other.len());
}

#[test]
fn a_cpu_that_there_is_not_is_refused() {
    let folder = tempdir().unwrap();
    let options = Options { helper_cpu: Some(1_000_000), ..SMALL };
    let refused = Journal::open(folder.path(), SESSION, options, 1).expect_err("there are not so many").to_string();
    assert!(refused.contains("CPU 1000000"), "{refused}");
}

//! Arrays of records: accepted and refused files, the reasons, the holder of the writing side, readers in other threads, and
//! somebody who writes anything anywhere.

use sidestep_ring::layout::{
    ABI_AND_KIND_AT, CELLS_AT, HEADER_BYTES, LAYOUT_HASH_AT, MAGIC_AT, ORDER_AND_HEADER_AT, PID_NAMESPACE_AT, WAKING_AT,
};
use sidestep_ring::seqlock::{self, Array, Options, ReadError, Record, STAMP_MAX, WriteError};
use sidestep_ring::{Access, Cell, Kind, Peer, Segment, Waking};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

const TAG: u64 = u64::from_ne_bytes(*b"TESTTEST");
const OPTIONS: Options = Options { records: 10, tag: TAG };

fn refusal<T>(attempt: Result<T, sidestep_sys::Problem>) -> String {
    attempt.map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn a_named_array_outlives_its_writer_and_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tops");
    let made = Array::<7>::create(&path, &OPTIONS).unwrap();
    assert!(refusal(Array::<7>::create(&path, &OPTIONS)).contains("exists"));
    let mut writer = made.writer().unwrap();
    assert!(refusal(made.writer()).contains(&format!("process {} holds this side", std::process::id())));
    writer.write(9, 5, &[1; 7]).unwrap();
    assert_eq!(writer.write(9, 5, &[2; 7]), Err(WriteError::Stamp { current: 5 }));
    assert_eq!(writer.write(9, STAMP_MAX + 1, &[2; 7]), Err(WriteError::Stamp { current: 5 }));
    assert_eq!(writer.write(10, 6, &[2; 7]), Err(WriteError::NoRecord));
    let observed = Array::<7>::open(&path, Access::ReadOnly, TAG).unwrap();
    assert!(refusal(observed.writer()).contains("read-only"));
    let mut reader = observed.reader();
    assert_eq!(reader.read(9), Ok(Record { stamp: 5, words: [1; 7] }));
    assert_eq!(reader.read(0), Ok(Record { stamp: 0, words: [0; 7] }));
    assert_eq!((reader.read(10), reader.stamp(10), reader.stamp(9)), (Err(ReadError::NoRecord), None, Some(5)));
    assert_eq!(reader.peer(), Peer::Present);
    drop((writer, made));
    assert_eq!(reader.peer(), Peer::Absent);
    let mut successor = Array::<7>::open(&path, Access::ReadWrite, TAG).unwrap().writer().unwrap();
    assert_eq!((successor.newest(), successor.repaired()), (5, 0));
    successor.write(9, STAMP_MAX, &[3; 7]).unwrap();
    assert_eq!(reader.read(9), Ok(Record { stamp: STAMP_MAX, words: [3; 7] }));
    let stat = observed.stat();
    assert_eq!((stat.records, stat.written, stat.busy, stat.newest), (10, 1, 0, STAMP_MAX));
    assert!(stat.writer.is_alive);
}

#[test]
fn every_mismatch_of_an_array_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (at, value, name) in [
        (MAGIC_AT, 1, "SIDESTEP"),
        (ABI_AND_KIND_AT, 7 | 3 << 32, "ABI version is 7"),
        (ABI_AND_KIND_AT, 1 | 2 << 32, "it is a ring (kind 2)"),
        (ORDER_AND_HEADER_AT, 0x0403_0201, "byte order"),
        (ORDER_AND_HEADER_AT, 0x0102_0304 | 64 << 32, "header has 64 bytes"),
        (LAYOUT_HASH_AT, 5, "layout hash is 0000000000000005"),
        (CELLS_AT, 0, "0 records"),
        (CELLS_AT, 1 << 40, "records: not from 1"),
        (CELLS_AT, 11, "the array needs 4800"),
        (WAKING_AT, 128, "the array needs 5376"),
        (WAKING_AT, 192, "records have 192 bytes: neither"),
        (PID_NAMESPACE_AT, 1, "pid namespace 1"),
        (PID_NAMESPACE_AT + 8, u64::from_ne_bytes(*b"OTHERS!!"), "\"OTHERS!!\""),
    ] {
        let path = folder.path().join(format!("{at}-{value}"));
        drop(Array::<7>::create(&path, &OPTIONS).unwrap());
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&u64::to_ne_bytes(value), at as u64).unwrap();
        let why = refusal(Array::<7>::open(&path, Access::ReadWrite, TAG));
        assert!(why.contains(name), "{why}");
    }
    assert!(refusal(Array::<7>::memfd(&Options { records: 0, tag: 0 })).contains("1 to"));
    assert!(refusal(seqlock::pair::<7>(u32::MAX)).contains("1 to"));
}

#[test]
fn a_ring_is_no_array_and_an_array_no_ring() {
    let folder = tempfile::tempdir().unwrap();
    let [ring, array] = ["ring", "array"].map(|name| folder.path().join(name));
    let options = sidestep_ring::Options { kind: Kind::Spsc, cell: Cell::Line, bytes: 4096, waking: Waking::Never };
    drop(Segment::create(&ring, &options).unwrap());
    drop(Array::<15>::create(&array, &OPTIONS).unwrap());
    assert!(refusal(Segment::open(&array, Access::ReadOnly)).contains("an array of records, not a ring"));
    assert!(refusal(Array::<7>::open(&ring, Access::ReadOnly, TAG)).contains("it is a ring"));
    assert!(refusal(Array::<7>::open(&array, Access::ReadOnly, TAG)).contains("records have 128 bytes"));
}

#[test]
fn whoever_only_looks_at_an_array_need_not_know_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let [ring, array, cut] = ["ring", "array", "cut"].map(|name| folder.path().join(name));
    let made = Array::<15>::create(&array, &OPTIONS).unwrap();
    let mut writer = made.writer().unwrap();
    writer.write(3, 41, &[1; 15]).unwrap();
    let stat = seqlock::stat(&array).unwrap().unwrap();
    assert!(stat.writer.is_alive && stat.writer.process == made.stat().writer.process);
    assert_eq!((stat.records, stat.record_bytes, stat.tag, stat.written, stat.newest), (10, 128, TAG, 1, 41));
    drop(writer);
    assert!(!seqlock::stat(&array).unwrap().unwrap().writer.is_alive);
    let bytes = std::fs::read(&array).unwrap();
    std::fs::write(&cut, &bytes[..HEADER_BYTES + 10 * 128 - 1]).unwrap();
    assert!(refusal(seqlock::stat(&cut)).contains("the array needs"));
    let options = sidestep_ring::Options { kind: Kind::Spsc, cell: Cell::Line, bytes: 4096, waking: Waking::Never };
    drop(Segment::create(&ring, &options).unwrap());
    for none in [&ring, &folder.path().join("missing"), folder.path()] {
        assert!(seqlock::stat(none).unwrap().is_none(), "{none:?}");
    }
}

#[test]
fn readers_of_other_threads_see_whole_records_that_never_go_back() {
    const WRITES: u64 = 200_000;
    let (mut writer, reader) = seqlock::pair::<15>(3).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            let (reader, is_over) = (reader.clone(), &is_over);
            threads.spawn(move || {
                let (mut newest, mut reads) = ([0; 3], 0_u64);
                while !is_over.load(Ordering::Acquire) {
                    for index in 0..3 {
                        let Ok(record) = reader.read(index) else { continue };
                        assert_eq!(record.words, [record.stamp; 15]);
                        assert!(record.stamp >= newest[index as usize]);
                        newest[index as usize] = record.stamp;
                        reads += 1;
                    }
                }
                assert!(reads > 0);
            });
        }
        for stamp in 1..=WRITES {
            writer.write((stamp % 3) as u32, stamp, &[stamp; 15]).unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
}

#[test]
fn no_bytes_from_a_hostile_holder_do_harm() {
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let array = Array::<7>::memfd(&OPTIONS).unwrap();
        let hostile = File::from(array.fd().try_clone_to_owned().unwrap());
        let (mut writer, reader) = (Some(array.writer().unwrap()), array.reader());
        for _ in 0..60 {
            let record = random.u32(0..12);
            let word = [random.u64(..), 0, 1, u64::MAX, u64::MAX - 1, STAMP_MAX, 1 << 32][random.usize(..7)];
            let (at, stamp) = (random.usize(0..(HEADER_BYTES + 640) / 8) * 8, random.u64(..) >> random.u32(..64));
            match random.u8(0..6) {
                0..2 => hostile.write_all_at(&word.to_ne_bytes(), at as u64).unwrap(),
                2 => hostile
                    .write_all_at(&word.to_ne_bytes(), (HEADER_BYTES + record as usize % 10 * 64) as u64)
                    .unwrap(),
                3 => drop(writer.as_mut().map(|writer| writer.write(record, stamp, &[word; 7]))),
                4 => {
                    drop(writer.take());
                    writer = array.writer().ok();
                }
                _ => drop((reader.read(record), reader.stamp(record), array.stat(), array.reader().peer())),
            }
        }
        let file = array.fd().try_clone_to_owned().unwrap();
        drop(Array::<7>::from_fd(file, Access::ReadOnly, TAG).map(|array| array.stat()));
    }
}

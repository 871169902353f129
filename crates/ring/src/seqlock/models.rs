//! loom explores every interleaving of the array's writer and readers, and every value that a load may return.

use super::{ReadError, Reader, Writer, offset, over, version, word};
use crate::broadcast;
use crate::layout::{CELL_BYTES, HEADER_BYTES};
use crate::memory::Memory;
use crate::ring::{Cell, Kind, Ring};
use crate::role::Side;
use crate::sync::{Arc, Relaxed, Release, fence};
use crate::waking::Waking;
use loom::thread;

/// Enough for a record that is torn.
const WORDS: usize = 2;

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn memory(records: u32) -> Ring {
    Ring::of_records(Memory::new(offset(records, WORDS)), false)
}

/// The words of the write with this stamp: all alike, so that a torn record shows.
fn words(stamp: u64) -> [u64; WORDS] {
    [stamp * 10; WORDS]
}

fn check(reader: &Reader<WORDS>, newest: &mut u64) {
    match reader.read(0) {
        Ok(record) => {
            assert_eq!(record.words, words(record.stamp));
            assert!(record.stamp >= *newest, "a reader never goes back");
            *newest = record.stamp;
        }
        Err(error) => assert_eq!(error, ReadError::Busy),
    }
}

#[test]
fn loom_records_are_never_torn_and_never_go_back() {
    explore(3, || {
        let (mut writer, reader): (Writer<WORDS>, _) = over(memory(1), 1);
        let writes = thread::spawn(move || (1..=3).for_each(|stamp| writer.write(0, stamp, &words(stamp)).unwrap()));
        let mut newest = 0;
        (0..2).for_each(|_| check(&reader, &mut newest));
        writes.join().unwrap();
        check(&reader, &mut newest);
        assert_eq!(newest, 3);
    });
}

/// A writer dies after any of its stores; the next one repairs while a reader reads.
#[test]
fn loom_a_repair_is_never_seen_half() {
    for stores in 0..=WORDS {
        explore(3, move || {
            let ring = Arc::new(memory(1));
            let mut first = Writer::<WORDS>::resume(Arc::clone(&ring), Side::writer(), 1);
            let reader = Reader::<WORDS>::new(Arc::clone(&ring), 1);
            first.write(0, 1, &words(1)).unwrap();
            let dies_and_is_followed = thread::spawn(move || {
                let at = offset(0, WORDS);
                version(&ring.memory, at).store(3, Relaxed);
                fence(Release);
                (0..stores).for_each(|index| word(&ring.memory, at, index).store(20, Relaxed));
                Writer::<WORDS>::resume(ring, Side::writer(), 1)
            });
            for _ in 0..2 {
                match reader.read(0) {
                    Ok(record) if record.stamp == 1 => assert_eq!(record.words, words(1)),
                    Ok(record) => assert_eq!((record.stamp, record.words), (2, [0; WORDS])),
                    Err(error) => assert_eq!(error, ReadError::Busy),
                }
            }
            let mut second = dies_and_is_followed.join().unwrap();
            assert_eq!((second.repaired(), second.newest()), (1, 2));
            second.write(0, 3, &words(3)).unwrap();
            assert_eq!(reader.read(0).unwrap().words, words(3));
        });
    }
}

/// The writer stores the record first and tells it in the ring second; the reader takes its place in the ring first and
/// reads the record second. So a record that is older than the place is impossible: nothing is missed between the two.
#[test]
fn loom_a_record_read_after_a_place_in_the_ring_is_as_new_as_the_place() {
    explore(2, || {
        let bytes = HEADER_BYTES + 4 * CELL_BYTES;
        let ring = Ring::new(Memory::new(bytes), Kind::Broadcast, Cell::Line, 4, Waking::Never, false);
        let (mut publisher, mut subscriber) = broadcast::over(ring);
        let (mut writer, reader): (Writer<WORDS>, _) = over(memory(1), 1);
        let feed = thread::spawn(move || {
            for stamp in 1..=2 {
                writer.write(0, stamp, &words(stamp)).unwrap();
                publisher.publish(&stamp.to_ne_bytes()).unwrap();
            }
            publisher
        });
        let mut buffer = [0; 8];
        while subscriber.try_read(&mut buffer).is_ok() {}
        let place = subscriber.sequence();
        if let Ok(record) = reader.read(0) {
            assert!(record.stamp >= place, "the record has stamp {}, the place is {place}", record.stamp);
        }
        drop(feed.join().unwrap());
    });
}

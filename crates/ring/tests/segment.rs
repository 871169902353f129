//! Shared memory: accepted and refused segments, the reasons, and the holders of a side.

use sidestep_ring::broadcast::Start;
use sidestep_ring::layout::{
    ABI_AND_KIND_AT, CELLS_AT, LAYOUT_HASH_AT, MAGIC_AT, ORDER_AND_HEADER_AT, PID_NAMESPACE_AT, READER_SLEEPS_AT,
    SMALL_LAYOUT_HASH, WAKING_AT,
};
use sidestep_ring::spsc::{Producer, Resume};
use sidestep_ring::{Access, Cell, ClaimError, Kind, Options, ReadError, Segment, WaitError, Waking};
use sidestep_sys::idle::IdleStrategy;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn options(kind: Kind) -> Options {
    Options { kind, cell: Cell::Line, bytes: 4096, waking: Waking::Barrier }
}

fn refusal<T>(attempt: Result<T, sidestep_sys::Problem>) -> String {
    attempt.map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn a_named_ring_outlives_its_holders_and_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders");
    let made = Segment::create(&path, &options(Kind::Spsc)).unwrap();
    assert!(refusal(Segment::create(&path, &options(Kind::Spsc))).contains("exists"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no unfinished file is left");
    assert!(made.backing().huge_pages.is_err());

    let mut producer = made.producer().unwrap();
    assert!(refusal(made.producer()).contains(&format!("process {} holds this side", std::process::id())));
    producer.try_send(b"one").unwrap();
    producer.try_send(b"two").unwrap();
    drop((producer, made));

    let attached = Segment::open(&path, Access::ReadWrite).unwrap();
    let mut consumer = attached.consumer(Resume::Unread).unwrap();
    assert_eq!(*consumer.try_read().unwrap(), *b"one");
    drop(consumer);
    let mut consumer = attached.consumer(Resume::Unread).unwrap();
    assert_eq!(*consumer.try_read().unwrap(), *b"two");
    assert_eq!(consumer.wait(IdleStrategy::SPIN_THEN_PARK, None), Err(WaitError::Closed));

    let mut again = attached.producer().unwrap();
    assert!(matches!(consumer.try_read(), Err(ReadError::Empty)), "a new writer opens the ring again");
    again.try_send(b"three").unwrap();
    drop(consumer);
    let mut latest = attached.consumer(Resume::Latest).unwrap();
    assert!(matches!(latest.try_read(), Err(ReadError::Empty)));
    let stat = attached.stat();
    assert_eq!((stat.written.messages, stat.written.bytes, stat.read.messages, stat.lost), (3, 11, 3, 1));
    assert!(stat.writer.is_alive && stat.reader.is_alive && !stat.writer.is_closed);
}

#[test]
fn a_ring_of_small_cells_is_known_by_its_layout_and_puts_four_messages_into_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [Kind::Spsc, Kind::Broadcast] {
        let path = folder.path().join(kind.to_string());
        drop(Segment::create(&path, &Options { cell: Cell::Quarter, ..options(kind) }).unwrap());
        let mut hash = [0; 8];
        File::open(&path).unwrap().read_exact_at(&mut hash, LAYOUT_HASH_AT as u64).unwrap();
        // A program that knows only cells of a line finds an unknown layout.
        assert_eq!(u64::from_ne_bytes(hash), SMALL_LAYOUT_HASH);
        let ring = Segment::open(&path, Access::ReadWrite).unwrap();
        let mut tail = ring.subscriber(Start::Latest).unwrap();
        let numbers = || (0..10_u64).map(u64::to_le_bytes);
        if kind == Kind::Spsc {
            let (mut producer, mut consumer) = (ring.producer().unwrap(), ring.consumer(Resume::Unread).unwrap());
            numbers().for_each(|number| producer.try_send(&number).unwrap());
            numbers().for_each(|number| assert_eq!(*consumer.try_read().unwrap(), number));
        } else {
            let mut publisher = ring.publisher().unwrap();
            numbers().for_each(|number| publisher.publish(&number).unwrap());
        }
        let mut buffer = [0; 8];
        numbers().for_each(|number| assert_eq!((tail.try_read(&mut buffer), buffer), (Ok(8), number)));
        let stat = ring.stat();
        assert_eq!((stat.capacity_bytes, stat.cell_bytes), (4096, 16));
        assert_eq!((stat.written.messages, stat.written.bytes, stat.written.cells), (10, 80, 10));
    }
}

#[test]
fn an_observer_needs_read_only_access_and_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let made = Segment::create(&path, &options(Kind::Spsc)).unwrap();
    let (mut producer, mut consumer) = (made.producer().unwrap(), made.consumer(Resume::Unread).unwrap());
    let observer = Segment::open(&path, Access::ReadOnly).unwrap();
    assert!(refusal(observer.consumer(Resume::Unread)).contains("read-only"));
    assert!(refusal(observer.publisher()).contains("it is a spsc ring, not broadcast"));
    let mut tail = observer.subscriber(Start::Latest).unwrap();
    producer.try_send(b"tick").unwrap();
    let mut buffer = [0; 16];
    assert_eq!(tail.try_read(&mut [0; 2]), Err(ReadError::TooShort { needs: 4 }));
    assert_eq!(tail.try_read(&mut buffer), Ok(4));
    assert_eq!(tail.wait(IdleStrategy::SPIN_THEN_PARK, Some(std::time::Instant::now())), Err(WaitError::TimedOut));
    assert_eq!(*consumer.try_read().unwrap(), *b"tick");
    assert_eq!(observer.stat().read.messages, 1);
    drop(producer);
    assert_eq!(tail.try_read(&mut buffer), Err(ReadError::Closed));
    assert!(observer.stat().writer.is_closed && !observer.stat().writer.is_alive);
}

#[test]
fn every_mismatch_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (at, value, name) in [
        (MAGIC_AT, 1, "SIDESTEP"),
        (ABI_AND_KIND_AT, 7, "ABI version is 7"),
        (ABI_AND_KIND_AT, 1 | 9 << 32, "kind is 9"),
        (ORDER_AND_HEADER_AT, 0x0403_0201, "byte order"),
        (ORDER_AND_HEADER_AT, 0x0102_0304 | 64 << 32, "header has 64 bytes"),
        (LAYOUT_HASH_AT, 5, "layout hash is 0000000000000005"),
        (CELLS_AT, 3, "3 cells"),
        (CELLS_AT, 1 << 40, "cells: not a power of two"),
        (CELLS_AT, 1 << 20, "the ring needs"),
        (WAKING_AT, 77, "number 77"),
        (PID_NAMESPACE_AT, 1, "pid namespace 1"),
    ] {
        let path = folder.path().join(format!("{at}-{value}"));
        drop(Segment::create(&path, &options(Kind::Broadcast)).unwrap());
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&u64::to_ne_bytes(value), at as u64).unwrap();
        let why = refusal(Segment::open(&path, Access::ReadWrite));
        assert!(why.contains(name), "{why}");
    }
}

#[test]
fn files_that_others_could_truncate_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| refusal(Segment::open(path, Access::ReadWrite));
    let path = folder.path().join("ring");
    drop(Segment::create(&path, &options(Kind::Spsc)).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(open(&path).contains("everybody may write it"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(open(&path).contains("its group may write it"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
    assert!(open(&path).contains("the file has 5000 bytes, the ring needs"));
    File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert!(open(&path).contains("the file has 10 bytes"));
    assert!(refusal(Segment::open(folder.path(), Access::ReadOnly)).contains("regular file"));
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(refusal(Segment::open(&fifo, Access::ReadOnly)).contains("regular file"), "and does not wait for a writer");
    let unsealed = sidestep_sys::memory::memfd("unsealed", false).unwrap();
    assert!(refusal(Segment::from_fd(unsealed, Access::ReadWrite)).contains("not sealed"));
}

#[test]
fn a_file_that_is_much_longer_than_its_ring_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    drop(Segment::create(&path, &options(Kind::Spsc)).unwrap());
    // All of it would be mapped, faulted in and locked.
    File::options().write(true).open(&path).unwrap().set_len(1 << 36).unwrap();
    let why = refusal(Segment::open(&path, Access::ReadWrite));
    assert!(why.contains("the file has 68719476736 bytes, the ring needs"), "{why}");
}

#[test]
fn an_observer_that_sleeps_leaves_the_consumer_its_bell() {
    let made = Segment::memfd(&options(Kind::Spsc)).unwrap();
    let (mut producer, mut consumer) = (made.producer().unwrap(), made.consumer(Resume::Unread).unwrap());
    let rung = Arc::new(AtomicUsize::new(0));
    let doorbell = Arc::clone(&rung);
    producer.set_doorbell(move || {
        doorbell.fetch_add(1, Ordering::Relaxed);
    });
    assert!(consumer.request_doorbell());
    let mut observer = made.subscriber(Start::Latest).unwrap();
    let soon = std::time::Instant::now() + std::time::Duration::from_millis(1);
    assert_eq!(observer.wait(IdleStrategy::SPIN_THEN_PARK, Some(soon)), Err(WaitError::TimedOut));
    producer.try_send(b"tick").unwrap();
    assert_eq!(rung.load(Ordering::Relaxed), 1);
}

/// The reader requests the doorbell, and sleeps elsewhere, before there is a writer; and again when a writer has died
/// before it called it.
#[test]
fn a_bell_that_was_asked_for_before_the_writer_came_rings() {
    let made = Segment::memfd(&options(Kind::Spsc)).unwrap();
    let mut consumer = made.consumer(Resume::Unread).unwrap();
    let rung = Arc::new(AtomicUsize::new(0));
    let doorbell = |producer: &mut Producer| {
        let rung = Arc::clone(&rung);
        producer.set_doorbell(move || {
            rung.fetch_add(1, Ordering::Relaxed);
        });
    };
    let flag = || {
        let mut flag = [0; 4];
        File::from(made.fd().try_clone_to_owned().unwrap()).read_exact_at(&mut flag, READER_SLEEPS_AT as u64).unwrap();
        u32::from_ne_bytes(flag) & 3
    };
    assert!(consumer.request_doorbell());
    let mut producer = made.producer().unwrap();
    doorbell(&mut producer);
    assert_eq!(rung.load(Ordering::Relaxed), 0, "nothing is there yet");
    producer.try_send(b"tick").unwrap();
    assert_eq!(rung.load(Ordering::Relaxed), 1);
    consumer.try_read().unwrap();
    drop(producer);

    assert_eq!(rung.load(Ordering::Relaxed), 1, "nobody has asked");
    let mut producer = made.producer().unwrap();
    assert!(consumer.request_doorbell());
    producer.try_send(b"tock").unwrap();
    assert_eq!(flag(), 0, "as where a writer has seen the asking, and died before it rang");
    doorbell(&mut producer);
    assert_eq!(rung.load(Ordering::Relaxed), 2, "a message is there, and whoever asked sleeps");
}

#[test]
fn of_many_who_make_the_same_ring_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    fs::write(folder.path().join(format!("ring.{}.0.new", std::process::id())), "left by another").unwrap();
    let make = || Segment::create(&path, &options(Kind::Spsc)).is_ok();
    let made = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|is_made| *is_made).count()
    });
    assert_eq!(made, 1);
    assert!(Segment::open(&path, Access::ReadWrite).is_ok());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the ring, and what was left before");
}

#[test]
fn absurd_sizes_are_refused() {
    for (cell, most) in [(Cell::Line, "at most 4 GiB"), (Cell::Quarter, "at most 1 GiB")] {
        let huge = Options { cell, bytes: usize::MAX, ..options(Kind::Spsc) };
        assert!(refusal(Segment::memfd(&huge)).contains(most));
    }
    let tiny = Segment::memfd(&Options { bytes: 0, ..options(Kind::Spsc) }).unwrap();
    assert_eq!(tiny.stat().capacity_bytes, 256);
    let mut producer = tiny.producer().unwrap();
    for length in [producer.message_bytes_max() + 1, usize::MAX - 7, usize::MAX] {
        assert_eq!(producer.reserve(length).map(|_| ()), Err(ClaimError::TooLong));
        assert_eq!(producer.wait(length, IdleStrategy::SPIN, None), Err(WaitError::TooLong));
    }
}

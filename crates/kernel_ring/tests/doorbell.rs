//! Readers that sleep, and a program that wakes them.

mod support;

use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::{Doorbell, ReadError};
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::memory::{Access, Mapping};
use sidestep_sys::words::Words;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use support::{Producer, is_skipped, number};

/// Sleeps at once, and longer than any test: only a wake-up ends it.
const SLEEP: IdleStrategy =
    IdleStrategy { spin_ns: 0, yield_ns: 0, park_min_ns: 600_000_000_000, park_max_ns: 600_000_000_000 };
/// A test that waits this long has failed.
const FAILED: Duration = Duration::from_secs(60);

fn reader(producer: &Producer) -> Subscriber {
    let mut reader = producer.attach().subscriber(Start::Latest).unwrap();
    reader.set_doorbell(Doorbell::bpf(producer.map("flags"), producer.map("doorbell")).unwrap());
    reader
}

fn is_readable(descriptor: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut polled = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout = i32::try_from(timeout.as_millis()).unwrap();
    // SAFETY: poll gets one element, which lives until it returns.
    unsafe { libc::poll(&raw mut polled, 1, timeout) > 0 }
}

fn read(reader: &mut Subscriber) -> Result<u64, ReadError> {
    let mut buffer = [0; 1024];
    reader.try_read(&mut buffer).map(|length| number(&buffer[..length]))
}

#[test]
fn no_wake_up_is_lost() {
    if is_skipped() {
        return;
    }
    let mut producer = Producer::load();
    let mut reader = reader(&producer);
    let (done, is_done) = sync_channel(0);
    let rounds = 3000;
    let thread = std::thread::spawn(move || {
        for round in 0..rounds {
            reader.wait(SLEEP, None).unwrap();
            assert_eq!(read(&mut reader), Ok(round));
            done.send(round).unwrap();
        }
    });
    for round in 0..rounds {
        producer.publish(round);
        assert_eq!(is_done.recv_timeout(FAILED), Ok(round), "it sleeps");
    }
    thread.join().unwrap();
}

#[test]
fn a_deadline_ends_the_sleep() {
    if is_skipped() {
        return;
    }
    let producer = Producer::load();
    let mut reader = reader(&producer);
    let end = Instant::now() + Duration::from_millis(30);
    assert_eq!(reader.wait(SLEEP, Some(end)), Err(sidestep_ring::WaitError::TimedOut));
    assert!(Instant::now() >= end);
}

#[test]
fn the_descriptor_is_readable_from_a_wake_up_to_the_next_request() {
    if is_skipped() {
        return;
    }
    let mut producer = Producer::load();
    let mut reader = reader(&producer);
    let readable = |reader: &Subscriber, timeout| is_readable(reader.doorbell().unwrap(), timeout);
    producer.publish(0);
    assert!(!readable(&reader, Duration::ZERO), "nobody has asked");
    assert!(!reader.request_doorbell(), "something is there");
    producer.publish(1);
    assert!(!readable(&reader, Duration::ZERO), "the request was taken back");
    assert_eq!([read(&mut reader), read(&mut reader)], [Ok(0), Ok(1)]);
    assert!(reader.request_doorbell());
    assert!(!readable(&reader, Duration::ZERO));
    producer.publish(2);
    assert!(readable(&reader, FAILED));
    producer.publish(3);
    assert_eq!([read(&mut reader), read(&mut reader)], [Ok(2), Ok(3)]);
    assert!(readable(&reader, Duration::ZERO), "until the next request");
    assert!(reader.request_doorbell());
    assert!(!readable(&reader, Duration::ZERO));
    assert!(!reader.clone().request_doorbell() && reader.clone().doorbell().is_none(), "a clone has none");
}

/// The pages that a reader may write say anything: the program goes on publishing, and an honest request works again.
#[test]
fn a_ring_buffer_that_is_full_or_has_impossible_positions_does_no_harm() {
    if is_skipped() {
        return;
    }
    let mut producer = Producer::load();
    let mut reader = reader(&producer);
    let map = |name: &str| {
        let file = producer.map(name);
        Words::over(Mapping::shared(file.as_fd(), 4096, Access::ReadWrite).unwrap())
    };
    let (flag, drained) = (map("flags"), map("doorbell"));
    for round in 0..1000 {
        flag.word(0).store(u64::MAX, SeqCst);
        producer.publish(round);
        while read(&mut reader).is_ok() {}
    }
    for position in [u64::MAX, 1 << 63, 7, 0] {
        drained.word(0).store(position, SeqCst);
        flag.word(0).store(1, SeqCst);
        producer.publish(1000);
        while read(&mut reader).is_ok() {}
    }
    assert!(reader.request_doorbell());
    producer.publish(1001);
    assert!(is_readable(reader.doorbell().unwrap(), FAILED));
    assert_eq!(read(&mut reader), Ok(1001));
}

#[test]
fn other_maps_are_refused() {
    if is_skipped() {
        return;
    }
    let producer = Producer::load();
    let doorbell = || producer.map("doorbell");
    let refused = |flag, ring_buffer| Doorbell::bpf(flag, ring_buffer).err().expect("refused").to_string();
    assert!(refused(doorbell(), doorbell()).contains("its flag is a BPF map of type 27, not 2"));
    let flag = || producer.map("flags");
    assert!(refused(flag(), flag()).contains("its ring buffer is a BPF map of type 2, not 27"));
    let frozen = producer.rings.fd().try_clone_to_owned().unwrap();
    assert!(refused(frozen, doorbell()).contains("cannot be mapped"));
    assert!(refused(producer.map("producers"), doorbell()).contains("cannot be mapped"), "it is not to be mapped");
}

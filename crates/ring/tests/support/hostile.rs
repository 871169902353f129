//! Plays the peer on a shared ring: any bytes over header and records, between the operations of an honest side.
//!
//! The fuzz target and a unit test run the same [`play`]. Every call must return.

use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::layout::{HEADER_BYTES, PID_NAMESPACE_AT, WAKING_AT};
use sidestep_ring::spsc::{Consumer, Producer, Resume};
use sidestep_ring::{Access, Cell, Kind, Options, Segment, Waking};
use sidestep_sys::idle::IdleStrategy;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// The size of the ring: cells of either size.
const ROOM: usize = 1024;

/// The honest handles, as far as the overwritten ring still allows any.
struct Honest {
    producer: Option<Producer>,
    consumer: Option<Consumer>,
    observer: Option<Subscriber>,
    /// A reader that takes the peer for the kernel.
    foreign: Option<Subscriber>,
}

/// Runs the script: each step is an operation or an overwrite; the script's bytes decide.
pub(crate) fn play(script: &[u8]) {
    let kind = if script.len().is_multiple_of(2) { Kind::Spsc } else { Kind::Broadcast };
    let cell = if script.len() & 2 == 0 { Cell::Line } else { Cell::Quarter };
    let segment = Segment::memfd(&Options { kind, cell, bytes: ROOM, waking: Waking::Fence }).expect("memory");
    let hostile = File::from(segment.fd().try_clone_to_owned().expect("a descriptor"));
    let mut honest = Honest {
        producer: segment.producer().ok(),
        consumer: segment.consumer(Resume::Unread).ok(),
        observer: segment.subscriber(Start::Oldest).ok(),
        foreign: None,
    };
    let mut publisher = segment.publisher().ok();
    let mut rest = script;
    while let Some((&[operation, first, second, third], tail)) = rest.split_first_chunk::<4>() {
        rest = tail;
        let length = usize::from(first) * 3;
        match operation % 13 {
            0..4 => rest = scribble(&hostile, cell, [operation, first, second, third], rest),
            4 => honest.write(length, third),
            5 => honest.read(usize::from(first)),
            6 => {
                if let Some(publisher) = &mut publisher {
                    let _ = publisher.publish(&vec![second; length]);
                }
            }
            7 => honest.consumer = drop_and(honest.consumer.take(), || segment.consumer(resume(first)).ok()),
            8 => honest.producer = drop_and(honest.producer.take(), || segment.producer().ok()),
            9 => publisher = drop_and(publisher.take(), || segment.publisher().ok()),
            10 => {
                honest.observer =
                    segment.subscriber(if first.is_multiple_of(2) { Start::Oldest } else { Start::Latest }).ok();
            }
            11 => honest.foreign = foreign(&segment, &hostile, first),
            _ => look(&segment),
        }
    }
}

fn resume(byte: u8) -> Resume {
    if byte.is_multiple_of(2) { Resume::Unread } else { Resume::Latest }
}

fn drop_and<T>(old: Option<T>, new: impl FnOnce() -> Option<T>) -> Option<T> {
    drop(old);
    new()
}

/// Overwrites a word of the header, or some bytes anywhere; small values are likely, being the dangerous ones.
fn scribble<'a>(file: &File, cell: Cell, how: [u8; 4], rest: &'a [u8]) -> &'a [u8] {
    let [how, first, second, third] = how;
    let (all, cells) = (HEADER_BYTES + ROOM, ROOM / cell.bytes());
    let (at, bytes, rest) = match how % 12 {
        0 => (usize::from(first) * 8, u64::from(second).to_ne_bytes().to_vec(), rest),
        1 => {
            // A word of a record: committed, at some lap, of some kind and length.
            let index = usize::from(first) % cells;
            let position = u64::from(second) / 16 * cells as u64 + index as u64;
            let word = position << 32 | 1 << 31 | u64::from(third % 4) << 29 | (u64::from(third) * 7);
            (HEADER_BYTES + index * cell.bytes(), word.to_ne_bytes().to_vec(), rest)
        }
        _ => {
            let (bytes, rest) = rest.split_at(rest.len().min(usize::from(third)));
            (usize::from(u16::from_le_bytes([first, second])) % all, bytes.to_vec(), rest)
        }
    };
    let room = all - at.min(all);
    file.write_all_at(&bytes[..bytes.len().min(room)], at as u64).expect("a memfd takes bytes");
    rest
}

impl Honest {
    fn write(&mut self, length: usize, how: u8) {
        let Some(producer) = &mut self.producer else { return };
        let _ = producer.send_or_drop(&vec![how; length]);
        if let Ok(mut claim) = producer.try_claim(length / 2) {
            claim.fill(how);
            claim.commit_prefix(usize::from(how));
        }
        let _ = producer.wait(length, IdleStrategy::SPIN_THEN_PARK, Some(Instant::now()));
        let mut batch = producer.batch();
        let _ = batch.try_push(&[how; 60]);
        let _ = batch.try_push(&[how; 5]);
        if how.is_multiple_of(2) {
            batch.commit();
        }
    }

    fn read(&mut self, limit: usize) {
        let mut buffer = [0; 256];
        if let Some(consumer) = &mut self.consumer {
            let _ = consumer.drain(limit, |bytes| {
                std::hint::black_box(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
            });
            let _ = consumer.wait(IdleStrategy::SPIN_THEN_PARK, Some(Instant::now()));
            let _ = consumer.peer();
        }
        for observer in [&mut self.observer, &mut self.foreign].into_iter().flatten() {
            let _ = (0..=limit).map(|_| observer.try_read(&mut buffer)).filter(Result::is_ok).count();
            let _ = observer.wait(IdleStrategy::SPIN_THEN_PARK, Some(Instant::now()));
        }
    }
}

/// Attaches as to a ring of the kernel, whose header says so meanwhile; an SPSC ring is refused.
fn foreign(segment: &Segment, hostile: &File, how: u8) -> Option<Subscriber> {
    let honest = [PID_NAMESPACE_AT, WAKING_AT].map(|at| {
        let mut word = [0; 8];
        hostile.read_exact_at(&mut word, at as u64).expect("a memfd has bytes");
        hostile.write_all_at(&[0; 8], at as u64).expect("a memfd takes bytes");
        (at, word)
    });
    let file = segment.fd().try_clone_to_owned().expect("a descriptor");
    let attached = Segment::foreign(file, 0, HEADER_BYTES + ROOM);
    for (at, word) in honest {
        hostile.write_all_at(&word, at as u64).expect("a memfd takes bytes");
    }
    let attached = attached.ok()?;
    std::hint::black_box(attached.stat());
    attached.subscriber(if how.is_multiple_of(2) { Start::Oldest } else { Start::Latest }).ok()
}

/// Attaches anew, as a successor in another process would, and reads the counters.
fn look(segment: &Segment) {
    std::hint::black_box(segment.stat());
    let file = segment.fd().try_clone_to_owned().expect("a descriptor");
    if let Ok(attached) = Segment::from_fd(file, Access::ReadOnly) {
        std::hint::black_box(attached.stat());
        let _ = attached.subscriber(Start::Oldest).map(|mut tail| tail.try_read(&mut [0; 64]));
    }
}

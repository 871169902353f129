//! loom explores every interleaving, and every value that a load may return, of the code that ships.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sidestep-ring --release loom`. The rings have four cells: two laps are few steps.

use crate::checkpoint::{self, Checkpoint, Recorder};
use crate::fault::{ClaimError, ReadError};
use crate::layout::{CELL_BYTES, HEADER_BYTES, READ_AT, READER_SLEEPS_AT, WRITTEN_AT};
use crate::memory::Memory;
use crate::ring::{Cell, Kind, Ring};
use crate::sleeper::{Sleeper, wake};
use crate::sync::{Acquire, Arc, Release, pause};
use crate::waking::Waking;
use crate::{broadcast, spsc};
use loom::thread;
use sidestep_sys::idle::IdleStrategy;
use std::time::Duration;

/// Waits are loops: loom gives up on a path after this many steps, which also reveals a lost wake-up.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn ring(kind: Kind, cells: u64, waking: Waking) -> Ring {
    ring_of(Cell::Line, kind, cells, waking)
}

fn ring_of(cell: Cell, kind: Kind, cells: u64, waking: Waking) -> Ring {
    Ring::new(Memory::new(HEADER_BYTES + cells as usize * cell.bytes()), kind, cell, cells, waking, false)
}

fn send(producer: &mut spsc::Producer, words: usize, value: u64) {
    loop {
        match producer.try_claim(8 * words) {
            Ok(claim) => {
                (0..words).for_each(|word| claim.put(word, value));
                return claim.commit();
            }
            Err(ClaimError::Full) => pause(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn receive(consumer: &mut spsc::Consumer) -> Vec<u64> {
    loop {
        match consumer.try_read() {
            Ok(message) => return message.words(),
            Err(ReadError::Empty) => pause(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn loom_spsc_messages_come_whole_and_in_order() {
    for cell in Cell::ALL {
        explore(3, move || {
            let (mut producer, mut consumer) = spsc::over(ring_of(cell, Kind::Spsc, 4, Waking::Never));
            let writer = thread::spawn(move || (1..=5).for_each(|value| send(&mut producer, 1, value)));
            for value in 1..=5 {
                assert_eq!(receive(&mut consumer), [value]);
            }
            writer.join().unwrap();
        });
    }
}

/// Records of two cells, padding, and old message words that look like committed records.
#[test]
fn loom_spsc_long_records_wrap() {
    for cell in Cell::ALL {
        explore(3, move || {
            let (mut producer, mut consumer) = spsc::over(ring_of(cell, Kind::Spsc, 4, Waking::Never));
            let forged = |position: u64| position << 32 | 1 << 31;
            let two_cells = cell.bytes() / 8;
            let writer = thread::spawn(move || {
                send(&mut producer, 1, 1);
                send(&mut producer, two_cells, forged(6));
                send(&mut producer, two_cells, forged(5));
                send(&mut producer, 1, 4);
            });
            assert_eq!(receive(&mut consumer), [1]);
            assert_eq!(receive(&mut consumer), vec![forged(6); two_cells]);
            assert_eq!(receive(&mut consumer), vec![forged(5); two_cells]);
            assert_eq!(receive(&mut consumer), [4]);
            writer.join().unwrap();
        });
    }
}

#[test]
fn loom_spsc_a_batch_is_published_whole() {
    explore(3, || {
        let (mut producer, mut consumer) = spsc::over(ring(Kind::Spsc, 8, Waking::Never));
        let writer = thread::spawn(move || {
            let mut batch = producer.batch();
            batch.push_empty().unwrap();
            batch.push_empty().unwrap();
            batch.commit();
            drop(producer);
        });
        assert_eq!(receive(&mut consumer), []);
        // Both were published by the same store.
        assert!(consumer.try_read().is_ok());
        writer.join().unwrap();
        assert!(matches!(consumer.try_read(), Err(ReadError::Closed)));
    });
}

#[test]
fn loom_spsc_no_wake_up_is_lost() {
    for waking in [Waking::Barrier, Waking::Fence] {
        explore(2, move || {
            let (mut producer, mut consumer) = spsc::over(ring(Kind::Spsc, 4, waking));
            let writer = thread::spawn(move || {
                for value in 1..=4 {
                    producer.wait(8, IdleStrategy::PARK, None).unwrap();
                    send(&mut producer, 1, value);
                }
            });
            for value in 1..=4 {
                consumer.wait(IdleStrategy::PARK, None).unwrap();
                assert_eq!(receive(&mut consumer), [value]);
            }
            writer.join().unwrap();
        });
    }
}

/// Two readers share a flag. One that has received the message announces its next sleep while the other is still about
/// to sleep: a reader that sleeps past the message blocks the model for ever. The model has only sleeping and waking,
/// over a word that stands for the messages, and runs the second reader on the writer's thread: with three threads
/// there are too many paths.
#[test]
fn loom_broadcast_no_wake_up_is_lost() {
    for waking in [Waking::Barrier, Waking::Fence] {
        explore(3, move || {
            let ring = Arc::new(ring(Kind::Broadcast, 4, waking));
            let there = Arc::clone(&ring);
            let others = thread::spawn(move || {
                there.memory.word(WRITTEN_AT).store(1, Release);
                assert!(!wake(&there, READER_SLEEPS_AT), "nobody has asked for a doorbell");
                Sleeper::default().announce_sleep(&there, READER_SLEEPS_AT);
            });
            let mut sleeper = Sleeper::default();
            let is_there = || ring.memory.word(WRITTEN_AT).load(Acquire) == 1;
            while !is_there() {
                sleeper.sleep(&ring, READER_SLEEPS_AT, Duration::MAX, is_there);
            }
            others.join().unwrap();
        });
    }
}

#[test]
fn loom_broadcast_never_tears_and_counts_what_is_lost() {
    const MESSAGES: u64 = 5;
    explore(2, || {
        let (mut publisher, mut subscriber) = broadcast::over(ring(Kind::Broadcast, 4, Waking::Never));
        let writer = thread::spawn(move || {
            for value in 0..MESSAGES {
                let length = if value == 3 { 24 } else { 8 };
                publisher.publish(&value.to_ne_bytes().repeat(length / 8)).unwrap();
            }
            publisher
        });
        let mut buffer = [0; 64];
        let (mut next, mut bytes) = (0, 0);
        for _ in 0..3 {
            match subscriber.try_read(&mut buffer) {
                Ok(length) => {
                    assert_eq!(buffer[..length], u64::to_ne_bytes(next).repeat(length / 8));
                    (next, bytes) = (next + 1, bytes + length as u64);
                }
                Err(ReadError::Lost(loss)) => {
                    (next, bytes) = (next + loss.messages, bytes + loss.bytes);
                    let expected: u64 = (0..next).map(|value| if value == 3 { 24 } else { 8 }).sum();
                    assert_eq!(bytes, expected);
                }
                Err(ReadError::Empty) => {}
                Err(error) => panic!("{error}"),
            }
            assert_eq!(subscriber.sequence(), next);
        }
        drop(writer.join().unwrap());
    });
}

/// A reader that requests the doorbell gets it or sees the message; a loop that does neither runs out of steps.
#[test]
fn loom_a_bell_that_was_asked_for_rings() {
    explore(3, || {
        let (mut producer, mut consumer) = spsc::over(ring(Kind::Spsc, 4, Waking::Fence));
        let rung = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let doorbell = Arc::clone(&rung);
        producer.set_doorbell(move || doorbell.store(true, Release));
        let writer = thread::spawn(move || {
            send(&mut producer, 1, 7);
            producer
        });
        if consumer.request_doorbell() {
            while !rung.load(Acquire) {
                pause();
            }
        }
        assert_eq!(receive(&mut consumer), [7]);
        drop(writer.join().unwrap());
    });
}

#[test]
fn loom_checkpoints_are_never_torn() {
    explore(4, || {
        let memory = Arc::new(Memory::new(HEADER_BYTES + 4 * CELL_BYTES));
        let recorded = Arc::clone(&memory);
        let writer = thread::spawn(move || {
            let mut recorder = Recorder::resume(&recorded, READ_AT);
            for value in 1..=4 {
                recorder.store(&recorded, Checkpoint { sequence: value, position: value, bytes: value });
            }
        });
        if let Some(found) = checkpoint::load(&memory, READ_AT) {
            assert_eq!([found.position, found.bytes], [found.sequence; 2]);
        }
        writer.join().unwrap();
    });
}

//! Two threads and more, all idle strategies, every message checked. The rings are small so that they are full, empty
//! and lapped all the time.

#[path = "support/messages.rs"]
mod messages;

use messages::{message, number};
use sidestep_ring::spsc::{pair, pair_of};
use sidestep_ring::{Cell, ReadError, WaitError, Waking, broadcast};
use sidestep_sys::idle::IdleStrategy;
use std::time::{Duration, Instant};

const MESSAGES: u64 = 200_000;

#[test]
fn every_message_comes_once_and_in_order() {
    // On a busy machine, a thread that yields or sleeps every few messages waits for the others' time slices each time.
    for (waiting, waking, cells, messages) in [
        (IdleStrategy::SPIN, Waking::Never, 1024, MESSAGES),
        (IdleStrategy::SPIN_THEN_YIELD, Waking::Never, 16, MESSAGES / 10),
        (IdleStrategy::SPIN_THEN_PARK, Waking::Barrier, 16, MESSAGES / 10),
        (IdleStrategy::SPIN_THEN_PARK, Waking::Fence, 16, MESSAGES / 10),
    ] {
        let (mut producer, mut consumer) = pair(cells * 64, waking).unwrap();
        let longest = producer.message_bytes_max().min(400);
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for sequence in 0..messages {
                    let bytes = message(sequence, longest);
                    producer.wait(bytes.len(), waiting, None).unwrap();
                    producer.try_send(&bytes).unwrap();
                }
            });
            for sequence in 0..messages {
                consumer.wait(waiting, None).unwrap();
                assert_eq!(number(&consumer.try_read().unwrap()), sequence);
            }
            assert_eq!(consumer.wait(waiting, None), Err(WaitError::Closed));
        });
    }
}

/// Several messages in a line that both sides use at the same time; single and batched, read one by one and drained.
#[test]
fn small_messages_come_once_and_in_order() {
    for room in [4 * 16, 64 * 16] {
        let (mut producer, mut consumer) = pair_of(Cell::Quarter, room, Waking::Barrier).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let mut next = 0_u64;
                while next < MESSAGES {
                    if next % 7 < 3 {
                        next += u64::from(producer.try_send(&next.to_le_bytes()).is_ok());
                    } else {
                        let mut batch = producer.batch();
                        let before = next;
                        while next < before + before % 7 && batch.try_push(&next.to_le_bytes()).is_ok() {
                            next += 1;
                        }
                        batch.commit();
                    }
                    producer.wait(8, IdleStrategy::SPIN_THEN_YIELD, None).unwrap();
                }
            });
            let mut next = 0_u64;
            while consumer.wait(IdleStrategy::SPIN_THEN_YIELD, None).is_ok() {
                if next.is_multiple_of(3) {
                    let each = |bytes: &[u8]| {
                        assert_eq!(bytes, next.to_le_bytes());
                        next += 1;
                    };
                    consumer.drain(5, each).unwrap();
                } else {
                    assert_eq!(*consumer.try_read().unwrap(), next.to_le_bytes());
                    next += 1;
                }
            }
            assert!(next >= MESSAGES);
        });
    }
}

/// The reader sleeps outside the ring, on a channel. A missing doorbell call shows as a hang.
#[test]
fn a_bell_rings_once_for_whoever_asked() {
    for waking in [Waking::Barrier, Waking::Fence] {
        let (mut producer, mut consumer) = pair(16 * 64, waking).unwrap();
        let (doorbell, rung) = std::sync::mpsc::channel();
        let doorbell = std::sync::Mutex::new(doorbell);
        producer.set_doorbell(move || doorbell.lock().unwrap().send(()).unwrap());
        producer.try_send(&message(0, 100)).unwrap();
        assert!(!consumer.request_doorbell(), "a message is there");
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for sequence in 1..MESSAGES / 10 {
                    let bytes = message(sequence, 100);
                    producer.wait(bytes.len(), IdleStrategy::SPIN_THEN_YIELD, None).unwrap();
                    producer.try_send(&bytes).unwrap();
                }
            });
            let (mut next, mut asked) = (0, 0);
            loop {
                match consumer.front().map(number) {
                    Ok(sequence) => {
                        assert_eq!(sequence, next);
                        next += 1;
                        consumer.release();
                    }
                    Err(ReadError::Empty) if consumer.request_doorbell() => {
                        asked += 1;
                        rung.recv_timeout(Duration::from_secs(60)).expect("the doorbell rings");
                    }
                    Err(ReadError::Empty) => {}
                    Err(ReadError::Closed) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(next, MESSAGES / 10);
            assert_eq!(rung.try_iter().count(), 0, "{asked} askings, and a doorbell for each");
        });
    }
}

#[test]
fn batches_come_whole() {
    let (mut producer, mut consumer) = pair(64 * 64, Waking::default()).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            let mut next = 0;
            while next < MESSAGES {
                let mut batch = producer.batch();
                let mut pushed = 0;
                while pushed < 10 && batch.try_push(&message(next + pushed, 100)).is_ok() {
                    pushed += 1;
                }
                batch.commit();
                next += pushed;
                if pushed == 0 {
                    producer.wait(100, IdleStrategy::SPIN_THEN_PARK, None).unwrap();
                }
            }
        });
        let mut next = 0;
        while consumer.wait(IdleStrategy::SPIN_THEN_PARK, None).is_ok() {
            consumer
                .drain(7, |bytes| {
                    assert_eq!(number(bytes), next);
                    next += 1;
                })
                .unwrap();
        }
        assert!(next >= MESSAGES);
    });
}

#[test]
fn readers_that_are_lapped_count_every_message() {
    let (mut publisher, subscriber) = broadcast::pair(64 * 64, Waking::default()).unwrap();
    let read_all = |mut subscriber: broadcast::Subscriber, is_slow: bool| {
        let (mut seen, mut lost, mut buffer) = (0, 0, [0; 400]);
        loop {
            match subscriber.try_read(&mut buffer) {
                Ok(length) => {
                    assert_eq!(number(&buffer[..length]), seen + lost);
                    seen += 1;
                    if is_slow && seen % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
                Err(ReadError::Lost(loss)) => lost += loss.messages,
                Err(ReadError::Empty) => {
                    let _ = subscriber.wait(IdleStrategy::SPIN_THEN_PARK, None);
                }
                Err(ReadError::Closed) => return (seen, lost),
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|threads| {
        let readers: Vec<_> = [false, true, true]
            .map(|is_slow| {
                let subscriber = subscriber.clone();
                threads.spawn(move || read_all(subscriber, is_slow))
            })
            .into();
        for sequence in 0..MESSAGES {
            publisher.publish(&message(sequence, 400)).unwrap();
        }
        drop(publisher);
        for reader in readers {
            let (seen, lost) = reader.join().unwrap();
            assert_eq!(seen + lost, MESSAGES);
        }
    });
}

#[test]
fn a_deadline_ends_every_wait() {
    for waiting in [IdleStrategy::SPIN, IdleStrategy::SPIN_THEN_YIELD, IdleStrategy::SPIN_THEN_PARK] {
        let (mut producer, mut consumer) = pair(256, Waking::default()).unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(2));
        assert_eq!(consumer.wait(waiting, soon()), Err(WaitError::TimedOut));
        while producer.try_send(&[0; 8]).is_ok() {}
        assert_eq!(producer.wait(8, waiting, soon()), Err(WaitError::TimedOut));
        assert_eq!(producer.wait(10_000, waiting, None), Err(WaitError::TooLong));
        assert_eq!(consumer.wait(waiting, soon()), Ok(()));
        drop(consumer);
        assert_eq!(producer.wait(8, waiting, None), Err(WaitError::Closed));
    }
}

//! The rings against a plain queue: every sequence of operations gives what a `VecDeque` gives.

use proptest::prelude::*;
use sidestep_ring::spsc::{pair, pair_of};
use sidestep_ring::{Cell, ClaimError, ReadError, WaitError, Waking, broadcast};
use sidestep_sys::idle::IdleStrategy;
use std::collections::VecDeque;
use std::time::Instant;

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Abort(usize),
    Prefix(usize, usize),
    Batch(Vec<usize>, bool),
    Read,
    Peek,
    Wait,
    Release,
    Drain(usize),
}

fn step(longest: usize) -> impl Strategy<Value = Step> {
    let length = 0..longest + 2;
    prop_oneof![
        4 => length.clone().prop_map(Step::Send),
        1 => length.clone().prop_map(Step::Abort),
        1 => (length.clone(), length.clone()).prop_map(|(claimed, used)| Step::Prefix(claimed, used)),
        1 => (prop::collection::vec(length, 0..6), any::<bool>()).prop_map(|(all, commits)| Step::Batch(all, commits)),
        4 => Just(Step::Read),
        1 => Just(Step::Peek),
        1 => Just(Step::Wait),
        1 => Just(Step::Release),
        2 => (1_usize..8).prop_map(Step::Drain),
    ]
}

fn any_cell() -> impl Strategy<Value = Cell> {
    prop_oneof![Just(Cell::Line), Just(Cell::Quarter)]
}

/// Bytes that look like the words of committed records at the positions around `near`: the worst that a message can do
/// to the one after it.
fn forged(cell: Cell, near: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut position = near;
    while bytes.len() < length + 8 {
        bytes.extend_from_slice(&(position << 32 | 1 << 31 | 8).to_le_bytes());
        // A word is read at each cell's first eight bytes; the message begins eight bytes into its first cell.
        position += u64::from((bytes.len() + 8).is_multiple_of(cell.bytes()));
    }
    bytes.truncate(length);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spsc_is_a_queue(
        (cell, cells, steps) in (any_cell(), (2_u32..7).prop_map(|bits| 1_usize << bits)).prop_flat_map(|(cell, cells)| {
            (Just(cell), Just(cells), prop::collection::vec(step(cells * cell.bytes() / 2 - 8), 1..200))
        }),
        waking in prop_oneof![Just(Waking::Never), Just(Waking::Barrier), Just(Waking::Fence)],
    ) {
        let (mut producer, mut consumer) = pair_of(cell, cells * cell.bytes(), waking).unwrap();
        let longest = producer.message_bytes_max();
        prop_assert_eq!(longest, cells * cell.bytes() / 2 - 8);
        let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
        let mut position = 0_u64;
        let mut on_loan = false;
        for step in steps {
            let (reads, peeks) = (matches!(step, Step::Read | Step::Release | Step::Drain(_)), matches!(step, Step::Peek));
            match step {
                Step::Send(length) => {
                    let message = forged(cell, position + cells as u64, length);
                    match producer.try_send(&message) {
                        Ok(()) => queue.push_back(message),
                        Err(ClaimError::TooLong) => prop_assert!(length > longest),
                        Err(error) => {
                            prop_assert_eq!(error, ClaimError::Full);
                            // The reader publishes its position lazily; a writer that waits for space loads the exact
                            // one.
                            let room = producer.wait(length, IdleStrategy::SPIN, Some(Instant::now()));
                            prop_assert!(room.is_ok() || !queue.is_empty(), "an empty ring has room for the longest");
                        }
                    }
                    position += (8 + length).div_ceil(cell.bytes()) as u64;
                }
                Step::Abort(length) => if let Ok(mut claim) = producer.try_claim(length) {
                    claim.fill(0xff);
                    claim.abort();
                },
                Step::Prefix(length, used) => if let Ok(mut claim) = producer.try_claim(length) {
                    let message = forged(cell, position, length);
                    claim.copy_from_slice(&message);
                    claim.commit_prefix(used);
                    queue.push_back(message[..used.min(length)].to_vec());
                },
                Step::Batch(lengths, commits) => {
                    let mut batch = producer.batch();
                    let mut pushed = Vec::new();
                    for length in lengths {
                        let message = forged(cell, position + 1, length);
                        if batch.try_push(&message).is_ok() {
                            pushed.push(message);
                        }
                    }
                    if commits {
                        batch.commit();
                        queue.extend(pushed);
                    }
                }
                Step::Read => match consumer.try_read() {
                    Ok(message) => prop_assert_eq!(Some(message.to_vec()), queue.pop_front()),
                    Err(error) => {
                        prop_assert_eq!(error, ReadError::Empty);
                        prop_assert!(queue.is_empty());
                    }
                },
                Step::Peek => {
                    prop_assert_eq!(consumer.front().ok(), queue.front().map(Vec::as_slice));
                }
                Step::Wait => {
                    let is_there = consumer.wait(IdleStrategy::SPIN, Some(Instant::now())).is_ok();
                    prop_assert_eq!(is_there, !queue.is_empty());
                }
                Step::Release => {
                    consumer.release();
                    if on_loan {
                        queue.pop_front();
                    }
                }
                Step::Drain(limit) => {
                    let mut got = Vec::new();
                    let count = consumer.drain(limit, |message| got.push(message.to_vec())).unwrap_or(0);
                    prop_assert_eq!(count, limit.min(queue.len()));
                    prop_assert_eq!(got, queue.drain(..count).collect::<Vec<_>>());
                }
            }
            on_loan = !reads && (on_loan || peeks && !queue.is_empty());
        }
        drop(producer);
        while let Ok(message) = consumer.try_read() {
            prop_assert_eq!(Some(message.to_vec()), queue.pop_front());
        }
        prop_assert!(queue.is_empty());
        prop_assert!(matches!(consumer.try_read(), Err(ReadError::Closed)));
    }

    #[test]
    fn broadcast_loses_only_what_it_says(
        cell in any_cell(),
        cells in (2_u32..7).prop_map(|bits| 1_usize << bits),
        steps in prop::collection::vec((any::<bool>(), 0_usize..600), 1..400),
    ) {
        let (mut publisher, mut subscriber) = broadcast::pair_of(cell, cells * cell.bytes(), Waking::Never).unwrap();
        let (mut sent, mut next, mut bytes, mut buffer) = (Vec::new(), 0_usize, 0_u64, vec![0; 4096]);
        for (writes, length) in steps {
            if writes {
                let message = forged(cell, sent.len() as u64, length % (publisher.message_bytes_max() + 1));
                publisher.publish(&message).unwrap();
                sent.push(message);
                continue;
            }
            match subscriber.try_read(&mut buffer) {
                Ok(length) => {
                    prop_assert_eq!(&buffer[..length], sent[next].as_slice());
                    (next, bytes) = (next + 1, bytes + length as u64);
                }
                Err(ReadError::Lost(loss)) => {
                    let lost = &sent[next..next + loss.messages as usize];
                    prop_assert_eq!(lost.iter().map(|message| message.len() as u64).sum::<u64>(), loss.bytes);
                    (next, bytes) = (next + lost.len(), bytes + loss.bytes);
                }
                Err(error) => {
                    prop_assert_eq!(error, ReadError::Empty);
                    prop_assert_eq!(next, sent.len());
                }
            }
            prop_assert_eq!(subscriber.sequence(), next as u64);
        }
    }
}

#[test]
fn the_writer_counts_what_it_drops_and_learns_that_the_reader_has_closed() {
    let (mut producer, mut consumer) = pair(256, Waking::default()).unwrap();
    let sent = (0..10).filter(|_| producer.send_or_drop(b"x").unwrap()).count();
    assert_eq!(sent, 3, "four cells, one of them always empty");
    consumer.close();
    assert_eq!(producer.send_or_drop(b"x"), Err(ClaimError::Closed));
    assert_eq!(consumer.drain(usize::MAX, |_| ()), Ok(3));
}

#[test]
fn a_wait_lends_nothing_and_takes_no_loan_away() {
    let (mut producer, mut consumer) = pair(256, Waking::default()).unwrap();
    producer.try_send(b"first").unwrap();
    producer.try_send(b"second").unwrap();
    consumer.wait(IdleStrategy::SPIN, None).unwrap();
    consumer.release();
    assert_eq!(consumer.messages(), 0, "nothing was read");
    assert_eq!(consumer.front(), Ok(&b"first"[..]));
    consumer.wait(IdleStrategy::SPIN, None).unwrap();
    consumer.release();
    consumer.release();
    assert_eq!(consumer.messages(), 1, "what was read is released once");
    consumer.wait(IdleStrategy::SPIN, None).unwrap();
    assert_eq!(consumer.try_read().ok().as_deref(), Some(&b"second"[..]));
    assert_eq!(consumer.wait(IdleStrategy::SPIN, Some(Instant::now())), Err(WaitError::TimedOut));
    consumer.release();
    assert_eq!(consumer.messages(), 2);
}

//! A feed that is given anything: datagrams of any numbers, answers nobody asked for, snapshots that are not open, time that leaps.

use super::consumer::Consumer;
use super::dice::Dice;
use sidestep_market::arbiter::{HELD_BYTES_MIN, Limits, LineKind};
use sidestep_market::feed::{Adoption, Feed, Join, Policy};
use sidestep_market::mold64::{Mold64, PacketWriter, Session};
use sidestep_market::units::{Alpha, LineId, Nanos, Sequence};

const STEPS_MAX: u64 = 400;
const HELD: usize = 64;

fn session(dice: &mut Dice<'_>) -> Session {
    [Alpha(*b"SESSION001"), Alpha(*b"SESSION002"), Alpha([0; 10])][dice.below(64).min(20) as usize % 3]
}

/// A number near the one that is expected, or anywhere.
fn number(dice: &mut Dice<'_>, near: u64) -> u64 {
    match dice.below(16) {
        0 => u64::MAX - dice.below(4),
        1 => dice.below(4) << 40,
        2 => dice.below(4),
        _ => near.saturating_add(dice.below(40)).saturating_sub(8),
    }
}

fn datagram(dice: &mut Dice<'_>, near: u64) -> Vec<u8> {
    let mut buffer = vec![0; 2048];
    let first = number(dice, near);
    let mut writer = PacketWriter::new(&mut buffer, session(dice), Sequence(first)).expect("it has room");
    let count = dice.below(12);
    for _ in 0..count {
        let message = vec![dice.below(256) as u8; dice.below(90) as usize];
        if !writer.push(&message) {
            break;
        }
    }
    if dice.chance(5) {
        return writer.end_of_session().to_vec();
    }
    let mut bytes = writer.finish().to_vec();
    if dice.chance(10) {
        bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize);
    }
    if dice.chance(10) && !bytes.is_empty() {
        let at = dice.below(bytes.len() as u64) as usize;
        bytes[at] ^= dice.below(256) as u8;
    }
    bytes
}

fn feed(dice: &mut Dice<'_>) -> Feed<Mold64> {
    let policy = Policy {
        join: if dice.chance(50) { Join::Beginning } else { Join::FirstSeen },
        adoption: [Adoption::Never, Adoption::AfterEnd, Adoption::AtOnce][dice.below(3) as usize],
        servers: dice.below(3) as u8,
        request_count_max: 1 + dice.below(20) as u32,
        rest_wait_ns: dice.below(2) * 1000,
        has_snapshot: dice.chance(50),
        ..Policy::default()
    };
    let limits = Limits { held_messages: HELD, held_bytes: HELD_BYTES_MIN };
    let lines = [LineKind::Live, LineKind::Live, LineKind::Recovery];
    Feed::new(&lines, limits, policy, Nanos(0)).expect("the rules are good")
}

/// Runs until the dice or the steps are used up.
pub(crate) fn run(mut dice: Dice<'_>) -> Result<u64, String> {
    let (mut feed, mut consumer) = (feed(&mut dice), Consumer::default());
    let mut now = 0_u64;
    for step in 0..STEPS_MAX {
        if dice.is_used_up() {
            break;
        }
        let at = Nanos(now);
        match dice.below(20) {
            0 => now = now.saturating_add(dice.below(9) << dice.below(64)),
            1 => feed.request_refused(dice.below(4) as u8, at, &mut consumer),
            2 => feed.adopt(session(&mut dice), at, &mut consumer),
            3 => feed.accept_loss(at, &mut consumer),
            4 => {
                let attempt = consumer.snapshots as u32 + dice.below(2) as u32;
                let _ = feed.snapshot_message(attempt, at, b"an order", &mut consumer);
            }
            5 => {
                let attempt = consumer.snapshots as u32 + dice.below(8) as u32 / 7;
                let next = number(&mut dice, consumer.next);
                consumer.snapshot_ends(attempt);
                let done = feed.snapshot_done(attempt, at, Sequence(next), &mut consumer);
                consumer.snapshot_ended(done.is_ok());
            }
            6 => feed.snapshot_failed(consumer.snapshots as u32, at, &mut consumer),
            7 => now = now.max(feed.next_poll().0.min(now.saturating_add(1 << 40))),
            8 => feed.poll(at, &mut consumer),
            _ => {
                let bytes = datagram(&mut dice, consumer.next);
                let arrived = Nanos(now.saturating_sub(dice.below(3) * 1_000_000));
                feed.datagram(LineId(dice.below(8).min(3) as u8), at, arrived, &bytes, &mut consumer);
            }
        }
        consumer.todo.clear();
        if let Some(fault) = consumer.fault.take() {
            return Err(format!("step {step}: {fault}"));
        }
        if feed.held().1 > HELD || (feed.session().is_some() && feed.next().0 != consumer.next) {
            return Err(format!("step {step}: {:?} held, at {:?}, told {}", feed.held(), feed.next(), consumer.next));
        }
        polls(&mut feed, now, &mut consumer)?;
    }
    Ok(consumer.digest)
}

/// Polling comes to rest at any time.
fn polls(feed: &mut Feed<Mold64>, now: u64, consumer: &mut Consumer) -> Result<(), String> {
    for _ in 0..HELD {
        if feed.next_poll().0 > now || now == u64::MAX {
            return Ok(());
        }
        feed.poll(Nanos(now), consumer);
    }
    Err(format!("polling does not end at {now}: {:?}", feed.state()))
}

//! Two programs that share a ring in a file: this one and `ring.c`, either of them in either role.
//!
//! ```text
//! cargo run --release --example ring -- receive /dev/shm/orders &
//! cargo run --release --example ring -- send /dev/shm/orders 1000000
//! ```
//!
//! Kill one of them, by whatever signal, and start it or its twin again: it goes on where the dead one stopped.

use sidestep::idle::IdleStrategy;
use sidestep::ring::spsc::Resume;
use sidestep::ring::{Access, Cell, Kind, Options, Segment, WaitError, Waking};
use std::{error::Error, path::Path, thread::sleep, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", file, count] => send(file.as_ref(), count.parse()?),
        ["receive", file] => receive(file.as_ref()),
        _ => Err("usage: ring send FILE COUNT, or ring receive FILE".into()),
    }
}

// ANCHOR: ring
/// The ring in this file; whoever comes first makes it.
fn ring(file: &Path) -> Result<Segment, Box<dyn Error>> {
    let options = Options { kind: Kind::Spsc, cell: Cell::Line, bytes: 64 << 10, waking: Waking::Barrier };
    Ok(Segment::create(file, &options).or_else(|_| Segment::open(file, Access::ReadWrite))?)
}
// ANCHOR_END: ring

// ANCHOR: send
/// Sends on until the ring has seen `count` messages: number, checksum, and bytes that follow from the number.
pub fn send(file: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let mut producer = ring(file)?.producer()?;
    while producer.messages() < count {
        let number = producer.messages();
        let length = 16 + (number * 37 % 500) as usize;
        match producer.wait(length, IdleStrategy::SPIN_THEN_PARK, None) {
            // The reader has died or left; another one will come.
            Err(WaitError::PeerGone | WaitError::Closed) => sleep(Duration::from_millis(1)),
            waited => {
                waited?;
                let mut message = producer.try_claim(length)?;
                message[16..].iter_mut().zip(number..).for_each(|(byte, value)| *byte = value as u8);
                let sum = checksum(&message[16..]);
                message[..8].copy_from_slice(&number.to_le_bytes());
                message[8..16].copy_from_slice(&sum.to_le_bytes());
                message.commit();
            }
        }
    }
    Ok(())
}
// ANCHOR_END: send

// ANCHOR: receive
/// Reads until a sender has closed the ring, and checks each message.
pub fn receive(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut consumer = ring(file)?.consumer(Resume::Unread)?;
    loop {
        match consumer.wait(IdleStrategy::SPIN_THEN_PARK, None) {
            Err(WaitError::PeerGone) => continue, // what it had published is read; another sender will come
            Err(WaitError::Closed) => break,
            waited => waited?,
        }
        let number = consumer.messages();
        let message = consumer.try_read()?;
        let is_whole = message[..8] == number.to_le_bytes() && message[8..16] == checksum(&message[16..]).to_le_bytes();
        if !is_whole {
            return Err(format!("message {number} is damaged").into());
        }
    }
    println!("{} messages, all of them whole", consumer.messages());
    Ok(())
}
// ANCHOR_END: receive

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

//! The file of messages that every contestant reads: 32 bytes each, little-endian.
//!
//! ```text
//!  0           8                16       20      24       26     27    28      32
//!  | reference | old reference | shares | price | locate | kind | buy | zeroes |
//! ```

use crate::day::{Day, Event, Settings};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};

const RECORD: usize = 32;

/// Writes the night's orders and so many messages of the day; the number of all messages before which nothing is timed: the night, and
/// the first half of the day.
pub fn write(path: &str, settings: Settings, messages: usize) -> io::Result<usize> {
    let mut day = Day::new(settings);
    let mut out = BufWriter::new(File::create(path)?);
    let mut night = 0;
    while day.live() < settings.live * 9 / 10 {
        out.write_all(&record(&day.next()))?;
        night += 1;
    }
    for _ in 0..messages {
        out.write_all(&record(&day.next()))?;
    }
    out.flush()?;
    Ok(night + messages / 2)
}

fn record(event: &Event) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&event.reference.to_le_bytes());
    record[8..16].copy_from_slice(&event.old.to_le_bytes());
    record[16..20].copy_from_slice(&event.shares.to_le_bytes());
    record[20..24].copy_from_slice(&event.price.to_le_bytes());
    record[24..26].copy_from_slice(&event.locate.to_le_bytes());
    (record[26], record[27]) = (event.kind, u8::from(event.buy));
    record
}

pub fn read(path: &str) -> io::Result<Vec<Event>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let number = |record: &[u8], at: usize, len: usize| {
        record[at..at + len].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let event = |record: &[u8]| Event {
        reference: number(record, 0, 8),
        old: number(record, 8, 8),
        shares: number(record, 16, 4) as u32,
        price: number(record, 20, 4) as u32,
        locate: number(record, 24, 2) as u16,
        kind: record[26],
        buy: record[27] != 0,
    };
    Ok(bytes.chunks_exact(RECORD).map(event).collect())
}

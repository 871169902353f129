//! A journal whose last segment is anything, of the first layout or beside the manifest of another boot: opening it ends, and what
//! it gives back can be gone on with. It is fastest with TMPDIR in memory.

#![no_main]

use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{Journal, Options, SEGMENT_BYTES_MIN, read_segment};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::OnceLock;

const OPTIONS: Options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };
const SEGMENT: &str = "0000000000000000.journal";
/// A segment's first record stands here.
const HEADER_BYTES: usize = 4096;

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("sidestep-fuzz-journal-{}", std::process::id()))
}

/// A segment as we write it, eight numbers in, eight messages out; and its manifest as one of another boot, which knows of nothing
/// that the disk has.
fn good() -> &'static (Vec<u8>, Vec<u8>) {
    static GOOD: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let _ = fs::remove_dir_all(folder());
        let (mut journal, _) = Journal::open(&folder(), "F", OPTIONS, 1).expect("a folder");
        for seq in 1..=8 {
            journal.record_inbound(seq + 1).expect("it is kept");
            journal.record_outbound(seq, b"8=FIX.4.4\x0135=0\x01").expect("it is kept");
        }
        journal.commit().expect("it is kept");
        drop(journal);
        let mut manifest = fs::read(folder().join("manifest")).expect("it is there");
        manifest[12..28].fill(0);
        manifest[1024..].fill(0);
        let sum = crc(&manifest[..508], 0);
        manifest[508..512].copy_from_slice(&sum.to_le_bytes());
        (fs::read(folder().join(SEGMENT)).expect("it is there"), manifest)
    })
}

/// The first byte says how much of a good segment stays in front of the rest, the second what the rest is: bytes as they are, or
/// records whose checksums are right, and before them numbers for the header; and whether it is of the first layout. Else no
/// chance gets past a checksum.
fn segment(bytes: &[u8]) -> Option<Vec<u8>> {
    let (&[keep, how], mut rest) = bytes.split_first_chunk()?;
    let good = &good().0;
    let mut segment = good[..(HEADER_BYTES + 8 * usize::from(keep)).min(good.len())].to_vec();
    if is_first_layout(how) {
        segment[8] = 1;
        segment[512..520].fill(0);
    }
    if how & 1 != 0 {
        let (numbers, after) = rest.split_first_chunk::<32>()?;
        segment[24..56].copy_from_slice(numbers);
        rest = after;
    }
    let sum = crc(&segment[..508], 0);
    segment[508..512].copy_from_slice(&sum.to_le_bytes());
    if how & 2 == 0 {
        segment.extend_from_slice(rest);
        return Some(segment);
    }
    let salt = u32::from_le_bytes(segment[64..68].try_into().ok()?);
    while let Some((&[kind, low, high, length], after)) = rest.split_first_chunk() {
        let (payload, after) = after.split_at(usize::from(length).min(after.len()));
        add_record(&mut segment, salt, kind, [low, high], payload);
        rest = after;
    }
    Some(segment)
}

fn is_first_layout(how: u8) -> bool {
    how & 4 != 0
}

/// The two bytes choose among the small numbers and the largest.
fn add_record(segment: &mut Vec<u8>, salt: u32, kind: u8, [low, high]: [u8; 2], payload: &[u8]) {
    let number = if high > 0xf0 { u64::MAX - u64::from(low) } else { u64::from(low) | u64::from(high) << 8 };
    let word = payload.len() as u32 | u32::from(kind) << 24;
    let body = [&word.to_le_bytes()[..], &number.to_le_bytes(), payload].concat();
    segment.extend_from_slice(&crc(&body, salt).to_le_bytes());
    segment.extend_from_slice(&body);
    segment.resize(segment.len().next_multiple_of(8), 0);
}

/// CRC-32 (IEEE 802.3), begun with `start`.
fn crc(bytes: &[u8], start: u32) -> u32 {
    let step = |sum: u32| (sum >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(sum & 1));
    !bytes.iter().fold(!start, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(segment) = segment(bytes) else { return };
    let _ = fs::remove_dir_all(folder());
    let _ = fs::create_dir_all(folder());
    let path = folder().join(SEGMENT);
    let _ = fs::write(&path, &segment);
    if !is_first_layout(bytes[1]) {
        let _ = fs::write(folder().join("manifest"), &good().1);
    }
    let _ = read_segment(&path, &mut |_| {});
    let Ok((mut journal, _)) = Journal::open(&folder(), "F", OPTIONS, 1) else { return };
    let next = journal.next_outbound();
    let mut last = 0;
    let read = journal.outbound(1, u64::MAX, &mut |seq, _| {
        // The last number there is has none after it.
        assert!(seq > last && (seq < next || seq == u64::MAX));
        last = seq;
        ControlFlow::Continue(())
    });
    read.expect("what was indexed can be read");
    if next < u64::MAX {
        journal.record_outbound(next, b"more").expect("it can be gone on with");
        journal.commit().expect("it can be written");
        drop(journal);
        let (journal, _) = Journal::open(&folder(), "F", OPTIONS, 1).expect("what we wrote is good");
        assert_eq!(journal.next_outbound(), next + 1);
    }
});

//! A journal whose last segment is anything: opening it ends, and what it gives back can be gone on with.

#![no_main]

use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{Durability, Journal, Options, SEGMENT_BYTES_MIN, read_segment};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

const OPTIONS: Options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("sidestep-fuzz-journal-{}", std::process::id()))
}

/// The first byte says how much of a good segment stays in front of the rest.
fn segment(bytes: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = bytes.split_first()?;
    let (mut journal, _) = Journal::open(&folder(), "F", OPTIONS, 1).ok()?;
    for seq in 1..=8 {
        journal.record_inbound(seq + 1).ok()?;
        journal.record_outbound(seq, b"8=FIX.4.4\x0135=0\x01").ok()?;
    }
    journal.commit().ok()?;
    drop(journal);
    let good = fs::read(folder().join("0000000000000000.journal")).ok()?;
    let keep = (4096 + 8 * usize::from(*first)).min(good.len());
    let mut segment = good[..keep].to_vec();
    segment.extend_from_slice(rest);
    Some(segment)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = fs::remove_dir_all(folder());
    let Some(segment) = segment(bytes) else { return };
    let path = folder().join("0000000000000000.journal");
    let _ = fs::write(&path, &segment);
    let _ = read_segment(&path, &mut |_| {});
    let Ok((mut journal, _)) = Journal::open(&folder(), "F", OPTIONS, 1) else { return };
    let next = journal.next_outbound();
    let mut last = 0;
    let read = journal.outbound(1, u64::MAX, &mut |seq, _| {
        assert!(seq > last && seq < next);
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

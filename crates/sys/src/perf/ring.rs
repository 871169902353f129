//! The ring of one CPU: a page of positions, then the records (linux/perf_event.h, `struct perf_event_mmap_page`).

use super::attributes;
use super::recorder::Record;
use crate::memory::{Access, Mapping, page_bytes};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets of `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// PERF_RECORD_LOST and PERF_RECORD_SAMPLE.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// `struct perf_event_header`: type, misc, size.
const HEADER_BYTES: usize = 8;
/// Room that a ring has lost events without: more than any record.
const ALMOST_FULL: u64 = 4096;

/// The events of one CPU; the first one has the ring.
#[derive(Debug)]
pub(super) struct CpuRing {
    pub(super) cpu: u32,
    events: Vec<OwnedFd>,
    memory: Mapping,
    bytes: usize,
}

impl CpuRing {
    /// Maps a ring of `bytes`, a power of two, for the first event; the others write to it, too.
    pub(super) fn map(cpu: u32, events: Vec<OwnedFd>, bytes: usize) -> io::Result<Self> {
        let first = events.first().ok_or(io::ErrorKind::InvalidInput)?;
        let memory = Mapping::shared(first.as_fd(), page_bytes() + bytes, Access::ReadWrite)?;
        for event in &events[1..] {
            attributes::share_ring(event.as_fd(), first.as_fd())?;
        }
        Ok(Self { cpu, events, memory, bytes })
    }

    pub(super) fn enable(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| attributes::enable(event.as_fd()))
    }

    pub(super) fn disable(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| attributes::disable(event.as_fd()))
    }

    /// Hands over what has been recorded, oldest first, and frees the room. Returns whether the ring was full.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Record<'_>)) -> bool {
        // Acquire: the records below the head are complete.
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        let was_full = head.wrapping_sub(tail) + ALMOST_FULL > self.bytes as u64;
        let mut record = Vec::new();
        while head.wrapping_sub(tail) >= HEADER_BYTES as u64 {
            let mut header = [0; HEADER_BYTES];
            self.copy(tail, &mut header);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < HEADER_BYTES || size as u64 > head.wrapping_sub(tail) {
                break;
            }
            record.resize(size, 0);
            self.copy(tail, &mut record);
            if let Some(record) = parse(&record) {
                take(record);
            }
            tail = tail.wrapping_add(size as u64);
        }
        // Release: the room is free only after the records were copied.
        self.position(TAIL).store(head, Ordering::Release);
        was_full
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are multiples of eight within the first page, which is mapped for writing as long as `self` lives.
        // The kernel writes the head, and reads the tail, as one word.
        unsafe { AtomicU64::from_ptr(self.memory.base().as_ptr().add(offset).cast()) }
    }

    fn copy(&self, from: u64, to: &mut [u8]) {
        let data = self.memory.base().as_ptr().wrapping_add(page_bytes());
        let at = (from % self.bytes as u64) as usize;
        let first = to.len().min(self.bytes - at);
        // SAFETY: `at .. at + first` and the beginning of the ring lie within the mapping, as a record is shorter than the ring
        // (64 KiB at most, by its 16-bit size, and rings are longer). The kernel does not write there before the tail has moved.
        unsafe {
            std::ptr::copy_nonoverlapping(data.add(at), to.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, to.as_mut_ptr().add(first), to.len() - first);
        }
    }
}

/// Reads a record with PERF_SAMPLE_TIME and PERF_SAMPLE_RAW: a sample is the time, the length and the bytes of the
/// tracepoint; a loss is an event, a count and, by `sample_id_all`, the time.
fn parse(record: &[u8]) -> Option<Record<'_>> {
    let word = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    match u32::from_ne_bytes(record.get(..4)?.try_into().ok()?) {
        SAMPLE => {
            let bytes = u32::from_ne_bytes(record.get(16..20)?.try_into().ok()?) as usize;
            Some(Record::Event { ns: word(8)?, bytes: record.get(20..20_usize.checked_add(bytes)?)? })
        }
        LOST => Some(Record::Lost(word(16)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut record = kind.to_ne_bytes().to_vec();
        record.extend([0, 0, 8 + 8 * words.len() as u8, 0]);
        record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        record
    }

    #[test]
    fn samples_and_losses_are_told_apart() {
        let sample = record(SAMPLE, &[77, 4 | 0x0102_0304 << 32]);
        let Some(Record::Event { ns, bytes }) = parse(&sample) else { panic!("it is a sample") };
        assert_eq!((ns, bytes), (77, &0x0102_0304_u32.to_ne_bytes()[..]));
        assert!(matches!(parse(&record(LOST, &[1, 9, 80])), Some(Record::Lost(9))));
        assert!(parse(&record(1, &[1, 9])).is_none());
    }

    #[test]
    fn cut_records_are_left_out() {
        let whole = record(SAMPLE, &[77, 4]);
        assert!((0..whole.len()).all(|end| parse(&whole[..end]).is_none()));
        assert!(parse(&record(SAMPLE, &[77, u64::MAX])).is_none());
    }
}

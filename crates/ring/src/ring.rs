//! A ring as both sides see it: memory, the facts that never change, and what a record may look like.

use crate::fault::Fault;
use crate::layout::{CELL_BYTES, FAULT_AT, HEADER_BYTES};
use crate::memory::Memory;
use crate::record::{self, Record};
use crate::sync::Relaxed;
use crate::waking::Waking;
use std::fmt;

/// What a ring does when the reader is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// One writer and one reader: the writer waits, or drops what is new.
    Spsc = 1,
    /// One writer and any number of readers: the writer overwrites what is old.
    Broadcast = 2,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spsc => "spsc",
            Self::Broadcast => "broadcast",
        })
    }
}

/// Memory and facts. The facts are copies made once: what a peer writes over the header later is not believed.
pub(crate) struct Ring {
    pub(crate) memory: Memory,
    pub(crate) kind: Kind,
    cells: u64,
    record_cells_max: u64,
    pub(crate) waking: Waking,
    /// Whether processes share the memory.
    pub(crate) is_shared: bool,
}

/// What stands at a position, checked: it lies inside the ring and does not cross its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message of `length` bytes in so many cells.
    Message { length: usize, cells: u64 },
    /// Padding: the next record is so many cells on, at the ring's first cell.
    Skip { cells: u64 },
    /// The writer has closed.
    Close,
}

impl Ring {
    pub(crate) fn new(memory: Memory, kind: Kind, cells: u64, waking: Waking, is_shared: bool) -> Self {
        debug_assert!(cells.is_power_of_two());
        let record_cells_max = match kind {
            // With the padding before it, it fits an empty ring at any position.
            Kind::Spsc => cells / 2,
            // With padding and horizon it leaves intact what stands before it, and it can itself be read.
            Kind::Broadcast => cells / 4,
        };
        Self { memory, kind, cells, record_cells_max, waking, is_shared }
    }

    /// The number of cells.
    #[inline(always)]
    pub(crate) fn cells(&self) -> u64 {
        self.cells
    }

    /// The most cells of one record.
    #[inline(always)]
    pub(crate) fn record_cells_max(&self) -> u64 {
        self.record_cells_max
    }

    /// The longest message, bytes.
    pub(crate) fn message_bytes_max(&self) -> usize {
        let by_cells = self.record_cells_max() as usize * CELL_BYTES - crate::layout::WORD_BYTES;
        by_cells.min((1 << crate::layout::LENGTH_BITS) - 1)
    }

    /// The offset of the cell at `position`.
    #[inline(always)]
    pub(crate) fn cell(&self, position: u64) -> usize {
        HEADER_BYTES + (position & (self.cells - 1)) as usize * CELL_BYTES
    }

    /// Cells from `position` to the ring's end.
    #[inline(always)]
    pub(crate) fn cells_to_end(&self, position: u64) -> u64 {
        self.cells - (position & (self.cells - 1))
    }

    /// Checks what a committed word at `position` says. Whoever wrote it may be hostile.
    #[inline(always)]
    pub(crate) fn step(&self, word: u64, position: u64) -> Result<Step, Fault> {
        match record::decode(word) {
            Some(Record::Message(length)) => {
                let cells = record::cells(length);
                let fits = cells <= self.record_cells_max() && cells <= self.cells_to_end(position);
                if fits { Ok(Step::Message { length, cells }) } else { Err(Fault::RecordLength) }
            }
            Some(Record::Padding) => match self.cells_to_end(position) {
                // Only a record that does not fit before the end is padded, and none has more than half the ring: this
                // also keeps a hostile writer from sending a reader round and round.
                cells if cells < self.record_cells_max() => Ok(Step::Skip { cells }),
                _ => Err(Fault::Padding),
            },
            Some(Record::Close) => Ok(Step::Close),
            None => Err(Fault::RecordKind),
        }
    }

    /// Writes down for observers why this ring is out of use.
    #[cold]
    pub(crate) fn poison(&self, fault: Fault) -> Fault {
        self.memory.word(FAULT_AT).store(fault as u64, Relaxed);
        fault
    }
}

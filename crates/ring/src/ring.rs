//! The parts of a ring that both sides use: memory, constant facts, and the checks of a record.

use crate::fault::Fault;
use crate::layout::{CELL_BYTES, FAULT_AT, HEADER_BYTES, LAYOUT_HASH, SMALL_CELL_BYTES, SMALL_LAYOUT_HASH, WORD_BYTES};
use crate::memory::Memory;
use crate::record::{self, Record};
use crate::sync::Relaxed;
use crate::waking::Waking;
use std::fmt;

/// The behaviour of a ring when the reader is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// One writer and one reader: the writer waits, or drops new messages.
    Spsc = 1,
    /// One writer and any number of readers: the writer overwrites old messages.
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

/// The unit of allocation in a ring; fixed when the ring is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cell {
    /// 64 bytes, a cache line: a message of up to 56 bytes is one line and shares it with no other.
    #[default]
    Line,
    /// 16 bytes: up to four messages travel in a line. For streams of messages of up to 24 bytes.
    Quarter,
}

impl Cell {
    /// Both sizes.
    pub(crate) const ALL: [Self; 2] = [Self::Line, Self::Quarter];

    /// The size of a cell, a power of two, bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Line => CELL_BYTES,
            Self::Quarter => SMALL_CELL_BYTES,
        }
    }

    /// The layout hash in the header of a ring of such cells.
    pub(crate) const fn layout_hash(self) -> u64 {
        match self {
            Self::Line => LAYOUT_HASH,
            Self::Quarter => SMALL_LAYOUT_HASH,
        }
    }
}

/// Memory and facts. The facts are copies made once: later changes of the header by a peer have no effect.
pub(crate) struct Ring {
    pub(crate) memory: Memory,
    pub(crate) kind: Kind,
    cells: u64,
    /// Logarithm of the size of a cell, bytes.
    cell_shift: u32,
    record_cells_max: u64,
    pub(crate) waking: Waking,
    /// True if processes share the memory.
    pub(crate) is_shared: bool,
    /// True if the kernel writes it: no word is a process's, whatever stands there.
    pub(crate) is_foreign: bool,
}

/// The record at a position, checked: it lies inside the ring and does not cross its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message of `length` bytes in this many cells.
    Message { length: usize, cells: u64 },
    /// Padding: the next record is this many cells further, at the ring's first cell.
    Skip { cells: u64 },
    /// The writer has closed.
    Close,
}

impl Ring {
    pub(crate) fn new(memory: Memory, kind: Kind, cell: Cell, cells: u64, waking: Waking, is_shared: bool) -> Self {
        debug_assert!(cells.is_power_of_two());
        let record_cells_max = match kind {
            // Together with padding, it fits an empty ring at any position.
            Kind::Spsc => cells / 2,
            // Together with padding and horizon, it leaves the records before it intact, and can itself be read.
            Kind::Broadcast => cells / 4,
        };
        let cell_shift = cell.bytes().ilog2();
        Self { memory, kind, cells, cell_shift, record_cells_max, waking, is_shared, is_foreign: false }
    }

    /// A ring that the kernel writes.
    #[cfg(not(loom))]
    pub(crate) fn foreign(memory: Memory, cell: Cell, cells: u64) -> Self {
        Self { is_foreign: true, ..Self::new(memory, Kind::Broadcast, cell, cells, Waking::Never, true) }
    }

    /// The memory of an array of records ([`crate::seqlock`]), which has a ring's header and holders, and no cells.
    pub(crate) fn of_records(memory: Memory, is_shared: bool) -> Self {
        Self::new(memory, Kind::Broadcast, Cell::Line, 1, Waking::Never, is_shared)
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
        let by_cells = self.record_cells_max() as usize * self.cell_bytes() - WORD_BYTES;
        by_cells.min((1 << crate::layout::LENGTH_BITS) - 1)
    }

    /// The offset of the cell at `position`.
    #[inline(always)]
    pub(crate) fn cell(&self, position: u64) -> usize {
        HEADER_BYTES + (((position & (self.cells - 1)) as usize) << self.cell_shift)
    }

    /// The size of a cell, bytes.
    #[inline(always)]
    pub(crate) fn cell_bytes(&self) -> usize {
        1 << self.cell_shift
    }

    /// The number of cells that a message of `length` bytes takes. A length beyond any address space wraps round: the
    /// claim also compares the length itself with the maximum.
    #[inline(always)]
    pub(crate) fn cells_of(&self, length: usize) -> u64 {
        (length.wrapping_add(WORD_BYTES + self.cell_bytes() - 1) >> self.cell_shift) as u64
    }

    /// Logarithm of the cells per cache line: positions shifted right by this count lines.
    #[inline(always)]
    pub(crate) fn line_shift(&self) -> u32 {
        CELL_BYTES.ilog2() - self.cell_shift
    }

    /// The number of cells from `position` to the ring's end.
    #[inline(always)]
    pub(crate) fn cells_to_end(&self, position: u64) -> u64 {
        self.cells - (position & (self.cells - 1))
    }

    /// Checks the content of a committed word at `position`, which may come from a hostile writer.
    #[inline(always)]
    pub(crate) fn step(&self, word: u64, position: u64) -> Result<Step, Fault> {
        match record::decode(word) {
            Some(Record::Message(length)) => {
                let cells = self.cells_of(length);
                let fits = cells <= self.record_cells_max() && cells <= self.cells_to_end(position);
                if fits { Ok(Step::Message { length, cells }) } else { Err(Fault::RecordLength) }
            }
            Some(Record::Padding) => match self.cells_to_end(position) {
                // Padding stands only before a record that does not fit before the end, and none has more than half the
                // ring. This also keeps a hostile writer from sending a reader round for ever.
                cells if cells < self.record_cells_max() => Ok(Step::Skip { cells }),
                _ => Err(Fault::Padding),
            },
            Some(Record::Close) => Ok(Step::Close),
            None => Err(Fault::RecordKind),
        }
    }

    /// Stores the reason why this ring is out of use, for observers.
    #[cold]
    pub(crate) fn poison(&self, fault: Fault) -> Fault {
        self.memory.word(FAULT_AT).store(fault as u64, Relaxed);
        fault
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

//! The facts in a ring's header: written once by the maker, checked once by each process that attaches.

use crate::kernel::NO_PIDS;
use crate::layout::{
    ABI_AND_KIND_AT, ABI_VERSION, BYTE_ORDER_MARK, CELLS_AT, CELLS_MAX, CELLS_MIN, HEADER_BYTES, LAYOUT_HASH_AT, MAGIC,
    MAGIC_AT, ORDER_AND_HEADER_AT, PID_NAMESPACE_AT, WAKING_AT,
};
use crate::memory::Memory;
use crate::ring::{Cell, Kind};
use crate::seqlock::ARRAY_KIND;
use crate::sync::{Acquire, Relaxed, Release};
use crate::waking::Waking;
use sidestep_sys::Problem;
use sidestep_sys::memory::HUGE_PAGE_BYTES;
use std::fmt;
use std::os::unix::fs::MetadataExt;

/// The facts, as copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    pub(crate) cell: Cell,
    pub(crate) cells: u64,
    pub(crate) waking: Waking,
    pub(crate) pid_namespace: u64,
}

/// The reason why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Magic,
    ByteOrder,
    Abi(u32),
    Header(u32),
    Layout(u64),
    Kind(u32),
    Array,
    Cells(u64),
    Waking(u64),
    PidNamespace(u64),
    FileLength { has: u64, needs: u64 },
    NotBroadcast,
    NotForeign { pid_namespace: u64, waking: Waking },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("it does not begin with SIDESTEP: not a ring, or not finished"),
            Self::ByteOrder => f.write_str("it was made by a machine of the other byte order"),
            Self::Abi(found) => write!(f, "its ABI version is {found}, this program's is {ABI_VERSION}"),
            Self::Header(found) => write!(f, "its header has {found} bytes, this program's {HEADER_BYTES}"),
            Self::Layout(found) => {
                let [line, quarter] = Cell::ALL.map(Cell::layout_hash);
                write!(f, "its layout hash is {found:016x}, this program's {line:016x} or {quarter:016x} (small cells)")
            }
            Self::Kind(found) => write!(f, "its kind is {found}, which is neither spsc (1) nor broadcast (2)"),
            Self::Array => f.write_str("it is an array of records, not a ring: sidestep_ring::seqlock reads it"),
            Self::Cells(found) => {
                write!(f, "its capacity is {found} cells: not a power of two from {CELLS_MIN} to {CELLS_MAX}")
            }
            Self::Waking(found) => write!(f, "its wake-up method has the unknown number {found}"),
            Self::PidNamespace(found) => write!(f, "it belongs to pid namespace {found}, this process does not"),
            Self::FileLength { has, needs } => write!(f, "the file has {has} bytes, the ring needs {needs}"),
            Self::NotBroadcast => f.write_str("it is a spsc ring: the kernel fills only broadcast rings"),
            Self::NotForeign { pid_namespace, waking } => {
                write!(
                    f,
                    "its pid namespace is {pid_namespace} and its wake-up method {} ({waking:?}), and a ring that the kernel fills has neither",
                    *waking as u64
                )
            }
        }
    }
}

/// The size of a ring of this many cells, bytes.
pub(crate) fn ring_bytes(cell: Cell, cells: u64) -> usize {
    HEADER_BYTES + cells as usize * cell.bytes()
}

/// The cells of a ring that holds at least `bytes`.
pub(crate) fn cells_for(cell: Cell, bytes: usize) -> Result<u64, Problem> {
    let cells = (bytes as u64).div_ceil(cell.bytes() as u64).clamp(CELLS_MIN, CELLS_MAX + 1).next_power_of_two();
    if cells <= CELLS_MAX {
        return Ok(cells);
    }
    let most = (CELLS_MAX * cell.bytes() as u64) >> 30;
    let why = format!("a ring of cells of {} bytes has at most {most} GiB", cell.bytes());
    Err(Problem::usage(format!("cannot make a ring of {bytes} bytes"), why))
}

/// The inode of this process's pid namespace; 0 if /proc does not show it.
pub(crate) fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

impl Facts {
    /// Writes the header of a new ring, the magic last: a ring with the magic is complete.
    pub(crate) fn write(self, memory: &Memory) {
        let put = |at, value| memory.word(at).store(value, Relaxed);
        put(ABI_AND_KIND_AT, u64::from(ABI_VERSION) | (self.kind as u64) << 32);
        put(ORDER_AND_HEADER_AT, u64::from(BYTE_ORDER_MARK) | (HEADER_BYTES as u64) << 32);
        put(LAYOUT_HASH_AT, self.cell.layout_hash());
        put(CELLS_AT, self.cells);
        put(WAKING_AT, self.waking as u64);
        put(PID_NAMESPACE_AT, self.pid_namespace);
        // Partner: the Acquire in `check`.
        memory.word(MAGIC_AT).store(MAGIC, Release);
    }

    /// Copies the header of a ring of this host's processes and checks each fact against this program, this pid namespace
    /// and the file's length.
    pub(crate) fn check(memory: &Memory, file_bytes: u64) -> Result<Self, Mismatch> {
        let facts = Self::of_any_writer(memory)?;
        if facts.pid_namespace != pid_namespace() {
            return Err(Mismatch::PidNamespace(facts.pid_namespace));
        }
        let needs = ring_bytes(facts.cell, facts.cells) as u64;
        // On huge pages the file is a multiple of their size. Not more than that is mapped and locked for a file of
        // unknown origin.
        if file_bytes < needs || file_bytes > needs.next_multiple_of(HUGE_PAGE_BYTES as u64) {
            return Err(Mismatch::FileLength { has: file_bytes, needs });
        }
        Ok(facts)
    }

    /// Copies the header of a ring that the kernel fills: broadcast, without pids and futexes, in at most so many bytes.
    pub(crate) fn check_foreign(memory: &Memory, bytes: u64) -> Result<Self, Mismatch> {
        let facts = Self::of_any_writer(memory)?;
        let &Self { kind, cell, cells, waking, pid_namespace } = &facts;
        let needs = ring_bytes(cell, cells) as u64;
        match () {
            () if kind != Kind::Broadcast => Err(Mismatch::NotBroadcast),
            () if pid_namespace != NO_PIDS || waking != Waking::Never => {
                Err(Mismatch::NotForeign { pid_namespace, waking })
            }
            () if bytes < needs => Err(Mismatch::FileLength { has: bytes, needs }),
            () => Ok(facts),
        }
    }

    /// Copies the header of a ring and checks the facts that are the same for all writers.
    fn of_any_writer(memory: &Memory) -> Result<Self, Mismatch> {
        // Partner: the Release in `write`, and in `sidestep_ring_format`.
        if memory.word(MAGIC_AT).load(Acquire) != MAGIC {
            return Err(Mismatch::Magic);
        }
        let [abi, kind] = halves(memory, ABI_AND_KIND_AT);
        let [order, header] = halves(memory, ORDER_AND_HEADER_AT);
        let [layout, cells, waking, pid_namespace] =
            [LAYOUT_HASH_AT, CELLS_AT, WAKING_AT, PID_NAMESPACE_AT].map(|at| memory.word(at).load(Relaxed));
        match () {
            () if order != BYTE_ORDER_MARK => return Err(Mismatch::ByteOrder),
            () if abi != ABI_VERSION => return Err(Mismatch::Abi(abi)),
            () if header as usize != HEADER_BYTES => return Err(Mismatch::Header(header)),
            () if kind == ARRAY_KIND => return Err(Mismatch::Array),
            () => {}
        }
        let cell = Cell::ALL.into_iter().find(|cell| cell.layout_hash() == layout).ok_or(Mismatch::Layout(layout))?;
        if !cells.is_power_of_two() || !(CELLS_MIN..=CELLS_MAX).contains(&cells) {
            return Err(Mismatch::Cells(cells));
        }
        let known = [Kind::Spsc, Kind::Broadcast].into_iter().find(|known| *known as u32 == kind);
        let kind = known.ok_or(Mismatch::Kind(kind))?;
        let waking = Waking::of_code(waking).ok_or(Mismatch::Waking(waking))?;
        Ok(Self { kind, cell, cells, waking, pid_namespace })
    }
}

pub(crate) fn halves(memory: &Memory, at: usize) -> [u32; 2] {
    let word = memory.word(at).load(Relaxed);
    [word as u32, (word >> 32) as u32]
}

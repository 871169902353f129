//! Observation of a live ring that disturbs no side: only loads, of counters that both sides maintain anyway.

use crate::checkpoint;
use crate::fault::Fault;
use crate::layout::{
    ABANDONED_AT, BEAT, DROPPED_AT, FAULT_AT, LOST_AT, PUBLISHED_AT, READ_AT, READER_CLOSED_AT, READER_ROLE_AT,
    READER_SLEEPS_AT, WRITER_ROLE_AT, WRITER_SLEEPS_AT, WRITTEN_AT,
};
use crate::record::{self, Record};
use crate::ring::{Kind, Ring};
use crate::role::{now_ns, process_of};
use crate::sleeper::says_asleep;
use crate::sync::{Acquire, Relaxed};
use crate::writer::find_tail;
use sidestep_sys::process::Process;
use std::time::Duration;

/// The traffic of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Messages.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Position: cells ([`Stat::cell_bytes`]), including words and padding.
    pub cells: u64,
}

/// One side of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process that holds it; `None` if it is free.
    pub process: Option<Process>,
    /// True if that process lives.
    pub is_alive: bool,
    /// The age of its last heartbeat. A side beats when it is taken, while it waits, and on request.
    pub beat_age: Option<Duration>,
    /// True if it sleeps until woken; for readers of a broadcast ring: true if any does.
    pub sleeps: bool,
    /// True if it has closed.
    pub is_closed: bool,
}

/// The state of a ring. Each flow is exact; the flows of the two sides are from slightly different moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The behaviour when a reader is slow.
    pub kind: Kind,
    /// The capacity, bytes, including words and padding.
    pub capacity_bytes: u64,
    /// The size of a cell: 64 bytes, or 16 in a ring for small messages.
    pub cell_bytes: usize,
    /// The longest message, bytes.
    pub message_bytes_max: usize,
    /// Published messages.
    pub written: Flow,
    /// Released messages (SPSC only; readers of a broadcast ring keep their own count).
    pub read: Flow,
    /// The position that the reader has published to the writer (SPSC only).
    pub published_cells: u64,
    /// Messages that the writer could not publish: the ring was full, or a producer in the kernel found them too long.
    pub dropped: u64,
    /// Messages begun by writers that died before they published them.
    pub abandoned: u64,
    /// Messages that a new reader skipped on request.
    pub lost: u64,
    /// The writing side.
    pub writer: Holder,
    /// The reading side (SPSC only).
    pub reader: Holder,
    /// The reason why the ring is out of use.
    pub fault: Option<Fault>,
    /// True if the kernel writes it ([`crate::Segment::foreign`]): no process is its writer.
    pub is_foreign: bool,
}

impl Stat {
    pub(crate) fn of(ring: &Ring, kind: Kind) -> Self {
        let word = |at| ring.memory.word(at).load(Acquire);
        Self {
            kind,
            capacity_bytes: ring.cells() * ring.cell_bytes() as u64,
            cell_bytes: ring.cell_bytes(),
            message_bytes_max: ring.message_bytes_max(),
            written: flow(ring, WRITTEN_AT),
            read: flow(ring, READ_AT),
            published_cells: word(PUBLISHED_AT),
            dropped: word(DROPPED_AT),
            abandoned: word(ABANDONED_AT),
            lost: word(LOST_AT),
            writer: holder(ring, WRITER_ROLE_AT, WRITER_SLEEPS_AT, writer_is_closed(ring)),
            reader: holder(ring, READER_ROLE_AT, READER_SLEEPS_AT, word(READER_CLOSED_AT) != 0),
            fault: Fault::of_code(word(FAULT_AT)),
            is_foreign: ring.is_foreign,
        }
    }
}

/// The flow of the checkpoint alone: a message that is published and not yet in it is counted at the next observation.
/// Zero if a peer has made the checkpoint unreadable.
fn flow(ring: &Ring, at: usize) -> Flow {
    let checkpoint = checkpoint::load(&ring.memory, at).unwrap_or_default();
    Flow { messages: checkpoint.sequence, bytes: checkpoint.bytes, cells: checkpoint.position }
}

pub(crate) fn holder(ring: &Ring, at: usize, sleeps_at: usize, is_closed: bool) -> Holder {
    let process = process_of(ring.memory.word(at).load(Acquire)).filter(|_| !ring.is_foreign);
    let beat = ring.memory.word(at + BEAT).load(Relaxed);
    Holder {
        process,
        is_alive: process.is_some_and(|process| process.is_alive()),
        beat_age: (beat != 0).then(|| Duration::from_nanos(now_ns().saturating_sub(beat))),
        sleeps: says_asleep(ring.memory.flag(sleeps_at).load(Relaxed)),
        is_closed,
    }
}

/// The close record stands after the last one.
fn writer_is_closed(ring: &Ring) -> bool {
    let tail = checkpoint::load(&ring.memory, WRITTEN_AT)
        .and_then(|written| find_tail(ring, written, written.position + ring.cells()).ok());
    tail.is_some_and(|tail| {
        let word = ring.memory.word(ring.cell(tail.position)).load(Acquire);
        record::is_at(word, tail.position) && record::decode(word) == Some(Record::Close)
    })
}

//! The structures of the header, and their conversion from the ring's own.

use crate::arguments::Out;
use crate::codes::{BROADCAST, PEER_ABSENT, PEER_CLOSED, PEER_GONE, PEER_PRESENT, SPSC};
use crate::failure::Failure;
use crate::socket::options::OPTIONS_BYTES_MAX;
use sidestep_ring::{Flow, Holder, Kind, Peer, Side, Stat};
use std::ffi::c_void;
use std::os::fd::IntoRawFd;

/// The traffic of one side.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CFlow {
    /// Messages.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Cells, including words and padding.
    pub cells: u64,
}

/// One side of a ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CHolder {
    /// Start time of the process, clock ticks since boot; unique together with the pid.
    pub start_ticks: u64,
    /// Nanoseconds since its last heartbeat; -1: none yet.
    pub beat_age_ns: i64,
    /// The process that holds it; 0: none.
    pub pid: u32,
    /// 1 if that process lives.
    pub is_alive: u32,
    /// 1 if it sleeps until woken.
    pub sleeps: u32,
    /// 1 if it has closed.
    pub is_closed: u32,
}

/// The state of a ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CStat {
    /// [`SPSC`] or [`BROADCAST`].
    pub kind: u32,
    /// The [`sidestep_ring::Fault`] that put the ring out of use; 0: none.
    pub fault: u32,
    /// The capacity, bytes, including words and padding.
    pub capacity_bytes: u64,
    /// The longest message, bytes.
    pub message_bytes_max: u64,
    /// Published messages.
    pub written: CFlow,
    /// Released messages (SPSC).
    pub read: CFlow,
    /// The position that the reader has published to the writer (SPSC).
    pub published_cells: u64,
    /// Messages that the writer dropped because the ring was full.
    pub dropped: u64,
    /// Messages begun by writers that died before they published them.
    pub abandoned: u64,
    /// Messages that a new reader skipped on request.
    pub lost: u64,
    /// The writing side.
    pub writer: CHolder,
    /// The reading side (SPSC).
    pub reader: CHolder,
    /// The size of a cell, bytes.
    pub cell_bytes: u64,
}

/// The state of a handle.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CInfo {
    /// Sequence number of the next message, counted from 0 since the ring was made.
    pub sequence: u64,
    /// The longest message, bytes.
    pub message_bytes_max: u64,
    /// Messages that the last writer had begun and not published (writers).
    pub abandoned: u64,
    /// Messages that this reader lost (subscribers).
    pub lost_messages: u64,
    /// Bytes of these messages.
    pub lost_bytes: u64,
    /// The process that held this side before and ended without leaving; 0: none.
    pub replaced_pid: u32,
    /// Zero.
    pub reserved: u32,
}

/// The state of the other side.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CPeer {
    /// One of `PEER_*`.
    pub state: u32,
    /// Its process, if that is gone; else 0.
    pub pid: u32,
}

impl From<Flow> for CFlow {
    fn from(flow: Flow) -> Self {
        Self { messages: flow.messages, bytes: flow.bytes, cells: flow.cells }
    }
}

impl From<Holder> for CHolder {
    fn from(holder: Holder) -> Self {
        Self {
            start_ticks: holder.process.map_or(0, |process| process.start_ticks),
            beat_age_ns: holder.beat_age.map_or(-1, |age| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX)),
            pid: holder.process.map_or(0, |process| process.pid),
            is_alive: holder.is_alive.into(),
            sleeps: holder.sleeps.into(),
            is_closed: holder.is_closed.into(),
        }
    }
}

impl From<Stat> for CStat {
    fn from(stat: Stat) -> Self {
        let kind = match stat.kind {
            Kind::Spsc => SPSC,
            Kind::Broadcast => BROADCAST,
        };
        Self {
            kind: kind.unsigned_abs(),
            fault: stat.fault.map_or(0, |fault| fault as u32),
            capacity_bytes: stat.capacity_bytes,
            message_bytes_max: stat.message_bytes_max as u64,
            written: stat.written.into(),
            read: stat.read.into(),
            published_cells: stat.published_cells,
            dropped: stat.dropped,
            abandoned: stat.abandoned,
            lost: stat.lost,
            writer: stat.writer.into(),
            reader: stat.reader.into(),
            cell_bytes: stat.cell_bytes as u64,
        }
    }
}

impl From<Peer> for CPeer {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Absent => Self { state: PEER_ABSENT, pid: 0 },
            Peer::Present => Self { state: PEER_PRESENT, pid: 0 },
            Peer::Closed => Self { state: PEER_CLOSED, pid: 0 },
            Peer::Gone(process) => Self { state: PEER_GONE, pid: process.pid },
        }
    }
}

/// The process that a handle's side replaced, in C's form.
pub(crate) fn replaced_pid(side: &Side) -> u32 {
    side.replaced().map_or(0, |process| process.pid)
}

/// A new descriptor for the caller, which becomes readable when the peer's process ends.
pub(crate) fn peer_pidfd(side: &Side, place: &Out<i32>) -> Result<(), Failure> {
    let none = || Failure::Usage("no living process holds the other side");
    let owned = side.peer_pidfd().ok_or_else(none)?.try_clone_to_owned();
    let owned = owned.map_err(|error| sidestep_sys::Problem::failed("cannot duplicate the pidfd", error))?;
    place.set(owned.into_raw_fd());
    Ok(())
}

/// Copies a structure to a caller whose header may be older (it gets the front) or newer (the rest is zero).
///
/// # Safety
/// `place` is null or has `bytes` bytes that may be written.
pub(crate) unsafe fn fill<T: Copy>(value: &T, place: *mut T, bytes: usize, name: &'static str) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::Null(name));
    }
    if bytes > OPTIONS_BYTES_MAX {
        return Err(Failure::Usage("the size given is not that of the structure"));
    }
    let known = size_of::<T>().min(bytes);
    let place = place.cast::<c_void>().cast::<u8>();
    // SAFETY: `known` bytes are inside `value`, and the caller promised `bytes` of them at `place`.
    unsafe {
        place.copy_from_nonoverlapping((&raw const *value).cast(), known);
        place.add(known).write_bytes(0, bytes - known);
    }
    Ok(())
}

//! A ring in shared memory: a sealed memfd that is handed over, or a named file.

use crate::broadcast::{Publisher, Start, Subscriber};
use crate::facts::{self, Facts, cells_for, ring_bytes};
use crate::fault::Fault;
use crate::layout::FAULT_AT;
use crate::memory::Memory;
use crate::observe::Stat;
use crate::options::Options;
use crate::private::available;
use crate::ring::{Kind, Ring};
use crate::role::Side;
use crate::shared_file::{Backing, RING, SharedFile, cannot_attach, prepare};
use crate::spsc::{Consumer, Producer, Resume};
use crate::sync::{Arc, Relaxed};
use crate::waking::Waking;
use sidestep_sys::Problem;
use sidestep_sys::futex::{self, Scope};
use sidestep_sys::memory::Access;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// A mapped ring in shared memory. Its handles keep the mapping alive.
pub struct Segment {
    pub(crate) name: String,
    pub(crate) file: OwnedFd,
    pub(crate) kind: Kind,
    pub(crate) ring: Arc<Ring>,
    pub(crate) backing: Backing,
}

impl Segment {
    /// Makes a ring in a memfd whose size is sealed. Hand its descriptor to the other process.
    pub fn memfd(options: &Options) -> Result<Self, Problem> {
        let cells = cells_for(options.cell, options.bytes)?;
        Ok(Self::fresh(SharedFile::memfd(RING, ring_bytes(options.cell, cells))?, cells, options))
    }

    /// Makes a ring in a new file. The name appears when the ring is complete; an existing name is refused.
    pub fn create(path: &Path, options: &Options) -> Result<Self, Problem> {
        let cells = cells_for(options.cell, options.bytes)?;
        SharedFile::create(RING, path, ring_bytes(options.cell, cells), |file| Self::fresh(file, cells, options))
    }

    /// Attaches to a ring in a file. A process that may write the file can also truncate it, and access beyond its end
    /// raises SIGBUS. Therefore a file that is writable by its group or by everybody, or that another user owns, is
    /// refused; for untrusted peers, use a memfd.
    pub fn open(path: &Path, access: Access) -> Result<Self, Problem> {
        Self::attach(SharedFile::open(RING, path, access)?, access)
    }

    /// Attaches to a ring in a descriptor that was handed over. Refuses a memfd whose size is not sealed, and one on
    /// huge pages that another user made: its owner could free pages, and access would raise SIGBUS if no page is free.
    pub fn from_fd(file: OwnedFd, access: Access) -> Result<Self, Problem> {
        Self::attach(SharedFile::of_fd(RING, file, access)?, access)
    }

    fn attach(shared: SharedFile, access: Access) -> Result<Self, Problem> {
        let SharedFile { name, file, mapping, bytes, huge_pages } = shared;
        let refused = |why: String| cannot_attach(&name, why);
        let memory = Memory::new(mapping);
        let known = Facts::check(&memory, bytes).map_err(|mismatch| refused(mismatch.to_string()))?;
        if let Some(fault) = Fault::of_code(memory.word(FAULT_AT).load(Relaxed)).filter(|_| access == Access::ReadWrite)
        {
            return Err(refused(format!("it is out of use: {fault}")).next("make a new one"));
        }
        // A read-only user cannot sleep either: it could not announce that.
        let waking = if access == Access::ReadOnly { Waking::Never } else { known.waking };
        if waking == Waking::Barrier {
            futex::register_barrier(Scope::Shared).map_err(|error| {
                refused(format!("its sides wake each other by membarrier(2), which fails here: {error}"))
            })?;
        }
        let backing = Backing { huge_pages, locked: prepare(memory.mapping()) };
        let ring = Arc::new(Ring::new(memory, known.kind, known.cell, known.cells, waking, true));
        Ok(Self { name, file, kind: known.kind, ring, backing })
    }

    fn fresh(shared: SharedFile, cells: u64, options: &Options) -> Self {
        let SharedFile { name, file, mapping, huge_pages, .. } = shared;
        let backing = Backing { huge_pages, locked: prepare(&mapping) };
        let memory = Memory::new(mapping);
        let waking = available(options.waking, Scope::Shared);
        let (kind, cell) = (options.kind, options.cell);
        Facts { kind, cell, cells, waking, pid_namespace: facts::pid_namespace() }.write(&memory);
        let ring = Arc::new(Ring::new(memory, kind, cell, cells, waking, true));
        Self { name, file, kind, ring, backing }
    }

    /// Takes the writing side of an SPSC ring, if it is free or its process has ended.
    pub fn producer(&self) -> Result<Producer, Problem> {
        let side = self.take(Kind::Spsc, Side::writer())?;
        Producer::resume(&self.ring, side).map_err(|fault| self.contradicts(fault))
    }

    /// Takes the reading side of an SPSC ring, if it is free or its process has ended.
    pub fn consumer(&self, from: Resume) -> Result<Consumer, Problem> {
        let side = self.take(Kind::Spsc, Side::reader())?;
        Consumer::resume(Arc::clone(&self.ring), side, from).map_err(|fault| self.contradicts(fault))
    }

    /// Takes the writing side of a broadcast ring, if it is free or its process has ended.
    pub fn publisher(&self) -> Result<Publisher, Problem> {
        let side = self.take(Kind::Broadcast, Side::writer())?;
        Publisher::resume(Arc::clone(&self.ring), side).map_err(|fault| self.contradicts(fault))
    }

    /// Makes a reader that disturbs no side, in either kind of ring: a regular reader of a broadcast ring, an observer
    /// of the traffic in an SPSC ring. Read-only access is enough.
    pub fn subscriber(&self, start: Start) -> Result<Subscriber, Problem> {
        Subscriber::new(Arc::clone(&self.ring), start).map_err(|fault| self.contradicts(fault))
    }

    /// The counters and the state of both sides. Only loads.
    pub fn stat(&self) -> Stat {
        Stat::of(&self.ring, self.kind)
    }

    /// The descriptor to hand over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The kind of memory that the ring got.
    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    /// The behaviour when a reader is slow.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The wake-up method of this side.
    pub fn waking(&self) -> Waking {
        self.ring.waking
    }

    fn take(&self, kind: Kind, side: Side) -> Result<Side, Problem> {
        if self.kind != kind {
            return Err(cannot_attach(&self.name, format!("it is a {} ring, not {kind}", self.kind)));
        }
        if self.ring.memory.mapping().access() == Access::ReadOnly {
            return Err(cannot_attach(&self.name, "it was opened read-only"));
        }
        side.take(&self.ring).map_err(|error| cannot_attach(&self.name, error))
    }

    fn contradicts(&self, fault: Fault) -> Problem {
        cannot_attach(&self.name, fault).next("make a new ring: this one was overwritten")
    }
}

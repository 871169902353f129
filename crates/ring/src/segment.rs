//! A ring in shared memory: a sealed memfd that is handed over, or a named file.

use crate::broadcast::{Publisher, Start, Subscriber};
use crate::facts::{self, Facts, cells_for, ring_bytes};
use crate::fault::Fault;
use crate::layout::{FAULT_AT, HEADER_BYTES};
use crate::memory::Memory;
use crate::observe::Stat;
use crate::options::Options;
use crate::private::{available, cannot_make};
use crate::ring::{Kind, Ring};
use crate::role::{Side, TakeError};
use crate::spsc::{Consumer, Producer, Resume};
use crate::sync::{Arc, Relaxed};
use crate::waking::Waking;
use sidestep_sys::Problem;
use sidestep_sys::futex::{self, Scope};
use sidestep_sys::memory::{self, Access, HUGE_PAGE_BYTES, Mapping};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The most unfinished files of one pid for one name. All but the few that are being made were left by killed processes
/// of the same pid.
const UNFINISHED_MAX: u32 = 1000;

/// The kind of memory that a ring got, with the reasons if it is not the best.
#[derive(Clone, Debug)]
pub struct Backing {
    /// Ok if it lies on huge pages; else the reason.
    pub huge_pages: Result<(), String>,
    /// Ok if its pages are locked into memory; else the reason.
    pub locked: Result<(), String>,
}

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
        let make = |huge: bool| -> io::Result<(OwnedFd, Mapping)> {
            let file = memory::memfd("sidestep-ring", huge)?;
            let len = mapped_bytes(ring_bytes(options.cell, cells), huge);
            memory::allocate(file.as_fd(), len)?;
            memory::seal_size(file.as_fd())?;
            let mapping = Mapping::shared(file.as_fd(), len, Access::ReadWrite)?;
            Ok((file, mapping))
        };
        let huge = match ring_bytes(options.cell, cells) {
            bytes if bytes < HUGE_PAGE_BYTES => Err(format!("{bytes} bytes are less than a huge page")),
            _ => make(true).map_err(|error| format!("no huge page is free ({error}); reserve some: vm.nr_hugepages")),
        };
        let (made, huge_pages) = match huge {
            Ok(made) => (made, Ok(())),
            Err(why) => (make(false).map_err(|error| cannot_make("a memfd", error))?, Err(why)),
        };
        Ok(Self::fresh("a memfd".into(), made.0, made.1, cells, options, huge_pages))
    }

    /// Makes a ring in a new file. The name appears when the ring is complete; an existing name is refused.
    pub fn create(path: &Path, options: &Options) -> Result<Self, Problem> {
        let cells = cells_for(options.cell, options.bytes)?;
        let name = path.display().to_string();
        let (unfinished, file) = unfinished(&name).map_err(|error| cannot_make(&name, error))?;
        let make = || -> io::Result<Self> {
            let huge = memory::is_hugetlbfs(file.as_fd());
            let len = mapped_bytes(ring_bytes(options.cell, cells), huge);
            memory::allocate(file.as_fd(), len)?;
            let mapping = Mapping::shared(file.as_fd(), len, Access::ReadWrite)?;
            let huge_pages = if huge { Ok(()) } else { Err("the file is not on a hugetlbfs".into()) };
            let segment = Self::fresh(name.clone(), file.into(), mapping, cells, options, huge_pages);
            fs::hard_link(&unfinished, path)?;
            Ok(segment)
        };
        let made = make();
        let _ = fs::remove_file(&unfinished);
        made.map_err(|error| cannot_make(&name, error))
    }

    /// Attaches to a ring in a file. A process that may write the file can also truncate it, and access beyond its end
    /// raises SIGBUS. Therefore a file that is writable by its group or by everybody, or that another user owns, is
    /// refused; for untrusted peers, use a memfd.
    pub fn open(path: &Path, access: Access) -> Result<Self, Problem> {
        let name = path.display().to_string();
        // Non-blocking: opening a FIFO would wait for its other end.
        let mut how = OpenOptions::new();
        let open = how.read(true).write(access == Access::ReadWrite).custom_flags(libc::O_NONBLOCK).open(path);
        Self::attach(name.clone(), open.map_err(|error| cannot_attach(&name, error))?, access)
    }

    /// Attaches to a ring in a descriptor that was handed over. Refuses a memfd whose size is not sealed, and one on
    /// huge pages that another user made: its owner could free pages, and access would raise SIGBUS if no page is free.
    pub fn from_fd(file: OwnedFd, access: Access) -> Result<Self, Problem> {
        Self::attach("a handed-over descriptor".into(), File::from(file), access)
    }

    fn attach(name: String, file: File, access: Access) -> Result<Self, Problem> {
        let refused = |why: String| cannot_attach(&name, why);
        let facts = file.metadata().map_err(|error| cannot_attach(&name, error))?;
        check_file(&file, &facts).map_err(|why| refused(why.into()))?;
        if facts.len() < HEADER_BYTES as u64 {
            return Err(refused(format!("the file has {} bytes, a ring has more than {HEADER_BYTES}", facts.len())));
        }
        let len = usize::try_from(facts.len()).map_err(|error| refused(error.to_string()))?;
        let mapping = Mapping::shared(file.as_fd(), len, access).map_err(|error| cannot_attach(&name, error))?;
        let memory = Memory::new(mapping);
        let known = Facts::check(&memory, facts.len()).map_err(|mismatch| refused(mismatch.to_string()))?;
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
        let huge = memory::is_hugetlbfs(file.as_fd());
        let huge_pages = if huge { Ok(()) } else { Err("its maker did not get any".into()) };
        let backing = Backing { huge_pages, locked: prepare(memory.mapping()) };
        let ring = Arc::new(Ring::new(memory, known.kind, known.cell, known.cells, waking, true));
        Ok(Self { name, file: file.into(), kind: known.kind, ring, backing })
    }

    fn fresh(
        name: String,
        file: OwnedFd,
        mapping: Mapping,
        cells: u64,
        options: &Options,
        huge_pages: Result<(), String>,
    ) -> Self {
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
        let why = match side.take(&self.ring) {
            Ok(side) => return Ok(side),
            Err(TakeError::Held(holder)) => format!("process {} holds this side and lives", holder.pid),
            Err(TakeError::Contended) => "others are taking this side at this moment".into(),
            Err(TakeError::Unnamed) => "/proc does not show when this process started".into(),
            Err(TakeError::Unguarded) => "no memory is left for the guard against forked copies".into(),
        };
        Err(cannot_attach(&self.name, why))
    }

    fn contradicts(&self, fault: Fault) -> Problem {
        cannot_attach(&self.name, fault).next("make a new ring: this one was overwritten")
    }
}

/// Creates a temporary file for `name`. One that a killed process has left, or that another process is writing, is
/// skipped.
fn unfinished(name: &str) -> io::Result<(String, File)> {
    for attempt in 0..UNFINISHED_MAX {
        let path = format!("{name}.{}.{attempt}.new", std::process::id());
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (path, file)),
        }
    }
    Err(io::Error::other(format!("a name has at most {UNFINISHED_MAX} unfinished files beside it; remove some")))
}

/// Faults every page in and locks it; returns the reason if that fails.
pub(crate) fn prepare(mapping: &Mapping) -> Result<(), String> {
    mapping.prefault().map_err(|error| format!("cannot prefault: {error}"))?;
    mapping.lock().map_err(|error| format!("mlock: {error}; raise RLIMIT_MEMLOCK"))
}

fn mapped_bytes(bytes: usize, huge: bool) -> usize {
    if huge { bytes.next_multiple_of(HUGE_PAGE_BYTES) } else { bytes }
}

/// Refuses a file that could be truncated under the mapping, as far as that can be checked.
pub(crate) fn check_file(file: &File, facts: &fs::Metadata) -> Result<(), &'static str> {
    if !facts.is_file() {
        return Err("it is not a regular file");
    }
    let has_name = facts.nlink() > 0;
    let is_trusted = facts.uid() == 0 || facts.uid() == sidestep_sys::process::effective_uid();
    match memory::size_is_sealed(file.as_fd()) {
        // A hole in an ordinary memfd is filled with zeroes; on huge pages only while one is free, else by SIGBUS.
        Some(true) if memory::is_hugetlbfs(file.as_fd()) && !is_trusted => {
            Err("it lies on huge pages and another user made it, who could free them under the mapping")
        }
        Some(true) => Ok(()),
        Some(false) if !has_name => Err("its size is not sealed: its maker could truncate it under the mapping"),
        _ if facts.mode() & 0o002 != 0 => Err("everybody may write it, and so truncate it under the mapping"),
        _ if facts.mode() & 0o020 != 0 => Err("its group may write it, and so truncate it under the mapping"),
        _ if !is_trusted => Err("another user owns it, and could truncate it under the mapping"),
        _ => Ok(()),
    }
}

pub(crate) fn cannot_attach(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot attach to the ring in {name}"), why)
}

//! A file whose memory processes share: a sealed memfd that is handed over, or a named file. Rings and arrays of records
//! lie in such files.

use crate::layout::HEADER_BYTES;
use sidestep_sys::Problem;
use sidestep_sys::memory::{self, Access, HUGE_PAGE_BYTES, Mapping};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
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

/// The words for what lies in a file, in errors.
#[derive(Clone, Copy)]
pub(crate) struct Contents {
    name: &'static str,
    memfd: &'static str,
}

/// A ring.
pub(crate) const RING: Contents = Contents { name: "ring", memfd: "sidestep-ring" };
/// An array of records.
pub(crate) const ARRAY: Contents = Contents { name: "array", memfd: "sidestep-array" };

/// A mapped file.
pub(crate) struct SharedFile {
    pub(crate) name: String,
    pub(crate) file: OwnedFd,
    pub(crate) mapping: Mapping,
    /// The length of the file.
    pub(crate) bytes: u64,
    /// Ok if it lies on huge pages; else the reason.
    pub(crate) huge_pages: Result<(), String>,
}

impl SharedFile {
    /// Makes a memfd of at least so many bytes, of zeroes, whose size is sealed; on huge pages if some are free.
    pub(crate) fn memfd(what: Contents, bytes: usize) -> Result<Self, Problem> {
        let make = |huge: bool| -> io::Result<(OwnedFd, Mapping)> {
            let file = memory::memfd(what.memfd, huge)?;
            let len = mapped_bytes(bytes, huge);
            memory::allocate(file.as_fd(), len)?;
            memory::seal_size(file.as_fd())?;
            let mapping = Mapping::shared(file.as_fd(), len, Access::ReadWrite)?;
            Ok((file, mapping))
        };
        let huge = match bytes {
            bytes if bytes < HUGE_PAGE_BYTES => Err(format!("{bytes} bytes are less than a huge page")),
            _ => make(true).map_err(|error| format!("no huge page is free ({error}); reserve some: vm.nr_hugepages")),
        };
        let ((file, mapping), huge_pages) = match huge {
            Ok(made) => (made, Ok(())),
            Err(why) => (make(false).map_err(|error| what.cannot_make("a memfd", error))?, Err(why)),
        };
        Ok(Self { name: "a memfd".into(), file, bytes: mapping.len() as u64, mapping, huge_pages })
    }

    /// Makes a new file of at least so many bytes, of zeroes. The name appears when `finish` has filled it; an existing
    /// name is refused.
    pub(crate) fn create<T>(
        what: Contents,
        path: &Path,
        bytes: usize,
        finish: impl FnOnce(Self) -> T,
    ) -> Result<T, Problem> {
        let name = path.display().to_string();
        let (unfinished, file) = unfinished(&name).map_err(|error| what.cannot_make(&name, error))?;
        let make = || -> io::Result<T> {
            let huge = memory::is_hugetlbfs(file.as_fd());
            let len = mapped_bytes(bytes, huge);
            memory::allocate(file.as_fd(), len)?;
            let mapping = Mapping::shared(file.as_fd(), len, Access::ReadWrite)?;
            let huge_pages = if huge { Ok(()) } else { Err("the file is not on a hugetlbfs".into()) };
            let (file, bytes) = (file.into(), len as u64);
            let finished = finish(Self { name: name.clone(), file, mapping, bytes, huge_pages });
            fs::hard_link(&unfinished, path)?;
            Ok(finished)
        };
        let made = make();
        let _ = fs::remove_file(&unfinished);
        made.map_err(|error| what.cannot_make(&name, error))
    }

    /// Maps an existing file, unless others could truncate it.
    pub(crate) fn open(what: Contents, path: &Path, access: Access) -> Result<Self, Problem> {
        let name = path.display().to_string();
        // Non-blocking: opening a FIFO would wait for its other end.
        let mut how = OpenOptions::new();
        let open = how.read(true).write(access == Access::ReadWrite).custom_flags(libc::O_NONBLOCK).open(path);
        let file = open.map_err(|error| what.cannot_attach(&name, error))?;
        Self::map(what, name, file, access)
    }

    /// Maps a file that was handed over, unless others could truncate it.
    pub(crate) fn of_fd(what: Contents, file: OwnedFd, access: Access) -> Result<Self, Problem> {
        Self::map(what, "a handed-over descriptor".into(), File::from(file), access)
    }

    fn map(what: Contents, name: String, file: File, access: Access) -> Result<Self, Problem> {
        let refused = |why: String| what.cannot_attach(&name, why);
        let facts = file.metadata().map_err(|error| refused(error.to_string()))?;
        check_file(&file, &facts).map_err(|why| refused(why.into()))?;
        let bytes = facts.len();
        if bytes < HEADER_BYTES as u64 {
            let a_ring = what.with_article();
            return Err(refused(format!("the file has {bytes} bytes, {a_ring} has more than {HEADER_BYTES}")));
        }
        let len = usize::try_from(bytes).map_err(|error| refused(error.to_string()))?;
        let mapping = Mapping::shared(file.as_fd(), len, access).map_err(|error| refused(error.to_string()))?;
        let huge = memory::is_hugetlbfs(file.as_fd());
        let huge_pages = if huge { Ok(()) } else { Err("its maker did not get any".into()) };
        Ok(Self { name, file: file.into(), mapping, bytes, huge_pages })
    }
}

impl Contents {
    fn with_article(self) -> String {
        let article = if self.name.starts_with('a') { "an" } else { "a" };
        format!("{article} {}", self.name)
    }

    pub(crate) fn cannot_make(self, name: &str, why: impl Display) -> Problem {
        Problem::failed(format!("cannot make {} ({name})", self.with_article()), why)
    }

    pub(crate) fn cannot_attach(self, name: &str, why: impl Display) -> Problem {
        Problem::failed(format!("cannot attach to the {} in {name}", self.name), why)
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

pub(crate) fn cannot_attach(name: &str, why: impl Display) -> Problem {
    RING.cannot_attach(name, why)
}

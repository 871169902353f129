//! Memory shared between processes: memfds, mappings, seals, huge pages, prefaulted pages.

use std::collections::TryReserveError;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

/// The permitted use of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only: a store ends the process that tries it.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// The size of the huge pages that [`memfd`] asks for, bytes.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Pages in this process's address space, until dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    access: Access,
}

// SAFETY: a mapping is an address range that belongs to the whole process; this type only names it and unmaps it once.
unsafe impl Send for Mapping {}
// SAFETY: as above; whoever touches the bytes through `base` answers for the races.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file, shared with all processes that map it.
    pub fn shared(file: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Self> {
        Self::map(file.as_raw_fd(), 0, len, access, libc::MAP_SHARED)
    }

    /// Maps `len` bytes from `offset` on, a multiple of a page: for descriptors whose offset selects an object, such as
    /// the rings of a socket and the parts of a BPF map.
    pub fn shared_at(file: BorrowedFd<'_>, offset: u64, len: usize, access: Access) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        Self::map(file.as_raw_fd(), offset, len, access, libc::MAP_SHARED)
    }

    /// Maps zeroed memory of this process alone, on huge pages if the kernel has free ones (madvise(2)).
    pub fn private(len: usize) -> io::Result<Self> {
        let mapping = Self::map(-1, 0, len, Access::ReadWrite, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)?;
        // Without transparent huge pages it is ordinary memory, which works as well.
        let _ = mapping.advise(libc::MADV_HUGEPAGE);
        Ok(mapping)
    }

    fn map(file: i32, offset: libc::off_t, len: usize, access: Access, flags: i32) -> io::Result<Self> {
        let protection = match access {
            Access::ReadOnly => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: the kernel chooses the address, so no mapping of ours is replaced.
        let base = unsafe { libc::mmap(null_mut(), len, protection, flags, file, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, access })
    }

    /// The first byte; aligned to a page.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length asked for, bytes.
    #[allow(clippy::len_without_is_empty)] // The kernel refuses an empty mapping.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The permitted use of the mapping.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Faults every page in now, so that no first touch faults later (MADV_POPULATE_*, Linux 5.14).
    pub fn prefault(&self) -> io::Result<()> {
        self.advise(match self.access {
            Access::ReadOnly => libc::MADV_POPULATE_READ,
            Access::ReadWrite => libc::MADV_POPULATE_WRITE,
        })
    }

    /// Locks the pages in memory (mlock(2)). RLIMIT_MEMLOCK bounds it for processes without CAP_IPC_LOCK.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: base and len are those of a live mapping.
        check(unsafe { libc::mlock(self.base.as_ptr().cast(), self.len) })
    }

    /// Leaves the memory out of forked children (MADV_DONTFORK): a child would keep what is mapped, a socket's rings among it, from ending
    /// with this process.
    pub(crate) fn leave_out_of_children(&self) -> io::Result<()> {
        self.advise(libc::MADV_DONTFORK)
    }

    /// Makes a forked child see zeroes here (MADV_WIPEONFORK, Linux 4.14); for private memory.
    pub(crate) fn wipe_on_fork(&self) -> io::Result<()> {
        self.advise(libc::MADV_WIPEONFORK)
    }

    fn advise(&self, advice: i32) -> io::Result<()> {
        // SAFETY: base and len are those of a live mapping, and none of the advice used here discards data.
        check(unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, advice) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and len are those of a mapping that nobody else unmaps.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// The size of a page of this kernel, bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// A vector of `len` equal values, on huge pages if the kernel has free ones (madvise(2)), every page of it written: a later store
/// does not fault. It fails if the allocator has not that much.
pub fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(len)?;
    // What is not on whole pages of it is not advised.
    let range = values.spare_capacity_mut().as_mut_ptr_range();
    let first = (range.start as usize).next_multiple_of(page_bytes());
    let len_of_pages = (range.end as usize).saturating_sub(first) / page_bytes() * page_bytes();
    // SAFETY: the pages lie inside of the spare capacity, and MADV_HUGEPAGE changes no byte. Without transparent huge pages it fails,
    // and the memory is ordinary.
    let _ = unsafe { libc::madvise(first as *mut libc::c_void, len_of_pages, libc::MADV_HUGEPAGE) };
    values.resize(len, value);
    Ok(values)
}

/// Creates an unnamed file (memfd_create(2)) whose size can be sealed; `huge` puts it on reserved 2 MiB pages.
pub fn memfd(name: &str, huge: bool) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let pages = if huge { libc::MFD_HUGETLB | libc::MFD_HUGE_2MB } else { 0 };
    // SAFETY: the name is a C string that outlives the call.
    let file = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | pages) };
    check(file)?;
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Sets the file's size and allocates every page: a later store cannot fail for lack of memory.
pub fn allocate(file: BorrowedFd<'_>, len: usize) -> io::Result<()> {
    let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: fallocate takes no pointer. Mode 0 also sets the size.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size) })
}

/// Fixes the size of a memfd for ever: no holder can truncate it under another process's mapping (fcntl(2),
/// F_ADD_SEALS).
pub fn seal_size(memfd: BorrowedFd<'_>) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes no pointer.
    check(unsafe { libc::fcntl(memfd.as_raw_fd(), libc::F_ADD_SEALS, seals) })
}

/// Forbids every later writable mapping of a memfd; existing ones stay writable (F_SEAL_FUTURE_WRITE, Linux 5.1). It
/// must come before [`seal_size`], which forbids further seals.
pub(crate) fn seal_writes(memfd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: F_ADD_SEALS takes no pointer.
    check(unsafe { libc::fcntl(memfd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE) })
}

/// Returns whether the size is sealed; `None` if the file does not support seals, as named files do not.
pub fn size_is_sealed(file: BorrowedFd<'_>) -> Option<bool> {
    // SAFETY: F_GET_SEALS takes no pointer.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let wanted = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    (seals >= 0).then_some(seals & wanted == wanted)
}

/// Returns whether the file lies on huge pages.
pub fn is_hugetlbfs(file: BorrowedFd<'_>) -> bool {
    is_on(file, &[libc::HUGETLBFS_MAGIC])
}

/// Returns whether the file is a pin in a BPF file system.
pub fn is_on_bpffs(file: BorrowedFd<'_>) -> bool {
    is_on(file, &[libc::BPF_FS_MAGIC])
}

/// Returns whether the file system writes an allocated block in place: a store to a page whose block exists then needs
/// no new one. Copy-on-write file systems (btrfs), overlayfs and network file systems can run out of space at any
/// store.
pub(crate) fn writes_in_place(file: BorrowedFd<'_>) -> bool {
    is_on(file, &[libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::TMPFS_MAGIC])
}

/// Returns whether the file's system is one of these (statfs(2)).
fn is_on(file: BorrowedFd<'_>, kinds: &[libc::__fsword_t]) -> bool {
    // SAFETY: statfs is plain data; all zeroes is valid.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is a valid statfs to write to.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &mut facts) };
    result == 0 && kinds.contains(&facts.f_type)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn two_mappings_of_a_sealed_memfd_share_bytes_and_size() {
        let memfd = memfd("sidestep-test", false).unwrap();
        assert_eq!(size_is_sealed(memfd.as_fd()), Some(false));
        allocate(memfd.as_fd(), 8192).unwrap();
        seal_size(memfd.as_fd()).unwrap();
        assert_eq!(size_is_sealed(memfd.as_fd()), Some(true));
        let writer = Mapping::shared(memfd.as_fd(), 8192, Access::ReadWrite).unwrap();
        let reader = Mapping::shared(memfd.as_fd(), 8192, Access::ReadOnly).unwrap();
        writer.prefault().unwrap();
        reader.prefault().unwrap();
        // SAFETY: both addresses lie inside live mappings, and this thread alone uses them.
        let read = unsafe {
            writer.base().add(8191).write_volatile(7);
            reader.base().add(8191).read_volatile()
        };
        assert_eq!(read, 7);
        assert!(File::from(memfd).set_len(4096).is_err(), "the size is sealed");
    }

    #[test]
    fn a_filled_vector_has_its_values_and_too_large_a_one_is_an_error() {
        let values = filled(3_u32, 3 << 20).unwrap();
        assert_eq!((values.len(), values.capacity()), (3 << 20, 3 << 20));
        assert!(values.iter().all(|value| *value == 3));
        assert!(filled(0_u8, 0).unwrap().is_empty());
        assert!(filled(0_u8, usize::MAX).is_err());
    }

    #[test]
    fn private_memory_is_zeroed_and_refusals_are_errors() {
        let mapping = Mapping::private(4096).unwrap();
        // SAFETY: the address lies inside a live mapping that this thread alone uses.
        assert_eq!(unsafe { mapping.base().read_volatile() }, 0);
        assert!(Mapping::private(0).is_err());
        let named = tempfile();
        assert_eq!(size_is_sealed(named.as_fd()), None);
    }

    /// An ordinary file that has been unlinked.
    fn tempfile() -> File {
        let path = std::env::temp_dir().join(format!("sidestep-sys-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }
}

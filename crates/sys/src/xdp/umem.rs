//! The memory of the frames: a sealed memfd, which can be handed to an unprivileged process.

use super::errno::explain;
use super::facts::{Geometry, Pages};
use crate::Problem;
use crate::memory::{self, Access, HUGE_PAGE_BYTES, Mapping};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes that the kernel reserves before every received frame (XDP_PACKET_HEADROOM).
pub const PACKET_HEADROOM_BYTES: u32 = 256;

/// 2 GiB of frames; a larger number is taken for a mistake of units.
pub(crate) const FRAMES_MAX: u32 = 1 << 19;

/// Frames of one size in shared memory. A process that maps it can write to every frame at any time: it is for the
/// maker and one user of the frames. All accounting is elsewhere.
#[derive(Debug)]
pub struct Umem {
    memfd: OwnedFd,
    mapping: Mapping,
    geometry: Geometry,
    pages: Pages,
}

impl Umem {
    /// Makes the memory, on huge pages if the host has enough free ones, every page present.
    pub fn create(geometry: Geometry) -> Result<Self, Problem> {
        check(geometry)?;
        let huge = make(geometry, true);
        let (memfd, pages) = match huge {
            Ok(memfd) => (memfd, Pages::Huge),
            Err(error) => {
                let reason = format!("no {} huge pages of 2 MiB free ({})", huge_pages(geometry), explain(&error));
                (make(geometry, false).map_err(|error| no_memory(geometry, &error))?, Pages::Small { reason })
            }
        };
        Self::over(memfd, geometry, pages).map_err(|error| no_memory(geometry, &error))
    }

    /// Maps the memory of another process. Its size must be sealed, and hold all frames of `geometry`.
    pub fn open(memfd: OwnedFd, geometry: Geometry) -> Result<Self, Problem> {
        check(geometry)?;
        let refused = |why: &str| {
            Err(Problem::failed("cannot map the frame memory", why)
                .next("take descriptor and facts from one and the same sidestep process"))
        };
        if memory::size_is_sealed(memfd.as_fd()) != Some(true) {
            return refused("its size is not sealed");
        }
        if size(memfd.as_fd()).is_none_or(|bytes| bytes < geometry.bytes() as u64) {
            return refused("it is smaller than the frames it should hold");
        }
        let pages = match memory::is_hugetlbfs(memfd.as_fd()) {
            true => Pages::Huge,
            false => Pages::Small { reason: "its maker had none".into() },
        };
        Self::over(memfd, geometry, pages).map_err(|error| no_memory(geometry, &error))
    }

    fn over(memfd: OwnedFd, geometry: Geometry, pages: Pages) -> io::Result<Self> {
        let mapping = Mapping::shared(memfd.as_fd(), file_bytes(geometry, pages == Pages::Huge), Access::ReadWrite)?;
        // Before Linux 5.14 the kernel cannot do this in one call: each page is then faulted in at its first use.
        let _ = mapping.prefault();
        mapping.leave_out_of_children()?;
        Ok(Self { memfd, mapping, geometry, pages })
    }

    /// The layout of the frames.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The pages of the memory.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// The descriptor to hand over.
    pub fn memfd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// The address of the bytes at offset `address`, if `len` of them lie inside. The caller must know who owns them.
    #[inline]
    pub fn locate(&self, address: u64, len: usize) -> Option<NonNull<u8>> {
        let start = usize::try_from(address).ok()?;
        let end = start.checked_add(len)?;
        // SAFETY: the mapping has at least `geometry.bytes()` bytes, and `start` is not behind them.
        (end <= self.geometry.bytes()).then(|| unsafe { self.mapping.base().add(start) })
    }
}

fn check(geometry: Geometry) -> Result<(), Problem> {
    let Geometry { frames, frame_bytes, headroom } = geometry;
    let why = if !matches!(frame_bytes, 2048 | 4096) {
        "the kernel takes frames of 2048 or 4096 bytes"
    } else if !(1..=FRAMES_MAX).contains(&frames) {
        "there must be from 1 to 524,288 frames"
    } else if geometry.receive_bytes_max() == 0 || !headroom.is_multiple_of(8) {
        "the headroom must be a multiple of 8 and leave room for a frame beside the kernel's 256 bytes"
    } else {
        return Ok(());
    };
    Err(Problem::usage(format!("cannot make {frames} frames of {frame_bytes} bytes, {headroom} of them headroom"), why)
        .next("ask for example for 4096 frames of 2048 bytes without headroom"))
}

fn make(geometry: Geometry, huge: bool) -> io::Result<OwnedFd> {
    let memfd = memory::memfd("sidestep-umem", huge)?;
    memory::allocate(memfd.as_fd(), file_bytes(geometry, huge))?;
    memory::seal_size(memfd.as_fd())?;
    Ok(memfd)
}

fn file_bytes(geometry: Geometry, huge: bool) -> usize {
    geometry.bytes().next_multiple_of(if huge { HUGE_PAGE_BYTES } else { 4096 })
}

fn huge_pages(geometry: Geometry) -> usize {
    geometry.bytes().div_ceil(HUGE_PAGE_BYTES)
}

fn size(file: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: stat is plain data; all zeroes is valid.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is a valid stat to write to.
    let result = unsafe { libc::fstat(file.as_raw_fd(), &raw mut facts) };
    if result == 0 { u64::try_from(facts.st_size).ok() } else { None }
}

fn no_memory(geometry: Geometry, error: &io::Error) -> Problem {
    let mebibytes = geometry.bytes().div_ceil(1 << 20);
    Problem::failed(format!("cannot get {mebibytes} MiB for frames"), explain(error))
        .next("ask for fewer frames, or free some memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry { frames: 64, frame_bytes: 2048, headroom: 0 };

    #[test]
    fn two_mappings_are_one_memory_and_its_border_holds() {
        let one = Umem::create(SMALL).unwrap();
        let two = Umem::open(one.memfd().try_clone_to_owned().unwrap(), SMALL).unwrap();
        let (here, there) = (one.locate(2048, 1).unwrap(), two.locate(2048, 1).unwrap());
        // SAFETY: both lie inside live mappings, and this thread alone uses them.
        let read = unsafe {
            here.write_volatile(7);
            there.read_volatile()
        };
        assert_eq!(read, 7);
        let bytes = SMALL.bytes() as u64;
        assert!(one.locate(bytes - 1, 1).is_some() && one.locate(bytes, 0).is_some());
        for (address, len) in [(bytes, 1), (bytes - 1, 2), (u64::MAX, 1), (0, usize::MAX)] {
            assert!(one.locate(address, len).is_none(), "{address} {len}");
        }
    }

    #[test]
    fn what_cannot_be_a_umem_is_refused() {
        for bad in [
            Geometry { frame_bytes: 1024, ..SMALL },
            Geometry { frames: 0, ..SMALL },
            Geometry { frames: FRAMES_MAX + 1, ..SMALL },
            Geometry { headroom: 1792, ..SMALL },
            Geometry { headroom: 3, ..SMALL },
            Geometry { headroom: !7, ..SMALL },
        ] {
            assert!(Umem::create(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_memfd_that_is_open_or_short_is_not_mapped() {
        let open = memory::memfd("sidestep-test", false).unwrap();
        memory::allocate(open.as_fd(), SMALL.bytes()).unwrap();
        assert!(Umem::open(open, SMALL).unwrap_err().to_string().contains("not sealed"));
        let short = Umem::create(SMALL).unwrap().memfd().try_clone_to_owned().unwrap();
        let problem = Umem::open(short, Geometry { frames: 65_536, ..SMALL }).unwrap_err();
        assert!(problem.to_string().contains("smaller"), "{problem}");
    }
}

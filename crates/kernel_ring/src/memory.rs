//! The memory of rings: one BPF array, with a ring in each element.

use libbpf_rs::libbpf_sys::{BPF_F_INNER_MAP, BPF_F_MMAPABLE, bpf_map_create_opts};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use sidestep_ring::{kernel_header, kernel_ring_bytes};
use sidestep_sys::Problem;
use sidestep_sys::memory::page_bytes;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes behind the cells, to which nothing is ever stored: the verifier does not see that a record ends before the ring's
/// end, so the longest message must fit behind the last cell. With the header it is 64 KiB, so that the next ring begins at a
/// page, however long those of this kernel are. `bpf/ring.h` has the same number.
pub const SLACK_BYTES: usize = 60 << 10;

/// The fewest cells: those of the shortest page. A smaller element would not end at a page, where the next ring can be mapped.
const CELLS_MIN: u64 = 64;

/// The size of an element: a ring of this many cells, and the slack. A multiple of 64 KiB from 1024 cells on, so that each ring can
/// be mapped.
pub fn element_bytes(cells: u64) -> usize {
    kernel_ring_bytes(cells) + SLACK_BYTES
}

/// The memory of some rings of one size.
#[derive(Debug)]
pub struct RingMap {
    map: MapHandle,
    rings: u32,
    cells: u64,
}

impl RingMap {
    /// Makes this many empty rings of this many cells (a power of two, at least 64), and freezes them. The map may be a
    /// value of an array of maps whose template has another number of rings (BPF_F_INNER_MAP, Linux 5.10).
    pub fn create(name: &str, rings: u32, cells: u64) -> Result<Self, Problem> {
        let failed = |error: libbpf_rs::Error| {
            let kib = (element_bytes(cells) >> 10) * rings as usize;
            let why = format!("{error} ({kib} KiB of memory that stays)");
            Problem::failed(format!("cannot make {rings} rings for the kernel"), why)
                .next("run as root (it needs CAP_BPF), on Linux 5.14 or later")
        };
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as _,
            map_flags: BPF_F_MMAPABLE | BPF_F_INNER_MAP,
            ..Default::default()
        };
        let mut element = kernel_header(cells)?;
        let bytes = u32::try_from(element_bytes(cells)).ok().filter(|_| cells >= CELLS_MIN);
        let bytes = bytes.ok_or_else(|| {
            let why = format!(
                "{cells} cells are fewer than {CELLS_MIN}, which fill a page, or more than a map's value has room for"
            );
            Problem::usage("cannot make a ring for the kernel", why)
        })?;
        if !element_bytes(cells).is_multiple_of(page_bytes()) {
            let why = format!("rings of {cells} cells do not end at a page of this kernel, of {} bytes", page_bytes());
            return Err(Problem::usage("cannot make rings for the kernel", why).next("use 1024 cells or more"));
        }
        element.resize(element_bytes(cells), 0);
        let map = MapHandle::create(MapType::Array, Some(name), 4, bytes, rings, &options);
        let map = map.map_err(failed)?;
        for ring in 0..rings {
            map.update(&ring.to_ne_bytes(), &element, MapFlags::ANY).map_err(failed)?;
        }
        map.freeze().map_err(failed)?;
        Ok(Self { map, rings, cells })
    }

    /// The descriptor to hand over: its holder can map the rings, read-only.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// The number of rings.
    pub fn rings(&self) -> u32 {
        self.rings
    }

    /// The number of cells of each.
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// The offset of a ring in the map's memory, bytes.
    pub fn offset(&self, ring: u32) -> u64 {
        u64::from(ring) * element_bytes(self.cells) as u64
    }
}

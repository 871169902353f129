//! Attachment to a ring that the kernel fills: a part of a BPF map, or of the module's device.

use crate::facts::{Facts, ring_bytes};
use crate::layout::HEADER_BYTES;
use crate::memory::Memory;
use crate::ring::{Kind, Ring};
use crate::segment::Segment;
use crate::shared_file::{Backing, cannot_attach, check_file, prepare};
use crate::sync::Arc;
use sidestep_sys::memory::{Access, Mapping, is_hugetlbfs, is_on_bpffs};
use sidestep_sys::{Problem, bpf, ring_device};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

const NAME: &str = "the kernel's memory";

/// The memory that a descriptor gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A memfd or file, for producers in processes, and for tests.
    File,
    /// A BPF array, or the module's device: pages of the kernel, present as long as the mapping.
    Kernel,
}

impl Segment {
    /// Attaches read-only to the broadcast ring that a producer in the kernel writes to `bytes` bytes from `offset` on, a
    /// multiple of a page. The ring may be smaller: not more than it is mapped.
    ///
    /// The descriptor is a BPF array (BPF_F_MMAPABLE), the module's device, or a regular file under the conditions of
    /// [`Segment::open`]. The header must say that there are no pids (namespace 0) and no futexes (waking 0). No side can
    /// be taken; [`Segment::subscriber`] makes readers, and the writer is [`crate::Peer::Absent`] to them.
    pub fn foreign(file: OwnedFd, offset: u64, bytes: usize) -> Result<Self, Problem> {
        Self::foreign_named(NAME.into(), file, offset, bytes)
    }

    fn foreign_named(name: String, file: OwnedFd, offset: u64, bytes: usize) -> Result<Self, Problem> {
        let refused = |why: String| cannot_attach(&name, why);
        if !offset.is_multiple_of(HEADER_BYTES as u64) {
            return Err(refused(format!("the offset {offset} is not a multiple of {HEADER_BYTES}")));
        }
        if bytes < HEADER_BYTES {
            return Err(refused(format!("{bytes} bytes are less than a ring's header, {HEADER_BYTES}")));
        }
        let source = checked_source(&file, offset, bytes).map_err(refused)?;
        let map = |len: usize| {
            let mapped = Mapping::shared_at(file.as_fd(), offset, len, Access::ReadOnly);
            mapped.map_err(|error| cannot_map(&name, &error, offset, len))
        };
        // The header's facts are copied once, and the mapping of the whole follows the copies.
        let known = Facts::check_foreign(&Memory::new(map(HEADER_BYTES)?), bytes as u64);
        let known = known.map_err(|mismatch| refused(mismatch.to_string()))?;
        let mapping = map(ring_bytes(known.cell, known.cells))?;
        let backing = backing(&mapping, source);
        let ring = Arc::new(Ring::foreign(Memory::new(mapping), known.cell, known.cells));
        Ok(Self { name, file, kind: Kind::Broadcast, ring, backing })
    }

    /// Attaches read-only to the ring in a file ([`Segment::open`]), to that of the module's device, or to ring `number` of a
    /// BPF map that is pinned in a BPF file system.
    pub fn view(path: &Path, number: u32) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let failed = |error: io::Error| cannot_attach(&name, error);
        // Of the path alone: to open a device, or a FIFO, can have an effect.
        let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).map_err(failed)?;
        let is_device = found.metadata().map_err(failed)?.file_type().is_char_device();
        match () {
            () if is_on_bpffs(found.as_fd()) => Self::pinned(name, path, number),
            () if number > 0 => Err(cannot_attach(&name, "only a BPF map has several rings")),
            () if is_device => Self::device(name, path),
            () => Self::open(path, Access::ReadOnly),
        }
    }

    fn pinned(name: String, path: &Path, number: u32) -> Result<Self, Problem> {
        let map = bpf::open_pinned(path).map_err(|error| cannot_attach(&name, error))?;
        let facts = bpf::map_facts(map.as_fd());
        let facts = facts.ok_or_else(|| cannot_attach(&name, "it is not a BPF map, but another object"))?;
        if number >= facts.entries {
            let why = format!("the map has {} rings, and the first is number 0", facts.entries);
            return Err(cannot_attach(&name, why));
        }
        let offset = u64::from(number) * u64::from(facts.value_bytes);
        Self::foreign_named(name, map, offset, facts.value_bytes as usize)
    }

    fn device(name: String, path: &Path) -> Result<Self, Problem> {
        let device = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let device = device.map_err(|error| cannot_attach(&name, error))?;
        let bytes = device_bytes(device.as_fd()).map_err(|why| cannot_attach(&name, why))?;
        let bytes = usize::try_from(bytes).map_err(|error| cannot_attach(&name, error))?;
        Self::foreign_named(name, device.into(), 0, bytes)
    }
}

/// Refuses memory that could vanish under the mapping, which would end this process (SIGBUS).
fn checked_source(file: &OwnedFd, offset: u64, bytes: usize) -> Result<Source, String> {
    let text = |error: io::Error| error.to_string();
    let opened = File::from(file.try_clone().map_err(text)?);
    let facts = opened.metadata().map_err(text)?;
    let end = offset.checked_add(bytes as u64).ok_or("offset and bytes are more than an address space")?;
    let has = match () {
        () if facts.is_file() => {
            check_file(&opened, &facts)?;
            if is_hugetlbfs(file.as_fd()) {
                return Err("it lies on huge pages: attach to it as to a ring of a process".into());
            }
            facts.len()
        }
        () if facts.file_type().is_char_device() => device_bytes(file.as_fd())?,
        () => {
            check_map(file.as_fd())?;
            // The kernel refuses to map beyond a map's end.
            u64::MAX
        }
    };
    match () {
        () if end > has => Err(format!("{bytes} bytes from {offset} on end behind its {has} bytes")),
        () if facts.is_file() => Ok(Source::File),
        () => Ok(Source::Kernel),
    }
}

/// The bytes of the module's device; other devices could take pages back.
fn device_bytes(device: BorrowedFd<'_>) -> Result<u64, String> {
    let info = ring_device::info(device).map_err(|error| format!("the device is not sidestep's: {error}"))?;
    match info.abi {
        ring_device::DEVICE_ABI => Ok(info.bytes),
        abi => Err(format!("the module's ABI version is {abi}, this program's is {}", ring_device::DEVICE_ABI)),
    }
}

/// Accepts an array. An arena of another process may be set to answer loads by a signal.
fn check_map(object: BorrowedFd<'_>) -> Result<(), String> {
    match bpf::map_type(object) {
        Some(bpf::MAP_TYPE_ARRAY) => Ok(()),
        Some(other) => Err(format!("it is a BPF map of type {other}, not an array ({})", bpf::MAP_TYPE_ARRAY)),
        None => Err("it is not a file, a BPF map or the module's device".into()),
    }
}

fn backing(mapping: &Mapping, source: Source) -> Backing {
    let huge_pages = Err("the kernel's memory has small pages".into());
    if source == Source::File {
        return Backing { huge_pages, locked: prepare(mapping) };
    }
    // Pages of the kernel are never swapped out. Kernels that map them at the first touch do so now; others refuse.
    let _ = mapping.prefault();
    Backing { huge_pages, locked: Ok(()) }
}

fn cannot_map(name: &str, error: &io::Error, offset: u64, len: usize) -> Problem {
    let problem = cannot_attach(name, format!("{error} ({len} bytes from {offset} on)"));
    match error.raw_os_error() {
        Some(libc::EINVAL) => problem.next("the ring must lie inside the map, which must be made with BPF_F_MMAPABLE"),
        _ => problem,
    }
}

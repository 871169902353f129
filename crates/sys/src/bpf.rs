//! Calls that the BPF library lacks, or that readers without it need: an XDP link in a chosen mode, pins, the facts of a map.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `enum bpf_cmd` and `enum bpf_attach_type` of linux/bpf.h.
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_XDP: u32 = 37;

/// The place in an interface's receive path where an XDP program runs (`XDP_FLAGS_*` of linux/if_link.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel builds an skb.
    Native,
    /// In the kernel's generic path, after the skb is built: works on any device, but slower.
    Generic,
}

impl XdpMode {
    fn flags(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

/// Attaches an XDP program to an interface of the calling thread's namespace by a BPF link (Linux 5.9). The program is
/// detached when the last descriptor and the last pin of the link are gone, even if the process was killed.
///
/// EBUSY and EEXIST mean that another program is attached, EOPNOTSUPP that the driver does not support the mode.
pub fn link_xdp(program: BorrowedFd<'_>, ifindex: u32, mode: XdpMode) -> io::Result<OwnedFd> {
    let attributes =
        LinkCreate { program: program.as_raw_fd().cast_unsigned(), ifindex, attach_type: BPF_XDP, flags: mode.flags() };
    let descriptor = bpf(BPF_LINK_CREATE, &attributes)?;
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Pins a BPF object in a mounted BPF file system. It lives until the pin is removed and all descriptors are closed.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let attributes = ObjectPin {
        path: name.as_ptr().expose_provenance() as u64,
        object: object.as_raw_fd().cast_unsigned(),
        file_flags: 0,
    };
    bpf(BPF_OBJ_PIN, &attributes).map(drop)
}

/// `enum bpf_map_type` of linux/bpf.h: memory whose pages exist as long as a mapping does.
pub const MAP_TYPE_ARRAY: u32 = 2;
/// The same of a BPF ring buffer.
pub const MAP_TYPE_RINGBUF: u32 = 27;

/// The facts of a BPF map that its memory depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFacts {
    /// `enum bpf_map_type`.
    pub map_type: u32,
    /// The size of an element, bytes.
    pub value_bytes: u32,
    /// The number of elements.
    pub entries: u32,
}

/// The facts of a BPF map, by /proc; `None` for what is no map.
pub fn map_facts(object: BorrowedFd<'_>) -> Option<MapFacts> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd())).ok()?;
    let fact = |name| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    Some(MapFacts { map_type: fact("map_type:")?, value_bytes: fact("value_size:")?, entries: fact("max_entries:")? })
}

/// The type of a BPF map; `None` for what is no map.
pub fn map_type(object: BorrowedFd<'_>) -> Option<u32> {
    map_facts(object).map(|facts| facts.map_type)
}

/// Opens the BPF object that is pinned at `path`, for reading and writing: what is open for reading alone cannot be mapped shared
/// (the kernel takes VM_SHARED off, and the map then refuses). A frozen map stays as it is.
pub fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let attributes = ObjectPin { path: name.as_ptr().expose_provenance() as u64, object: 0, file_flags: 0 };
    let descriptor = bpf(BPF_OBJ_GET, &attributes)?;
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The first fields of `union bpf_attr` for BPF_LINK_CREATE; the kernel takes what is not given as zero.
#[repr(C)]
struct LinkCreate {
    program: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// The first fields of `union bpf_attr` for BPF_OBJ_PIN and BPF_OBJ_GET.
#[repr(C)]
struct ObjectPin {
    path: u64,
    object: u32,
    file_flags: u32,
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: both structures are plain words without padding, of the size given; the kernel reads them, and the path
    // that one of them points at, before it returns. No command writes to them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(result).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_bpf_object_is_refused() {
        let file = File::open("/proc/self/stat").unwrap();
        assert_eq!(map_type(file.as_fd()), None);
        assert!(link_xdp(file.as_fd(), 1, XdpMode::Native).is_err());
        assert!(pin(file.as_fd(), Path::new("/sys/fs/bpf/sidestep-none")).is_err());
        assert!(open_pinned(Path::new("/proc/self/stat")).is_err());
        assert_eq!(pin(file.as_fd(), Path::new("a\0b")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

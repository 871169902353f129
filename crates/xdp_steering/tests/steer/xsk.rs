//! The smallest AF_XDP receiver, to check that frames arrive: copy mode, one queue, no sending.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of frames of memory, and of entries of each ring.
const FRAMES: u32 = 64;
const FRAME_BYTES: u32 = 2048;

/// A bound socket with its memory and two of its rings.
pub(crate) struct Receiver {
    socket: OwnedFd,
    memory: Pages,
    receive: Ring,
    fill: Ring,
}

/// Pages of this process, unmapped when dropped.
struct Pages {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: pages belong to the whole process; this type only names them and unmaps them once.
unsafe impl Send for Pages {}

/// A ring of the kernel: the location of its counters and entries in its pages.
struct Ring {
    pages: Pages,
    offsets: libc::xdp_ring_offset,
}

impl Receiver {
    /// Makes a socket on a queue of an interface of the calling thread's namespace.
    pub(crate) fn bind(ifindex: u32, queue: u32) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::from(libc::AF_XDP), socket2::Type::RAW, None).unwrap();
        let socket = OwnedFd::from(socket);
        let memory = Pages::new(-1, (FRAMES * FRAME_BYTES) as usize, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let registration = libc::xdp_umem_reg {
            addr: memory.base as u64,
            len: memory.bytes as u64,
            chunk_size: FRAME_BYTES,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &registration);
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING] {
            set(&socket, ring, &FRAMES);
        }
        let offsets = ring_offsets(&socket);
        let receive = Ring::map(&socket, offsets.rx, size_of::<libc::xdp_desc>(), libc::XDP_PGOFF_RX_RING);
        let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let fill = Ring::map(&socket, offsets.fr, size_of::<u64>(), fill_at);
        let receiver = Self { socket, memory, receive, fill };
        for number in 0..FRAMES {
            receiver.give(u64::from(number * FRAME_BYTES));
        }
        bind(&receiver.socket, ifindex, queue).unwrap();
        receiver
    }

    /// The oldest received frame, if any.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let consumed = self.receive.consumer().load(Ordering::Relaxed);
        if consumed == self.receive.producer().load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the kernel has published this entry, and the index is within the ring.
        let entry = unsafe { ptr::read(self.receive.entries::<libc::xdp_desc>().add((consumed % FRAMES) as usize)) };
        let (at, bytes) = (entry.addr as usize, entry.len as usize);
        assert!(at + bytes <= self.memory.bytes);
        // SAFETY: the range lies in the memory, and the kernel writes to it no more until it is given back.
        let frame = unsafe { std::slice::from_raw_parts(self.memory.base.add(at), bytes) }.to_vec();
        self.receive.consumer().store(consumed.wrapping_add(1), Ordering::Release);
        self.give(entry.addr / u64::from(FRAME_BYTES) * u64::from(FRAME_BYTES));
        Some(frame)
    }

    /// Lends a frame of memory to the kernel. There are no more frames than entries.
    fn give(&self, address: u64) {
        let produced = self.fill.producer().load(Ordering::Relaxed);
        // SAFETY: the index is within the ring, and the kernel reads the entry only after the store below.
        unsafe { ptr::write(self.fill.entries::<u64>().add((produced % FRAMES) as usize), address) };
        self.fill.producer().store(produced.wrapping_add(1), Ordering::Release);
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Ring {
    fn map(socket: &OwnedFd, offsets: libc::xdp_ring_offset, entry_bytes: usize, at: libc::off_t) -> Self {
        let bytes = offsets.desc as usize + FRAMES as usize * entry_bytes;
        Self { pages: Pages::new(socket.as_raw_fd(), bytes, at, libc::MAP_SHARED | libc::MAP_POPULATE), offsets }
    }

    fn producer(&self) -> &AtomicU32 {
        self.counter(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.counter(self.offsets.consumer)
    }

    fn counter(&self, at: u64) -> &AtomicU32 {
        // SAFETY: the kernel says that an aligned counter lies there, in pages that live as long as the ring.
        unsafe { AtomicU32::from_ptr(self.pages.base.add(at as usize).cast()) }
    }

    fn entries<T>(&self) -> *mut T {
        // SAFETY: the entries lie at this offset of the mapping, which was made long enough for all of them.
        unsafe { self.pages.base.add(self.offsets.desc as usize).cast() }
    }
}

impl Pages {
    fn new(file: i32, bytes: usize, at: libc::off_t, flags: i32) -> Self {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no mapping of ours is replaced.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, file, at) };
        assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Self { base: base.cast(), bytes }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nobody else unmaps these pages, and nothing refers to them any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

fn set<T>(socket: &OwnedFd, name: i32, value: &T) {
    let (value, bytes) = (ptr::from_ref(value), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value is a plain C structure of the length given.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, name, value.cast(), bytes) };
    assert_eq!(result, 0, "option {name}: {}", io::Error::last_os_error());
}

fn ring_offsets(socket: &OwnedFd) -> libc::xdp_mmap_offsets {
    // SAFETY: all-zero bytes are a valid xdp_mmap_offsets.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut bytes = size_of_val(&offsets) as libc::socklen_t;
    let name = libc::XDP_MMAP_OFFSETS;
    let value = (&raw mut offsets).cast();
    // SAFETY: the kernel writes at most the length given, that of the structure.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, name, value, &raw mut bytes) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    offsets
}

/// Binds a socket. The queue of a closed socket is free only after a grace period.
fn bind(socket: &OwnedFd, ifindex: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    for _ in 0..1000 {
        let bytes = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is a sockaddr_xdp of the length given.
        if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) } == 0 {
            return Ok(());
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EBUSY) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Err(io::Error::last_os_error())
}

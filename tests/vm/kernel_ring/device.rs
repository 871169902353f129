//! The module and its device as raw calls, so that they can be wrong.

use sidestep_testkit::{vm, wait_until};
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;

pub(super) const NAME: &str = "sidestep_ring";
pub(super) const DEVICE: &str = "/dev/sidestep-ring";
pub(super) const PAGE: usize = 4096;
/// `struct sidestep_ring_read`.
pub(super) const HEAD_BYTES: usize = 16;

pub(super) const INFO: u64 = 0x8018_7301;
pub(super) const STATS: u64 = 0x8030_7302;
pub(super) const SEEN: u64 = 0x4008_7303;
pub(super) const SET_INTERVAL: u64 = 0x4008_7304;

/// The loaded module; it is unloaded with this value.
pub(super) struct Module;

impl Module {
    pub(super) fn load(parameters: &str) -> Self {
        vm::load_module(NAME, parameters).unwrap_or_else(|error| panic!("{parameters}: {error}"));
        Self
    }

    /// Unloads it. Descriptors that were just closed may hold it a moment longer.
    pub(super) fn unload(self) {
        wait_until("the module is unloaded", || vm::unload_module(NAME).is_ok());
        std::mem::forget(self);
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = vm::unload_module(NAME);
    }
}

/// `struct sidestep_ring_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    pub(super) ticks: u64,
    pub(super) missed: u64,
    pub(super) published: u64,
    pub(super) dropped: u64,
    pub(super) interval_ns: u64,
    pub(super) readers: u64,
}

pub(super) fn open() -> File {
    File::open(DEVICE).expect("the device is there")
}

pub(super) fn open_nonblocking() -> File {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(DEVICE).expect("the device is there")
}

pub(super) fn call(device: &File, number: u64, argument: *mut c_void) -> io::Result<i32> {
    // SAFETY: the kernel checks the pointer. Where the call is a known one, the caller gives a buffer of its size.
    match unsafe { libc::ioctl(device.as_raw_fd(), number, argument) } {
        -1 => Err(io::Error::last_os_error()),
        done => Ok(done),
    }
}

pub(super) fn stats(device: &File) -> Stats {
    let mut stats = Stats::default();
    call(device, STATS, ptr::from_mut(&mut stats).cast()).expect("the device knows this call");
    stats
}

/// Cells of the ring and bytes of its memory.
pub(super) fn info(device: &File) -> (u64, usize) {
    let mut info = [0_u64; 3];
    call(device, INFO, info.as_mut_ptr().cast()).expect("the device knows this call");
    assert_eq!(info[0], 1, "the ABI version, and four zeroes");
    (info[2], info[1] as usize)
}

pub(super) fn word(device: &File, number: u64, mut word: u64) -> io::Result<i32> {
    call(device, number, ptr::from_mut(&mut word).cast())
}

/// Reads to any address.
pub(super) fn read_to(device: &File, at: *mut c_void, length: usize) -> Result<usize, i32> {
    // SAFETY: the kernel checks the address. Where it is a good one, the caller has that many bytes there.
    let done = unsafe { libc::read(device.as_raw_fd(), at, length) };
    usize::try_from(done).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or_default())
}

/// A message that was read: its sequence number, what was lost before it, its bytes.
pub(super) struct Message {
    pub(super) sequence: u64,
    pub(super) lost: u64,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// The word at this place of the message.
    pub(super) fn word(&self, at: usize) -> u64 {
        word_at(&self.bytes, at)
    }
}

pub(super) fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(super) fn read(device: &File) -> Result<Message, i32> {
    let mut buffer = vec![0; 16 << 10];
    let length = read_to(device, buffer.as_mut_ptr().cast(), buffer.len())?;
    buffer.truncate(length);
    let bytes = buffer.split_off(HEAD_BYTES);
    Ok(Message { sequence: word_at(&buffer, 0), lost: word_at(&buffer, 8), bytes })
}

/// A mapping that is removed with its value.
pub(super) struct Mapped {
    pub(super) at: *mut c_void,
    pub(super) bytes: usize,
}

pub(super) fn map(device: &File, bytes: usize, access: i32, flags: i32, offset: i64) -> Result<Mapped, i32> {
    // SAFETY: a new mapping at an address that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, device.as_raw_fd(), offset) };
    if at == libc::MAP_FAILED { Err(errno()) } else { Ok(Mapped { at, bytes }) }
}

impl Mapped {
    pub(super) fn protect(&self, access: i32) -> Result<(), i32> {
        // SAFETY: nothing refers to this memory.
        if unsafe { libc::mprotect(self.at, self.bytes, access) } == 0 { Ok(()) } else { Err(errno()) }
    }

    /// Makes it larger; it may be moved.
    pub(super) fn extend(&mut self, bytes: usize) -> Result<(), i32> {
        // SAFETY: nothing refers to this memory.
        let at = unsafe { libc::mremap(self.at, self.bytes, bytes, libc::MREMAP_MAYMOVE) };
        if at == libc::MAP_FAILED {
            return Err(errno());
        }
        (self.at, self.bytes) = (at, bytes);
        Ok(())
    }

    /// The first word: the ring's magic.
    pub(super) fn first_word(&self) -> u64 {
        // SAFETY: it is mapped, readable and aligned.
        unsafe { self.at.cast::<u64>().read_volatile() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing refers to it.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

pub(super) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

/// A forked child. It is killed with its value.
pub(super) struct Child(libc::pid_t);

impl Child {
    /// Runs `body` in a forked child, which ends with its result. It must not allocate where other threads run.
    pub(super) fn fork(body: impl FnOnce() -> i32) -> Self {
        // SAFETY: the child calls `body` and ends without unwinding into the harness.
        match unsafe { libc::fork() } {
            0 => {
                let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101);
                // SAFETY: it ends this process at once.
                unsafe { libc::_exit(code) }
            }
            child if child > 0 => Self(child),
            _ => panic!("fork: {}", io::Error::last_os_error()),
        }
    }

    pub(super) fn kill(&self) {
        // SAFETY: the child is ours and has not been waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }

    /// The child's exit code; `None` if a signal ended it.
    pub(super) fn wait(self) -> Option<i32> {
        let code = self.reap();
        std::mem::forget(self);
        code
    }

    fn reap(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: the child is ours; `status` lives until the call returns.
        let done = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(done, self.0, "{}", io::Error::last_os_error());
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}

/// Gives up all privileges of a user, for good.
pub(super) fn become_nobody() {
    // SAFETY: they change only this process's identity.
    assert_eq!(unsafe { libc::setgroups(0, ptr::null()) | libc::setgid(65534) | libc::setuid(65534) }, 0);
}

/// Waits for a descriptor to be readable.
pub(super) fn poll(device: &File, timeout_ms: i32) -> bool {
    let mut one = libc::pollfd { fd: device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives until the call returns.
    let ready = unsafe { libc::poll(&raw mut one, 1, timeout_ms) };
    assert!(ready >= 0, "{}", io::Error::last_os_error());
    ready == 1 && one.revents & libc::POLLIN != 0
}

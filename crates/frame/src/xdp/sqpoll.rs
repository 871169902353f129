//! Sending by a kernel thread: it polls an io_uring (IORING_SETUP_SQPOLL), into which an empty send is put per flush.
//! The caller makes a system call only to wake that thread.

use super::budget::Budget;
use io_uring::{IoUring, opcode, types};
use sidestep_sys::Problem;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null;

/// The most kicks in flight: each sends as much of the TX ring as a call may.
const ENTRIES: u32 = 64;

pub(super) struct Sqpoll {
    ring: IoUring,
    underway: u32,
    budget: Budget,
    error: Option<i32>,
}

impl std::fmt::Debug for Sqpoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqpoll").field("underway", &self.underway).finish_non_exhaustive()
    }
}

/// The error text, with the kernel setting that causes it.
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            let switch = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            let value = switch.map_or_else(|_| "not there".to_owned(), |text| text.trim().to_owned());
            format!("{error}; kernel.io_uring_disabled is {value}")
        }
        Some(libc::ENOSYS) => format!("{error}: this kernel is built without io_uring"),
        _ => error.to_string(),
    }
}

impl Sqpoll {
    pub(super) fn start(cpu: Option<u32>, idle_ms: u32, budget: Budget) -> Result<Self, Problem> {
        let mut builder = IoUring::builder();
        builder.setup_sqpoll(idle_ms).dontfork();
        if let Some(cpu) = cpu {
            builder.setup_sqpoll_cpu(cpu);
        }
        let ring = builder.build(ENTRIES).map_err(|error| {
            Problem::failed("cannot start a sending thread in the kernel", why(&error)).next(
                "it needs kernel.io_uring_disabled = 0 and, to be pinned, a CPU that exists; or let the caller kick",
            )
        })?;
        Ok(Self { ring, underway: 0, budget, error: None })
    }

    /// Asks for `pending` descriptors to be sent, by as many calls as needed. Calls beyond the ring's entries are
    /// dropped: the next poll reads the completions of the others and kicks again for the rest.
    #[inline]
    pub(super) fn kick(&mut self, socket: BorrowedFd<'_>, pending: u32, calls: &mut u64) -> io::Result<()> {
        self.reap();
        let send = opcode::Send::new(types::Fd(socket.as_raw_fd()), null(), 0).flags(libc::MSG_DONTWAIT).build();
        let before = self.underway;
        while self.underway < ENTRIES && self.underway - before < self.budget.calls(pending) {
            // SAFETY: the entry has no buffer, and the link closes the socket only after the ring.
            if unsafe { self.ring.submission().push(&send) }.is_err() {
                break;
            }
            self.underway += 1;
        }
        if self.underway != before && self.ring.submission().need_wakeup() {
            *calls += 1;
            self.ring.submit()?;
        }
        self.take_error()
    }

    /// The errors since the last report.
    #[inline]
    pub(super) fn report(&mut self) -> io::Result<()> {
        if self.underway != 0 {
            self.reap();
        }
        self.take_error()
    }

    #[inline]
    fn reap(&mut self) {
        for entry in self.ring.completion() {
            self.underway -= 1;
            match -entry.result() {
                ..=0 | libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR | libc::ECANCELED => {}
                errno => self.error = Some(errno),
            }
        }
    }

    #[inline]
    fn take_error(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}

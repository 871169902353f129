//! Sleep of a reader of a ring that the kernel fills: neither BPF programs nor the module can wake a futex.
//!
//! ```text
//!  reader                                     BPF program
//!  drain the ring buffer                      store the message
//!  store 1 to the flag, fence                 swap the flag with 0: a full barrier
//!  look at the ring: something there? no      it was 1: 8 bytes into the ring buffer, which wakes
//!  poll(2) or epoll(7) on the ring buffer
//! ```
//!
//! One of the two sees the other. The ring buffer is drained before the flag is set, so that no wake-up is drained that was
//! not looked for. A module compares in poll(2) what the reader has seen with what there is, under a lock.

use crate::sync::{Acquire, Relaxed, Release, SeqCst, fence};
use sidestep_sys::memory::{self, Access, Mapping};
use sidestep_sys::words::{Words, WordsView};
use sidestep_sys::{Problem, bpf, packet, ring_device};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A descriptor that becomes readable when there is something to read, for one reader at a time: two who share a doorbell take
/// each other's wake-ups.
pub struct Doorbell(Source);

enum Source {
    Bpf {
        /// The first word: 1 when the reader wants to be woken.
        flag: Words,
        /// The position up to which the ring buffer is read; the reader's.
        drained: Words,
        /// The position up to which it is written; the kernel's.
        filled: WordsView,
        ring_buffer: OwnedFd,
    },
    Device(OwnedFd),
}

impl Doorbell {
    /// A doorbell of a BPF program: an array of one page whose first word is the flag, and a ring buffer. It takes nothing
    /// from the program that others could hold up.
    pub fn bpf(flag_page: OwnedFd, ring_buffer: OwnedFd) -> Result<Self, Problem> {
        require(flag_page.as_fd(), "flag", bpf::MAP_TYPE_ARRAY)?;
        require(ring_buffer.as_fd(), "ring buffer", bpf::MAP_TYPE_RINGBUF)?;
        // The flag has a page, and two stand before the data of the ring buffer.
        let page_bytes = memory::page_bytes();
        let map = |file: &OwnedFd, page: usize, access| {
            let mapped = Mapping::shared_at(file.as_fd(), (page * page_bytes) as u64, page_bytes, access);
            mapped.map_err(|error| cannot_use(format!("its memory cannot be mapped: {error}")))
        };
        let flag = Words::over(map(&flag_page, 0, Access::ReadWrite)?);
        // The mapping keeps it.
        drop(flag_page);
        Ok(Self(Source::Bpf {
            flag,
            drained: Words::over(map(&ring_buffer, 0, Access::ReadWrite)?),
            filled: WordsView::over(map(&ring_buffer, 1, Access::ReadOnly)?),
            ring_buffer,
        }))
    }

    /// The doorbell of the module's device: an open file of this reader alone, not a duplicate of another's.
    pub fn device(file: OwnedFd) -> Result<Self, Problem> {
        let info = ring_device::info(file.as_fd());
        let info = info.map_err(|error| cannot_use(format!("it is not sidestep's device: {error}")))?;
        if info.abi != ring_device::DEVICE_ABI {
            let why =
                format!("the module's ABI version is {}, this program's is {}", info.abi, ring_device::DEVICE_ABI);
            return Err(cannot_use(why));
        }
        Ok(Self(Source::Device(file)))
    }

    /// Asks to be woken; to be called before each sleep. `is_ready` looks at the ring, or at all rings of a feed, and
    /// `sequence` is the number of messages that the reader has read or lost ([`crate::broadcast::Subscriber::sequence`]);
    /// only a device needs it. Returns false if there is something to read, or no wake-up to be had: do not sleep then.
    pub fn request(&self, sequence: u64, is_ready: impl FnOnce() -> bool) -> bool {
        match &self.0 {
            Source::Bpf { flag, drained, filled, .. } => {
                drained.word(0).store(filled.load(0, Acquire), Release);
                flag.word(0).store(1, SeqCst);
                // Partner: the program's swap of the flag after the message.
                fence(SeqCst);
                let is_ready = is_ready();
                if is_ready {
                    // Spares the program a wake-up. If it was faster, the descriptor stays readable until the next request.
                    flag.word(0).store(0, Relaxed);
                }
                !is_ready
            }
            Source::Device(device) => !is_ready() && ring_device::seen(device.as_fd(), sequence).is_ok(),
        }
    }

    /// Sleeps until the descriptor is readable, but not longer than `limit`. Signals end it as well.
    pub fn sleep(&self, limit: Duration) -> io::Result<()> {
        packet::wait_readable([self.fd()], u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The descriptor, for epoll(7): readable from a wake-up until the next [`Doorbell::request`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Source::Bpf { ring_buffer, .. } => ring_buffer.as_fd(),
            Source::Device(device) => device.as_fd(),
        }
    }
}

fn require(object: BorrowedFd<'_>, what: &str, wanted: u32) -> Result<(), Problem> {
    match bpf::map_type(object) {
        Some(found) if found == wanted => Ok(()),
        Some(found) => Err(cannot_use(format!("its {what} is a BPF map of type {found}, not {wanted}"))),
        None => Err(cannot_use(format!("its {what} is not a BPF map"))),
    }
}

fn cannot_use(why: String) -> Problem {
    Problem::failed("cannot use a doorbell", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn other_descriptors_are_refused() {
        let null = || OwnedFd::from(File::open("/dev/null").unwrap());
        let refused = |made: Result<Doorbell, Problem>| made.err().expect("refused").to_string();
        assert!(refused(Doorbell::bpf(null(), null())).contains("its flag is not a BPF map"));
        assert!(refused(Doorbell::device(null())).contains("not sidestep's device"));
    }
}

//! SO_RCVTIMEO and SO_SNDTIMEO of a socket past the kernel, kept beside it: a call that waits does not ask the twin.

use rustix::net::sockopt::{Timeout, socket_timeout};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Both, in nanoseconds; 0: none.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    receive: AtomicU64,
    send: AtomicU64,
    /// Of two threads that set an option at once, the later one has the last look.
    order: Mutex<()>,
}

impl Timeouts {
    /// Takes those of the twin.
    pub(crate) fn follow(&self, twin: BorrowedFd<'_>) {
        let _ordered = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        self.receive.store(asked(twin, Timeout::Recv), Ordering::Relaxed);
        self.send.store(asked(twin, Timeout::Send), Ordering::Relaxed);
    }

    /// One of them; `None`: a call waits for ever.
    pub(crate) fn of(&self, which: Timeout) -> Option<Duration> {
        let nanoseconds = match which {
            Timeout::Recv => self.receive.load(Ordering::Relaxed),
            Timeout::Send => self.send.load(Ordering::Relaxed),
        };
        (nanoseconds != 0).then(|| Duration::from_nanos(nanoseconds))
    }
}

fn asked(twin: BorrowedFd<'_>, which: Timeout) -> u64 {
    let timeout = socket_timeout(twin, which).ok().flatten().unwrap_or_default();
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)
}

//! How a link waits, and who talks to the kernel for it.

use std::time::Duration;

/// How a receive waits for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Sleep in the receive call until data comes.
    #[default]
    Block,
    /// Sleep, but let the kernel poll the device for so long first (SO_BUSY_POLL).
    BusyPoll {
        /// Microseconds.
        microseconds: u32,
    },
    /// Sleep in epoll_wait, then receive.
    Epoll,
    /// Never sleep: every receive returns at once.
    Spin,
}

/// Who talks to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The socket calls: send(2), recv(2).
    #[default]
    Kernel,
    /// io_uring: send and the next receive go down in one call (Linux 6.1).
    Uring,
}

/// What a link is made with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How a receive waits.
    pub waiting: Waiting,
    /// Who talks to the kernel.
    pub backend: Backend,
    /// How long a receive that sleeps does so at the most, and a connect tries.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { waiting: Waiting::default(), backend: Backend::default(), timeout: Duration::from_secs(5) }
    }
}

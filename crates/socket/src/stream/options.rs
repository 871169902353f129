//! Options of a stream: how it waits, who talks to the kernel for it, what its socket is like.

use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The shortest timeout of a socket; SO_RCVTIMEO and SO_SNDTIMEO take zero for none.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_micros(1);

/// The way in which a read waits for data.
///
/// Past the kernel [`Waiting::Block`] and [`Waiting::Epoll`] do not sleep: the call polls the engine until the timeout, as the
/// timers of all its connections need polls. In shared memory and past the kernel a write of `Block` waits for room, too; of
/// kernel sockets a write of `Block` and `BusyPoll` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Sleep in the read until data comes.
    #[default]
    Block,
    /// Sleep, but let the kernel poll the device for so long first (SO_BUSY_POLL): for kernel sockets only.
    BusyPoll {
        /// Microseconds.
        microseconds: u32,
    },
    /// Sleep in epoll_wait, then read.
    Epoll,
    /// Never sleep: every call returns at once.
    Spin,
}

/// The interface to the kernel that a stream uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The socket calls: send(2), recv(2).
    #[default]
    Kernel,
    /// io_uring: send and the next receive go down in one call (Linux 6.1).
    Uring,
}

/// Options of a stream or listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The way in which a read waits. Streams of [`Connecting`](super::Connecting) and [`Listener::accept`](super::Listener::accept)
    /// never wait; there [`Waiting::Epoll`] has rings in shared memory wake a sleeper.
    pub waiting: Waiting,
    /// The kernel's calls that carry it. io_uring is refused by [`Connecting`](super::Connecting) and
    /// [`Listener::accept`](super::Listener::accept): its descriptor tells nobody that bytes have come.
    pub backend: Backend,
    /// The longest wait of a call, and of [`connect`](super::connect) altogether.
    pub timeout: Duration,
    /// TCP_NODELAY, on.
    pub no_delay: bool,
    /// SO_SNDBUF, bytes; the host's default if none is given.
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF, bytes; the host's default if none is given.
    pub receive_buffer: Option<u32>,
    /// SO_KEEPALIVE, off.
    pub keep_alive: bool,
    /// SO_REUSEADDR of a listener, on.
    pub reuse_address: bool,
    /// The address that a connecting socket is bound to.
    pub local: Option<SocketAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            waiting: Waiting::default(),
            backend: Backend::default(),
            timeout: Duration::from_secs(5),
            no_delay: true,
            send_buffer: None,
            receive_buffer: None,
            keep_alive: false,
            reuse_address: true,
            local: None,
        }
    }
}

impl Options {
    /// Returns the same for a thread that idles so: where it sleeps, rings in shared memory are to wake it.
    #[must_use]
    pub fn for_idle(&self, idle: impl Into<IdleStrategy>) -> Self {
        let waiting = if idle.into().parks() { Waiting::Epoll } else { Waiting::Spin };
        Self { waiting, ..*self }
    }

    /// Returns the same for a stream of a thread that sleeps elsewhere: calls never wait, and with [`Waiting::Epoll`] the
    /// descriptor of shared memory becomes readable.
    pub(super) fn without_sleep(&self) -> Self {
        let waiting = if self.waiting == Waiting::Epoll { Waiting::Epoll } else { Waiting::Spin };
        Self { waiting, timeout: Duration::ZERO, ..*self }
    }

    /// Refuses the back-end that streams of [`Connecting`](super::Connecting) and [`Listener::accept`](super::Listener::accept) do
    /// not have.
    ///
    /// # Errors
    /// It is io_uring.
    pub fn check_never_waits(&self, what: &str) -> Result<(), Problem> {
        if self.backend == Backend::Kernel {
            return Ok(());
        }
        Err(Problem::usage(format!("cannot {what}"), "io_uring carries streams that wait in the call alone")
            .next("use connect and Listener::accept_within, or Backend::Kernel"))
    }

    /// Prepares the socket of a stream, which never waits as yet.
    pub(super) fn apply(&self, socket: &Socket, is_tcp: bool) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        if is_tcp {
            socket.set_tcp_nodelay(self.no_delay)?;
            socket.set_keepalive(self.keep_alive)?;
        }
        self.send_buffer.map_or(Ok(()), |bytes| socket.set_send_buffer_size(bytes as usize))?;
        self.receive_buffer.map_or(Ok(()), |bytes| socket.set_recv_buffer_size(bytes as usize))
    }
}

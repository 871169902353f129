//! The kernel twins of TCP: they hold ports, and do everything where the fast path cannot.

use rustix::io::Errno;
use sidestep_stack::tcp::Options;
use sidestep_sys::drop_filter::{self, Owner};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A socket bound to a port: of our own, or a duplicate of the program's. That of a connection never connects and never listens.
#[derive(Debug)]
pub(crate) struct Twin {
    socket: Socket,
    /// Of the filter by which it drops SYNs.
    owner: Owner,
}

/// The same socket as [`Twin`], listening: connections that are not steered come to it.
#[derive(Debug)]
pub(crate) struct KernelListener(Socket);

impl From<Twin> for OwnedFd {
    fn from(twin: Twin) -> Self {
        twin.socket.into()
    }
}

impl Twin {
    fn of(socket: Socket) -> Self {
        Self { socket, owner: Owner::new() }
    }

    /// A socket for a connection; its port is nobody else's.
    pub(crate) fn for_connection(local: Option<SocketAddr>, remote: SocketAddr) -> io::Result<Self> {
        let socket = open(remote)?;
        if let Some(local) = local {
            socket.bind(&local.into())?;
        }
        Ok(Self::of(socket))
    }

    /// A duplicate of a program's own socket, whose flags are the program's.
    pub(crate) fn adopt(socket: OwnedFd) -> Self {
        Self::of(socket.into())
    }

    /// Binds one that is not bound yet.
    pub(crate) fn bind(&self, local: SocketAddr) -> io::Result<()> {
        self.socket.bind(&local.into())
    }

    /// A socket for a listener, not listening yet. One for IPv6 takes IPv6 only.
    pub(crate) fn for_listener(local: SocketAddr) -> io::Result<Self> {
        let socket = bind_listener(local)?;
        if local.port() != 0 {
            return Ok(Self::of(socket));
        }
        // A port that the kernel chose is given up when listening ends, one that was asked for is not: so it is asked for.
        let chosen = socket.local_addr()?.as_socket().ok_or(Errno::AFNOSUPPORT)?;
        Ok(Self::of(bind_listener(chosen)?))
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| Errno::AFNOSUPPORT.into())
    }

    /// A descriptor of the same socket, as the proof that the port is held.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Begins to listen.
    pub(crate) fn listen(&self, backlog: usize) -> io::Result<KernelListener> {
        self.socket.listen(i32::try_from(backlog.max(1)).unwrap_or(i32::MAX))?;
        Ok(KernelListener(self.socket.try_clone()?))
    }

    /// The same, but as if no SYN came: its sender tries again a second later. A socket must listen to prove its port, and a
    /// connection that the kernel took up meanwhile would keep the port from being steered.
    pub(crate) fn listen_dropping_syns(&self, backlog: usize) -> io::Result<KernelListener> {
        self.drop_syns();
        self.listen(backlog)
    }

    /// SYNs that come by the kernel are dropped from now on, as if they were lost on the network.
    pub(crate) fn drop_syns(&self) {
        // Without it those are served that come.
        let _ = drop_filter::attach(self.socket.as_fd(), self.owner);
    }

    /// SYNs that come by the kernel are heard from now on.
    pub(crate) fn accept_syns(&self) {
        // That of a control that was killed in the middle goes, too. There may be none.
        for owner in [self.owner, Owner::CONTROL] {
            let _ = drop_filter::detach(self.socket.as_fd(), owner);
        }
    }

    /// Ends listening. The socket stays bound, so the port stays held (inet_shutdown, Linux); `has_connections`: also one of the kernel's
    /// choice.
    pub(crate) fn unlisten(&self, has_connections: bool) {
        let bound = self.local();
        // One that does not listen any more is as wanted.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let (Ok(bound), true) = (bound, has_connections) {
            self.hold_again(bound);
        }
    }

    /// Binds to a port of the kernel's choice again: that is given back when listening ends (tcp_disconnect, linux/net/ipv4/tcp.c), and
    /// control withdraws the steering entries of connections whose port nobody holds.
    fn hold_again(&self, bound: SocketAddr) {
        let _ = self.socket.set_reuse_address(true);
        // A port that was named is still held (EINVAL). Where somebody else was faster the connections end.
        let _ = self.socket.bind(&bound.into());
    }

    /// Begins to connect in the kernel.
    pub(crate) fn connect(self, remote: SocketAddr, options: &Options) -> io::Result<Socket> {
        apply(&self.socket, options)?;
        match self.socket.connect(&remote.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
            _ => Ok(self.socket),
        }
    }
}

impl KernelListener {
    /// A connection that the kernel has, and where it comes from.
    pub(crate) fn accept(&self, options: &Options) -> io::Result<(Socket, SocketAddr)> {
        let (socket, remote) = self.0.accept()?;
        socket.set_nonblocking(true)?;
        apply(&socket, options)?;
        let remote = remote.as_socket().ok_or(Errno::AFNOSUPPORT)?;
        Ok((socket, remote))
    }
}

impl AsFd for KernelListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn bind_listener(local: SocketAddr) -> io::Result<Socket> {
    let socket = open(local)?;
    // As servers do: old connections in the kernel's TIME-WAIT do not keep a new one from listening.
    socket.set_reuse_address(true)?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&local.into())?;
    Ok(socket)
}

/// A socket that can become a connection to `remote`.
pub(crate) fn unconnected(remote: SocketAddr) -> io::Result<Socket> {
    open(remote)
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The options that the kernel's sockets have, too. Buffers and congestion control stay as the host is set up.
pub(crate) fn apply(socket: &Socket, options: &Options) -> io::Result<()> {
    socket.set_tcp_nodelay(options.nodelay)?;
    socket.set_tcp_cork(options.cork)?;
    socket.set_keepalive(options.keepalive.is_some())?;
    if let Some(keepalive) = options.keepalive {
        // Whole seconds, at least one, are what the kernel counts in.
        let whole = |ns: u64| Duration::from_secs(ns.div_ceil(1_000_000_000).max(1));
        let wanted =
            TcpKeepalive::new().with_time(whole(keepalive.idle_ns)).with_interval(whole(keepalive.interval_ns));
        socket.set_tcp_keepalive(&wanted.with_retries(keepalive.probes_max))?;
    }
    let timeout = (options.user_timeout_ns != 0).then(|| Duration::from_nanos(options.user_timeout_ns));
    socket.set_tcp_user_timeout(Some(timeout.unwrap_or(Duration::ZERO)))?;
    socket.set_linger(options.abort_on_close.then_some(Duration::ZERO))?;
    if options.segment_bytes_max != 0 {
        socket.set_tcp_mss(u32::from(options.segment_bytes_max))?;
    }
    Ok(())
}

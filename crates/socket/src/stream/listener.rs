//! Listening and accepting, without waiting and in a call that waits.

use super::endpoint::literal;
use super::kernel::KernelStream;
use super::shm::{Refusals, Rings, Settings, ShmListener, ShmStream};
use super::socket_file::bind_file;
use super::xdp::{self, XdpStream, of_tcp};
use super::{Backend, Credentials, Endpoint, Io, Options, SocketFile, Stream, is_retry};
use crate::Queues;
use crate::tcp::TcpListener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_sys::Problem;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that the kernel keeps until they are accepted: those of a venue that all come back at once, and of strangers who
/// come at the same time. The kernel takes less where net.core.somaxconn says so.
const BACKLOG: i32 = 4096;
/// The same past the kernel, where each costs memory of ours.
const XDP_BACKLOG: usize = 128;

/// A listening endpoint. A drop ends it, but past the kernel: there [`Listener::close`] does.
pub struct Listener {
    /// Removed while the socket still listens: a successor does not take the file for a dead one's.
    _file: Option<SocketFile>,
    carrier: Carrier,
    endpoint: Endpoint,
    options: Options,
}

enum Carrier {
    Kernel(Socket),
    Shm(ShmListener),
    Xdp(TcpListener),
}

/// An accepted stream and where it came from.
pub struct Accepted {
    /// The stream.
    pub stream: Stream,
    /// The peer's address; `None` of Unix sockets and shared memory.
    pub peer: Option<SocketAddr>,
    /// The peer's process and user, over a Unix socket and shared memory.
    pub credentials: Option<Credentials>,
}

impl Listener {
    /// Listens on `endpoint`. Port 0 lets the kernel choose; the socket file of a listener that has died is replaced.
    ///
    /// # Errors
    /// The endpoint cannot be had.
    pub fn bind(io: &mut Io, endpoint: &Endpoint, options: &Options) -> Result<Self, Problem> {
        let fail = |error: io::Error| {
            Problem::failed(format!("cannot listen on {endpoint}"), error).next("choose another address")
        };
        if let Endpoint::Xdp { .. } = endpoint {
            xdp::check(endpoint, options)?;
        }
        let mut endpoint = endpoint.clone();
        let carrier = match &mut endpoint {
            Endpoint::Tcp { host, port } => {
                Carrier::Kernel(bind_tcp(host, port, options).and_then(listen).map_err(fail)?)
            }
            Endpoint::Unix(path) => Carrier::Kernel(
                Socket::new(Domain::UNIX, Type::STREAM, None)
                    .and_then(|socket| bind_file(socket, path))
                    .and_then(listen)
                    .map_err(fail)?,
            ),
            Endpoint::Shm(path) => Carrier::Shm(ShmListener::bind(path, Settings::default(), options)?),
            Endpoint::Xdp { interface, host, port } => {
                let address = literal(host, *port)?;
                // Packets to a port come by any queue.
                let mut tcp = io.open_engine(interface, Queues::Every)?.tcp();
                let defaults = tcp.defaults();
                let listener = tcp.listen(address, XDP_BACKLOG, defaults)?;
                *port = tcp.local(listener).map_or(*port, |local| local.port());
                Carrier::Xdp(listener)
            }
        };
        let file = match &endpoint {
            Endpoint::Unix(path) => Some(SocketFile::at(path).map_err(fail)?),
            _ => None,
        };
        Ok(Self { carrier, endpoint, options: *options, _file: file })
    }

    /// Listens for streams in shared memory at `path`, with rings that are as `settings` say.
    ///
    /// # Errors
    /// The path cannot be had; `options` ask for what shared memory cannot do.
    pub fn bind_shm(path: &Path, settings: Settings, options: &Options) -> Result<Self, Problem> {
        let carrier = Carrier::Shm(ShmListener::bind(path, settings, options)?);
        Ok(Self { carrier, endpoint: Endpoint::Shm(path.to_owned()), options: *options, _file: None })
    }

    /// Returns where it listens, with the port that the kernel chose.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the next connection, whose calls never wait; `None` when there is none. In shared memory the first call starts a
    /// thread that accepts.
    ///
    /// # Errors
    /// Accepting failed: EMFILE and ENFILE for want of descriptors. `Unsupported` for [`Backend::Uring`](super::Backend::Uring).
    pub fn accept(&mut self, io: &mut Io) -> io::Result<Option<Accepted>> {
        match &mut self.carrier {
            Carrier::Kernel(_) if self.options.backend == Backend::Uring => Err(never_waits()),
            Carrier::Kernel(listener) => accept_by_kernel(listener, &self.options),
            Carrier::Shm(listener) => match listener.next()? {
                Some(taken) => over_rings(taken, &self.options.without_sleep()).map(Some),
                None => Ok(None),
            },
            Carrier::Xdp(listener) => accept_past_kernel(*listener, io),
        }
    }

    /// Waits for a connection, whose calls wait as the options say; past the kernel the engine is polled meanwhile.
    ///
    /// # Errors
    /// `WouldBlock` when none came within `timeout`; accepting failed.
    pub fn accept_within(&mut self, io: &mut Io, timeout: Duration) -> io::Result<Accepted> {
        self.accept_from(io, timeout, None)
    }

    /// As [`Listener::accept_within`], but a connection from another host than `only` is closed unread. A Unix socket has no
    /// address: who may connect to it is decided by its file.
    ///
    /// # Errors
    /// As [`Listener::accept_within`].
    pub fn accept_from(&mut self, io: &mut Io, timeout: Duration, only: Option<IpAddr>) -> io::Result<Accepted> {
        // A time beyond what the clock can name is for ever.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            match self.next_within(io, left)? {
                Some(Accepted { stream, peer, credentials }) if is_from(peer, only) => {
                    let stream = stream.with_waiting(&self.options).map_err(io::Error::other)?;
                    return Ok(Accepted { stream, peer, credentials });
                }
                Some(mut stranger) => drop(stranger.stream.abort(io)),
                None => {}
            }
            if left.is_zero() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }

    fn next_within(&mut self, io: &mut Io, timeout: Duration) -> io::Result<Option<Accepted>> {
        io.poll().map_err(io::Error::other)?;
        let timeout = io.slice(timeout);
        match &mut self.carrier {
            Carrier::Kernel(listener) => {
                wait_readable(listener, timeout)?;
                accept_by_kernel(listener, &self.options)
            }
            Carrier::Shm(listener) => match listener.next_within(timeout)? {
                Some(taken) => over_rings(taken, &self.options).map(Some),
                None => Ok(None),
            },
            Carrier::Xdp(listener) => accept_past_kernel(*listener, io),
        }
    }

    /// Returns the connectors refused so far; only a listener in shared memory refuses any.
    pub fn refusals(&self) -> Refusals {
        match &self.carrier {
            Carrier::Shm(listener) => listener.refusals(),
            Carrier::Kernel(_) | Carrier::Xdp(_) => Refusals::default(),
        }
    }

    /// Returns by which path connections come, and why, where they are to come past the kernel.
    pub fn path(&self, io: &mut Io) -> Option<String> {
        let (Carrier::Xdp(listener), Some(engine)) = (&self.carrier, io.engine_mut()) else { return None };
        let path = engine.tcp().listener_path(*listener).ok()?;
        // At length, as the reasons of a listener are mostly the engine's.
        let at_length = engine.refusal().filter(|_| !path.is_accelerated()).map(|(_, text)| format!(" ({text})"));
        Some(format!("{path}{}", at_length.unwrap_or_default()))
    }

    /// Ends it past the kernel: the port is free again, and connections that it has accepted go on. Every other listener ends when it
    /// is dropped.
    ///
    /// # Errors
    /// Control refuses the steering entries of its connections: close these first. `io` is not the one that it was made with.
    pub fn close(&mut self, io: &mut Io) -> Result<(), Problem> {
        let Carrier::Xdp(listener) = &self.carrier else { return Ok(()) };
        let engine = io.connected_engine().map_err(|error| Problem::failed("cannot close a listener", error))?;
        engine.tcp().close_listener(*listener)
    }

    /// Returns what becomes readable when a connection comes; `None` where [`Listener::accept`] has to be tried.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.carrier {
            Carrier::Kernel(socket) => Some(socket.as_fd()),
            Carrier::Shm(_) | Carrier::Xdp(_) => None,
        }
    }
}

fn never_waits() -> io::Error {
    let why = "io_uring carries streams that wait in the call alone: use Listener::accept_within, or Backend::Kernel";
    io::Error::new(ErrorKind::Unsupported, why)
}

fn is_from(peer: Option<SocketAddr>, only: Option<IpAddr>) -> bool {
    match (only, peer) {
        (Some(only), Some(peer)) => only.to_canonical() == peer.ip().to_canonical(),
        _ => true,
    }
}

fn wait_readable(listener: &Socket, timeout: Duration) -> io::Result<()> {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn over_rings((rings, credentials): (Rings, Option<Credentials>), options: &Options) -> io::Result<Accepted> {
    let mut stream = ShmStream::new(rings);
    stream.set_waiting(options)?;
    Ok(Accepted { stream: Stream::Shm(stream), peer: None, credentials })
}

fn accept_by_kernel(listener: &Socket, options: &Options) -> io::Result<Option<Accepted>> {
    match listener.accept() {
        Ok((socket, peer)) => {
            let peer = peer.as_socket();
            options.apply(&socket, peer.is_some())?;
            let credentials = if peer.is_none() { Credentials::of_peer(socket.as_fd()).ok() } else { None };
            let stream = Stream::Kernel(KernelStream::non_blocking(socket));
            Ok(Some(Accepted { stream, peer, credentials }))
        }
        Err(error) if is_retry(&error) || error.kind() == ErrorKind::ConnectionAborted => Ok(None),
        Err(error) => Err(error),
    }
}

fn accept_past_kernel(listener: TcpListener, io: &mut Io) -> io::Result<Option<Accepted>> {
    let engine = io.connected_engine()?;
    let Some(stream) = engine.tcp().accept(listener).map_err(of_tcp)? else { return Ok(None) };
    let (_, peer) = engine.tcp().ends(stream).map_err(of_tcp)?;
    Ok(Some(Accepted { stream: Stream::Xdp(XdpStream::new(io, stream)), peer: Some(peer), credentials: None }))
}

fn bind_tcp(host: &str, port: &mut u16, options: &Options) -> io::Result<Socket> {
    let address = first_address(if host.is_empty() { "0.0.0.0" } else { host }, *port)?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(options.reuse_address)?;
    socket.bind(&address.into())?;
    *port = socket.local_addr().ok().and_then(|local| local.as_socket()).map_or(*port, |local| local.port());
    Ok(socket)
}

fn listen(socket: Socket) -> io::Result<Socket> {
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn first_address(host: &str, port: u16) -> io::Result<SocketAddr> {
    (host, port).to_socket_addrs()?.next().ok_or_else(|| ErrorKind::AddrNotAvailable.into())
}

//! Listening and accepting without waiting.

use super::endpoint::literal;
use super::kernel::KernelLink;
use super::shm::AcceptThread;
use super::socket_file::bind_file;
use super::xdp::{XdpStream, of_tcp};
use super::{Credentials, Endpoint, Io, Options, SocketFile, Stream, is_retry};
use crate::Queues;
use crate::tcp::TcpListener;
use sidestep_sys::Problem;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};

/// Connections that the kernel keeps until they are accepted: those of a venue that all come back at once, and of strangers who
/// come at the same time. The kernel takes less where net.core.somaxconn says so.
const BACKLOG: i32 = 4096;
/// The same past the kernel, where each costs memory of ours.
const XDP_BACKLOG: usize = 128;

/// A listening endpoint.
pub struct Listener {
    carrier: Carrier,
    endpoint: Endpoint,
    options: Options,
    /// Removed with the listener.
    _file: Option<SocketFile>,
}

enum Carrier {
    Kernel(Socket),
    Shm(AcceptThread),
    Xdp(TcpListener),
}

/// An accepted stream and where it came from.
pub struct Accepted {
    /// The stream, which never waits.
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
        options.check_backend(&format!("listen on {endpoint}"))?;
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
            Endpoint::Shm(path) => Carrier::Shm(AcceptThread::bind(path, &options.without_sleep())?),
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

    /// Returns where it listens, with the port that the kernel chose.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the next connection; `None` when there is none.
    ///
    /// # Errors
    /// Accepting failed: EMFILE and ENFILE for want of descriptors.
    pub fn accept(&mut self, io: &mut Io) -> io::Result<Option<Accepted>> {
        match &self.carrier {
            Carrier::Kernel(listener) => accept_by_kernel(listener, &self.options),
            Carrier::Shm(thread) => Ok(thread.next()),
            Carrier::Xdp(listener) => accept_past_kernel(*listener, io),
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

    /// Returns what becomes readable when a connection comes; `None` where [`Listener::accept`] has to be tried.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.carrier {
            Carrier::Kernel(socket) => Some(socket.as_fd()),
            Carrier::Shm(_) | Carrier::Xdp(_) => None,
        }
    }
}

fn accept_by_kernel(listener: &Socket, options: &Options) -> io::Result<Option<Accepted>> {
    match listener.accept() {
        Ok((socket, peer)) => {
            let peer = peer.as_socket();
            options.apply(&socket, peer.is_some())?;
            let credentials = if peer.is_none() { Credentials::of_peer(socket.as_fd()).ok() } else { None };
            let stream = Stream::Kernel(KernelLink::non_blocking(socket));
            Ok(Some(Accepted { stream, peer, credentials }))
        }
        Err(error) if is_retry(&error) || error.kind() == ErrorKind::ConnectionAborted => Ok(None),
        Err(error) => Err(error),
    }
}

fn accept_past_kernel(listener: TcpListener, io: &mut Io) -> io::Result<Option<Accepted>> {
    let Some(engine) = io.engine_mut() else { return Ok(None) };
    let Some(stream) = engine.tcp().accept(listener).map_err(of_tcp)? else { return Ok(None) };
    let peer = engine.tcp().ends(stream).ok().map(|(_, peer)| peer);
    Ok(Some(Accepted { stream: Stream::Xdp(XdpStream::new(io, stream)), peer, credentials: None }))
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

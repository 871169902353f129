//! Listening and connecting, never waiting.

use super::endpoint::Endpoint;
use super::source::Source;
use super::wire::{Io, Wire, is_retry, of_tcp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_socket::stream::shm::Acceptor;
use sidestep_socket::stream::{Address, Credentials, Link, Options, SocketFile, Waiting};
use sidestep_socket::{EngineOptions, Queues, tcp};
use sidestep_stack::tcp::Readiness;
use sidestep_sys::{Problem, cpu};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections that the kernel keeps until they are accepted: those of a venue that all come back at once, and of strangers who
/// come at the same time. The kernel takes less where net.core.somaxconn says so.
const BACKLOG: i32 = 4096;
/// The same past the kernel, where each costs memory of ours.
const XDP_BACKLOG: usize = 128;
/// Connections in shared memory that wait to be taken up.
const SHM_WAITING_MAX: usize = 64;
/// How often the thread that accepts shared memory looks whether it is to end.
const SHM_LOOK: Duration = Duration::from_millis(50);

/// Options of a connection's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// TCP_NODELAY. "SocketNodelay", yes
    pub no_delay: bool,
    /// SO_SNDBUF, bytes. "SocketSendBufferSize"
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF, bytes. "SocketReceiveBufferSize"
    pub receive_buffer: Option<u32>,
    /// SO_KEEPALIVE. "SocketKeepAlive", no
    pub keep_alive: bool,
    /// SO_REUSEADDR of a listener. "SocketReuseAddress", yes
    pub reuse_address: bool,
    /// How waiting for shared memory is done: a spinning engine takes [`Waiting::Spin`].
    pub waiting: Waiting,
    /// Address that an initiator's socket is bound to. "SocketLocalHost", "SocketLocalPort"
    pub local: Option<SocketAddr>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            no_delay: true,
            send_buffer: None,
            receive_buffer: None,
            keep_alive: false,
            reuse_address: true,
            waiting: Waiting::Spin,
            local: None,
        }
    }
}

impl SocketOptions {
    fn apply(&self, socket: &Socket, is_tcp: bool) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        if is_tcp {
            socket.set_tcp_nodelay(self.no_delay)?;
            socket.set_keepalive(self.keep_alive)?;
        }
        self.send_buffer.map_or(Ok(()), |bytes| socket.set_send_buffer_size(bytes as usize))?;
        self.receive_buffer.map_or(Ok(()), |bytes| socket.set_recv_buffer_size(bytes as usize))
    }

    fn link(&self) -> Options {
        // A timeout of zero: the engine has its own place to sleep.
        Options { waiting: self.waiting, timeout: Duration::ZERO, ..Options::default() }
    }
}

/// A place where connections come in.
pub(super) struct Listening {
    listener: Listener,
    endpoint: Endpoint,
    options: SocketOptions,
    /// Removed with the listener.
    _file: Option<SocketFile>,
}

enum Listener {
    Socket(Socket),
    Shm(ShmListener),
    Xdp(tcp::TcpListener),
}

impl Listening {
    pub(super) fn bind(io: &mut Io, endpoint: &Endpoint, options: &SocketOptions) -> Result<Self, Problem> {
        let fail = |error: io::Error| {
            Problem::failed(format!("cannot listen on {endpoint}"), error).next("choose another address")
        };
        let mut endpoint = endpoint.clone();
        let listener = match &mut endpoint {
            Endpoint::Tcp { host, port } => {
                let address = first_address(if host.is_empty() { "0.0.0.0" } else { host }, *port).map_err(fail)?;
                let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).map_err(fail)?;
                socket.set_reuse_address(options.reuse_address).map_err(fail)?;
                socket.bind(&address.into()).map_err(fail)?;
                *port =
                    socket.local_addr().ok().and_then(|local| local.as_socket()).map_or(*port, |local| local.port());
                Listener::Socket(listen(socket).map_err(fail)?)
            }
            Endpoint::Unix(path) => Listener::Socket(bind_unix(path).and_then(listen).map_err(fail)?),
            Endpoint::Shm(path) => Listener::Shm(ShmListener::open(path, options)?),
            Endpoint::Xdp { interface, host, port } => {
                let address = literal(host, *port)?;
                // Packets to a port come by any queue.
                let engine = xdp(io, interface, Queues::Every)?;
                let tcp_options = engine.tcp().defaults();
                let listener = engine.tcp().listen(address, XDP_BACKLOG, tcp_options)?;
                *port = engine.tcp().local(listener).map_or(*port, |local| local.port());
                Listener::Xdp(listener)
            }
        };
        let file = match &endpoint {
            Endpoint::Unix(path) => SocketFile::of(&Address::Unix(path.clone())).map_err(fail)?,
            _ => None,
        };
        Ok(Self { listener, endpoint, options: options.clone(), _file: file })
    }

    /// Where it listens, with the port that the kernel chose.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// A connection and where it came from, if one has come.
    pub(super) fn accept(&mut self, io: &mut Io) -> io::Result<Option<(Wire, Option<IpAddr>, Source)>> {
        match &mut self.listener {
            Listener::Socket(listener) => match listener.accept() {
                Ok((socket, peer)) => {
                    let peer = peer.as_socket().map(|peer| peer.ip());
                    self.options.apply(&socket, peer.is_some())?;
                    let source =
                        peer.map_or_else(|| local_source(Credentials::of_peer(socket.as_fd()).ok()), Source::host);
                    Ok(Some((Wire::Socket(socket), peer, source)))
                }
                Err(error) if is_retry(&error) || error.kind() == ErrorKind::ConnectionAborted => Ok(None),
                Err(error) => Err(error),
            },
            Listener::Shm(listener) => {
                Ok(listener.links.try_recv().ok().map(|(link, who)| (Wire::Shm(link), None, local_source(who))))
            }
            Listener::Xdp(listener) => {
                let Some(engine) = &mut io.xdp else { return Ok(None) };
                let Some(stream) = engine.tcp().accept(*listener).map_err(of_tcp)? else { return Ok(None) };
                let peer = engine.tcp().ends(stream).ok().map(|(_, peer)| peer.ip());
                let source = peer.map_or_else(|| local_source(None), Source::host);
                Ok(Some((Wire::Xdp(stream), peer, source)))
            }
        }
    }

    /// Which way connections come, and why, where they are to come past the kernel.
    pub(super) fn path(&self, io: &mut Io) -> Option<String> {
        let (Listener::Xdp(listener), Some(engine)) = (&self.listener, &mut io.xdp) else { return None };
        let path = engine.tcp().listener_path(*listener).ok()?;
        // At length, as the reasons of a listener are mostly the engine's.
        let at_length = engine.refusal().filter(|_| !path.is_accelerated()).map(|(_, text)| format!(" ({text})"));
        Some(format!("{path}{}", at_length.unwrap_or_default()))
    }

    /// What becomes readable when somebody connects; shared memory and what is past the kernel are looked at instead.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.listener {
            Listener::Socket(socket) => Some(socket.as_fd()),
            Listener::Shm(_) | Listener::Xdp(_) => None,
        }
    }
}

fn local_source(who: Option<Credentials>) -> Source {
    let uid = who.map_or(u32::MAX, |who| who.uid);
    Source::Local { uid, pid: who.and_then(|who| who.pid).unwrap_or(0) }
}

fn listen(socket: Socket) -> io::Result<Socket> {
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Binds a Unix socket; a name that nobody answers to any more is taken over.
fn bind_unix(path: &Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    match socket.bind(&address) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            let refuses = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
            if is_socket(path) && probe.connect(&address).is_err_and(refuses) {
                std::fs::remove_file(path)?;
                socket.bind(&address)?;
                return Ok(socket);
            }
            Err(error)
        }
        other => other.map(|()| socket),
    }
}

/// Whether a socket stands there. Connecting to any other file is refused, too, and that one is somebody's.
pub(super) fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket())
}

fn literal(host: &str, port: u16) -> Result<SocketAddr, Problem> {
    let address: Result<IpAddr, _> = host.parse();
    let address = address.map_err(|_| {
        Problem::usage(format!("cannot use {host} past the kernel"), "it is no IP address").next("name an address")
    })?;
    Ok(SocketAddr::new(address, port))
}

fn first_address(host: &str, port: u16) -> io::Result<SocketAddr> {
    (host, port).to_socket_addrs()?.next().ok_or_else(|| ErrorKind::AddrNotAvailable.into())
}

/// The engine past the kernel, opened at its first use. There is one for each thread, and so one interface. Acceptors come before
/// what dials, so its queues are those that a port needs where there is one.
fn xdp<'a>(io: &'a mut Io, interface: &str, queues: Queues) -> Result<&'a mut sidestep_socket::Engine, Problem> {
    if io.xdp.is_none() {
        // The thread that talks to control is not to wait for one that spins.
        let control_agent_cpu = cpu::helper_cpus(&cpu::allowed()).and_then(|others| others.first().copied());
        let options =
            EngineOptions { name: "sidestep fix".into(), queues, control_agent_cpu, ..EngineOptions::on(interface) };
        io.xdp = Some(sidestep_socket::Engine::open(&options)?);
    }
    io.xdp.as_mut().ok_or_else(|| Problem::failed("cannot bypass the kernel", "the engine is gone"))
}

/// Accepts shared memory on a thread of its own: a connector that says nothing holds up nobody else.
struct ShmListener {
    links: Receiver<(Box<dyn Link>, Option<Credentials>)>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ShmListener {
    fn open(path: &Path, options: &SocketOptions) -> Result<Self, Problem> {
        let mut acceptor = Acceptor::bind(path, &options.link())?;
        let (sender, links) = sync_channel(SHM_WAITING_MAX);
        let end = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&end);
        let maker = cpu::allowed();
        let work = move || {
            cpu::move_to_helper_cpus(&maker);
            while !asked.load(Ordering::Relaxed) {
                match acceptor.accept(SHM_LOOK) {
                    // More than can wait are dropped, which their connectors see.
                    Ok(accepted) => drop(sender.try_send((accepted.link, accepted.credentials))),
                    Err(error) if is_retry(&error) || error.kind() == ErrorKind::TimedOut => {}
                    Err(_) => std::thread::sleep(SHM_LOOK),
                }
            }
        };
        let thread = std::thread::Builder::new().name("fix-shm-accept".into()).spawn(work);
        let thread = thread.map_err(|error| Problem::failed("cannot accept shared memory", error))?;
        Ok(Self { links, end, thread: Some(thread) })
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection on its way.
pub(super) enum Connecting {
    /// The name is being looked up, which may take long, on a thread of its own.
    Resolving(Receiver<io::Result<Vec<SocketAddr>>>),
    /// TCP by the kernel; other addresses of the same name follow.
    Socket(Socket, Vec<SocketAddr>),
    /// TCP past the kernel.
    Xdp(tcp::TcpStream),
    /// Done.
    Ready(Wire),
}

impl Connecting {
    /// Begins to connect.
    pub(super) fn begin(io: &mut Io, endpoint: &Endpoint, options: &SocketOptions) -> Result<Self, Problem> {
        let fail = |error: io::Error| Problem::failed(format!("cannot connect to {endpoint}"), error);
        match endpoint {
            Endpoint::Tcp { host, port } => match host.parse::<IpAddr>() {
                Ok(address) => next_address(vec![SocketAddr::new(address, *port)], options).map_err(fail),
                Err(_) => resolve(host.clone(), *port).map_err(fail),
            },
            Endpoint::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail)?;
                options.apply(&socket, false).map_err(fail)?;
                let address = SockAddr::unix(path).map_err(fail)?;
                socket.connect(&address).map_err(fail)?;
                Ok(Self::Ready(Wire::Socket(socket)))
            }
            Endpoint::Shm(path) => {
                let link = sidestep_socket::stream::connect(&Address::Shm(path.clone()), &options.link())?;
                Ok(Self::Ready(Wire::Shm(link)))
            }
            Endpoint::Xdp { interface, host, port } => {
                let address = literal(host, *port)?;
                let engine = xdp(io, interface, Queues::Any)?;
                let tcp_options = engine.tcp().defaults();
                let stream = engine.tcp().connect(address, options.local, tcp_options)?;
                Ok(Self::Xdp(stream))
            }
        }
    }

    /// Gives the attempt up. A stream past the kernel is only a name for what its engine has: that has to go, too.
    pub(super) fn abandon(self, io: &mut Io) {
        if let (Self::Xdp(stream), Some(engine)) = (self, &mut io.xdp) {
            // One that is gone already is as wanted.
            let _ = engine.tcp().abort(stream);
        }
    }

    /// Goes on; a wire once there is one.
    pub(super) fn poll(self, io: &mut Io, options: &SocketOptions) -> io::Result<Self> {
        match self {
            Self::Resolving(answer) => match answer.try_recv() {
                Ok(addresses) => next_address(addresses?, options),
                Err(std::sync::mpsc::TryRecvError::Empty) => Ok(Self::Resolving(answer)),
                Err(_) => Err(ErrorKind::AddrNotAvailable.into()),
            },
            Self::Socket(socket, others) => {
                if !is_writable(&socket)? {
                    return Ok(Self::Socket(socket, others));
                }
                match socket.take_error()? {
                    None => Ok(Self::Ready(Wire::Socket(socket))),
                    Some(error) if others.is_empty() => Err(error),
                    Some(_) => next_address(others, options),
                }
            }
            Self::Xdp(stream) => match is_connected(io, stream) {
                Ok(true) => Ok(Self::Ready(Wire::Xdp(stream))),
                Ok(false) => Ok(Self::Xdp(stream)),
                Err(error) => {
                    Self::Xdp(stream).abandon(io);
                    Err(error)
                }
            },
            ready @ Self::Ready(_) => Ok(ready),
        }
    }
}

fn is_connected(io: &mut Io, stream: tcp::TcpStream) -> io::Result<bool> {
    let Some(engine) = &mut io.xdp else { return Err(ErrorKind::NotConnected.into()) };
    if let Some(error) = engine.tcp().take_error(stream).map_err(of_tcp)? {
        return Err(of_tcp(error));
    }
    Ok(engine.tcp().readiness(stream).map_err(of_tcp)?.has(Readiness::WRITABLE))
}

fn next_address(mut addresses: Vec<SocketAddr>, options: &SocketOptions) -> io::Result<Connecting> {
    if addresses.is_empty() {
        return Err(ErrorKind::AddrNotAvailable.into());
    }
    let address = addresses.remove(0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(local) = options.local {
        socket.bind(&local.into())?;
    }
    options.apply(&socket, true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) if addresses.is_empty() => return Err(error),
        Err(_) => return next_address(addresses, options),
    }
    Ok(Connecting::Socket(socket, addresses))
}

fn resolve(host: String, port: u16) -> io::Result<Connecting> {
    let (sender, answer) = sync_channel(1);
    let work = move || drop(sender.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect)));
    std::thread::Builder::new().name("fix-resolve".into()).spawn(work)?;
    Ok(Connecting::Resolving(answer))
}

fn is_writable(socket: &Socket) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

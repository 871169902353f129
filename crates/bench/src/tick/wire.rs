//! The exchange's end of a slice: the lines of the feed out, one stream of orders in. By the kernel, or past it by one engine.

use crate::bypass::{Device, Load, StackListener, wait_for_route};
use crate::path::Path;
use sidestep_socket::Handle;
use sidestep_socket::datagram::{DatagramSocket, UdpPort};
use sidestep_socket::stream::{Endpoint, Io, Listener, Options, Stream, Waiting, is_retry};
use sidestep_stack::tcp::Config;
use sidestep_sys::Problem;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

/// The time that the trader has to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The longest wait of a call on a stream that is not measured.
const PATIENCE: Duration = Duration::from_millis(100);

/// An exchange that listens for its trader.
pub(super) enum Door {
    /// By the kernel.
    Kernel { io: Box<Io>, listener: Box<Listener>, options: Options },
    /// Past the kernel.
    Stack(Box<StackListener>),
}

impl Door {
    /// Listens by the kernel, as `path` says.
    pub(super) fn by_kernel(local: IpAddr, path: &Path) -> Result<Self, Problem> {
        // It looks at a schedule itself: no call of it waits, whatever the path.
        let options =
            Options { waiting: Waiting::Spin, backend: path.backend, timeout: PATIENCE, ..Options::default() };
        let mut io = Box::default();
        let listener = Box::new(Listener::bind(&mut io, &Endpoint::from(SocketAddr::new(local, 0)), &options)?);
        Ok(Self::Kernel { io, listener, options })
    }

    /// Listens past the kernel.
    pub(super) fn past_kernel(device: &Device, local: IpAddr) -> Result<Self, Problem> {
        let listener = StackListener::open(device, local, Load::Feed, Config::latency())?;
        Ok(Self::Stack(Box::new(listener)))
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Kernel { listener, .. } => listener.endpoint().port().unwrap_or_default(),
            Self::Stack(listener) => listener.port(),
        }
    }

    /// Returns what a reader of the results must know of its way past the kernel.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Kernel { .. } => None,
            Self::Stack(listener) => Some(listener.note()),
        }
    }

    /// Waits for the trader, the only one who may connect, and prepares the way to the groups.
    pub(super) fn meet(
        self,
        (local, trader): (Ipv4Addr, IpAddr),
        groups: &[SocketAddrV4],
        one_namespace: bool,
    ) -> Result<Wire, Problem> {
        match self {
            Self::Kernel { mut io, mut listener, options } => {
                let line = |group: &SocketAddrV4| {
                    UdpPort::bind(SocketAddr::new(local.into(), 0))?.connect_group(
                        *group,
                        local,
                        one_namespace,
                        &options,
                    )
                };
                let lines = Lines::Kernel(groups.iter().map(line).collect::<Result<_, _>>()?);
                let accepted = listener.accept_from(&mut io, CONNECT_MAX, Some(trader)).map_err(not_connected)?;
                Ok(Wire { io, lines, stream: accepted.stream })
            }
            Self::Stack(listener) => {
                let link = listener.accept(CONNECT_MAX, trader)?;
                let (mut io, stream) = (link.io, link.stream);
                let engine = io.engine_mut().ok_or_else(|| not_connected(io::ErrorKind::NotConnected.into()))?;
                let socket = engine.bind(SocketAddr::new(local.into(), 0), &Default::default())?;
                let groups: Vec<SocketAddr> = groups.iter().copied().map(SocketAddr::V4).collect();
                groups.iter().try_for_each(|group| wait_for_route(engine, socket, *group))?;
                Ok(Wire { io, lines: Lines::Stack { socket, groups }, stream })
            }
        }
    }
}

fn not_connected(why: io::Error) -> Problem {
    Problem::failed("the trader did not connect", why).next("see what the peer printed, and whether its host is up")
}

/// The lines of the feed.
enum Lines {
    Kernel(Vec<DatagramSocket>),
    Stack { socket: Handle, groups: Vec<SocketAddr> },
}

/// The connected exchange.
pub(super) struct Wire {
    io: Box<Io>,
    lines: Lines,
    stream: Stream,
}

impl Wire {
    /// Hands a datagram over to the line; it has left, or is with the sender, when this returns.
    #[inline]
    pub(super) fn send(&mut self, line: usize, bytes: &[u8]) -> io::Result<()> {
        match &mut self.lines {
            Lines::Kernel(lines) => {
                let line = lines.get_mut(line).ok_or(io::ErrorKind::NotConnected)?;
                line.send(&mut self.io, bytes)?;
                line.flush(&mut self.io)
            }
            Lines::Stack { socket, groups } => {
                let engine = self.io.engine_mut().ok_or(io::ErrorKind::NotConnected)?;
                engine.put(*socket, bytes, groups.get(line).copied())?;
                engine.flush().map_err(io::Error::from)
            }
        }
    }

    /// Receives what the trader has sent; `WouldBlock` when that is nothing.
    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(&mut self.io, buffer)
    }

    /// Sends an answer of the session, before the slice.
    pub(super) fn answer(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + CONNECT_MAX;
        while !bytes.is_empty() {
            match self.stream.write(&mut self.io, bytes) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) if is_retry(&error) && Instant::now() < deadline => drop(self.io.poll()),
                Err(error) => return Err(error),
            }
        }
        self.stream.flush()
    }

    /// Ends it: what is still unread is not wanted.
    pub(super) fn close(mut self) {
        // Its ports are free again, and the engine's steering entries gone, before the next slice.
        let _ = self.stream.abort(&mut self.io);
    }
}

//! Connecting, without waiting and in a call that waits.

use super::endpoint::literal;
use super::kernel::KernelStream;
use super::socket_file::connect_file;
use super::xdp::XdpStream;
use super::{Endpoint, Io, Options, Stream, shm, xdp};
use crate::Queues;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_sys::{Problem, cpu, interface};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// A connection that is being made. [`Connecting::poll`] goes on with it, until it is [`Connecting::Ready`].
///
/// A stream that it makes never waits, whatever its options say: it is part of a thread that has more to do.
#[expect(clippy::large_enum_variant, reason = "one that is under way becomes a stream of that size")]
pub enum Connecting {
    /// The name is being looked up, which may take long, on a thread of its own.
    Resolving(Receiver<io::Result<Vec<SocketAddr>>>),
    /// TCP by the kernel; the other addresses of the same name follow, at that time at the latest.
    Kernel(Socket, Vec<SocketAddr>, Option<Instant>),
    /// TCP past the kernel.
    Xdp(XdpStream),
    /// Connected.
    Ready(Stream),
}

impl Connecting {
    /// Begins to connect to `endpoint`.
    ///
    /// # Errors
    /// The attempt failed at once, or cannot be made.
    pub fn begin(io: &mut Io, endpoint: &Endpoint, options: &Options) -> Result<Self, Problem> {
        options.check_never_waits(&format!("connect to {endpoint}"))?;
        Self::begin_within(io, endpoint, options, Duration::ZERO)
    }

    /// Begins to connect; where a Unix socket's backlog is full, waits for room in it.
    pub(super) fn begin_within(
        io: &mut Io,
        endpoint: &Endpoint,
        options: &Options,
        timeout: Duration,
    ) -> Result<Self, Problem> {
        let fail = |error| cannot_connect(endpoint, error);
        match endpoint {
            Endpoint::Tcp { host, port } => match host.parse::<IpAddr>() {
                Ok(address) => next_address(vec![SocketAddr::new(address, *port)], options).map_err(fail),
                Err(_) => resolve(host.clone(), *port).map_err(fail),
            },
            Endpoint::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail)?;
                options.apply(&socket, false).map_err(fail)?;
                let socket = connect_file(socket, path, timeout).map_err(fail)?;
                Ok(Self::Ready(Stream::Kernel(KernelStream::non_blocking(socket))))
            }
            Endpoint::Shm(path) => {
                connect_shm(path, &shm::Settings::default(), &options.without_sleep()).map(Self::Ready)
            }
            Endpoint::Xdp { interface, host, port } => {
                let address = literal(host, *port)?;
                let mut tcp = io.open_engine(interface, Queues::Any)?.tcp();
                let defaults = tcp.defaults();
                let stream = tcp.connect(address, options.local, defaults)?;
                Ok(Self::Xdp(XdpStream::new(io, stream)))
            }
        }
    }

    /// Gives the attempt up.
    pub fn abandon(self, io: &mut Io) {
        if let Self::Xdp(mut stream) = self {
            // One that is gone already is as wanted.
            let _ = stream.abort(io);
        }
    }

    /// Goes on with the attempt. Past the kernel the engine has to be polled meanwhile ([`Io::poll`]).
    ///
    /// # Errors
    /// The attempt failed at every address of the endpoint.
    pub fn poll(self, io: &mut Io, options: &Options) -> io::Result<Self> {
        self.poll_within(io, options, Duration::ZERO)
    }

    /// Goes on with the attempt, and waits so long for what it waits for; past the kernel that comes with polls of the engine.
    fn poll_within(self, io: &mut Io, options: &Options, timeout: Duration) -> io::Result<Self> {
        match self {
            Self::Resolving(answer) => match answer.recv_timeout(io.slice(timeout)) {
                Ok(addresses) => next_address(addresses?, options),
                Err(RecvTimeoutError::Timeout) => Ok(Self::Resolving(answer)),
                Err(RecvTimeoutError::Disconnected) => Err(ErrorKind::AddrNotAvailable.into()),
            },
            Self::Kernel(socket, others, until) => {
                let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
                if !is_writable(&socket, io.slice(timeout.min(left)))? {
                    let is_over = left.is_zero() && !others.is_empty();
                    return if is_over {
                        next_address(others, options)
                    } else {
                        Ok(Self::Kernel(socket, others, until))
                    };
                }
                match socket.take_error()? {
                    None => Ok(Self::Ready(Stream::Kernel(KernelStream::non_blocking(socket)))),
                    Some(error) if others.is_empty() => Err(error),
                    Some(_) => next_address(others, options),
                }
            }
            Self::Xdp(stream) => match stream.is_connected(io) {
                Ok(true) => Ok(Self::Ready(Stream::Xdp(stream))),
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

/// Connects to `endpoint` and waits for it, at most the timeout of `options`. The stream waits as they say; shared memory is as
/// [`shm::Settings::default`] says.
///
/// # Errors
/// Nobody answers there; `options` ask for what the endpoint cannot do.
pub fn connect(io: &mut Io, endpoint: &Endpoint, options: &Options) -> Result<Stream, Problem> {
    match endpoint {
        Endpoint::Shm(path) => return connect_shm(path, &shm::Settings::default(), options),
        Endpoint::Xdp { .. } => xdp::check(endpoint, options)?,
        Endpoint::Tcp { .. } | Endpoint::Unix(_) => {}
    }
    let deadline = Instant::now().checked_add(options.timeout);
    let mut connecting = Connecting::begin_within(io, endpoint, options, options.timeout)?;
    loop {
        io.poll().map_err(|error| cannot_connect(endpoint, io::Error::other(error)))?;
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        connecting = match connecting.poll_within(io, options, left) {
            Ok(Connecting::Ready(stream)) => return stream.with_waiting(options),
            Ok(pending) => pending,
            Err(error) => return Err(cannot_connect(endpoint, error)),
        };
        if left.is_zero() {
            connecting.abandon(io);
            return Err(cannot_connect(endpoint, ErrorKind::TimedOut.into()));
        }
    }
}

/// Connects to a listener in shared memory at `path` ([`Listener::bind_shm`](super::Listener::bind_shm)) and hands it two rings
/// that are as `settings` say. It need not have accepted when this returns.
///
/// # Errors
/// Nobody listens there, another user does, or `options` ask for what shared memory cannot do.
pub fn connect_shm(path: &Path, settings: &shm::Settings, options: &Options) -> Result<Stream, Problem> {
    let rings = shm::dial(path, shm::Kind::Stream, settings, options)?;
    Ok(Stream::Shm(shm::ShmStream::new(rings)))
}

fn cannot_connect(endpoint: &Endpoint, error: io::Error) -> Problem {
    let what = format!("cannot connect to {endpoint}");
    if error.kind() != ErrorKind::NetworkUnreachable {
        return Problem::failed(what, error)
            .next("check that the other side is listening there and that no firewall is between");
    }
    let is_loopback =
        |host: &str| host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    match endpoint {
        Endpoint::Tcp { host, .. } if is_loopback(host) && interface::check_loopback().is_err() => {
            Problem::failed(what, "lo is down in this network namespace").next("bring it up: ip link set lo up")
        }
        Endpoint::Tcp { host, .. } => {
            Problem::failed(what, error).next(format!("see the route to it, and add one: ip route get {host}"))
        }
        _ => Problem::failed(what, error).next("see the routes: ip route"),
    }
}

/// Begins with the first of the addresses where that can be; where it cannot be at any, the last error tells why. The timeout is
/// shared by the addresses: one that does not answer leaves time for the next.
fn next_address(mut addresses: Vec<SocketAddr>, options: &Options) -> io::Result<Connecting> {
    let mut error = io::Error::from(ErrorKind::AddrNotAvailable);
    while !addresses.is_empty() {
        let share = options.timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        match connect_to(addresses.remove(0), options) {
            Ok(socket) => {
                let until = if addresses.is_empty() { None } else { Instant::now().checked_add(share) };
                return Ok(Connecting::Kernel(socket, addresses, until));
            }
            Err(why) => error = why,
        }
    }
    Err(error)
}

fn connect_to(address: SocketAddr, options: &Options) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(local) = options.local {
        socket.bind(&local.into())?;
    }
    options.apply(&socket, true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket),
    }
}

fn resolve(host: String, port: u16) -> io::Result<Connecting> {
    let (sender, answer) = sync_channel(1);
    let maker = cpu::allowed();
    let work = move || {
        // The thread that connects may spin on its CPU.
        cpu::move_to_helper_cpus(&maker);
        drop(sender.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect)));
    };
    std::thread::Builder::new().name("resolve".into()).spawn(work)?;
    Ok(Connecting::Resolving(answer))
}

fn is_writable(socket: &Socket, timeout: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    // A time beyond what the kernel can count is for ever.
    match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Backend;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

    #[test]
    fn an_address_that_cannot_be_tried_is_followed_by_the_next() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let there = listener.local_addr().unwrap();
        // No socket of IPv6 can be bound to it.
        let options = Options { local: Some((Ipv4Addr::LOCALHOST, 0).into()), ..Options::default() };
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, there.port()));
        assert!(
            matches!(next_address(vec![v6, there], &options), Ok(Connecting::Kernel(_, rest, None)) if rest.is_empty())
        );
        assert!(next_address(vec![v6], &options).is_err());
    }

    #[test]
    fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        full.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        full.listen(0).unwrap();
        let silent = full.local_addr().unwrap().as_socket().unwrap();
        // Its backlog is full: further SYNs are dropped.
        let _one = std::net::TcpStream::connect(silent).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let options = Options { timeout: Duration::from_millis(400), ..Options::default() };
        let mut connecting = next_address(vec![silent, listener.local_addr().unwrap()], &options).unwrap();
        let mut io = Io::default();
        for _ in 0..20 {
            connecting = connecting.poll_within(&mut io, &options, Duration::from_secs(5)).unwrap();
            if let Connecting::Ready(_) = connecting {
                return;
            }
        }
        panic!("the second address answers");
    }

    #[test]
    fn a_backend_that_it_does_not_have_is_refused() {
        let options = Options { backend: Backend::Uring, ..Options::default() };
        let endpoint = Endpoint::parse("127.0.0.1:1").unwrap();
        let refused = Connecting::begin(&mut Io::default(), &endpoint, &options).err().expect("it is refused");
        assert!(refused.to_string().contains("io_uring"), "{refused}");
    }
}

//! Connecting without waiting.

use super::endpoint::literal;
use super::kernel::KernelLink;
use super::xdp::XdpStream;
use super::{Endpoint, Io, Options, Stream, shm};
use crate::Queues;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_sys::{Problem, cpu};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// A connection that is being made. [`Connecting::poll`] goes on with it, until it is [`Connecting::Ready`].
///
/// A stream that it makes never waits, whatever its options say: it is part of a thread that has more to do.
#[expect(clippy::large_enum_variant, reason = "one that is under way becomes a stream of that size")]
pub enum Connecting {
    /// The name is being looked up, which may take long, on a thread of its own.
    Resolving(Receiver<io::Result<Vec<SocketAddr>>>),
    /// TCP by the kernel; the other addresses of the same name follow.
    Kernel(Socket, Vec<SocketAddr>),
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
        let fail = |error: io::Error| Problem::failed(format!("cannot connect to {endpoint}"), error);
        options.check_backend(&format!("connect to {endpoint}"))?;
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
                Ok(Self::Ready(Stream::Kernel(KernelLink::non_blocking(socket))))
            }
            Endpoint::Shm(path) => {
                let link = shm::dial(path, &shm::Settings::default(), &options.without_sleep())?;
                Ok(Self::Ready(Stream::Shm(link)))
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
        match self {
            Self::Resolving(answer) => match answer.try_recv() {
                Ok(addresses) => next_address(addresses?, options),
                Err(TryRecvError::Empty) => Ok(Self::Resolving(answer)),
                Err(TryRecvError::Disconnected) => Err(ErrorKind::AddrNotAvailable.into()),
            },
            Self::Kernel(socket, others) => {
                if !is_writable(&socket)? {
                    return Ok(Self::Kernel(socket, others));
                }
                match socket.take_error()? {
                    None => Ok(Self::Ready(Stream::Kernel(KernelLink::non_blocking(socket)))),
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

/// Begins with the first of the addresses where that can be; where it cannot be at any, the last error tells why.
fn next_address(mut addresses: Vec<SocketAddr>, options: &Options) -> io::Result<Connecting> {
    let mut error = io::Error::from(ErrorKind::AddrNotAvailable);
    while !addresses.is_empty() {
        match connect_to(addresses.remove(0), options) {
            Ok(socket) => return Ok(Connecting::Kernel(socket, addresses)),
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

fn is_writable(socket: &Socket) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    match poll(&mut fds, Some(&Timespec::default())) {
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
        assert!(matches!(next_address(vec![v6, there], &options), Ok(Connecting::Kernel(_, rest)) if rest.is_empty()));
        assert!(next_address(vec![v6], &options).is_err());
    }

    #[test]
    fn a_backend_that_it_does_not_have_is_refused() {
        let options = Options { backend: Backend::Uring, ..Options::default() };
        let endpoint = Endpoint::parse("127.0.0.1:1").unwrap();
        let refused = Connecting::begin(&mut Io::default(), &endpoint, &options).err().expect("it is refused");
        assert!(refused.to_string().contains("io_uring"), "{refused}");
    }
}

//! Connecting without waiting.

use super::endpoint::literal;
use super::kernel::KernelLink;
use super::xdp::XdpStream;
use super::{Endpoint, Io, Options, Stream, shm};
use crate::Queues;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_sys::Problem;
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

fn next_address(mut addresses: Vec<SocketAddr>, options: &Options) -> io::Result<Connecting> {
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
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) if addresses.is_empty() => return Err(error),
        Err(_) => return next_address(addresses, options),
    }
    Ok(Connecting::Kernel(socket, addresses))
}

fn resolve(host: String, port: u16) -> io::Result<Connecting> {
    let (sender, answer) = sync_channel(1);
    let work = move || drop(sender.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect)));
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

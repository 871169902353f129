//! Streams: connect and accept, TCP and Unix alike.

use crate::{Address, Backend, Link, Options, kernel::KernelLink, uring::UringLink};
use sidestep_sys::Problem;
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Connections not yet accepted that the kernel keeps.
const BACKLOG: i32 = 16;

/// Connects a byte stream; TCP with TCP_NODELAY.
pub fn connect(address: &Address, options: &Options) -> Result<Box<dyn Link>, Problem> {
    let fail = |error: io::Error| {
        Problem::failed(format!("cannot connect to {address}"), error)
            .next("check that the other side is listening there and that no firewall is between")
    };
    let socket = stream_socket(address).map_err(fail)?;
    let target = socket_address(address).map_err(fail)?;
    match address {
        Address::Tcp(_) => socket.connect_timeout(&target, options.timeout).map_err(fail)?,
        Address::Unix(_) => socket.connect(&target).map_err(fail)?,
    }
    over(socket, options)
}

/// Accepts byte streams.
pub struct Listener {
    socket: Socket,
    options: Options,
    address: Address,
}

/// An accepted stream and where it came from.
pub struct Accepted {
    /// The stream.
    pub link: Box<dyn Link>,
    /// The peer's address; none for a Unix socket.
    pub peer: Option<SocketAddr>,
}

impl Listener {
    /// Listens on `address` (port 0: the kernel chooses). Accepted links get `options`.
    pub fn bind(address: &Address, options: &Options) -> Result<Self, Problem> {
        let fail = |error: io::Error| {
            Problem::failed(format!("cannot listen on {address}"), error).next("choose another address or port")
        };
        let socket = stream_socket(address).map_err(fail)?;
        if matches!(address, Address::Tcp(_)) {
            socket.set_reuse_address(true).map_err(fail)?;
        }
        socket.bind(&socket_address(address).map_err(fail)?).map_err(fail)?;
        socket.listen(BACKLOG).map_err(fail)?;
        Ok(Self { socket, options: *options, address: address.clone() })
    }

    /// Where it listens, with the port that the kernel chose.
    pub fn address(&self) -> io::Result<Address> {
        let local = self.socket.local_addr()?;
        Ok(local.as_socket().map_or_else(|| self.address.clone(), Address::Tcp))
    }

    /// Waits for a connection; `WouldBlock` when none came within `timeout`.
    pub fn accept(&self, timeout: Duration) -> io::Result<Accepted> {
        self.accept_from(timeout, None)
    }

    /// As [`Listener::accept`], but a connection from another host than `only` is closed unread.
    pub fn accept_from(&self, timeout: Duration, only: Option<IpAddr>) -> io::Result<Accepted> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.accept() {
                Ok((socket, peer)) if is_from(&peer, only) => {
                    let link = over(socket, &self.options).map_err(io::Error::other)?;
                    return Ok(Accepted { link, peer: peer.as_socket() });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A Unix socket has no address; who may connect to it is decided by its file.
fn is_from(peer: &SockAddr, only: Option<IpAddr>) -> bool {
    match (only, peer.as_socket()) {
        (Some(only), Some(peer)) => only.to_canonical() == peer.ip().to_canonical(),
        _ => true,
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // The name is ours; without the listener behind it, it only misleads. Already gone is as good.
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes a link of a connected socket.
pub(crate) fn over(socket: Socket, options: &Options) -> Result<Box<dyn Link>, Problem> {
    let is_tcp = socket.local_addr().ok().and_then(|address| address.as_socket()).is_some()
        && socket.r#type().is_ok_and(|kind| kind == Type::STREAM);
    if is_tcp {
        socket.set_tcp_nodelay(true).map_err(|error| Problem::failed("cannot set TCP_NODELAY", error))?;
    }
    Ok(match options.backend {
        Backend::Kernel => Box::new(KernelLink::new(socket, options)?),
        Backend::Uring => Box::new(UringLink::new(socket, options)?),
    })
}

fn stream_socket(address: &Address) -> io::Result<Socket> {
    let domain = match address {
        Address::Tcp(address) => Domain::for_address(*address),
        Address::Unix(_) => Domain::UNIX,
    };
    Socket::new(domain, Type::STREAM, None)
}

fn socket_address(address: &Address) -> io::Result<SockAddr> {
    match address {
        Address::Tcp(address) => Ok((*address).into()),
        Address::Unix(path) => SockAddr::unix(path),
    }
}

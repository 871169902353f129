//! Connecting and accepting for a program that waits in these calls: TCP, Unix and shared memory alike.

use crate::stream::shm::{self, Settings, ShmLink, TurnedAway};
use crate::stream::socket_file::bind_file;
use crate::stream::{Address, Backend, Link, Options, SocketFile, kernel::KernelLink, uring::UringLink};
use sidestep_sys::Problem;
use sidestep_sys::credentials::Credentials;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest that accept(2) waits at a time.
const ACCEPT_MAX: Duration = Duration::from_secs(3600);

/// Connections not yet accepted that the kernel keeps.
const BACKLOG: i32 = 16;

/// Connects a byte stream; TCP with TCP_NODELAY, shared memory with [`Settings::default`] (see also [`shm::connect`]).
pub fn connect(address: &Address, options: &Options) -> Result<Box<dyn Link>, Problem> {
    if let Address::Shm(path) = address {
        return shm::connect(path, &Settings::default(), options);
    }
    let fail = |error: io::Error| {
        Problem::failed(format!("cannot connect to {address}"), error)
            .next("check that the other side is listening there and that no firewall is between")
    };
    let socket = stream_socket(address).map_err(fail)?;
    let target = socket_address(address).map_err(fail)?;
    match address {
        Address::Tcp(_) => socket.connect_timeout(&target, options.timeout).map_err(fail)?,
        Address::Unix(_) | Address::Shm(_) => socket.connect(&target).map_err(fail)?,
    }
    over(socket, options)
}

/// Accepts byte streams.
pub struct Listener {
    socket: Socket,
    options: Options,
    address: Address,
    /// Settings of a link in shared memory.
    settings: Settings,
    refusals: Mutex<Refusals>,
    /// The file that bind(2) has made, for its drop.
    _file: Option<SocketFile>,
}

/// Connectors that a listener for shared memory did not take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Their number.
    pub count: u64,
    /// The reason of the last refusal; empty if there was none.
    pub last: String,
}

/// An accepted stream and where it came from.
pub struct Accepted {
    /// The stream.
    pub link: Box<dyn Link>,
    /// The peer's address; none for a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The peer's process and user, over a Unix socket and shared memory.
    pub credentials: Option<Credentials>,
}

impl Listener {
    /// Listens on `address` (port 0: the kernel chooses; the socket file of a listener that has died is replaced). Accepted links
    /// get `options`.
    pub fn bind(address: &Address, options: &Options) -> Result<Self, Problem> {
        Self::bind_with(address, Settings::default(), options)
    }

    /// As [`Listener::bind`], in shared memory, for links that are as `settings` say.
    pub fn bind_shm(path: &Path, settings: Settings, options: &Options) -> Result<Self, Problem> {
        Self::bind_with(&Address::Shm(path.to_owned()), settings, options)
    }

    fn bind_with(address: &Address, settings: Settings, options: &Options) -> Result<Self, Problem> {
        if matches!(address, Address::Shm(_)) {
            shm::check(&settings, options)?;
        }
        let fail = |error: io::Error| {
            Problem::failed(format!("cannot listen on {address}"), error).next("choose another address or port")
        };
        let socket = stream_socket(address).map_err(fail)?;
        if matches!(address, Address::Tcp(_)) {
            socket.set_reuse_address(true).map_err(fail)?;
        }
        let socket = match address {
            Address::Tcp(local) => socket.bind(&(*local).into()).map(|()| socket),
            Address::Unix(path) | Address::Shm(path) => bind_file(socket, path),
        };
        let socket = socket.map_err(fail)?;
        socket.listen(BACKLOG).map_err(fail)?;
        let file = match address {
            Address::Tcp(_) => None,
            Address::Unix(path) | Address::Shm(path) => Some(SocketFile::at(path).map_err(fail)?),
        };
        let (address, refusals) = (address.clone(), Mutex::default());
        Ok(Self { socket, options: *options, _file: file, address, settings, refusals })
    }

    /// Returns its address, with the port that the kernel chose.
    pub fn address(&self) -> io::Result<Address> {
        let local = self.socket.local_addr()?;
        Ok(local.as_socket().map_or_else(|| self.address.clone(), Address::Tcp))
    }

    /// Waits for a connection; `WouldBlock` when none came within `timeout`.
    ///
    /// In shared memory, whoever cannot be taken is told why and turned away ([`Listener::refusals`]); one that says
    /// nothing holds up the others, and the end of the timeout, by half a second.
    pub fn accept(&self, timeout: Duration) -> io::Result<Accepted> {
        self.accept_from(timeout, None)
    }

    /// As [`Listener::accept`], but a connection from another host than `only` is closed unread.
    pub fn accept_from(&self, timeout: Duration, only: Option<IpAddr>) -> io::Result<Accepted> {
        // A time beyond what the clock can name is for ever.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // The kernel counts a timeout in ticks and refuses one that it cannot count; the loop comes back to a long one.
            self.socket.set_read_timeout(Some(left.map_or(ACCEPT_MAX, |left| left.min(ACCEPT_MAX))))?;
            match self.socket.accept() {
                Ok((socket, peer)) if is_from(&peer, only) => {
                    let credentials = Credentials::of_peer(socket.as_fd()).ok();
                    if let Some(link) = self.take(socket)? {
                        return Ok(Accepted { link, peer: peer.as_socket(), credentials });
                    }
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The socket that is listened on.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the connectors refused so far.
    pub fn refusals(&self) -> Refusals {
        self.refusals.lock().map(|refusals| refusals.clone()).unwrap_or_default()
    }

    /// Makes a link of an accepted socket; none when the connector was turned away.
    fn take(&self, socket: Socket) -> io::Result<Option<Box<dyn Link>>> {
        if !matches!(self.address, Address::Shm(_)) {
            return over(socket, &self.options).map(Some).map_err(io::Error::other);
        }
        Ok(self.admit(socket).map(|link| Box::new(link) as Box<dyn Link>))
    }

    /// Makes a link in shared memory of an accepted socket; `None` when the connector was turned away.
    pub(crate) fn admit(&self, socket: Socket) -> Option<ShmLink> {
        match shm::admit(socket, &self.settings, &self.options) {
            Ok(link) => Some(link),
            Err(TurnedAway(why)) => {
                if let Ok(mut refusals) = self.refusals.lock() {
                    *refusals = Refusals { count: refusals.count + 1, last: why };
                }
                None
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
    match address {
        Address::Tcp(address) => Socket::new(Domain::for_address(*address), Type::STREAM, None),
        Address::Unix(_) => Socket::new(Domain::UNIX, Type::STREAM, None),
        Address::Shm(_) => shm::open_socket(),
    }
}

fn socket_address(address: &Address) -> io::Result<SockAddr> {
    match address {
        Address::Tcp(address) => Ok((*address).into()),
        Address::Unix(path) | Address::Shm(path) => SockAddr::unix(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn listener(path: &Path) -> Listener {
        Listener::bind(&Address::Unix(path.to_owned()), &Options::default()).unwrap()
    }

    #[test]
    fn a_listener_leaves_the_socket_of_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = listener(&path);
        fs::remove_file(&path).unwrap();
        let second = listener(&path);
        drop(first);
        assert!(path.exists(), "it is another file");
        drop(second);
        assert!(!path.exists(), "this one was its own");
    }

    #[test]
    fn a_time_without_end_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = listener(&path);
        let connector = connect(&Address::Unix(path), &Options::default()).unwrap();
        for timeout in [Duration::MAX, Duration::from_secs(u32::MAX.into())] {
            let accepted = std::thread::scope(|threads| {
                let accepting = threads.spawn(|| listener.accept(timeout));
                // One is in the queue, the other comes.
                let _another = connect(&listener.address().unwrap(), &Options::default()).unwrap();
                accepting.join().unwrap()
            });
            assert!(accepted.is_ok());
        }
        drop(connector);
    }
}

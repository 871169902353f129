//! The door: accepts connections, and turns away at once who may not come in.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use sidestep_plane::message::{Channel, Code, Numbered, Refusal, Reply};
use sidestep_sys::Problem;
use sidestep_sys::credentials::Credentials;
use sidestep_sys::problem::say;
use sidestep_sys::socket::peer_groups;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::foreign::Closers;
use crate::permit::Permit;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Connections accepted in one turn, so that a flood of them does not starve those who are in.
const ACCEPTS_PER_TURN: usize = 16;

/// A connection of somebody who may.
pub(super) struct Arrival {
    pub(super) channel: Channel,
    pub(super) peer: Credentials,
}

pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    permit: Permit,
    /// Turned away since the last line about it.
    turned_away: u64,
}

impl Listener {
    /// Listens at `path`. The lock of the state directory is held, so what lies there is a dead control's.
    pub(crate) fn open(path: &Path, permit: Permit) -> Result<Self, Problem> {
        let problem = |error: io::Error| {
            Problem::failed(format!("cannot listen at {}", path.display()), error)
                .next("choose a path of at most 107 bytes in a folder that may be written: --socket PATH")
        };
        remove_stale(path).map_err(problem)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.map_err(|error| problem(error.into()))?;
        let address = SocketAddrUnix::new(path).map_err(|error| problem(error.into()))?;
        bind(&socket, &address).map_err(|error| problem(error.into()))?;
        listen(&socket, BACKLOG).map_err(|error| problem(error.into()))?;
        // Everybody may knock; who may come in is decided by the peer's credentials, which no file mode can say.
        fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(problem)?;
        Ok(Self { socket, path: path.to_owned(), permit, turned_away: 0 })
    }

    /// Those who came and may come in. `Err` when this process can open no more descriptors.
    pub(super) fn accept(&mut self, closers: &Closers) -> Result<Vec<Arrival>, Problem> {
        let mut arrivals = Vec::new();
        for _ in 0..ACCEPTS_PER_TURN {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => arrivals.extend(self.examine(socket, closers)),
                Err(rustix::io::Errno::WOULDBLOCK) => break,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => return Err(Problem::failed("cannot accept a connection", io::Error::from(error))),
            }
        }
        Ok(arrivals)
    }

    fn examine(&mut self, socket: OwnedFd, closers: &Closers) -> Option<Arrival> {
        let peer = Credentials::of_peer(socket.as_fd()).ok()?;
        let groups = peer_groups(socket.as_fd()).unwrap_or_default();
        let channel = Channel::over(socket);
        if self.permit.allows(&peer, &groups) {
            return Some(Arrival { channel, peer });
        }
        self.turned_away += 1;
        // One line for each doubling: a stranger must not fill the log.
        if self.turned_away.is_power_of_two() {
            let pid = peer.pid.unwrap_or(0);
            say(format!("turned away user {} (process {pid}), {} so far", peer.uid, self.turned_away));
        }
        turn_away(
            &channel,
            Refusal::plain(Code::NotAllowed, format!("user {} cannot bypass the kernel", peer.uid))
                .next("have the administrator add it: group sidestep, or sidestep control --allow-uid"),
        );
        closers.close(peer.uid, channel.into());
        None
    }
}

/// Says why, and is deaf from then on.
pub(super) fn turn_away(channel: &Channel, refusal: Refusal) {
    // Who does not read it does not need it.
    let _ = channel.send(&Numbered { number: 0, body: Reply::Refused(refusal) }, &[]);
}

fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match fs::symlink_metadata(path) {
        // A socket that answers is a live control's, of another network namespace.
        Ok(facts) if facts.file_type().is_socket() && Channel::connect(path).is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there"))
        }
        Ok(facts) if facts.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The next control removes what stays.
        let _ = fs::remove_file(&self.path);
    }
}

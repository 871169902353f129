//! The listener: accepts connections, and immediately refuses users who are not permitted.

use crate::permit::Permit;
use crate::reaper::Reaper;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, getrlimit};
use sidestep_control_api::message::{Channel, Code, Numbered, Refusal, Reply};
use sidestep_sys::Problem;
use sidestep_sys::credentials::Credentials;
use sidestep_sys::problem::say;
use sidestep_sys::socket::peer_groups;
use sidestep_sys::unix_socket;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// The most connections accepted per iteration, so that a flood does not starve existing clients.
const ACCEPTS_PER_TURN: usize = 16;

/// Descriptors reserved for root's connections, for refused ones, and for those received in messages. Half of a low
/// limit.
const RESERVE: u64 = 512;

/// A connection of a permitted user.
pub(super) struct Arrival {
    pub(super) channel: Channel,
    pub(super) peer: Credentials,
    /// The administrator lets it read traffic without a socket of its own.
    pub(super) may_tap: bool,
}

pub(crate) struct Listener {
    socket: OwnedFd,
    #[expect(dead_code, reason = "it is held, not used")]
    name: Name,
    permit: Permit,
    /// The number of refusals since the last log line about them.
    refused: u64,
}

impl Listener {
    /// Listens at `path`. The lock of the state directory is held, so an existing socket there is a dead control's.
    pub(crate) fn open(path: &Path, permit: Permit) -> Result<Self, Problem> {
        let problem = |error: io::Error| {
            Problem::failed(format!("cannot listen at {}", path.display()), error)
                .next("choose a path of at most 107 bytes in a folder that you alone may write: --socket PATH")
        };
        let socket = unix_socket::listen(path, unix_socket::Kind::Packets, BACKLOG).map_err(problem)?;
        // The kernel refuses users who are not on the list, before they cost anything here.
        if !unix_socket::allow(path, permit.uids(), permit.gids()).map_err(problem)? {
            say(format!(
                "the file system of {} has no access control lists: every user can connect there",
                path.display()
            ));
            fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(problem)?;
        }
        Ok(Self { socket, name: Name(path.to_owned()), permit, refused: 0 })
    }

    /// Accepts connections of permitted users. Fails if this process cannot open more descriptors.
    pub(super) fn accept(&mut self, reaper: &mut Reaper) -> Result<Vec<Arrival>, Problem> {
        let mut arrivals = Vec::new();
        for _ in 0..ACCEPTS_PER_TURN {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => arrivals.extend(self.examine(socket, reaper)),
                Err(rustix::io::Errno::WOULDBLOCK) => break,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => return Err(Problem::failed("cannot accept a connection", io::Error::from(error))),
            }
        }
        Ok(arrivals)
    }

    /// Checks a connection. A refused one is never read: unread messages are closed with it.
    fn examine(&mut self, socket: OwnedFd, reaper: &mut Reaper) -> Option<Arrival> {
        let Ok(peer) = Credentials::of_peer(socket.as_fd()) else {
            reaper.close(socket);
            return None;
        };
        let groups = peer_groups(socket.as_fd()).unwrap_or_default();
        let is_allowed = self.permit.allows(&peer, &groups);
        let refusal = match () {
            () if !is_allowed => {
                Refusal::plain(Code::NotAllowed, format!("user {} cannot bypass the kernel", peer.uid))
                    .next("have the administrator add it: group sidestep, or sidestep control --allow-uid")
            }
            () if peer.uid != 0 && is_of_reserve(&socket) => {
                Refusal::new(Code::Limit, "cannot take another client", "too few descriptors are left")
                    .next("end some accelerated programs, or raise the limit of the control plane: LimitNOFILE")
            }
            () => {
                let may_tap = self.permit.allows_taps(&peer, &groups);
                return Some(Arrival { channel: Channel::over(socket), peer, may_tap });
            }
        };
        self.refused += 1;
        // One line for each doubling: a stranger must not fill the log.
        if self.refused.is_power_of_two() {
            let (pid, so_far) = (peer.pid.unwrap_or(0), self.refused);
            say(format!("refused user {} (process {pid}), {so_far} so far: {}", peer.uid, refusal.reason));
        }
        refuse_connection(Channel::over(socket), refusal, reaper);
        None
    }

    /// Stops accepting. Connections still in the queue are refused.
    pub(super) fn close(self, reaper: &mut Reaper) {
        reaper.close(self.socket);
    }
}

/// Returns whether a new descriptor is one of the last: the kernel gives the lowest free number.
fn is_of_reserve(descriptor: &OwnedFd) -> bool {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let reserve = RESERVE.min(limit / 2);
    u64::from(descriptor.as_raw_fd().unsigned_abs()) >= limit - reserve
}

/// Sends the reason, and ends the connection.
pub(super) fn refuse_connection(channel: Channel, refusal: Refusal, reaper: &mut Reaper) {
    // The peer need not read it.
    let _ = channel.send(&Numbered { number: 0, body: Reply::Refused(refusal) }, &[]);
    reaper.close(channel.into());
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The socket's file, while this process listens there.
struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        // The next control removes a leftover.
        let _ = fs::remove_file(&self.0);
    }
}

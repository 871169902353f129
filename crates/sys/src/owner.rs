//! The real owner of a process.
//!
//! A user who may make user namespaces has thousands of uids in them (subuid(5)), and SO_PEERCRED reports one of those.
//! The owner that counts is that of the outermost user namespace that contains the process but not the caller.

use crate::credentials::Credentials;
use crate::process::{Watch, open_pidfd};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// The user or container whose limits a process counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A user of the caller's own user namespace.
    User(u32),
    /// A user namespace made by root, as for a container: all of its users together. Its inode.
    Container(u64),
    /// Unknown: all such processes together.
    Unknown,
}

impl Owner {
    /// Returns whether it is the root user of the caller's own user namespace.
    pub fn is_root(self) -> bool {
        self == Self::User(0)
    }

    /// The owner of the process that connected a Unix socket, with the credentials that it had then. Returns `None` if
    /// the process has ended: its owner can no longer be found, and a user could leave any number of such connections
    /// behind.
    pub fn of_peer(socket: BorrowedFd<'_>, peer: &Credentials) -> Option<Self> {
        let Some(pid) = peer.pid else { return Some(Self::Unknown) };
        let Ok(maker) = maker(socket, pid, peer.uid) else { return Some(Self::Unknown) };
        let maker = maker?;
        let owner = look(pid, peer.uid).unwrap_or(Self::Unknown);
        // As long as the process lives its pid is not reused, so everything was read from one process.
        (!maker.has_ended()).then_some(owner)
    }
}

/// More than the kernel's nesting limit of user namespaces (32).
const DEPTH_MAX: usize = 64;

/// The process that connected; `None` if it has ended.
fn maker(socket: BorrowedFd<'_>, pid: u32, uid: u32) -> io::Result<Option<Watch>> {
    let error = match peer_pidfd(socket) {
        Ok(process) => return Ok(Some(Watch(process))),
        Err(error) => error,
    };
    match error.raw_os_error() {
        // The process was waited for; the errno depends on the version.
        Some(libc::EINVAL | libc::ESRCH | libc::ENODATA) => Ok(None),
        // Before Linux 6.5. The pid may have been reused by now: then, most likely, by another user's process.
        Some(libc::ENOPROTOOPT) => {
            let process = open_pidfd(pid)?;
            if effective_uid(pid).is_some_and(|now| now != uid) { Err(error) } else { Ok(process.map(Watch)) }
        }
        _ => Err(error),
    }
}

fn look(pid: u32, uid: u32) -> Option<Owner> {
    // A process of the same user namespace need not be examined further, which takes a privilege; only root could make
    // another namespace with the same map.
    let map = |whose: &str| fs::read(format!("/proc/{whose}/uid_map")).ok();
    if map(&pid.to_string())? == map("self")? {
        return Some(Owner::User(uid));
    }
    let ours = inode(&File::open("/proc/self/ns/user").ok()?)?;
    let mut namespace = File::open(format!("/proc/{pid}/ns/user")).ok()?;
    if inode(&namespace)? == ours {
        return Some(Owner::User(uid));
    }
    for _ in 0..DEPTH_MAX {
        let parent = parent(&namespace)?;
        if inode(&parent)? == ours {
            return match owner_uid(&namespace)? {
                0 => inode(&namespace).map(|(_, inode)| Owner::Container(inode)),
                owner => Some(Owner::User(owner)),
            };
        }
        namespace = parent;
    }
    None
}

fn inode(file: &File) -> Option<(u64, u64)> {
    let facts = file.metadata().ok()?;
    Some((facts.dev(), facts.ino()))
}

/// The parent of a user namespace (ioctl_ns(2)); none above the caller's own.
fn parent(namespace: &File) -> Option<File> {
    // SAFETY: NS_GET_PARENT takes no argument; the descriptor is open for the length of the call.
    let descriptor = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_PARENT) };
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    (descriptor >= 0).then(|| unsafe { File::from_raw_fd(descriptor) })
}

/// The user who made a user namespace, as a uid in the caller's.
fn owner_uid(namespace: &File) -> Option<u32> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: `uid` is valid for the kernel to write to.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_OWNER_UID, &raw mut uid) };
    (result == 0).then_some(uid)
}

/// Missing in the libc crate (asm-generic/socket.h).
const SO_PEERPIDFD: i32 = 77;

/// A pidfd of the process that connected a Unix socket, independent of pid reuse (Linux 6.5).
fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut descriptor: i32 = -1;
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `descriptor` and `size` are valid for the kernel to write to.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut descriptor).cast(),
            &raw mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The second number of the line "Uid:" (proc_pid_status(5)).
fn effective_uid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_process_of_this_user_namespace_is_its_users() {
        let (one, _two) = UnixStream::pair().expect("a pair");
        let peer = Credentials::of_peer(one.as_fd()).expect("it is a Unix socket");
        assert_eq!(Owner::of_peer(one.as_fd(), &peer), Some(Owner::User(crate::process::effective_uid())));
        let hidden = Credentials { pid: None, ..peer };
        assert_eq!(Owner::of_peer(one.as_fd(), &hidden), Some(Owner::Unknown));
        assert_eq!(effective_uid(std::process::id()), Some(crate::process::effective_uid()));
    }

    /// It also leaves the connection to any process that has the socket.
    #[test]
    fn a_process_that_has_connected_and_ended_is_nobodys() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("door")).expect("a name");
        // SAFETY: no pointer.
        let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        assert!(socket >= 0);
        // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: all zeroes are an address without a name.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        let mut size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: `address` and `size` are valid for the kernel to write to.
        let named = unsafe { libc::getsockname(listener.as_raw_fd(), (&raw mut address).cast(), &raw mut size) };
        assert_eq!(named, 0);
        // SAFETY: the child makes two system calls and touches nothing but these three.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: `address` holds `size` bytes; _exit runs no handler of this process.
            unsafe { libc::_exit(libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size)) };
        }
        let accepted = listener.accept().expect("it connects").0;
        let peer = Credentials::of_peer(accepted.as_fd()).expect("it is a Unix socket");
        assert_eq!(peer.pid, u32::try_from(child).ok());
        let wait = |flags| {
            // SAFETY: all zeroes are a valid siginfo_t, and a valid place for the result.
            unsafe {
                let mut ended: libc::siginfo_t = std::mem::zeroed();
                assert_eq!(libc::waitid(libc::P_PID, child.unsigned_abs(), &raw mut ended, flags), 0);
                assert_eq!(ended.si_status(), 0, "it has connected");
            }
        };
        wait(libc::WEXITED | libc::WNOWAIT);
        assert_eq!(Owner::of_peer(accepted.as_fd(), &peer), None, "not waited for");
        wait(libc::WEXITED);
        assert_eq!(Owner::of_peer(accepted.as_fd(), &peer), None, "gone");
        drop(socket);
    }
}

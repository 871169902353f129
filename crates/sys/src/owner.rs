//! Whose process it really is.
//!
//! A user who may make user namespaces has thousands of user numbers in them (subuid(5)), and the peer's number on a Unix
//! socket is one of those. What counts is who owns the outermost user namespace that the process is in and the caller is not.

use crate::credentials::Credentials;
use crate::process::{Watch, open_pidfd};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// Who answers for a process: what limits are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A user of the caller's own user namespace.
    User(u32),
    /// A user namespace that root has made, as for a container: all of its users together. Its inode.
    Container(u64),
    /// It could not be found out: all of those together.
    Unknown,
}

impl Owner {
    /// Whether it is the root user of the caller's own user namespace.
    pub fn is_root(self) -> bool {
        self == Self::User(0)
    }

    /// Of the process that connected a Unix socket, with the credentials that it had then. `None` where it has ended: whose it
    /// was cannot be told any more, and a user could have any number of connections that processes which ended have left.
    pub fn of_peer(socket: BorrowedFd<'_>, peer: &Credentials) -> Option<Self> {
        let Some(pid) = peer.pid else { return Some(Self::Unknown) };
        let Ok(maker) = maker(socket, pid, peer.uid) else { return Some(Self::Unknown) };
        let maker = maker?;
        let owner = look(pid, peer.uid).unwrap_or(Self::Unknown);
        // As long as it lives its pid is nobody else's, so what was just read was read of it.
        (!maker.has_ended()).then_some(owner)
    }
}

/// Deeper than the kernel nests user namespaces (32).
const DEPTH_MAX: usize = 64;

/// The process that connected; `None` where it has ended.
fn maker(socket: BorrowedFd<'_>, pid: u32, uid: u32) -> io::Result<Option<Watch>> {
    let error = match peer_pidfd(socket) {
        Ok(process) => return Ok(Some(Watch(process))),
        Err(error) => error,
    };
    match error.raw_os_error() {
        // Of one that has been waited for; which of them depends on the version.
        Some(libc::EINVAL | libc::ESRCH | libc::ENODATA) => Ok(None),
        // Before Linux 6.5. The pid may be another process's by now: then, most likely, another user's, too.
        Some(libc::ENOPROTOOPT) => {
            let process = open_pidfd(pid)?;
            if effective_uid(pid).is_some_and(|now| now != uid) { Err(error) } else { Ok(process.map(Watch)) }
        }
        _ => Err(error),
    }
}

fn look(pid: u32, uid: u32) -> Option<Owner> {
    // A process of the same user namespace need not be looked into further, which takes a privilege; another one with the
    // same map could only be made by root.
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

/// The user namespace around another one (ioctl_ns(2)); none beyond the caller's own.
fn parent(namespace: &File) -> Option<File> {
    // SAFETY: NS_GET_PARENT takes no argument; the descriptor is open for the length of the call.
    let descriptor = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_PARENT) };
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    (descriptor >= 0).then(|| unsafe { File::from_raw_fd(descriptor) })
}

/// The user who made a user namespace, by its number in the caller's.
fn owner_uid(namespace: &File) -> Option<u32> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: `uid` is valid for the kernel to write to.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_OWNER_UID, &raw mut uid) };
    (result == 0).then_some(uid)
}

/// Not yet in the libc crate (asm-generic/socket.h).
const SO_PEERPIDFD: i32 = 77;

/// The process that connected a Unix socket, whatever has become of its pid (Linux 6.5).
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

    /// It leaves the connection to whoever has the socket, too.
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

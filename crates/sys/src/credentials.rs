//! Credentials of the peer of a Unix socket, as the kernel reports them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A process and its user at the time it connected, listened or made the socket pair (SO_PEERCRED, unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process; `None` for one that this pid namespace cannot see.
    pub pid: Option<u32>,
    /// The effective user.
    pub uid: u32,
    /// The effective group; the process may be in further groups.
    pub gid: u32,
}

impl Credentials {
    /// The credentials of a connected Unix socket's peer; on the side that connected, those of the listening process.
    pub fn of_peer(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut facts = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut size = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: `facts` and `size` are valid for the kernel to write to.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut facts).cast(),
                &raw mut size,
            )
        };
        // A socket of another family has no credentials: the uid is -1.
        if result == 0 && facts.uid != u32::MAX {
            let pid = u32::try_from(facts.pid).ok().filter(|pid| *pid != 0);
            return Ok(Self { pid, uid: facts.uid, gid: facts.gid });
        }
        Err(if result == 0 { io::ErrorKind::Unsupported.into() } else { io::Error::last_os_error() })
    }
}

/// Returns whether this process has a capability, by its number in capabilities(7) (`CapEff` of proc_pid_status(5)).
pub fn has_capability(number: u32) -> bool {
    is_in(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), number)
}

fn is_in(status: &str, number: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| number < 64 && mask & (1 << number) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn capabilities_are_bits() {
        let status = "Name:\tx\nCapEff:\t0000000000201000\n";
        assert_eq!([11, 12, 13, 21, 64].map(|number| is_in(status, number)), [false, true, false, true, false]);
        assert!(!is_in("", 12) && !is_in("CapEff:\tx", 12));
    }

    #[test]
    fn a_pair_made_here_is_ours_and_other_sockets_name_nobody() {
        let (one, _two) = UnixStream::pair().expect("a socket pair");
        let peer = Credentials::of_peer(one.as_fd()).expect("it is a Unix socket");
        assert_eq!((peer.pid, peer.uid), (Some(std::process::id()), crate::process::effective_uid()));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        assert!(Credentials::of_peer(socket.as_fd()).is_err());
    }
}

//! A filter (SO_ATTACH_FILTER) by which a listening socket drops every segment, as if it were lost on the network. A socket has one filter,
//! and several processes may have the socket: the filter names its owner, so that nobody removes another's or the program's.

use crate::socket::{attach_filter, detach_filter};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number in the first instruction, by which these filters are known.
const MARK: u32 = 0x51de_57e9;

/// BPF_LD and BPF_LDX of a constant, BPF_RET of one (linux/bpf_common.h).
const LOAD: u16 = 0x00;
const LOAD_INDEX: u16 = 0x01;
const RETURN: u16 = 0x06;

/// Who has attached a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// The control plane, which has sockets of others in its hands for a moment.
    pub const CONTROL: Self = Self(0);

    /// A new owner: a socket of this process.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Ids of processes are below 2^22: owners of two processes differ unless one has more than 1,023 sockets.
        Self((std::process::id() << 10 ^ number).max(1))
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

/// The filter of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attached {
    None,
    Drops(Owner),
    /// The program's own.
    Other,
}

/// Has a socket drop every segment. Another owner's filter of this kind is replaced: it may have died. Returns false if the socket has a
/// filter of this owner already, or one of the program's own, which stays.
pub fn attach(socket: BorrowedFd<'_>, owner: Owner) -> io::Result<bool> {
    match attached(socket) {
        Attached::Other => return Ok(false),
        Attached::Drops(other) if other == owner => return Ok(false),
        Attached::None | Attached::Drops(_) => {}
    }
    attach_filter(socket, &drops_for(owner)).map(|()| true)
}

/// Removes the filter of an owner. One of somebody else, or of the program's, stays.
pub fn detach(socket: BorrowedFd<'_>, owner: Owner) -> io::Result<()> {
    if attached(socket) != Attached::Drops(owner) {
        return Ok(());
    }
    detach_filter(socket)
}

/// Returns whether a socket has a filter of the program's own (SO_ATTACH_FILTER, SO_ATTACH_BPF).
pub fn is_programs(socket: BorrowedFd<'_>) -> bool {
    attached(socket) == Attached::Other
}

fn instruction(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Two numbers without an effect, then: 0 bytes of the segment are kept.
fn drops_for(owner: Owner) -> [libc::sock_filter; 3] {
    [instruction(LOAD, MARK), instruction(LOAD_INDEX, owner.0), instruction(RETURN, 0)]
}

fn attached(socket: BorrowedFd<'_>) -> Attached {
    let mut code = [instruction(0, 0); 3];
    let count = match instructions(socket, None) {
        Ok(0) => return Attached::None,
        Ok(count) if count == code.len() => instructions(socket, Some(&mut code)),
        // An eBPF filter cannot be read (EACCES).
        Ok(_) | Err(_) => return Attached::Other,
    };
    let is_ours = count.is_ok_and(|count| count == code.len())
        && code.iter().zip(drops_for(Owner(code[1].k))).all(|(have, want)| (have.code, have.k) == (want.code, want.k));
    if is_ours { Attached::Drops(Owner(code[1].k)) } else { Attached::Other }
}

/// The number of instructions of a socket's filter, and as many as there is room for.
fn instructions(socket: BorrowedFd<'_>, code: Option<&mut [libc::sock_filter; 3]>) -> io::Result<usize> {
    // The kernel counts in instructions here, not in bytes (sk_get_filter, linux/net/core/filter.c).
    let mut count = code.as_ref().map_or(0, |code| code.len() as libc::socklen_t);
    let place = code.map_or(std::ptr::null_mut(), |code| code.as_mut_ptr());
    // SAFETY: `place` has room for `count` instructions; with none the kernel writes nothing but their number to `count`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_GET_FILTER, place.cast(), &raw mut count)
    };
    if result == 0 { Ok(count as usize) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_deaf_socket_hears_again_when_the_owner_of_its_filter_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let (socket, at) = (listener.as_fd(), listener.local_addr().expect("bound"));
        let [one, other] = [(); 2].map(|()| Owner::new());
        let connect = || TcpStream::connect_timeout(&at, Duration::from_millis(50));
        let is_deaf = || connect().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        assert!(attach(socket, one).unwrap() && is_deaf());
        assert!(!attach(socket, one).unwrap(), "it has it");
        assert!(attach(socket, other).unwrap() && is_deaf(), "the first one may have died");
        detach(socket, one).unwrap();
        assert!(is_deaf() && !is_programs(socket), "it is another's by now");
        detach(socket, other).unwrap();
        connect().expect("the filter is gone");
        assert_eq!(attached(socket), Attached::None);
    }

    #[test]
    fn a_filter_of_the_program_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let socket = listener.as_fd();
        for code in [vec![instruction(RETURN, u32::MAX)], vec![instruction(LOAD, 1); 2], vec![instruction(LOAD, 1); 3]]
        {
            let code = [code, vec![instruction(RETURN, u32::MAX)]].concat();
            attach_filter(socket, &code).unwrap();
            assert!(is_programs(socket) && !attach(socket, Owner::new()).unwrap());
            detach(socket, Owner::CONTROL).unwrap();
            assert!(is_programs(socket), "{} instructions", code.len());
        }
    }
}

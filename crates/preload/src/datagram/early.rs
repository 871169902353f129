//! What the kernel does not tell of a socket later: that it was just made, the groups that it has joined, options without a getter.

use super::Membership;
use crate::bits::Bits;
use crate::per_process::PerProcess;
use crate::status::Why;
use libc::c_int;
use rustix::net::sockopt::socket_cookie;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Sockets remembered that have not begun: more than a program prepares at a time. Then the memory is emptied, and they are the kernel's.
const SOCKETS_MAX: usize = 4096;

/// Sockets of UDP that were made and neither bound, connected nor sent from.
static FRESH: Bits = Bits::new();

/// What a socket was told before it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Early {
    pub(crate) memberships: Vec<Membership>,
    /// It has an option that we do not follow, and that cannot be read.
    pub(crate) is_odd: bool,
    /// The reason why it is the kernel's.
    pub(crate) why: Option<Why>,
    /// The interface of IP_MULTICAST_IF, where it was given by its number; 0 where the kernel tells it.
    pub(crate) multicast_interface: u32,
}

/// By SO_COOKIE, which no other socket has.
static TOLD: PerProcess<Mutex<HashMap<u64, Early>>> = PerProcess::new();

/// A number was given to a new socket.
pub(crate) fn made(number: c_int, is_udp: bool) {
    if is_udp {
        FRESH.insert(number);
    } else {
        FRESH.remove(number);
    }
}

/// Returns whether a number may be a socket that was just made, once.
#[inline]
pub(super) fn take_fresh(number: c_int) -> bool {
    FRESH.remove(number)
}

/// Remembers what a socket is told.
pub(crate) fn remember(socket: BorrowedFd<'_>, change: impl FnOnce(&mut Early)) {
    let Ok(cookie) = socket_cookie(socket) else { return };
    let mut told = told();
    if told.len() >= SOCKETS_MAX && !told.contains_key(&cookie) {
        told.clear();
    }
    change(told.entry(cookie).or_default());
}

/// Returns whether a socket was told an option that we do not follow, and that cannot be read.
pub(crate) fn is_told_odd(socket: BorrowedFd<'_>) -> bool {
    let told = told();
    !told.is_empty() && socket_cookie(socket).is_ok_and(|cookie| told.get(&cookie).is_some_and(|early| early.is_odd))
}

/// The reason why a socket is the kernel's that has not begun.
pub(crate) fn why_kernel(socket: BorrowedFd<'_>) -> Option<Why> {
    let told = told();
    let of_cookie = |cookie| told.get(&cookie).and_then(|early| early.why);
    if told.is_empty() { None } else { socket_cookie(socket).ok().and_then(of_cookie) }
}

/// Takes what a socket was told.
pub(super) fn take(socket: BorrowedFd<'_>) -> Early {
    let mut told = told();
    if told.is_empty() {
        return Early::default();
    }
    socket_cookie(socket).ok().and_then(|cookie| told.remove(&cookie)).unwrap_or_default()
}

/// Forgets what a thread that this forked child does not have was writing; else the child knows what its parent knew.
pub(crate) fn renew() {
    if matches!(TOLD.get().try_lock(), Err(TryLockError::WouldBlock)) {
        TOLD.renew();
    }
}

fn told() -> MutexGuard<'static, HashMap<u64, Early>> {
    TOLD.get().lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::NUMBERS_MAX;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_is_fresh_once() {
        let number = NUMBERS_MAX as c_int - 1;
        assert!(!take_fresh(number) && !take_fresh(-1) && !take_fresh(c_int::MAX));
        made(number, true);
        assert!(take_fresh(number) && !take_fresh(number));
        made(number, true);
        made(number, false);
        assert!(!take_fresh(number));
    }

    #[test]
    fn what_a_socket_was_told_is_its_own() {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        remember(one.as_fd(), |early| early.is_odd = true);
        assert!(!take(other.as_fd()).is_odd);
        assert!(take(one.as_fd()).is_odd && !take(one.as_fd()).is_odd);
    }
}

//! What the kernel does not tell of a socket later: that it was just made, the groups that it has joined, options without a getter.

use super::Membership;
use crate::descriptors::NUMBERS_MAX;
use crate::per_process::PerProcess;
use libc::c_int;
use rustix::net::sockopt::socket_cookie;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Sockets remembered that have not begun: more than a program prepares at a time. Then the memory is emptied, and they are the kernel's.
const SOCKETS_MAX: usize = 4096;

/// Bit by number: a socket of UDP that was made and neither bound, connected nor sent from.
static FRESH: [AtomicU64; NUMBERS_MAX / 64] = [const { AtomicU64::new(0) }; NUMBERS_MAX / 64];

/// What a socket was told before it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Early {
    pub(crate) memberships: Vec<Membership>,
    /// It has an option that we do not follow, and that cannot be read.
    pub(crate) is_odd: bool,
    /// It has a stream of stdio.
    pub(crate) has_stream: bool,
    /// The interface of IP_MULTICAST_IF, where it was given by its number; 0 where the kernel tells it.
    pub(crate) multicast_interface: u32,
}

/// By SO_COOKIE, which no other socket has.
static TOLD: PerProcess<Mutex<HashMap<u64, Early>>> = PerProcess::new();

/// A number was given to a new socket.
pub(crate) fn made(number: c_int, is_udp: bool) {
    let Some((word, bit)) = place(number) else { return };
    if is_udp {
        word.fetch_or(bit, Ordering::Relaxed);
    } else if word.load(Ordering::Relaxed) & bit != 0 {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Returns whether a number may be a socket that was just made, once.
#[inline]
pub(super) fn take_fresh(number: c_int) -> bool {
    let Some((word, bit)) = place(number) else { return false };
    word.load(Ordering::Relaxed) & bit != 0 && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
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

/// Returns whether a socket had a stream of stdio before it began.
pub(crate) fn has_stream(socket: BorrowedFd<'_>) -> bool {
    let told = told();
    !told.is_empty()
        && socket_cookie(socket).is_ok_and(|cookie| told.get(&cookie).is_some_and(|early| early.has_stream))
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

#[inline]
fn place(number: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    Some((FRESH.get(number / 64)?, 1 << (number % 64)))
}

fn told() -> MutexGuard<'static, HashMap<u64, Early>> {
    TOLD.get().lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
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

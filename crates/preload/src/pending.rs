//! Sockets of the internet families between socket(2) and the call by which they go past the kernel. A number that is a duplicate of such
//! a socket goes past it, too. Where another process has got the socket, it is the kernel's.

use crate::bits::Bits;
use crate::datagram::remember;
use crate::descriptors;
use crate::signals::Inside;
use crate::status::Why;
use libc::c_int;
use rustix::net::{AddressFamily, getpeername, sockopt};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers of such sockets. One that was closed, or has another socket by a call that is not seen here, may stand in it.
static PENDING: Bits = Bits::new();
/// Those of which there are several of one socket.
static DUPLICATES: Bits = Bits::new();

static IS_WATCHING_FORKS: AtomicBool = AtomicBool::new(false);

/// A number was given to a new socket.
pub(crate) fn made(number: c_int, is_internet: bool) {
    if !is_internet {
        return forget(number);
    }
    DUPLICATES.remove(number);
    PENDING.insert(number);
    if !IS_WATCHING_FORKS.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler takes nothing and returns.
        unsafe { libc::pthread_atfork(Some(before_fork), None, None) };
    }
}

/// A number is closed, or its socket listens.
#[inline]
pub(crate) fn forget(number: c_int) {
    PENDING.remove(number);
    DUPLICATES.remove(number);
}

/// A number stands for the same as another one.
pub(crate) fn duplicated(number: c_int, new: c_int) {
    forget(new);
    if PENDING.has(number) {
        PENDING.insert(new);
        [number, new].iter().for_each(|number| DUPLICATES.insert(*number));
    }
}

/// The other numbers of the socket of a number; the number is pending no more.
pub(crate) fn take_others(number: c_int) -> Vec<c_int> {
    PENDING.remove(number);
    if !DUPLICATES.remove(number) {
        return Vec::new();
    }
    let Some(cookie) = cookie(number) else { return Vec::new() };
    let others: Vec<c_int> = DUPLICATES.all().filter(|other| self::cookie(*other) == Some(cookie)).collect();
    others.iter().for_each(|other| forget(*other));
    others
}

fn cookie(number: c_int) -> Option<u64> {
    // SAFETY: borrowed for one system call; a closed one gives an error.
    sockopt::socket_cookie(unsafe { BorrowedFd::borrow_raw(number) }).ok()
}

/// Another process gets what a number stands for.
pub(crate) fn shared(number: c_int) {
    if PENDING.has(number) {
        leave(number, Why::Early);
    }
}

/// A socket that is not connected yet is the kernel's.
pub(crate) fn leave(number: c_int, why: Why) {
    if !descriptors::is_of_kernel(number) {
        return;
    }
    // SAFETY: borrowed for some system calls; a closed one gives an error.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let family = sockopt::socket_domain(socket);
    let is_internet = family.is_ok_and(|family| [AddressFamily::INET, AddressFamily::INET6].contains(&family));
    if is_internet && getpeername(socket).is_err() {
        remember(socket, |early| early.why = Some(why));
    }
}

/// A forked child has them, too.
extern "C" fn before_fork() {
    if Inside::is_entered() {
        return;
    }
    let _inside = Inside::enter();
    PENDING.all().for_each(shared);
}

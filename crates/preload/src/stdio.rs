//! Descriptors that streams of stdio have. The C library reads and writes them by itself, not by the names that are intercepted, so their
//! sockets are the kernel's: the standard descriptors, which have streams from the beginning, and those of fdopen(3).

use crate::datagram::{has_stream, remember};
use crate::description::Kind;
use crate::descriptors;
use crate::handover::{Cause, number_to_kernel_inside};
use crate::signals::Inside;
use libc::c_int;
use rustix::net::{AddressFamily, getpeername, sockopt};
use std::os::fd::BorrowedFd;

/// Remembers that a socket has a stream, if it is not connected yet.
pub(crate) fn note_stream(number: c_int) {
    if number < 0 || Inside::is_entered() || !descriptors::is_of_kernel(number) {
        return;
    }
    let _inside = Inside::enter();
    // SAFETY: the program has the number open during its call; a closed one gives an error.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    if is_internet(socket) && getpeername(socket).is_err() {
        remember(socket, |early| early.has_stream = true);
    }
}

fn is_internet(socket: BorrowedFd<'_>) -> bool {
    sockopt::socket_domain(socket).is_ok_and(|family| [AddressFamily::INET, AddressFamily::INET6].contains(&family))
}

/// Returns whether a number is one that a stream has from the beginning: stdin, stdout, stderr.
#[inline]
pub(crate) fn is_standard(number: c_int) -> bool {
    (libc::STDIN_FILENO..=libc::STDERR_FILENO).contains(&number)
}

/// Returns whether a stream may read or write a socket.
pub(crate) fn is_used(number: c_int, socket: BorrowedFd<'_>) -> bool {
    is_standard(number) || has_stream(socket)
}

/// The kernel gets what has become one of the standard descriptors. The caller is inside.
pub(crate) fn leave(number: c_int) {
    let has_data = |kind: &Kind| matches!(kind, Kind::Stream(_) | Kind::Datagrams(_));
    if is_standard(number) && descriptors::find(number).is_some_and(|description| has_data(&description.kind)) {
        number_to_kernel_inside(number, Cause::Stdio);
    }
}

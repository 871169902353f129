//! Descriptors that streams of stdio have. The C library reads and writes them by itself, not by the names that are intercepted, so their
//! sockets are the kernel's: the standard descriptors, which have streams from the beginning, and those of fdopen(3).

use crate::description::Kind;
use crate::handover::{Cause, number_to_kernel_inside};
use crate::signals::Inside;
use crate::status::Why;
use crate::{datagram, descriptors, pending};
use libc::c_int;
use std::os::fd::BorrowedFd;

/// Remembers that a socket has a stream, if it is not connected yet.
pub(crate) fn note_stream(number: c_int) {
    if !Inside::is_entered() {
        let _inside = Inside::enter();
        pending::leave(number, Why::Stdio);
    }
}

/// Returns whether a number is one that a stream has from the beginning: stdin, stdout, stderr.
#[inline]
pub(crate) fn is_standard(number: c_int) -> bool {
    (libc::STDIN_FILENO..=libc::STDERR_FILENO).contains(&number)
}

/// The reason why a socket that has not begun is the kernel's: a stream may read or write it, or another was remembered.
pub(crate) fn why_kernel(number: c_int, socket: BorrowedFd<'_>) -> Option<Why> {
    if is_standard(number) { Some(Why::Stdio) } else { datagram::why_kernel(socket) }
}

/// The kernel gets what has become one of the standard descriptors. The caller is inside.
pub(crate) fn leave(number: c_int) {
    let has_data = |kind: &Kind| matches!(kind, Kind::Stream(_) | Kind::Datagrams(_));
    if is_standard(number) && descriptors::find(number).is_some_and(|description| has_data(&description.kind)) {
        number_to_kernel_inside(number, Cause::Stdio);
    }
}

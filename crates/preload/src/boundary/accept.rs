//! accept(2): connections past the kernel, and those of the kernel's socket.
//!
//! No call waits in the kernel's accept(2), where it would not learn of connections past the kernel. So the kernel's socket is asked where it
//! has a connection, by one thread at a time. Another process that has the listener may take the connection meanwhile: then the call of the
//! kernel is one that does not wait.

use crate::address;
use crate::answer::{Answer, Stop};
use crate::call::{Manner, Outcome, give, serve};
use crate::description::Kind;
use crate::listener::Listener;
use crate::signals::Inside;
use crate::table::real;
use crate::{accelerate, errno, status};
use libc::{c_int, sockaddr, socklen_t};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use sidestep_socket::tcp::TcpStream;
use std::os::fd::BorrowedFd;

/// The place for the address of the peer.
type Place = (*mut sockaddr, *mut socklen_t);

pub(crate) unsafe fn accept(number: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as the C function's.
    unsafe { give(accept_next(number, address, length, 0), || by_real(number, real::accept(number, address, length))) }
}

pub(crate) unsafe fn accept4(number: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: as the C function's.
    unsafe {
        give(accept_next(number, address, length, flags), || {
            by_real(number, real::accept4(number, address, length, flags))
        })
    }
}

/// A connection that the real call has accepted.
fn by_real(listening: c_int, number: c_int) -> c_int {
    if number >= 0 && !Inside::is_entered() {
        let _inside = Inside::enter();
        by_kernel(listening, number);
    }
    number
}

/// A connection that the kernel's socket has accepted.
fn by_kernel(listening: c_int, number: c_int) -> c_int {
    status::accepted_by_kernel(listening, number);
    number
}

/// # Safety
/// As accept4(2).
unsafe fn accept_next(number: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> Outcome<c_int> {
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Outcome::Real;
    }
    accelerate::is_ours_to_wait(number);
    serve(number, Manner::RECEIVING, |description, waiting| {
        // A connection does not listen: the twin's answer is the right one.
        let Kind::Listener(listener) = &description.kind else { return Err(Stop::Kernel) };
        if !address.is_null() {
            // SAFETY: as the C function's.
            unsafe { address::check(address, length) }?;
        }
        // SAFETY: the number is open as long as the program leaves it open; a closed one gives an error.
        let twin = unsafe { BorrowedFd::borrow_raw(number) };
        loop {
            if let Some(stream) = listener.engine().with_polled(|engine| listener.next(engine)) {
                // SAFETY: as the C function's.
                return unsafe { give_connection(number, listener, stream, (address, length), flags) };
            }
            if waiting.is_nonblocking() {
                return Err(Stop::Kernel);
            }
            // SAFETY: as the C function's.
            if let Some(accepted) = unsafe { accept_of_kernel(number, listener, (address, length), flags) }? {
                return Ok(by_kernel(number, accepted));
            }
            listener.wait(twin, waiting)?;
        }
    })
}

/// Returns whether the kernel's socket has a connection to accept.
fn has_connection(twin: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::new(&twin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut asked, Some(&now)).is_ok_and(|count| count != 0)
}

/// Accepts a connection of the kernel's socket without waiting; `None` where there is none.
///
/// # Safety
/// As accept4(2).
unsafe fn accept_of_kernel(
    number: c_int,
    listener: &Listener,
    (address, length): Place,
    flags: c_int,
) -> Answer<Option<c_int>> {
    // SAFETY: the number is open as long as the program leaves it open; a closed one gives an error.
    let twin = unsafe { BorrowedFd::borrow_raw(number) };
    if !has_connection(twin) {
        return Ok(None);
    }
    let mut turn = listener.turn();
    if !has_connection(twin) {
        // Another thread of this process was first.
        return Ok(None);
    }
    let accepted = if !listener.may_be_others() {
        // It does not wait: accept(2) alone takes a connection from the kernel's queue.
        // SAFETY: as the C function's.
        let accepted = unsafe { real::accept4(number, address, length, flags) };
        if accepted < 0 { Err(errno::last()) } else { Ok(Some(accepted)) }
    } else if let Some(ring) = listener.ring(&mut turn) {
        // SAFETY: as the C function's.
        let accepted = unsafe { ring.accept(twin, address, length, flags) };
        accepted.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    } else {
        // Nothing comes past the kernel from now on, so the call may wait there.
        listener.leave();
        return Err(Stop::Kernel);
    };
    match accepted {
        Err(Errno::AGAIN) => Ok(None),
        done => Ok(done?),
    }
}

/// Gives the program an accepted connection, with a kernel socket of its own as the descriptor.
///
/// # Safety
/// As accept4(2).
unsafe fn give_connection(
    number: c_int,
    listener: &Listener,
    stream: TcpStream,
    (address, length): Place,
    flags: c_int,
) -> Answer<c_int> {
    let family = if listener.is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: socket takes plain values.
    let accepted = unsafe { real::socket(family, libc::SOCK_STREAM | flags, 0) };
    if accepted < 0 {
        listener.put_back(stream);
        return Err(errno::last().into());
    }
    let remote = accelerate::accepted(number, accepted, listener, stream, flags & libc::SOCK_NONBLOCK != 0);
    if let Some(remote) = remote {
        // SAFETY: as the C function's.
        unsafe { address::write(remote, address, length) };
    }
    Ok(accepted)
}

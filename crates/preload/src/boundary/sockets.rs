//! connect(2), listen(2), accept(2), shutdown(2), and the names of both ends.

use crate::address;
use crate::answer::{Answer, Stop};
use crate::boundary::descriptors::note_own;
use crate::call::{Manner, Outcome, give, serve};
use crate::description::{Description, Kind};
use crate::signals::Inside;
use crate::table::real;
use crate::{accelerate, datagram, descriptors, engine, errno, handover, pending, status};
use libc::{c_int, msghdr, sockaddr, socklen_t};
use rustix::io::Errno;
use sidestep_socket::tcp::Shutdown;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for control to close its descriptor of a port that was given back, and the pause between two attempts to bind it. Control
/// takes microseconds; half a second was not enough once, on a busy host.
const RELEASED_WAIT: Duration = Duration::from_secs(2);
const RELEASED_PAUSE: Duration = Duration::from_micros(200);

pub(crate) unsafe fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: socket takes plain values.
    let number = note_own(unsafe { real::socket(family, kind, protocol) });
    if number >= 0 && !Inside::is_entered() {
        let is_datagram = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == libc::SOCK_DGRAM;
        let is_internet = [libc::AF_INET, libc::AF_INET6].contains(&family);
        datagram::made(number, is_datagram && is_internet);
        let _inside = Inside::enter();
        pending::made(number, is_internet);
        status::socket_made(number, family, kind);
    }
    number
}

pub(crate) unsafe fn bind(number: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: as the C function's.
    let local = unsafe { address::read(address, length) };
    let refused = serve(number, Manner::WHOLE, |description, _| match (local, description.stream()) {
        (Some(local), Some(_)) => Err(accelerate::refusal_of_bind(number, local)),
        // The kernel's answer is the right one.
        _ => Err::<c_int, _>(Stop::Kernel),
    });
    // SAFETY: as the C function's.
    let bind = || unsafe { real::bind(number, address, length) };
    let result = give(refused, || bind_released(local.map_or(0, |local| local.port()), bind));
    if result == 0 && !Inside::is_entered() {
        let _inside = Inside::enter();
        follow_or_begin(number);
    }
    result
}

/// Binds to a port. One that the program has closed a moment ago may be taken by control alone, for a moment; with the kernel it is free.
fn bind_released(port: u16, bind: impl Fn() -> c_int) -> c_int {
    let begun = Instant::now();
    loop {
        let result = bind();
        let is_taken = result == -1 && errno::last() == Errno::ADDRINUSE && !Inside::is_entered();
        let may_be_ours = || begun.elapsed() < RELEASED_WAIT && engine::was_released(port);
        if !is_taken || !errno::preserve(may_be_ours) {
            return result;
        }
        std::thread::sleep(RELEASED_PAUSE);
    }
}

/// A socket of UDP has another address or peer.
fn follow_or_begin(number: c_int) {
    match descriptors::find(number) {
        Some(description) => {
            // SAFETY: the number is open as long as the program leaves it open; a closed one gives an error.
            let socket = unsafe { BorrowedFd::borrow_raw(number) };
            description.datagrams().into_iter().for_each(|datagrams| datagrams.follow(socket));
        }
        None => datagram::begin(number),
    }
}

pub(crate) unsafe fn connect(number: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: as the C function's.
    let real = || unsafe { real::connect(number, address, length) };
    if number < 0 || Inside::is_entered() {
        return real();
    }
    descriptors::is_ours_to_use(number);
    // SAFETY: as the C function's.
    if is_stream(number) && unsafe { address::is_unspecified(address, length) } {
        return give(serve(number, Manner::SENDING, |description, _| dissolve::<c_int>(description)), real);
    }
    // SAFETY: as the C function's.
    let remote = unsafe { address::read(address, length) };
    if is_stream(number) || remote.is_some_and(|remote| begin(number, remote)) {
        return if remote.is_some() { give(serve(number, Manner::SENDING, accelerate::connect), real) } else { real() };
    }
    let result = real();
    if result == 0 {
        let _inside = Inside::enter();
        follow_or_begin(number);
    }
    result
}

fn is_stream(number: c_int) -> bool {
    let _inside = Inside::enter();
    descriptors::find(number).is_some_and(|description| description.datagrams().is_none())
}

/// connect(2) to AF_UNSPEC: the connection is reset, or listening ends, and the twin is a socket like a new one (tcp_disconnect,
/// linux/net/ipv4/tcp.c).
fn dissolve<T>(description: &Arc<Description>) -> Answer<T> {
    match &description.kind {
        Kind::Stream(_) => accelerate::dissolve(description),
        Kind::Listener(_) => handover::give_to_kernel(description, handover::Cause::Shutdown)?,
        Kind::Datagrams(_) | Kind::Epoll(_) => {}
    }
    Err(Stop::Kernel)
}

/// Begins a connection past the kernel. Returns false where it is the kernel's.
fn begin(number: c_int, remote: SocketAddr) -> bool {
    let _inside = Inside::enter();
    if descriptors::is_ours(number) {
        return false;
    }
    datagram::before_connect(number, remote);
    accelerate::begin_connection(number, remote)
}

pub(crate) unsafe fn listen(number: c_int, backlog: c_int) -> c_int {
    let refused = serve(number, Manner::WHOLE, |description, _| match &description.kind {
        Kind::Stream(stream) if !stream.has_ended() => Err::<c_int, _>(Errno::INVAL.into()),
        Kind::Stream(_) => dissolve(description),
        _ => Err(Stop::Kernel),
    });
    // SAFETY: listen takes plain values.
    give(refused, || unsafe { begin_listening(number, backlog) })
}

/// # Safety
/// None is needed: listen takes plain values.
unsafe fn begin_listening(number: c_int, backlog: c_int) -> c_int {
    let was_ours = descriptors::is_ours(number);
    if number >= 0 && !Inside::is_entered() && !was_ours {
        // Before the kernel listens: a connection that it took up meanwhile would keep the port from being steered.
        let _inside = Inside::enter();
        accelerate::begin_listening(number, backlog);
    }
    // SAFETY: listen takes plain values.
    let result = unsafe { real::listen(number, backlog) };
    pending::forget(number);
    if !Inside::is_entered() && descriptors::is_ours(number) {
        let _inside = Inside::enter();
        match result {
            0 => accelerate::follow_backlog(number),
            _ if !was_ours => descriptors::find(number).iter().for_each(descriptors::release),
            _ => {}
        }
    }
    result
}

pub(crate) unsafe fn shutdown(number: c_int, how: c_int) -> c_int {
    let outcome = serve(number, Manner::WHOLE, |description, _| {
        let direction = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno::INVAL.into()),
        };
        match &description.kind {
            // As tcp_disconnect in SYN-SENT (inet_shutdown, linux/net/ipv4/af_inet.c).
            Kind::Stream(stream) if stream.is_opening() => {
                accelerate::dissolve(description);
                Ok(0)
            }
            Kind::Stream(stream) => stream.shutdown(direction).map(|()| 0),
            Kind::Epoll(_) => Err(Stop::Kernel),
            Kind::Listener(_) | Kind::Datagrams(_) => {
                // It ends listening, or does nothing: the kernel's socket knows.
                handover::give_to_kernel(description, handover::Cause::Shutdown)?;
                Err(Stop::Kernel)
            }
        }
    });
    // SAFETY: shutdown takes plain values.
    give(outcome, || unsafe { real::shutdown(number, how) })
}

pub(crate) unsafe fn getsockname(number: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as the C function's.
    unsafe { give(name_end(number, address, length, End::Local), || real::getsockname(number, address, length)) }
}

pub(crate) unsafe fn getpeername(number: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: as the C function's.
    unsafe { give(name_end(number, address, length, End::Remote), || real::getpeername(number, address, length)) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Local,
    Remote,
}

/// # Safety
/// As getsockname(2).
unsafe fn name_end(number: c_int, address: *mut sockaddr, length: *mut socklen_t, end: End) -> Outcome<c_int> {
    serve(number, Manner::WHOLE, |description, waiting| {
        let stream = description.stream().ok_or(Stop::Kernel)?;
        let (local, remote) = match end {
            End::Local => {
                if waiting.is_nonblocking() && stream.has_no_port() {
                    // The kernel makes the connection, and knows its port at once.
                    handover::number_to_kernel_inside(number, handover::Cause::Unnamed);
                }
                stream.named_ends(waiting).ok_or(Stop::Kernel)?
            }
            End::Remote if !stream.has_peer() => return Err(Errno::NOTCONN.into()),
            End::Remote => stream.ends().ok_or(Stop::Kernel)?,
        };
        // SAFETY: the caller promises it.
        unsafe { address::check(address, length) }?;
        // SAFETY: the caller promises it.
        unsafe { address::write(if end == End::Local { local } else { remote }, address, length) };
        Ok(0)
    })
}

/// Descriptors that a message carries to another process become the kernel's before.
///
/// # Safety
/// The message is valid, with its control data.
pub(crate) unsafe fn before_passing(message: &msghdr) {
    if message.msg_control.is_null() || message.msg_controllen == 0 {
        return;
    }
    // SAFETY: the caller promises a valid message; the macros of libc stay inside of its control data.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let numbers = libc::CMSG_DATA(header).cast::<c_int>();
                for place in 0..bytes / size_of::<c_int>() {
                    let number = numbers.add(place).read_unaligned();
                    handover::number_to_kernel(number, handover::Cause::Passed);
                    pending::shared(number);
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

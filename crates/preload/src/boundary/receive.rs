//! read(2), recv(2) and their kin.

use crate::answer::{Answer, Stop};
use crate::boundary::rest;
use crate::boundary::waiting::{deadline, duration};
use crate::call::{Manner, Outcome, give, serve};
use crate::datagram::Call;
use crate::description::Kind;
use crate::descriptors;
use crate::signals::Inside;
use crate::stream::Receive;
use crate::table::real;
use crate::vectors::{Scatter, list, single};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;
use std::time::Instant;

/// Flags that we serve; a call with others is refused as the kernel refuses them of TCP, or ignored where it ignores them.
fn how(flags: c_int) -> Answer<Receive> {
    if flags & libc::MSG_OOB != 0 {
        // No urgent data is kept (tcp_recv_urg, linux/net/ipv4/tcp_input.c).
        return Err(Errno::INVAL.into());
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Errno::AGAIN.into());
    }
    Ok(Receive {
        peek: flags & libc::MSG_PEEK != 0,
        wait_all: flags & libc::MSG_WAITALL != 0,
        discard: flags & libc::MSG_TRUNC != 0,
    })
}

/// # Safety
/// The buffers are valid for writes, and nobody else's.
unsafe fn receive(number: c_int, vector: &[iovec], flags: c_int) -> Outcome<ssize_t> {
    // SAFETY: as the caller's.
    unsafe { receive_into(number, &mut of_vector(vector), flags) }
}

/// A message without name and ancillary data.
fn of_vector(vector: &[iovec]) -> msghdr {
    // SAFETY: the struct is integers and pointers.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vector.as_ptr().cast_mut(), vector.len() as _);
    message
}

/// Receives a message. One of TCP has neither name nor ancillary data (tcp_recvmsg, linux/net/ipv4/tcp.c).
///
/// # Safety
/// The message is valid: its buffers for writes, and nobody else's.
unsafe fn receive_into(number: c_int, message: &mut msghdr, flags: c_int) -> Outcome<ssize_t> {
    let mut done = 0;
    let outcome = serve(number, Manner::RECEIVING.with_flags(flags), |description, waiting| {
        // SAFETY: the caller promises it.
        let vector = unsafe { list(message.msg_iov, message.msg_iovlen) }?;
        match &description.kind {
            Kind::Stream(stream) => {
                if flags & libc::MSG_OOB != 0 && stream.engine().with(|engine| stream.is_urgent(engine)) {
                    return Err(Stop::Kernel);
                }
                let how = how(flags)?;
                // SAFETY: as above. What is discarded is not written.
                let mut into = unsafe { if how.discard { Scatter::discarding(vector) } else { Scatter::new(vector) } }?;
                let count = stream.receive(&mut into, how, &mut done, waiting)?;
                (message.msg_namelen, message.msg_controllen, message.msg_flags) = (0, 0, 0);
                Ok(count as ssize_t)
            }
            Kind::Datagrams(datagrams) => {
                // SAFETY: as above; null buffers are refused before a datagram is taken.
                unsafe { Scatter::new(vector) }?;
                let call = Call { description, number, flags };
                // SAFETY: the caller promises it.
                Ok(unsafe { datagrams.receive(&call, message, waiting) }? as ssize_t)
            }
            Kind::Listener(_) => Err(Errno::NOTCONN.into()),
            // Its set is the kernel's, too, which refuses it.
            Kind::Epoll(_) => Err(Stop::Kernel),
        }
    });
    // What was looked at is still unread.
    if let (Outcome::Real, 1.., 0) = (&outcome, done, flags & libc::MSG_PEEK) {
        (message.msg_namelen, message.msg_controllen, message.msg_flags) = (0, 0, 0);
        // SAFETY: the caller promises the buffers, and the list was read before.
        return Outcome::Done(Ok(unsafe {
            let vector = std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen);
            rest::receive(number, vector, flags, done)
        }));
    }
    outcome
}

pub(crate) unsafe fn read(number: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    if length == 0 {
        // It takes no datagram (sock_read_iter, linux/net/socket.c).
        // SAFETY: as the C function's.
        return unsafe { real::read(number, buffer, length) };
    }
    // SAFETY: as the C function's.
    unsafe { give(receive(number, &single(buffer, length), 0), || real::read(number, buffer, length)) }
}

pub(crate) unsafe fn read_chk(number: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t {
    if length > room {
        // It reports the overflow and ends the program.
        // SAFETY: as the C function's.
        return unsafe { real::__read_chk(number, buffer, length, room) };
    }
    // SAFETY: as the C function's.
    unsafe { read(number, buffer, length) }
}

pub(crate) unsafe fn readv(number: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as the C function's.
    unsafe { give(read_lists(number, vector, count, 0), || real::readv(number, vector, count)) }
}

/// # Safety
/// As readv(2).
unsafe fn read_lists(number: c_int, vector: *const iovec, count: c_int, flags: c_int) -> Outcome<ssize_t> {
    // SAFETY: the caller promises it.
    match usize::try_from(count).map_err(|_| Errno::INVAL.into()).and_then(|count| unsafe { list(vector, count) }) {
        // As read(2).
        Ok(vector) if vector.iter().all(|one| one.iov_len == 0) => Outcome::Real,
        // SAFETY: as above.
        Ok(vector) => unsafe { receive(number, vector, flags) },
        // The kernel refuses it, too.
        Err(_) => Outcome::Real,
    }
}

pub(crate) unsafe fn preadv2(
    number: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let receive_flags = if flags & libc::RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 };
    let real = || {
        // SAFETY: as the C function's.
        unsafe { real::preadv2(number, vector, count, offset, flags) }
    };
    // A place in a socket is refused by the kernel (ESPIPE), and so are flags that it does not know.
    if offset != -1 || flags & !(libc::RWF_NOWAIT | libc::RWF_HIPRI) != 0 {
        return real();
    }
    // SAFETY: as the C function's.
    give(unsafe { read_lists(number, vector, count, receive_flags) }, real)
}

pub(crate) unsafe fn recv(number: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the C function's.
    unsafe { give(receive(number, &single(buffer, length), flags), || real::recv(number, buffer, length, flags)) }
}

pub(crate) unsafe fn recv_chk(
    number: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if length > room {
        // SAFETY: as the C function's.
        return unsafe { real::__recv_chk(number, buffer, length, room, flags) };
    }
    // SAFETY: as the C function's.
    unsafe { recv(number, buffer, length, flags) }
}

pub(crate) unsafe fn recvfrom(
    number: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    let vector = single(buffer, length);
    let mut message = of_vector(&vector);
    let is_named = !address_length.is_null() && !address.is_null();
    if is_named {
        // SAFETY: it is not null, so valid.
        (message.msg_name, message.msg_namelen) = (address.cast(), unsafe { *address_length });
    }
    // SAFETY: as the C function's.
    let outcome = unsafe { receive_into(number, &mut message, flags) };
    if let (Outcome::Done(Ok(_)), true) = (&outcome, is_named) {
        // SAFETY: it is not null, so valid.
        unsafe { *address_length = message.msg_namelen };
    }
    // SAFETY: as the C function's.
    give(outcome, || unsafe { real::recvfrom(number, buffer, length, flags, address, address_length) })
}

pub(crate) unsafe fn recvfrom_chk(
    number: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    if length > room {
        // SAFETY: as the C function's.
        return unsafe { real::__recvfrom_chk(number, buffer, length, room, flags, address, address_length) };
    }
    // SAFETY: as the C function's.
    unsafe { recvfrom(number, buffer, length, flags, address, address_length) }
}

pub(crate) unsafe fn recvmsg(number: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as the C function's.
    unsafe { give(receive_message(number, message, flags), || real::recvmsg(number, message, flags)) }
}

/// # Safety
/// As recvmsg(2).
unsafe fn receive_message(number: c_int, message: *mut msghdr, flags: c_int) -> Outcome<ssize_t> {
    if message.is_null() || !descriptors::is_ours_to_use(number) {
        return Outcome::Real;
    }
    // SAFETY: it is not null, so valid, as is the list that it names.
    let (header, vector) = unsafe { (&mut *message, list((*message).msg_iov, (*message).msg_iovlen)) };
    if vector.is_err() {
        return Outcome::Real;
    }
    // SAFETY: the caller promises the buffers.
    unsafe { receive_into(number, header, flags) }
}

pub(crate) unsafe fn recvmmsg(
    number: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: as the C function's.
    let real = move || unsafe { real::recvmmsg(number, messages, count, flags, timeout) };
    if messages.is_null() || !descriptors::is_ours_to_use(number) {
        return real();
    }
    // SAFETY: it is null, or valid; the kernel refuses a bad one.
    let Ok(time) = (unsafe { duration(timeout) }) else { return real() };
    let deadline = deadline(time);
    // SAFETY: the C function's contract: an array of so many.
    let messages = unsafe { std::slice::from_raw_parts_mut(messages, count as usize) };
    if is_datagrams(number) {
        // SAFETY: as the C function's.
        let outcome = unsafe { receive_datagrams(number, messages, flags, deadline) };
        if let (Outcome::Done(Ok(1..)), Some(deadline)) = (outcome, deadline) {
            // As Linux does: the time that is left (recvmmsg(2)).
            let left = deadline.saturating_duration_since(Instant::now());
            // SAFETY: it has a deadline, so it is not null.
            unsafe { ((*timeout).tv_sec, (*timeout).tv_nsec) = (left.as_secs() as _, left.subsec_nanos().into()) };
        }
        return give(outcome, real);
    }
    let mut done = 0;
    for message in messages {
        let one_flags = if done > 0 && flags & libc::MSG_WAITFORONE != 0 { flags | libc::MSG_DONTWAIT } else { flags };
        // SAFETY: as the C function's.
        let count = unsafe { recvmsg(number, &raw mut message.msg_hdr, one_flags & !libc::MSG_WAITFORONE) };
        if count < 0 {
            return if done > 0 { done } else { -1 };
        }
        message.msg_len = count as c_uint;
        done += 1;
        if count == 0 || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            break;
        }
    }
    done
}

/// Returns whether a number is of a socket of UDP that is ours.
fn is_datagrams(number: c_int) -> bool {
    if Inside::is_entered() {
        return false;
    }
    let _inside = Inside::enter();
    descriptors::find(number).is_some_and(|description| description.datagrams().is_some())
}

/// Returns whether a number is of a connection that is ours.
pub(super) fn is_stream(number: c_int) -> bool {
    if Inside::is_entered() {
        return false;
    }
    let _inside = Inside::enter();
    descriptors::find(number).is_some_and(|description| description.stream().is_some())
}

/// # Safety
/// As recvmmsg(2).
unsafe fn receive_datagrams(
    number: c_int,
    messages: &mut [mmsghdr],
    flags: c_int,
    deadline: Option<Instant>,
) -> Outcome<c_int> {
    let check = |one: &mmsghdr| {
        // SAFETY: the caller promises it.
        unsafe { list(one.msg_hdr.msg_iov, one.msg_hdr.msg_iovlen).and_then(|one| Scatter::new(one)) }.map(drop)
    };
    // A message that is refused ends the call before it takes a datagram.
    let valid = messages.iter().position(|one| check(one).is_err()).unwrap_or(messages.len());
    let refused = messages.first().filter(|_| valid == 0).and_then(|first| check(first).err());
    let messages = &mut messages[..valid];
    serve(number, Manner::RECEIVING.with_flags(flags), |description, waiting| {
        let datagrams = description.datagrams().ok_or(Stop::Kernel)?;
        refused.map_or(Ok(()), Err)?;
        let call = Call { description, number, flags };
        // SAFETY: the caller promises it.
        Ok(unsafe { datagrams.receive_many(&call, messages, deadline, waiting) }? as c_int)
    })
}

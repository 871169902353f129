//! write(2), send(2), sendfile(2) and their kin.

use crate::answer::Stop;
use crate::boundary::receive::is_stream;
use crate::boundary::rest;
use crate::call::{Manner, Outcome, give, serve};
use crate::datagram;
use crate::description::Kind;
use crate::errno;
use crate::stream::Send;
use crate::table::real;
use crate::vectors::{Gather, VECTORS_MAX, list, single};
use libc::{c_int, c_uint, c_void, iovec, loff_t, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Bytes that sendfile(2) copies at a time.
const COPIED_BYTES: usize = 65_536;

/// # Safety
/// The buffers are valid for reads.
unsafe fn send_list(number: c_int, vector: &[iovec], flags: c_int, manner: Manner) -> Outcome<ssize_t> {
    // SAFETY: the struct is integers and pointers.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vector.as_ptr().cast_mut(), vector.len() as _);
    // SAFETY: as the caller's.
    unsafe { send_message(number, &message, flags, manner) }
}

/// Sends a message. The name is for datagrams alone; a connected socket of TCP ignores it.
///
/// # Safety
/// The message is valid, and its buffers for reads.
unsafe fn send_message(number: c_int, message: &msghdr, flags: c_int, manner: Manner) -> Outcome<ssize_t> {
    let mut done = 0;
    let outcome = serve(number, manner.with_flags(flags), |description, waiting| {
        if let Some(datagrams) = description.datagrams() {
            // SAFETY: the caller promises it.
            return Ok(unsafe { datagrams.send(message, flags) }? as ssize_t);
        }
        let stream = match &description.kind {
            Kind::Stream(stream) => stream,
            Kind::Listener(_) | Kind::Datagrams(_) => return Err(Errno::PIPE.into()),
            // Its set is the kernel's, too, which refuses it.
            Kind::Epoll(_) => return Err(Stop::Kernel),
        };
        if flags & libc::MSG_OOB != 0 {
            // Urgent data is the kernel's.
            crate::handover::give_to_kernel(description, crate::handover::Cause::Urgent)?;
            return Err(Stop::Kernel);
        }
        // SAFETY: the caller promises it.
        let from = unsafe { Gather::new(list(message.msg_iov, message.msg_iovlen)?) }?;
        Ok(stream.send(from, Send { more: flags & libc::MSG_MORE != 0 }, &mut done, waiting)? as ssize_t)
    });
    if let (Outcome::Real, 1..) = (&outcome, done) {
        // SAFETY: the caller promises the buffers, and the list was read before.
        return Outcome::Done(Ok(unsafe {
            let vector = std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen);
            rest::send(number, vector, flags, done)
        }));
    }
    if let (Outcome::Done(Err(Errno::PIPE)), 0) = (&outcome, flags & libc::MSG_NOSIGNAL) {
        // SAFETY: a signal to this very thread, as the kernel sends it (sk_stream_error, linux/net/core/stream.c).
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    outcome
}

pub(crate) unsafe fn write(number: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: as the C function's.
    unsafe {
        give(send_list(number, &single(buffer, length), 0, Manner::SENDING), || real::write(number, buffer, length))
    }
}

pub(crate) unsafe fn writev(number: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as the C function's.
    unsafe { give(send_vector(number, vector, count, 0), || real::writev(number, vector, count)) }
}

/// # Safety
/// As writev(2).
unsafe fn send_vector(number: c_int, vector: *const iovec, count: c_int, flags: c_int) -> Outcome<ssize_t> {
    // SAFETY: the caller promises it.
    match usize::try_from(count).map_err(|_| Errno::INVAL.into()).and_then(|count| unsafe { list(vector, count) }) {
        // SAFETY: as above.
        Ok(vector) => unsafe { send_list(number, vector, flags, Manner::SENDING) },
        // The kernel refuses it, too.
        Err(_) => Outcome::Real,
    }
}

pub(crate) unsafe fn pwritev2(
    number: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let send_flags = if flags & libc::RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 };
    let real = || {
        // SAFETY: as the C function's.
        unsafe { real::pwritev2(number, vector, count, offset, flags) }
    };
    if offset != -1 || flags & !(libc::RWF_NOWAIT | libc::RWF_HIPRI) != 0 {
        return real();
    }
    // SAFETY: as the C function's.
    give(unsafe { send_vector(number, vector, count, send_flags) }, real)
}

pub(crate) unsafe fn send(number: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the C function's.
    unsafe {
        give(send_list(number, &single(buffer, length), flags, Manner::SENDING), || {
            real::send(number, buffer, length, flags)
        })
    }
}

pub(crate) unsafe fn sendto(
    number: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    datagram::before_send(number);
    let vector = single(buffer, length);
    // SAFETY: the struct is integers and pointers.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vector.as_ptr().cast_mut(), 1);
    (message.msg_name, message.msg_namelen) = (address.cast_mut().cast(), address_length);
    // SAFETY: as the C function's.
    unsafe {
        give(send_message(number, &message, flags, Manner::SENDING), || {
            real::sendto(number, buffer, length, flags, address, address_length)
        })
    }
}

pub(crate) unsafe fn sendmsg(number: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let real = || {
        // SAFETY: as the C function's.
        unsafe { real::sendmsg(number, message, flags) }
    };
    if message.is_null() {
        return real();
    }
    datagram::before_send(number);
    if !crate::descriptors::is_ours_to_use(number) {
        // SAFETY: it is not null, so valid.
        unsafe { crate::boundary::sockets::before_passing(&*message) };
        return real();
    }
    // SAFETY: it is not null, so valid, as is the list that it names.
    match unsafe { list((*message).msg_iov, (*message).msg_iovlen) } {
        // SAFETY: the caller promises the buffers.
        Ok(_) => give(unsafe { send_message(number, &*message, flags, Manner::SENDING) }, real),
        Err(_) => real(),
    }
}

pub(crate) unsafe fn sendmmsg(number: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    datagram::before_send(number);
    if messages.is_null() || !crate::descriptors::is_ours_to_use(number) {
        // SAFETY: as the C function's.
        return unsafe { real::sendmmsg(number, messages, count, flags) };
    }
    // SAFETY: the C function's contract: an array of so many.
    let messages = unsafe { std::slice::from_raw_parts_mut(messages, (count as usize).min(VECTORS_MAX)) };
    let mut done = 0;
    // SAFETY: as the C function's.
    if let Outcome::Done(Ok(sent)) = unsafe { send_datagrams(number, messages, flags) } {
        let rest = &mut messages[sent as usize..];
        if rest.is_empty() {
            return sent;
        }
        // The kernel sends from the first that is its own on.
        // SAFETY: as the C function's.
        let more = unsafe { real::sendmmsg(number, rest.as_mut_ptr(), rest.len() as c_uint, flags) };
        return if more >= 0 {
            sent + more
        } else if sent > 0 {
            sent
        } else {
            more
        };
    }
    for message in messages {
        // SAFETY: as the C function's.
        let count = unsafe { sendmsg(number, &raw const message.msg_hdr, flags) };
        if count < 0 {
            return if done > 0 { done } else { -1 };
        }
        message.msg_len = count as c_uint;
        done += 1;
    }
    done
}

/// Sends datagrams up to the first that is the kernel's to send.
///
/// # Safety
/// As sendmmsg(2).
unsafe fn send_datagrams(number: c_int, messages: &mut [mmsghdr], flags: c_int) -> Outcome<c_int> {
    serve(number, Manner::SENDING, |description, _| {
        let datagrams = description.datagrams().ok_or(Stop::Kernel)?;
        // SAFETY: the caller promises it.
        Ok(unsafe { datagrams.send_many(messages, flags) } as c_int)
    })
}

/// sendfile(2) by a copy: what the connection does not take is not taken from the file.
pub(crate) unsafe fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    if !crate::descriptors::is_ours_to_use(out) || !is_stream(out) {
        // SAFETY: as the C function's.
        return unsafe { real::sendfile(out, from, offset, count) };
    }
    // SAFETY: it is null, or valid; null stands for the file's own place.
    let start = match unsafe { offset.as_ref() } {
        Some(offset) => *offset,
        // SAFETY: lseek takes plain values.
        None => unsafe { libc::lseek(from, 0, libc::SEEK_CUR) },
    };
    if start < 0 {
        // A pipe or a socket cannot be sent from (do_splice_direct, linux/fs/splice.c).
        errno::set(Errno::INVAL);
        return -1;
    }
    // SAFETY: as the C function's.
    let sent = unsafe { copy(out, from, start, count) };
    if sent > 0 && (sent as usize) < count {
        errno::preserve(|| end_more(out));
    }
    if sent > 0 {
        // SAFETY: it is null, or valid.
        match unsafe { offset.as_mut() } {
            Some(offset) => *offset = start + sent as off_t,
            // SAFETY: lseek takes plain values.
            None => drop(unsafe { libc::lseek(from, start + sent as off_t, libc::SEEK_SET) }),
        }
    }
    sent
}

/// # Safety
/// As sendfile(2).
unsafe fn copy(out: c_int, from: c_int, start: off_t, count: size_t) -> ssize_t {
    let mut buffer = vec![0_u8; COPIED_BYTES.min(count)];
    let mut sum: ssize_t = 0;
    while (sum as usize) < count {
        let part = buffer.len().min(count - sum as usize);
        // SAFETY: the program has the number open during its call; a closed one gives an error.
        let file = unsafe { BorrowedFd::borrow_raw(from) };
        // By the system call: the C library's function is a cancellation point.
        let read = match rustix::io::pread(file, &mut buffer[..part], (start + sum as off_t) as u64) {
            Ok(0) => return sum,
            Ok(read) => read,
            Err(_) if sum > 0 => return sum,
            Err(error) => {
                errno::set(error);
                return -1;
            }
        };
        let is_last = sum as usize + read >= count;
        let flags = if is_last { 0 } else { libc::MSG_MORE };
        let part = single(buffer.as_ptr().cast(), read);
        // SAFETY: the buffer has `read` bytes.
        let sent = give(unsafe { send_list(out, &part, flags, Manner::WHOLE) }, || unsafe {
            real::send(out, part[0].iov_base, part[0].iov_len, flags)
        });
        if sent < 0 {
            return if sum > 0 { sum } else { -1 };
        }
        sum += sent;
        if (sent as usize) < read {
            break;
        }
    }
    sum
}

/// No more data follows, as the file has ended before the count: what is held back leaves.
fn end_more(out: c_int) {
    // SAFETY: no bytes are read. It waits for nothing.
    let _ = unsafe { send_list(out, &[], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, Manner::WHOLE) };
}

/// splice(2) of a connection of ours: the kernel gets the connection, if it can.
pub(crate) unsafe fn splice(
    from: c_int,
    from_offset: *mut loff_t,
    to: c_int,
    to_offset: *mut loff_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    for number in [from, to] {
        crate::handover::number_to_kernel(number, crate::handover::Cause::Splice);
    }
    // SAFETY: as the C function's.
    unsafe { real::splice(from, from_offset, to, to_offset, count, flags) }
}

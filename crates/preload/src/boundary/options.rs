//! getsockopt(2), setsockopt(2): the twin checks and answers; ours follows, and answers where it knows better.

use crate::answer::Stop;
use crate::call::{Manner, give, serve};
use crate::datagram::{Follow, Membership};
use crate::description::Kind;
use crate::handover::Cause;
use crate::signals::Inside;
use crate::stream::{self, Stream, info, unfollowed};
use crate::table::real;
use crate::{accelerate, datagram, descriptors, errno, handover};
use libc::{c_int, c_void, socklen_t};
use rustix::net::{SocketType, sockopt};
use std::mem::size_of;
use std::os::fd::BorrowedFd;

pub(crate) unsafe fn getsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let outcome = serve(number, Manner::WHOLE, |description, _| {
        let stream = description.stream().ok_or(Stop::Kernel)?;
        if value.is_null() || length.is_null() {
            return Err(Stop::Kernel);
        }
        // SAFETY: the program promises `*length` bytes; both are not null.
        unsafe { answer(stream, (level, name), value, &mut *length) }.ok_or(Stop::Kernel)
    });
    // SAFETY: as the C function's.
    give(outcome, || unsafe { real::getsockopt(number, level, name, value, length) })
}

/// The answers that are ours; `None`: the twin's.
///
/// # Safety
/// `value` is valid for writes of `*length` bytes.
unsafe fn answer(stream: &Stream, option: (c_int, c_int), value: *mut c_void, length: &mut socklen_t) -> Option<c_int> {
    match option {
        // SAFETY: the caller promises it.
        (libc::SOL_SOCKET, libc::SO_ERROR) => unsafe { put(&stream.take_error(), value, length) },
        // SAFETY: as above.
        (libc::IPPROTO_TCP, libc::TCP_INFO) => unsafe { put(&info(stream)?, value, length) },
        // SAFETY: as above.
        (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => unsafe {
            put(&stream.path_mtu()?, value, length);
        },
        // SAFETY: as above.
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => unsafe { put(&stream.segment_bytes()?, value, length) },
        _ => return None,
    }
    Some(0)
}

/// Writes as much of a value as there is room for, and how much that was.
///
/// # Safety
/// `value` is valid for writes of `*length` bytes.
unsafe fn put<T>(from: &T, value: *mut c_void, length: &mut socklen_t) {
    let count = (*length as usize).min(size_of::<T>());
    // SAFETY: the caller promises the room, and `from` is that long.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), value.cast::<u8>(), count) };
    *length = count as socklen_t;
}

pub(crate) unsafe fn setsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    // SAFETY: as the C function's.
    let result = unsafe { real::setsockopt(number, level, name, value, length) };
    if result == 0 && !Inside::is_entered() {
        // SAFETY: the kernel has just read the value.
        errno::preserve(|| unsafe { follow(number, (level, name), value, length) });
    }
    result
}

/// Follows an option that the kernel has taken.
///
/// # Safety
/// `value` is valid for reads of `length` bytes.
unsafe fn follow(number: c_int, (level, name): (c_int, c_int), value: *const c_void, length: socklen_t) {
    let is_ours = descriptors::is_ours(number);
    let effect = datagram::follow_of(level, name);
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
        stream::note_congestion();
    }
    let _inside = Inside::enter();
    if !is_ours && matches!(effect, Follow::Read | Follow::Kernel) {
        // SAFETY: the program has the number open during its call.
        unfollowed::note(unsafe { BorrowedFd::borrow_raw(number) }, (level, name));
        return;
    }
    let description = descriptors::find(number);
    if level == libc::SOL_SOCKET && TIMEOUTS.contains(&name) {
        description.iter().for_each(|description| description.follow_timeouts(number));
    }
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    // SAFETY: as the caller's; null has no bytes.
    let interface = || if value.is_null() { 0 } else { unsafe { datagram::multicast_interface(value, length) } };
    let membership = || {
        // SAFETY: as the caller's; null has no bytes.
        (!value.is_null()).then(|| unsafe { Membership::read(level, name, value, length) }).flatten()
    };
    match (description.as_ref().map(|description| &description.kind), effect) {
        (Some(Kind::Stream(_)), _) if unfollowed::note(socket, (level, name)) => {
            handover::number_to_kernel_inside(number, Cause::Option);
        }
        (Some(Kind::Stream(stream)), _) => stream.follow_one(socket, (level, name)),
        (Some(Kind::Listener(listener)), _) => {
            unfollowed::note(socket, (level, name));
            accelerate::follow_listener(number, listener);
        }
        (Some(Kind::Datagrams(datagrams)), Follow::Read) => {
            datagrams.follow(socket);
        }
        (Some(Kind::Datagrams(datagrams)), Follow::Membership) => match membership() {
            Some(change) => datagrams.follow_membership(socket, change),
            None => handover::number_to_kernel_inside(number, Cause::Option),
        },
        (Some(Kind::Datagrams(_)), Follow::Kernel | Follow::KernelUnread) => {
            handover::number_to_kernel_inside(number, Cause::Option);
        }
        (Some(Kind::Datagrams(datagrams)), Follow::MulticastInterface) => {
            datagrams.follow_multicast_interface(socket, interface());
        }
        (None, Follow::Membership) => match membership() {
            Some(change) => datagram::remember(socket, |early| early.memberships.push(change)),
            None => datagram::remember(socket, |early| early.is_odd = true),
        },
        (None, Follow::MulticastInterface) => {
            datagram::remember(socket, |early| early.multicast_interface = interface());
        }
        (None, Follow::KernelUnread) if is_datagram(socket) => {
            datagram::remember(socket, |early| early.is_odd = true);
        }
        (None, _) => _ = unfollowed::note(socket, (level, name)),
        _ => {}
    }
}

/// SO_RCVTIMEO and SO_SNDTIMEO, and those of 64-bit times (asm-generic/socket.h).
const TIMEOUTS: [c_int; 4] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, 66, 67];

/// Returns whether a socket is of datagrams.
fn is_datagram(socket: BorrowedFd<'_>) -> bool {
    sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::DGRAM)
}

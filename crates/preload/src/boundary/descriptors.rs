//! close(2), dup(2), fcntl(2), ioctl(2): what happens to descriptor numbers.

use crate::description::Description;
use crate::descriptors::State;
use crate::signals::Inside;
use crate::table::real;
use crate::{descriptors, epoll, errno, handover, highest, inherited, pending, process, status, stdio};
use libc::{c_int, c_uint, c_ulong};
use rustix::io::Errno;
use sidestep_sys::own_descriptors;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::sync::Arc;

/// Returns whether a number's entry is to be changed: not in a child of vfork(2), which shares the table with its parent.
fn is_changed(number: c_int) -> bool {
    descriptors::is_ours(number) && !Inside::is_entered() && !process::is_child()
}

/// Lets go of a number before it is closed.
fn forget(number: c_int) {
    if is_changed(number) {
        let _inside = Inside::enter();
        if let Some((description, is_last)) = descriptors::take(number) {
            finish(number, description, is_last);
        }
    } else if is_foreign(number) {
        descriptors::set_state(number, State::Kernel);
    }
}

/// Returns whether a number's state is to be changed that has no description of this process.
fn is_foreign(number: c_int) -> bool {
    if descriptors::state(number) == State::Kernel || Inside::is_entered() {
        return false;
    }
    process::begin_child();
    !process::is_child() && !descriptors::is_ours(number)
}

/// The last number of a description ends it; SO_LINGER may make that wait. A call under way on it in another thread ends it later, as
/// with the kernel's: what another process may have of it the kernel gets before, for nobody asks then.
fn finish(number: c_int, description: Arc<Description>, is_last: bool) {
    if is_last && description.twin_also_receives() {
        epoll::forget(number);
    }
    if is_last {
        handover::before_close(number, &description);
    }
    if let Some(description) = Arc::into_inner(description) {
        description.linger(number);
    }
}

/// Notes a descriptor that the library itself has made by a call of the C library.
pub(crate) fn note_own(number: c_int) -> c_int {
    if number >= 0 && is_caller_library() {
        own_descriptors::note(number);
    }
    number
}

/// A duplicate that the library makes (`try_clone`), which gets a high number where there is one.
fn own_duplicate(number: c_int, command: c_int) -> Option<c_int> {
    if !matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) || !is_caller_library() {
        return None;
    }
    // SAFETY: the caller has the number open.
    own_descriptors::duplicate(unsafe { BorrowedFd::borrow_raw(number) }).ok().map(IntoRawFd::into_raw_fd)
}

fn is_caller_library() -> bool {
    Inside::is_entered()
}

/// The answer to a call on a number of the library's: it is not open, as far as the program knows.
fn not_open() -> c_int {
    errno::set(Errno::BADF);
    -1
}

pub(crate) unsafe fn close(number: c_int) -> c_int {
    if descriptors::is_library(number) {
        return not_open();
    }
    forget(number);
    status::closed(number);
    pending::forget(number);
    own_descriptors::forget(number);
    // SAFETY: close takes a plain value; the program answers for the number.
    unsafe { real::close(number) }
}

pub(crate) unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // Flags that the kernel does not know close nothing (EINVAL).
    if flags & !(libc::CLOSE_RANGE_UNSHARE as c_int) == 0 && first <= last {
        forget_range(first, last);
    }
    let mut from = first;
    for own in own_descriptors::numbers(first, last) {
        if from < own {
            // SAFETY: as above.
            let result = unsafe { real::close_range(from, own - 1, flags) };
            if result != 0 {
                return result;
            }
        }
        from = own + 1;
    }
    if from != first && from > last {
        return 0;
    }
    // SAFETY: as above.
    unsafe { real::close_range(from, last, flags) }
}

pub(crate) unsafe fn closefrom(first: c_int) {
    let first = first.max(0) as c_uint;
    forget_range(first, c_uint::MAX);
    let mut from = first;
    for own in own_descriptors::numbers(first, c_uint::MAX) {
        // It may be absent before Linux 5.9, where closefrom(3) reads /proc.
        // SAFETY: as above.
        if from < own && unsafe { real::close_range(from, own - 1, 0) } != 0 {
            // SAFETY: as above.
            (from..own).for_each(|number| _ = unsafe { real::close(number as c_int) });
        }
        from = own + 1;
    }
    // SAFETY: as above.
    unsafe { real::closefrom(from as c_int) }
}

fn forget_range(first: c_uint, last: c_uint) {
    descriptors::known().filter(|number| (first..=last).contains(&(*number as c_uint))).for_each(forget);
    status::closed_range(first, last);
}

/// A child of vfork(2) cannot note its new number: what it stands for becomes the kernel's.
fn before_dup(number: c_int) {
    if descriptors::is_ours(number) && process::is_child() && !Inside::is_entered() {
        inherited::claim(number);
    }
}

pub(crate) unsafe fn dup(number: c_int) -> c_int {
    if descriptors::is_library(number) {
        return not_open();
    }
    before_dup(number);
    // SAFETY: as above.
    shared(number, unsafe { real::dup(number) })
}

pub(crate) unsafe fn dup2(number: c_int, onto: c_int) -> c_int {
    // SAFETY: dup2 takes plain values.
    replaced(number, onto, || unsafe { real::dup2(number, onto) })
}

pub(crate) unsafe fn dup3(number: c_int, onto: c_int, flags: c_int) -> c_int {
    // SAFETY: dup3 takes plain values.
    replaced(number, onto, || unsafe { real::dup3(number, onto, flags) })
}

/// The new number is ours if the old one is.
fn shared(number: c_int, new: c_int) -> c_int {
    if new >= 0 && new != number {
        status::duplicated(number, new);
        pending::duplicated(number, new);
    }
    if new >= 0 && new != number && is_changed(number) {
        let _inside = Inside::enter();
        if let Some(description) = descriptors::find(number) {
            descriptors::insert(new, description);
            stdio::leave(new);
        }
    } else if new >= 0 && new != number && is_foreign(number) {
        descriptors::set_state(new, descriptors::state(number));
        if stdio::is_standard(new) {
            descriptors::is_ours_to_use(new);
        }
    }
    new
}

/// The same, where the call closes what the new number was before.
fn replaced(number: c_int, onto: c_int, duplicate: impl FnOnce() -> c_int) -> c_int {
    if descriptors::is_library(number) || descriptors::is_library(onto) {
        // A number that cannot be given is one beyond the limit (dup(2): EBADF).
        return not_open();
    }
    if number == onto {
        return duplicate();
    }
    before_dup(number);
    let before = is_changed(onto).then(|| descriptors::take(onto)).flatten();
    if let Some((description, true)) = &before {
        let _inside = Inside::enter();
        handover::before_close(onto, description);
    }
    let was_foreign = is_foreign(onto).then(|| descriptors::state(onto));
    was_foreign.iter().for_each(|_| _ = descriptors::set_state(onto, State::Kernel));
    let new = duplicate();
    match (new, before, was_foreign) {
        // It was not closed.
        (..0, Some((description, _)), _) => drop(descriptors::insert(onto, description)),
        (..0, None, Some(state)) => _ = descriptors::set_state(onto, state),
        (_, Some((description, is_last)), _) => {
            let _inside = Inside::enter();
            finish(onto, description, is_last);
        }
        _ => {}
    }
    highest::note_chosen(new);
    shared(number, new)
}

/// The kernel raises the signals of sockets (fcntl(2), O_ASYNC): it gets those that are to raise some.
fn ask_for_signals(number: c_int, command: c_int, argument: c_ulong) {
    if command == libc::F_SETFL && argument as c_int & libc::O_ASYNC != 0 {
        handover::number_to_kernel(number, handover::Cause::Signals);
    }
}

pub(crate) unsafe fn fcntl(number: c_int, command: c_int, argument: c_ulong) -> c_int {
    if descriptors::is_library(number) {
        return not_open();
    }
    ask_for_signals(number, command, argument);
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        before_dup(number);
    }
    // SAFETY: the program answers for the argument.
    let result = unsafe { own_duplicate(number, command).unwrap_or_else(|| real::fcntl(number, command, argument)) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        note_own(result);
    }
    changed(number, command, argument, result)
}

pub(crate) unsafe fn fcntl64(number: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: as above: both are one function where offsets have 64 bits.
    unsafe { fcntl(number, command, argument) }
}

/// What a command that succeeded has changed.
fn changed(number: c_int, command: c_int, argument: c_ulong, result: c_int) -> c_int {
    match command {
        _ if result < 0 => result,
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            highest::note_chosen(result);
            shared(number, result)
        }
        libc::F_SETFL if descriptors::is_ours(number) => {
            set_nonblocking(number, argument as c_int & libc::O_NONBLOCK != 0);
            result
        }
        _ => result,
    }
}

fn set_nonblocking(number: c_int, is_nonblocking: bool) {
    if !is_changed(number) {
        return;
    }
    let _inside = Inside::enter();
    if let Some(description) = descriptors::find(number) {
        description.set_nonblocking(is_nonblocking);
    }
}

pub(crate) unsafe fn ioctl(number: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    if descriptors::is_library(number) {
        return not_open();
    }
    // SAFETY: the request reads an int, for which the program gives the place.
    if request == libc::FIOASYNC && argument != 0 && unsafe { (argument as *const c_int).read_unaligned() } != 0 {
        handover::number_to_kernel(number, handover::Cause::Signals);
    }
    if descriptors::is_ours_to_use(number) && !Inside::is_entered() {
        let _inside = Inside::enter();
        let description = descriptors::find(number);
        let queued = description.as_ref().and_then(|description| description.queued());
        let place = argument as *mut c_int;
        if let Some(datagrams) = description.as_ref().and_then(|description| description.datagrams()) {
            // SAFETY: the program has the number open during its call; a closed one gives an error.
            let socket = unsafe { BorrowedFd::borrow_raw(number) };
            match request {
                libc::FIONREAD if !place.is_null() => {
                    if let Some(length) = datagrams.next_length(socket) {
                        // SAFETY: the request writes an int, for which the program gives the place.
                        unsafe { place.write_unaligned(c_int::try_from(length).unwrap_or(c_int::MAX)) };
                        return 0;
                    }
                }
                SIOCGSTAMP | SIOCGSTAMPNS => handover::number_to_kernel_inside(number, handover::Cause::Request),
                _ => {}
            }
        }
        if let (Some((unread, unacknowledged)), false) = (queued, place.is_null()) {
            let value = match request {
                libc::FIONREAD => Some(unread),
                libc::TIOCOUTQ => Some(unacknowledged),
                SIOCATMARK => Some(0),
                _ => None,
            };
            if let Some(value) = value {
                // SAFETY: these requests write an int, for which the program gives the place.
                unsafe { place.write_unaligned(c_int::try_from(value).unwrap_or(c_int::MAX)) };
                return 0;
            }
        }
    }
    // SAFETY: the program answers for the argument.
    let result = unsafe { real::ioctl(number, request, argument) };
    if result >= 0 && request == libc::FIONBIO && descriptors::is_ours(number) {
        // SAFETY: the request has just read an int there.
        set_nonblocking(number, unsafe { (argument as *const c_int).read_unaligned() } != 0);
    }
    result
}

/// The time of the last datagram (asm-generic/sockios.h).
const SIOCGSTAMP: c_ulong = 0x8906;
const SIOCGSTAMPNS: c_ulong = 0x8907;

/// No urgent data is kept, so none is where reading stands (linux/sockios.h).
const SIOCATMARK: c_ulong = 0x8905;

//! epoll_create(2), epoll_ctl(2), epoll_wait(2).

use crate::boundary::waiting::{deadline, duration, give, wait_masked};
use crate::description::Kind;
use crate::epoll::{Interest, Set, foreign, wait};
use crate::handover::{self, Cause};
use crate::signals::Inside;
use crate::table::real;
use crate::{accelerate, descriptors, errno, process};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, c_int, epoll_event, sigset_t, timespec};
use rustix::io::Errno;
use std::ptr::null;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most events of one call (EP_MAX_EVENTS of fs/eventpoll.c).
const EVENTS_MAX: usize = i32::MAX as usize / size_of::<epoll_event>();

pub(crate) unsafe fn epoll_create(size: c_int) -> c_int {
    // SAFETY: it takes a plain value.
    made(unsafe { real::epoll_create(size) })
}

pub(crate) unsafe fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: it takes a plain value.
    made(unsafe { real::epoll_create1(flags) })
}

/// A set of ours stands beside each of the program's.
fn made(number: c_int) -> c_int {
    if number >= 0 && !Inside::is_entered() && process::own_first() {
        let _inside = Inside::enter();
        // Without a descriptor for it, what is ours leaves for the kernel where it is added.
        let _ = foreign::put(number);
    }
    number
}

/// The set of a number.
fn set_of(number: c_int) -> Option<Arc<Set>> {
    if !descriptors::is_ours_to_use(number) || Inside::is_entered() {
        return None;
    }
    let _inside = Inside::enter();
    match &descriptors::find(number)?.kind {
        Kind::Epoll(set) => Some(Arc::clone(set)),
        Kind::Stream(_) | Kind::Listener(_) | Kind::Datagrams(_) => None,
    }
}

/// The set for a socket of ours that is added to one of the kernel. Where there can be none the socket is the kernel's.
fn set_for(set: c_int, operation: c_int, number: c_int) -> Option<Arc<Set>> {
    if operation != EPOLL_CTL_ADD || Inside::is_entered() || !descriptors::is_ours(number) || descriptors::is_ours(set)
    {
        return None;
    }
    if process::is_child() {
        // A child of vfork(2), which changes nothing of its parent's.
        return None;
    }
    let _inside = Inside::enter();
    let adopted = foreign::adopt(set);
    if adopted.is_none() {
        handover::number_to_kernel_inside(number, Cause::ForeignSet);
    }
    adopted
}

pub(crate) unsafe fn epoll_ctl(set: c_int, operation: c_int, number: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: as the C function's.
    let call = || unsafe { real::epoll_ctl(set, operation, number, event) };
    accelerate::is_ours_to_wait(number);
    let Some(ours) = set_of(set).or_else(|| set_for(set, operation, number)) else { return call() };
    let _inside = Inside::enter();
    // SAFETY: the program gives null, or a valid event.
    let interest = unsafe { event.as_ref() }.map(|event| Interest { events: event.events, data: event.u64 });
    let description = descriptors::find(number).filter(|_| number != set);
    if let Some(Kind::Listener(listener)) = description.as_ref().map(|description| &description.kind) {
        listener.note_waited();
    }
    if description.is_none()
        && let Some(result) = ours.control_disarmed(operation, number, interest)
    {
        return give(result.map(|()| 0));
    }
    if description.as_ref().is_none_or(|description| description.twin_also_receives()) {
        let done = call();
        if done != 0 {
            return done;
        }
        ours.note_real(operation, number, interest.unwrap_or(Interest { events: 0, data: 0 }));
    }
    let Some(description) = description else { return 0 };
    let result = match interest {
        Some(interest) => ours.control(operation, number, &description, interest),
        None if operation == EPOLL_CTL_DEL => {
            ours.control(operation, number, &description, Interest { events: 0, data: 0 })
        }
        None => Err(Errno::FAULT),
    };
    match result {
        Ok(()) => 0,
        // The kernel's set has done it.
        Err(_) if description.twin_also_receives() => 0,
        Err(errno) => {
            errno::set(errno);
            -1
        }
    }
}

pub(crate) unsafe fn epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int {
    // SAFETY: as the C function's.
    let call = || unsafe { real::epoll_wait(set, events, count, timeout_ms) };
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: as the C function's; null is no mask.
    unsafe { serve(set, events, count, deadline(timeout), null(), call) }
}

pub(crate) unsafe fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as the C function's.
    let call = || unsafe { real::epoll_pwait(set, events, count, timeout_ms, mask) };
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: as the C function's.
    unsafe { serve(set, events, count, deadline(timeout), mask, call) }
}

pub(crate) unsafe fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as the C function's.
    let call = || unsafe { real::epoll_pwait2(set, events, count, timeout, mask) };
    // SAFETY: it is null, or valid; the kernel refuses a bad one.
    let Ok(timeout) = (unsafe { duration(timeout) }) else { return call() };
    // SAFETY: as the C function's.
    unsafe { serve(set, events, count, deadline(timeout), mask, call) }
}

/// Serves a wait. What the kernel refuses it refuses itself.
///
/// # Safety
/// As epoll_pwait(2).
unsafe fn serve(
    number: c_int,
    events: *mut epoll_event,
    count: c_int,
    deadline: Option<Instant>,
    mask: *const sigset_t,
    mut call: impl FnMut() -> c_int,
) -> c_int {
    let max = usize::try_from(count).ok().filter(|max| (1..=EVENTS_MAX).contains(max) && !events.is_null());
    let (Some(set), Some(max)) = (set_of(number), max) else { return call() };
    if !set.has_ours()
        && let Some(result) = wait::wait_in_kernel(&set, &mut call)
    {
        let Ok(told) = usize::try_from(result) else { return result };
        // SAFETY: the real call has written so many events.
        let list = unsafe { std::slice::from_raw_parts_mut(events, told) };
        let left = wait::without_doorbell(list, told);
        if left != 0 || told == 0 {
            return left as c_int;
        }
    }
    // SAFETY: the program gives an array of so many events, which the kernel would write to.
    let list = unsafe { std::slice::from_raw_parts_mut(events, max) };
    let wait = |end| {
        let _inside = Inside::enter();
        wait::wait(&set, list, end).map(|told| told as c_int)
    };
    // SAFETY: as the C function's.
    give(unsafe { wait_masked(mask, deadline, wait) })
}

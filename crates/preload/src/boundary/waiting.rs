//! poll(2), select(2) and their kin.

use crate::select::Sets;
use crate::signals::{Inside, cancellation, has_handled, with_mask};
use crate::table::real;
use crate::{engine, errno, highest, poll as list_of};
use libc::{c_int, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use rustix::io::Errno;
use std::ptr::null;
use std::time::{Duration, Instant};

/// Runs a wait with the signal mask of its call (null: the present one). A handler that has run ends it, whatever SA_RESTART says
/// (signal(7)). Called in the outermost frame, as a cancellation point.
///
/// # Safety
/// `mask` is null, or valid.
unsafe fn interruptible<T>(mask: *const sigset_t, mut wait: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        cancellation::point();
        // SAFETY: the caller's promise.
        match unsafe { with_mask(mask, &mut wait) } {
            // The thread has disabled the cancellation that has ended the wait.
            Err(Errno::INTR) if !has_handled() => {}
            result => return result,
        }
    }
}

/// Waits with the signal mask of the call. What is ready is told before the mask admits a signal.
///
/// # Safety
/// `mask` is null, or valid.
pub(crate) unsafe fn wait_masked(
    mask: *const sigset_t,
    deadline: Option<Instant>,
    mut wait: impl FnMut(Option<Instant>) -> Result<c_int, Errno>,
) -> Result<c_int, Errno> {
    if !mask.is_null() {
        match wait(Some(Instant::now())) {
            Ok(0) | Err(Errno::INTR) => {}
            result => return result,
        }
    }
    // SAFETY: the caller's promise.
    unsafe { interruptible(mask, || wait(deadline)) }
}

/// Waits for a list that names descriptors of ours.
fn wait(list: &mut [pollfd], deadline: Option<Instant>) -> Result<c_int, Errno> {
    let _inside = Inside::enter();
    let engine = engine::opened().ok_or(Errno::BADF)?;
    list_of::wait(&engine, list, deadline)
}

pub(crate) fn give(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|errno| {
        errno::set(errno);
        -1
    })
}

/// The list of a call, if it names descriptors of ours.
///
/// # Safety
/// As poll(2).
unsafe fn ours<'a>(list: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    if list.is_null() || Inside::is_entered() {
        return None;
    }
    // SAFETY: the caller promises an array of so many.
    let list = unsafe { std::slice::from_raw_parts_mut(list, usize::try_from(count).ok()?) };
    list_of::has_ours(list).then_some(list)
}

/// The end of a timeout; `None` for one that never ends.
pub(crate) fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// A timeout of C; an error where the kernel refuses it.
///
/// # Safety
/// It is null, or valid.
pub(crate) unsafe fn duration(timeout: *const timespec) -> Result<Option<Duration>, Errno> {
    // SAFETY: the caller promises it.
    let Some(timeout) = (unsafe { timeout.as_ref() }) else { return Ok(None) };
    let seconds = u64::try_from(timeout.tv_sec).map_err(|_| Errno::INVAL)?;
    let nanoseconds = u32::try_from(timeout.tv_nsec).ok().filter(|ns| *ns < 1_000_000_000).ok_or(Errno::INVAL)?;
    Ok(Some(Duration::new(seconds, nanoseconds)))
}

pub(crate) unsafe fn poll(list: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: as the C function's.
    match unsafe { ours(list, count) } {
        Some(list) => {
            let end = deadline(u64::try_from(timeout_ms).ok().map(Duration::from_millis));
            // SAFETY: null is no mask.
            give(unsafe { interruptible(null(), || wait(list, end)) })
        }
        // SAFETY: as the C function's.
        None => unsafe { real::poll(list, count, timeout_ms) },
    }
}

pub(crate) unsafe fn poll_chk(list: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        // It reports the overflow and ends the program.
        // SAFETY: as the C function's.
        return unsafe { real::__poll_chk(list, count, timeout_ms, room) };
    }
    // SAFETY: as the C function's.
    unsafe { poll(list, count, timeout_ms) }
}

pub(crate) unsafe fn ppoll(list: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    // SAFETY: as the C function's.
    let Some(ours) = (unsafe { ours(list, count) }) else {
        // SAFETY: as the C function's.
        return unsafe { real::ppoll(list, count, timeout, mask) };
    };
    // SAFETY: as the C function's.
    give(unsafe { duration(timeout) }.and_then(|timeout| {
        // SAFETY: as the C function's.
        unsafe { wait_masked(mask, deadline(timeout), |end| wait(ours, end)) }
    }))
}

pub(crate) unsafe fn ppoll_chk(
    list: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        // SAFETY: as the C function's.
        return unsafe { real::__ppoll_chk(list, count, timeout, mask, room) };
    }
    // SAFETY: as the C function's.
    unsafe { ppoll(list, count, timeout, mask) }
}

/// The sets of a call, if they name descriptors of ours.
///
/// # Safety
/// As select(2).
unsafe fn ours_of_sets<'a>(count: c_int, sets: [*mut fd_set; 3]) -> Option<(usize, Sets<'a>)> {
    let count = usize::try_from(count).ok().filter(|_| !Inside::is_entered())?;
    // SAFETY: the caller promises sets of so many bits.
    let sets = unsafe { Sets::new(count, sets) };
    sets.has_ours(count).then_some((count, sets))
}

/// Waits for sets with the signal mask of the call.
///
/// # Safety
/// `mask` is null, or valid.
unsafe fn wait_for_sets(
    count: usize,
    mut sets: Sets<'_>,
    mask: *const sigset_t,
    deadline: Option<Instant>,
) -> Result<c_int, Errno> {
    let mut list = sets.list(count);
    // SAFETY: the caller's promise.
    unsafe { wait_masked(mask, deadline, |end| wait(&mut list, end)) }?;
    sets.answer(&list).ok_or(Errno::BADF)
}

pub(crate) unsafe fn select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let count = if Inside::is_entered() { count } else { highest::clamp(count) };
    // SAFETY: as the C function's.
    let Some((count, sets)) = (unsafe { ours_of_sets(count, [readable, writable, exceptional]) }) else {
        // SAFETY: as the C function's.
        return unsafe { real::select(count, readable, writable, exceptional, timeout) };
    };
    // SAFETY: it is null, or valid.
    let timeout = unsafe { timeout.as_mut() };
    let asked = timeout.as_ref().map(|time| (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec)));
    let end = match asked {
        None => None,
        Some((Ok(seconds), Ok(micros))) => {
            deadline(Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))))
        }
        Some(_) => return give(Err(Errno::INVAL)),
    };
    // SAFETY: null is no mask.
    let result = unsafe { wait_for_sets(count, sets, null(), end) };
    if let (Some(timeout), Some(end)) = (timeout, end) {
        // As Linux does: the time that is left (select(2)).
        let left = end.saturating_duration_since(Instant::now());
        (timeout.tv_sec, timeout.tv_usec) = (left.as_secs() as i64, i64::from(left.subsec_micros()));
    }
    give(result)
}

pub(crate) unsafe fn pselect(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let count = if Inside::is_entered() { count } else { highest::clamp(count) };
    // SAFETY: as the C function's.
    let Some((count, sets)) = (unsafe { ours_of_sets(count, [readable, writable, exceptional]) }) else {
        // SAFETY: as the C function's.
        return unsafe { real::pselect(count, readable, writable, exceptional, timeout, mask) };
    };
    // SAFETY: as the C function's.
    give(unsafe { duration(timeout) }.and_then(|timeout| {
        // SAFETY: as the C function's.
        unsafe { wait_for_sets(count, sets, mask, deadline(timeout)) }
    }))
}

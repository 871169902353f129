//! Checks of arguments from C: pointers, choices, times.

use crate::codes::{
    BROADCAST, FROM_LATEST, FROM_OLDEST, FROM_UNREAD, PARK, READ_ONLY, READ_WRITE, SMALL_CELLS, SPIN, SPSC,
    WAKE_BARRIER, WAKE_FENCE, WAKE_NEVER, YIELD,
};
use crate::failure::Failure;
use sidestep_ring::broadcast::Start;
use sidestep_ring::spsc::Resume;
use sidestep_ring::{Access, Cell, Deadline, Kind, Options, Waking};
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Returns the object of a handle that the call may change.
///
/// # Safety
/// The pointer is null, or points to an object that no other thread uses during the call.
pub(crate) unsafe fn handle<'a, T>(pointer: *mut T, name: &'static str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or(Failure::Null(name))
}

/// Returns the object of a handle that the call only reads.
///
/// # Safety
/// The pointer is null, or points to an object that no thread changes during the call.
pub(crate) unsafe fn look<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(Failure::Null(name))
}

/// A place for a result. Its previous content is never read: C need not have initialised it.
pub(crate) struct Out<T>(NonNull<T>);

/// Returns the place of a result.
///
/// # Safety
/// The pointer is null, or may be written until the call returns.
pub(crate) unsafe fn out<T>(pointer: *mut T, name: &'static str) -> Result<Out<T>, Failure> {
    NonNull::new(pointer).map(Out).ok_or(Failure::Null(name))
}

impl<T> Out<T> {
    pub(crate) fn set(&self, value: T) {
        // SAFETY: `out` was promised a place that may be written.
        unsafe { self.0.write(value) };
    }
}

impl<T> Out<T> {
    /// The place `at` places behind this one.
    ///
    /// # Safety
    /// It is in the same array, and may be written until the call returns.
    pub(crate) unsafe fn after(&self, at: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { self.0.add(at) })
    }
}

/// Returns several objects of C's.
///
/// # Safety
/// The pointer is null, or points to so many objects that no other thread uses during the call.
pub(crate) unsafe fn several<'a, T>(pointer: *mut T, count: usize, name: &'static str) -> Result<&'a mut [T], Failure> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::Null(name)),
        (false, _) if count <= isize::MAX as usize / size_of::<T>() => {
            // SAFETY: the caller's promise; no array of C is longer than isize::MAX bytes.
            Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
        }
        (false, _) => Err(Failure::Usage("a count is longer than memory")),
    }
}

/// Hands an object over to C, which passes it to the type's free call.
pub(crate) fn give<T>(place: &Out<*mut T>, object: T) {
    place.set(Box::into_raw(Box::new(object)));
}

/// Ends an object that [`give`] handed over; null is ignored.
///
/// # Safety
/// The pointer is null, or comes from [`give`] and is not used any more.
pub(crate) unsafe fn take_back<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        let object = unsafe { Box::from_raw(pointer) };
        crate::failure::call("a free call", || {
            drop(object);
            Ok(())
        });
    }
}

/// Returns the bytes of a message; a null pointer is an empty one if its length is 0.
///
/// # Safety
/// `bytes` points to `length` bytes that no thread changes during the call, and `length` is at most the longest message
/// of a ring or socket: far below `isize::MAX`.
pub(crate) unsafe fn message<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    match (bytes.is_null(), length) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(Failure::Null("message")),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), length) }),
    }
}

/// A file name.
///
/// # Safety
/// The pointer is null, or points to a C string that no thread changes during the call.
pub(crate) unsafe fn path<'a>(name: *const c_char) -> Result<&'a Path, Failure> {
    if name.is_null() {
        return Err(Failure::Null("path"));
    }
    // SAFETY: the caller's promise.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes())))
}

/// A text.
///
/// # Safety
/// The pointer is null, or points to a C string that no thread changes during the call.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &'static str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::Null(name));
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Failure::Usage("a text is not UTF-8"))
}

/// The options of a new ring.
pub(crate) fn options(kind: c_int, waking: c_int, bytes: usize) -> Result<Options, Failure> {
    let cell = if kind & SMALL_CELLS == 0 { Cell::Line } else { Cell::Quarter };
    let kind = match kind & !SMALL_CELLS {
        SPSC => Kind::Spsc,
        BROADCAST => Kind::Broadcast,
        _ => return Err(Failure::Usage("`kind` is neither SIDESTEP_SPSC nor SIDESTEP_BROADCAST")),
    };
    let waking = match waking {
        WAKE_NEVER => Waking::Never,
        WAKE_BARRIER => Waking::Barrier,
        WAKE_FENCE => Waking::Fence,
        _ => return Err(Failure::Usage("`waking` is not a SIDESTEP_WAKE_ choice")),
    };
    Ok(Options { kind, cell, bytes, waking })
}

/// Duplicates a descriptor, which stays the caller's.
pub(crate) fn duplicate(fd: c_int) -> Result<OwnedFd, Failure> {
    if fd < 0 {
        return Err(Failure::Usage("a descriptor is negative"));
    }
    // SAFETY: it is only duplicated, which the kernel refuses if it is not open.
    let owned = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    Ok(owned.map_err(|error| Problem::failed(format!("cannot duplicate descriptor {fd}"), error))?)
}

pub(crate) fn access(choice: c_int) -> Result<Access, Failure> {
    match choice {
        READ_ONLY => Ok(Access::ReadOnly),
        READ_WRITE => Ok(Access::ReadWrite),
        _ => Err(Failure::Usage("`access` is neither SIDESTEP_READ_ONLY nor SIDESTEP_READ_WRITE")),
    }
}

pub(crate) fn idle(choice: c_int) -> Result<IdleStrategy, Failure> {
    match choice {
        SPIN => Ok(IdleStrategy::SPIN),
        YIELD => Ok(IdleStrategy::SPIN_THEN_YIELD),
        PARK => Ok(IdleStrategy::SPIN_THEN_PARK),
        _ => Err(Failure::Usage("`waiting` is none of SIDESTEP_SPIN, SIDESTEP_YIELD, SIDESTEP_PARK")),
    }
}

/// The start position of a consumer.
pub(crate) fn resume(choice: c_int) -> Result<Resume, Failure> {
    match choice {
        FROM_UNREAD => Ok(Resume::Unread),
        FROM_LATEST => Ok(Resume::Latest),
        _ => Err(Failure::Usage("`from` is neither SIDESTEP_FROM_UNREAD nor SIDESTEP_FROM_LATEST")),
    }
}

/// The start position of a subscriber.
pub(crate) fn start(choice: c_int) -> Result<Start, Failure> {
    match choice {
        FROM_LATEST => Ok(Start::Latest),
        FROM_OLDEST => Ok(Start::Oldest),
        _ => Err(Failure::Usage("`from` is neither SIDESTEP_FROM_LATEST nor SIDESTEP_FROM_OLDEST")),
    }
}

/// A time from now; none if negative, or beyond the range of the clock.
pub(crate) fn deadline(timeout_ns: i64) -> Deadline {
    let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos)?;
    Instant::now().checked_add(timeout)
}

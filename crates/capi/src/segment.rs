//! Rings in shared memory: made, opened, handed over, observed.

use crate::arguments::{access, duplicate, give, look, options, out, path, take_back};
use crate::failure::call;
use crate::views::{CStat, fill};
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;

/// `sidestep_segment`: a ring in shared memory, mapped.
pub struct Segment(pub(crate) sidestep_ring::Segment);

/// [`sidestep_ring::Segment::memfd`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_memfd(
    kind: c_int,
    waking: c_int,
    bytes: usize,
    segment: *mut *mut Segment,
) -> c_int {
    call("sidestep_segment_memfd", || {
        // SAFETY: as the crate's text says.
        let segment = unsafe { out(segment, "segment")? };
        give(&segment, Segment(sidestep_ring::Segment::memfd(&options(kind, waking, bytes)?)?));
        Ok(())
    })
}

/// [`sidestep_ring::Segment::create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_create(
    path: *const c_char,
    kind: c_int,
    waking: c_int,
    bytes: usize,
    segment: *mut *mut Segment,
) -> c_int {
    call("sidestep_segment_create", || {
        // SAFETY: as the crate's text says.
        let (path, segment) = unsafe { (self::path(path)?, out(segment, "segment")?) };
        give(&segment, Segment(sidestep_ring::Segment::create(path, &options(kind, waking, bytes)?)?));
        Ok(())
    })
}

/// [`sidestep_ring::Segment::open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_open(
    path: *const c_char,
    access: c_int,
    segment: *mut *mut Segment,
) -> c_int {
    call("sidestep_segment_open", || {
        // SAFETY: as the crate's text says.
        let (path, segment) = unsafe { (self::path(path)?, out(segment, "segment")?) };
        give(&segment, Segment(sidestep_ring::Segment::open(path, self::access(access)?)?));
        Ok(())
    })
}

/// [`sidestep_ring::Segment::from_fd`], on a duplicate: the caller keeps its descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_from_fd(fd: c_int, access: c_int, segment: *mut *mut Segment) -> c_int {
    call("sidestep_segment_from_fd", || {
        // SAFETY: as the crate's text says.
        let segment = unsafe { out(segment, "segment")? };
        let access = self::access(access)?;
        give(&segment, Segment(sidestep_ring::Segment::from_fd(duplicate(fd)?, access)?));
        Ok(())
    })
}

/// [`sidestep_ring::Segment::foreign`], on a duplicate: the caller keeps its descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_foreign(
    fd: c_int,
    offset: u64,
    bytes: usize,
    segment: *mut *mut Segment,
) -> c_int {
    call("sidestep_segment_foreign", || {
        // SAFETY: as the crate's text says.
        let segment = unsafe { out(segment, "segment")? };
        give(&segment, Segment(sidestep_ring::Segment::foreign(duplicate(fd)?, offset, bytes)?));
        Ok(())
    })
}

/// [`sidestep_ring::Segment::fd`]; it stays the segment's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_fd(segment: *const Segment, fd: *mut c_int) -> c_int {
    call("sidestep_segment_fd", || {
        // SAFETY: as the crate's text says.
        let (segment, fd) = unsafe { (look(segment, "segment")?, out(fd, "fd")?) };
        fd.set(segment.0.fd().as_raw_fd());
        Ok(())
    })
}

/// [`sidestep_ring::Segment::stat`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_stat(segment: *const Segment, stat: *mut CStat, stat_bytes: usize) -> c_int {
    call("sidestep_segment_stat", || {
        // SAFETY: as the crate's text says.
        let segment = unsafe { look(segment, "segment")? };
        let found = CStat::from(segment.0.stat());
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, stat, stat_bytes, "stat") }
    })
}

/// Ends the handle; null is ignored. The ring's other handles keep its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_segment_free(segment: *mut Segment) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(segment) };
}

//! The writing side of a broadcast ring.

use crate::arguments::{give, handle, look, message, out, take_back};
use crate::failure::call;
use crate::segment::Segment;
use crate::views::{CInfo, fill, replaced_pid};
use sidestep_ring::ClaimError;
use std::ffi::{c_int, c_void};

/// `sidestep_publisher`.
pub struct Publisher(sidestep_ring::broadcast::Publisher);

/// [`sidestep_ring::Segment::publisher`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_publisher_new(segment: *const Segment, publisher: *mut *mut Publisher) -> c_int {
    call("sidestep_publisher_new", || {
        // SAFETY: as the crate's text says.
        let (segment, publisher) = unsafe { (look(segment, "segment")?, out(publisher, "publisher")?) };
        give(&publisher, Publisher(segment.0.publisher()?));
        Ok(())
    })
}

/// [`sidestep_ring::broadcast::Publisher::publish`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_publisher_publish(
    publisher: *mut Publisher,
    message: *const c_void,
    length: usize,
) -> c_int {
    call("sidestep_publisher_publish", || {
        // SAFETY: as the crate's text says.
        let publisher = unsafe { handle(publisher, "publisher")? };
        if length > publisher.0.message_bytes_max() {
            return Err(ClaimError::TooLong.into());
        }
        // SAFETY: as the crate's text says; the length is checked.
        Ok(publisher.0.publish(unsafe { self::message(message, length)? })?)
    })
}

/// [`sidestep_ring::broadcast::Publisher::close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_publisher_close(publisher: *mut Publisher) -> c_int {
    call("sidestep_publisher_close", || {
        // SAFETY: as the crate's text says.
        unsafe { handle(publisher, "publisher")? }.0.close();
        Ok(())
    })
}

/// [`sidestep_ring::Side::beat`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_publisher_beat(publisher: *mut Publisher) -> c_int {
    call("sidestep_publisher_beat", || {
        // SAFETY: as the crate's text says.
        unsafe { handle(publisher, "publisher")? }.0.side().beat();
        Ok(())
    })
}

/// The state of the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_publisher_info(
    publisher: *const Publisher,
    info: *mut CInfo,
    info_bytes: usize,
) -> c_int {
    call("sidestep_publisher_info", || {
        // SAFETY: as the crate's text says.
        let inner = &unsafe { look(publisher, "publisher")? }.0;
        let found = CInfo {
            sequence: inner.messages(),
            message_bytes_max: inner.message_bytes_max() as u64,
            abandoned: inner.abandoned(),
            replaced_pid: replaced_pid(inner.side()),
            ..CInfo::default()
        };
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, info, info_bytes, "info") }
    })
}

/// Closes and leaves the side; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_publisher_free(publisher: *mut Publisher) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(publisher) };
}

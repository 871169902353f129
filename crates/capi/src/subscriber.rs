//! A reading side of a broadcast ring, or an observer of an SPSC ring.

use crate::arguments::{deadline, duplicate, give, handle, idle, look, out, start, take_back};
use crate::failure::{Failure, call};
use crate::segment::Segment;
use crate::views::{CInfo, CPeer, fill, peer_pidfd};
use sidestep_ring::{Doorbell, Loss, ReadError};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;

const NO_DOORBELL: Failure = Failure::Usage("the subscriber has no doorbell");

/// `sidestep_subscriber`.
pub struct Subscriber {
    inner: sidestep_ring::broadcast::Subscriber,
    /// The total loss of this reader.
    lost: Loss,
}

/// [`sidestep_ring::Segment::subscriber`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_new(
    segment: *const Segment,
    from: c_int,
    subscriber: *mut *mut Subscriber,
) -> c_int {
    call("sidestep_subscriber_new", || {
        // SAFETY: as the crate's text says.
        let (segment, subscriber) = unsafe { (look(segment, "segment")?, out(subscriber, "subscriber")?) };
        give(&subscriber, Subscriber { inner: segment.0.subscriber(start(from)?)?, lost: Loss::default() });
        Ok(())
    })
}

/// [`sidestep_ring::broadcast::Subscriber::try_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_try_read(
    subscriber: *mut Subscriber,
    buffer: *mut c_void,
    buffer_bytes: usize,
    length: *mut usize,
) -> c_int {
    call("sidestep_subscriber_try_read", || {
        // SAFETY: as the crate's text says.
        let (subscriber, length) = unsafe { (handle(subscriber, "subscriber")?, out(length, "length")?) };
        if buffer.is_null() {
            return Err(Failure::Null("buffer"));
        }
        let room = buffer_bytes.min(subscriber.inner.message_bytes_max());
        // SAFETY: as the crate's text says; the longest message is far below `isize::MAX`. The bytes are only written.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast(), room) };
        match subscriber.inner.try_read(buffer) {
            Ok(read) => length.set(read),
            Err(error) => {
                match error {
                    ReadError::TooShort { needs } => length.set(needs),
                    ReadError::Lost(loss) => {
                        subscriber.lost.messages += loss.messages;
                        subscriber.lost.bytes += loss.bytes;
                    }
                    _ => {}
                }
                return Err(error.into());
            }
        }
        Ok(())
    })
}

/// [`sidestep_ring::broadcast::Subscriber::wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_wait(
    subscriber: *mut Subscriber,
    waiting: c_int,
    timeout_ns: i64,
) -> c_int {
    call("sidestep_subscriber_wait", || {
        // SAFETY: as the crate's text says.
        let subscriber = unsafe { handle(subscriber, "subscriber")? };
        Ok(subscriber.inner.wait(idle(waiting)?, deadline(timeout_ns))?)
    })
}

/// Sets a [`sidestep_ring::Doorbell::bpf`], on duplicates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_set_doorbell(
    subscriber: *mut Subscriber,
    flag_fd: c_int,
    ring_buffer_fd: c_int,
) -> c_int {
    call("sidestep_subscriber_set_doorbell", || {
        // SAFETY: as the crate's text says.
        let subscriber = unsafe { handle(subscriber, "subscriber")? };
        subscriber.inner.set_doorbell(Doorbell::bpf(duplicate(flag_fd)?, duplicate(ring_buffer_fd)?)?);
        Ok(())
    })
}

/// Sets a [`sidestep_ring::Doorbell::device`], on a duplicate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_set_device(subscriber: *mut Subscriber, device_fd: c_int) -> c_int {
    call("sidestep_subscriber_set_device", || {
        // SAFETY: as the crate's text says.
        let subscriber = unsafe { handle(subscriber, "subscriber")? };
        subscriber.inner.set_doorbell(Doorbell::device(duplicate(device_fd)?)?);
        Ok(())
    })
}

/// [`sidestep_ring::broadcast::Subscriber::doorbell`]; it stays the subscriber's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_doorbell(subscriber: *const Subscriber, fd: *mut c_int) -> c_int {
    call("sidestep_subscriber_doorbell", || {
        // SAFETY: as the crate's text says.
        let (subscriber, fd) = unsafe { (look(subscriber, "subscriber")?, out(fd, "fd")?) };
        fd.set(subscriber.inner.doorbell().ok_or(NO_DOORBELL)?.as_raw_fd());
        Ok(())
    })
}

/// [`sidestep_ring::broadcast::Subscriber::request_doorbell`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_request_doorbell(
    subscriber: *mut Subscriber,
    may_sleep: *mut c_int,
) -> c_int {
    call("sidestep_subscriber_request_doorbell", || {
        // SAFETY: as the crate's text says.
        let (subscriber, may_sleep) = unsafe { (handle(subscriber, "subscriber")?, out(may_sleep, "may_sleep")?) };
        if subscriber.inner.doorbell().is_none() {
            return Err(NO_DOORBELL);
        }
        may_sleep.set(c_int::from(subscriber.inner.request_doorbell()));
        Ok(())
    })
}

/// [`sidestep_ring::broadcast::Subscriber::peer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_peer(subscriber: *mut Subscriber, peer: *mut CPeer) -> c_int {
    call("sidestep_subscriber_peer", || {
        // SAFETY: as the crate's text says.
        let (subscriber, peer) = unsafe { (handle(subscriber, "subscriber")?, out(peer, "peer")?) };
        peer.set(subscriber.inner.peer().into());
        Ok(())
    })
}

/// [`sidestep_ring::Side::peer_pidfd`], as a descriptor of the caller's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_peer_pidfd(subscriber: *mut Subscriber, fd: *mut c_int) -> c_int {
    call("sidestep_subscriber_peer_pidfd", || {
        // SAFETY: as the crate's text says.
        let (subscriber, fd) = unsafe { (handle(subscriber, "subscriber")?, out(fd, "fd")?) };
        let _ = subscriber.inner.peer();
        peer_pidfd(subscriber.inner.side(), &fd)
    })
}

/// The state of the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_info(
    subscriber: *const Subscriber,
    info: *mut CInfo,
    info_bytes: usize,
) -> c_int {
    call("sidestep_subscriber_info", || {
        // SAFETY: as the crate's text says.
        let subscriber = unsafe { look(subscriber, "subscriber")? };
        let found = CInfo {
            sequence: subscriber.inner.sequence(),
            message_bytes_max: subscriber.inner.message_bytes_max() as u64,
            lost_messages: subscriber.lost.messages,
            lost_bytes: subscriber.lost.bytes,
            ..CInfo::default()
        };
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, info, info_bytes, "info") }
    })
}

/// Ends the handle; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_subscriber_free(subscriber: *mut Subscriber) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(subscriber) };
}

//! The reading side of an SPSC ring.

use crate::arguments::{deadline, give, handle, idle, look, out, resume, take_back};
use crate::failure::{Failure, call};
use crate::segment::Segment;
use crate::views::{CInfo, CPeer, fill, peer_pidfd, replaced_pid};
use std::ffi::{c_int, c_void};

/// `sidestep_consumer`.
pub struct Consumer {
    inner: sidestep_ring::spsc::Consumer,
    /// True if the caller has a message on loan: a release without one is an error here, and ignored in Rust.
    lends: bool,
}

/// [`sidestep_ring::Segment::consumer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_new(
    segment: *const Segment,
    from: c_int,
    consumer: *mut *mut Consumer,
) -> c_int {
    call("sidestep_consumer_new", || {
        // SAFETY: as the crate's text says.
        let (segment, consumer) = unsafe { (look(segment, "segment")?, out(consumer, "consumer")?) };
        give(&consumer, Consumer { inner: segment.0.consumer(resume(from)?)?, lends: false });
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Consumer::front`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_try_read(
    consumer: *mut Consumer,
    bytes: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    call("sidestep_consumer_try_read", || {
        // SAFETY: as the crate's text says.
        let (consumer, bytes, length) =
            unsafe { (handle(consumer, "consumer")?, out(bytes, "bytes")?, out(length, "length")?) };
        consumer.lends = false;
        let message = consumer.inner.front()?;
        bytes.set(message.as_ptr().cast());
        length.set(message.len());
        consumer.lends = true;
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Consumer::release`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_release(consumer: *mut Consumer) -> c_int {
    call("sidestep_consumer_release", || {
        // SAFETY: as the crate's text says.
        let consumer = unsafe { handle(consumer, "consumer")? };
        if !consumer.lends {
            return Err(Failure::Usage("no message is on loan"));
        }
        consumer.lends = false;
        consumer.inner.release();
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Consumer::wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_wait(consumer: *mut Consumer, waiting: c_int, timeout_ns: i64) -> c_int {
    call("sidestep_consumer_wait", || {
        // SAFETY: as the crate's text says.
        let consumer = unsafe { handle(consumer, "consumer")? };
        Ok(consumer.inner.wait(idle(waiting)?, deadline(timeout_ns))?)
    })
}

/// [`sidestep_ring::spsc::Consumer::close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_close(consumer: *mut Consumer) -> c_int {
    call("sidestep_consumer_close", || {
        // SAFETY: as the crate's text says.
        unsafe { handle(consumer, "consumer")? }.inner.close();
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Consumer::peer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_peer(consumer: *mut Consumer, peer: *mut CPeer) -> c_int {
    call("sidestep_consumer_peer", || {
        // SAFETY: as the crate's text says.
        let (consumer, peer) = unsafe { (handle(consumer, "consumer")?, out(peer, "peer")?) };
        peer.set(consumer.inner.peer().into());
        Ok(())
    })
}

/// [`sidestep_ring::Side::peer_pidfd`], as a descriptor of the caller's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_peer_pidfd(consumer: *mut Consumer, fd: *mut c_int) -> c_int {
    call("sidestep_consumer_peer_pidfd", || {
        // SAFETY: as the crate's text says.
        let (consumer, fd) = unsafe { (handle(consumer, "consumer")?, out(fd, "fd")?) };
        let _ = consumer.inner.peer();
        peer_pidfd(consumer.inner.side(), &fd)
    })
}

/// [`sidestep_ring::Side::beat`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_beat(consumer: *mut Consumer) -> c_int {
    call("sidestep_consumer_beat", || {
        // SAFETY: as the crate's text says.
        unsafe { handle(consumer, "consumer")? }.inner.side().beat();
        Ok(())
    })
}

/// The state of the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_info(
    consumer: *const Consumer,
    info: *mut CInfo,
    info_bytes: usize,
) -> c_int {
    call("sidestep_consumer_info", || {
        // SAFETY: as the crate's text says.
        let inner = &unsafe { look(consumer, "consumer")? }.inner;
        let found = CInfo {
            sequence: inner.messages(),
            message_bytes_max: inner.message_bytes_max() as u64,
            replaced_pid: replaced_pid(inner.side()),
            ..CInfo::default()
        };
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, info, info_bytes, "info") }
    })
}

/// Closes and leaves the side; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_consumer_free(consumer: *mut Consumer) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(consumer) };
}

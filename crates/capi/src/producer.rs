//! The writing side of an SPSC ring.

use crate::arguments::{deadline, give, handle, idle, look, message, out, take_back};
use crate::failure::{Failure, call};
use crate::segment::Segment;
use crate::views::{CInfo, CPeer, fill, peer_pidfd, replaced_pid};
use sidestep_ring::ClaimError;
use std::ffi::{c_int, c_void};

/// `sidestep_producer`.
pub struct Producer {
    inner: sidestep_ring::spsc::Producer,
    /// The length of the open claim, bytes.
    claimed: Option<usize>,
}

/// [`sidestep_ring::Segment::producer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_new(segment: *const Segment, producer: *mut *mut Producer) -> c_int {
    call("sidestep_producer_new", || {
        // SAFETY: as the crate's text says.
        let (segment, producer) = unsafe { (look(segment, "segment")?, out(producer, "producer")?) };
        give(&producer, Producer { inner: segment.0.producer()?, claimed: None });
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Producer::reserve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_try_claim(
    producer: *mut Producer,
    length: usize,
    bytes: *mut *mut c_void,
) -> c_int {
    call("sidestep_producer_try_claim", || {
        // SAFETY: as the crate's text says.
        let (producer, bytes) = unsafe { (handle(producer, "producer")?, out(bytes, "bytes")?) };
        bytes.set(producer.inner.reserve(length)?.as_mut_ptr().cast());
        producer.claimed = Some(length);
        Ok(())
    })
}

/// Publishes all of the claim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_commit(producer: *mut Producer) -> c_int {
    call("sidestep_producer_commit", || {
        // SAFETY: as the crate's text says.
        let producer = unsafe { handle(producer, "producer")? };
        producer.commit(None)
    })
}

/// Publishes the first `length` bytes of the claim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_commit_prefix(producer: *mut Producer, length: usize) -> c_int {
    call("sidestep_producer_commit_prefix", || {
        // SAFETY: as the crate's text says.
        let producer = unsafe { handle(producer, "producer")? };
        producer.commit(Some(length))
    })
}

/// Discards the claim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_abort(producer: *mut Producer) -> c_int {
    call("sidestep_producer_abort", || {
        // SAFETY: as the crate's text says.
        let producer = unsafe { handle(producer, "producer")? };
        producer.claim()?;
        producer.claimed = None;
        producer.inner.discard();
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Producer::try_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_send(
    producer: *mut Producer,
    message: *const c_void,
    length: usize,
) -> c_int {
    call("sidestep_producer_send", || {
        // SAFETY: as the crate's text says.
        let producer = unsafe { handle(producer, "producer")? };
        producer.check(length)?;
        // SAFETY: as the crate's text says; the length is checked.
        producer.inner.try_send(unsafe { self::message(message, length)? })?;
        producer.claimed = None;
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Producer::send_or_drop`]; a drop is reported as a full ring.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_send_or_drop(
    producer: *mut Producer,
    message: *const c_void,
    length: usize,
) -> c_int {
    call("sidestep_producer_send_or_drop", || {
        // SAFETY: as the crate's text says.
        let producer = unsafe { handle(producer, "producer")? };
        producer.check(length)?;
        // SAFETY: as the crate's text says; the length is checked.
        if !producer.inner.send_or_drop(unsafe { self::message(message, length)? })? {
            return Err(ClaimError::Full.into());
        }
        producer.claimed = None;
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Producer::wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_wait(
    producer: *mut Producer,
    length: usize,
    waiting: c_int,
    timeout_ns: i64,
) -> c_int {
    call("sidestep_producer_wait", || {
        // SAFETY: as the crate's text says.
        let producer = unsafe { handle(producer, "producer")? };
        Ok(producer.inner.wait(length, idle(waiting)?, deadline(timeout_ns))?)
    })
}

/// [`sidestep_ring::spsc::Producer::close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_close(producer: *mut Producer) -> c_int {
    call("sidestep_producer_close", || {
        // SAFETY: as the crate's text says.
        let producer = unsafe { handle(producer, "producer")? };
        producer.claimed = None;
        producer.inner.close();
        Ok(())
    })
}

/// [`sidestep_ring::spsc::Producer::peer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_peer(producer: *mut Producer, peer: *mut CPeer) -> c_int {
    call("sidestep_producer_peer", || {
        // SAFETY: as the crate's text says.
        let (producer, peer) = unsafe { (handle(producer, "producer")?, out(peer, "peer")?) };
        peer.set(producer.inner.peer().into());
        Ok(())
    })
}

/// [`sidestep_ring::Side::peer_pidfd`], as a descriptor of the caller's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_peer_pidfd(producer: *mut Producer, fd: *mut c_int) -> c_int {
    call("sidestep_producer_peer_pidfd", || {
        // SAFETY: as the crate's text says.
        let (producer, fd) = unsafe { (handle(producer, "producer")?, out(fd, "fd")?) };
        let _ = producer.inner.peer();
        peer_pidfd(producer.inner.side(), &fd)
    })
}

/// [`sidestep_ring::Side::beat`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_beat(producer: *mut Producer) -> c_int {
    call("sidestep_producer_beat", || {
        // SAFETY: as the crate's text says.
        unsafe { handle(producer, "producer")? }.inner.side().beat();
        Ok(())
    })
}

/// The state of the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_producer_info(
    producer: *const Producer,
    info: *mut CInfo,
    info_bytes: usize,
) -> c_int {
    call("sidestep_producer_info", || {
        // SAFETY: as the crate's text says.
        let inner = &unsafe { look(producer, "producer")? }.inner;
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
pub unsafe extern "C" fn sidestep_producer_free(producer: *mut Producer) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(producer) };
}

impl Producer {
    fn claim(&self) -> Result<usize, Failure> {
        self.claimed.ok_or(Failure::Usage("nothing is claimed"))
    }

    fn commit(&mut self, length: Option<usize>) -> Result<(), Failure> {
        let claimed = self.claim()?;
        let length = length.unwrap_or(claimed);
        if length > claimed {
            return Err(Failure::BeyondClaim { claimed });
        }
        self.claimed = None;
        self.inner.publish(length);
        Ok(())
    }

    /// Checks the length before the bytes are accessed: bytes beyond the ring's limit need not exist.
    fn check(&self, length: usize) -> Result<(), Failure> {
        if length > self.inner.message_bytes_max() { Err(ClaimError::TooLong.into()) } else { Ok(()) }
    }
}

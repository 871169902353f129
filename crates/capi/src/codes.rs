//! The numbers of `error.h` and `ring.h`: codes, choices, versions; and the texts of codes.

use std::ffi::{CStr, c_char, c_int};

/// The version of the API. It rises when a program built against the older header is incompatible with the newer
/// library; part of the SONAME.
pub const API_VERSION: u32 = 1;

/// Refused by the system, or by the state of the object; the last error has the reason.
pub const EFAILED: c_int = -1;
/// A null pointer, an unknown choice, a call out of order.
pub const EUSAGE: c_int = -2;
/// Full now.
pub const EFULL: c_int = -3;
/// Nothing to read now.
pub const EEMPTY: c_int = -4;
/// Longer than the ring or the path allows, or than the claim.
pub const ETOOLONG: c_int = -5;
/// The other side has closed.
pub const ECLOSED: c_int = -6;
/// The other side violated the protocol; this handle does not access the ring any more.
pub const EFAULTY: c_int = -7;
/// The buffer is shorter than the message, which stays in the ring.
pub const ETOOSHORT: c_int = -8;
/// Messages were overwritten unread; the next read resumes after the gap.
pub const ELOST: c_int = -9;
/// The timeout has passed.
pub const ETIMEDOUT: c_int = -10;
/// The process of the other side has ended without closing.
pub const EPEERGONE: c_int = -11;
/// A bug in the library; the handle must not be used any more.
pub const EBUG: c_int = -12;

/// One writer, one reader ([`sidestep_ring::Kind::Spsc`]).
pub const SPSC: c_int = 1;
/// One writer, any number of readers ([`sidestep_ring::Kind::Broadcast`]).
pub const BROADCAST: c_int = 2;
/// Combined with either: [`sidestep_ring::Cell::Quarter`].
pub const SMALL_CELLS: c_int = 0x100;

/// [`sidestep_ring::Waking::Never`].
pub const WAKE_NEVER: c_int = 0;
/// [`sidestep_ring::Waking::Barrier`].
pub const WAKE_BARRIER: c_int = 1;
/// [`sidestep_ring::Waking::Fence`].
pub const WAKE_FENCE: c_int = 2;

/// [`sidestep_ring::Access::ReadOnly`].
pub const READ_ONLY: c_int = 0;
/// [`sidestep_ring::Access::ReadWrite`].
pub const READ_WRITE: c_int = 1;

/// [`sidestep_sys::idle::IdleStrategy::SPIN`].
pub const SPIN: c_int = 0;
/// [`sidestep_sys::idle::IdleStrategy::SPIN_THEN_YIELD`].
pub const YIELD: c_int = 1;
/// [`sidestep_sys::idle::IdleStrategy::SPIN_THEN_PARK`].
pub const PARK: c_int = 2;

/// A consumer that starts at the first message that was not released.
pub const FROM_UNREAD: c_int = 0;
/// A reader that starts with the next message to come.
pub const FROM_LATEST: c_int = 1;
/// A subscriber that starts as far back as possible.
pub const FROM_OLDEST: c_int = 2;

/// [`sidestep_ring::Peer::Absent`].
pub const PEER_ABSENT: u32 = 0;
/// [`sidestep_ring::Peer::Present`].
pub const PEER_PRESENT: u32 = 1;
/// [`sidestep_ring::Peer::Closed`].
pub const PEER_CLOSED: u32 = 2;
/// [`sidestep_ring::Peer::Gone`].
pub const PEER_GONE: u32 = 3;

/// The meaning of a code, in a few words; lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn sidestep_strerror(code: c_int) -> *const c_char {
    words(code).as_ptr()
}

/// [`API_VERSION`] of the library that the program runs with.
#[unsafe(no_mangle)]
pub extern "C" fn sidestep_ring_api_version() -> u32 {
    API_VERSION
}

/// [`sidestep_ring::layout::LAYOUT_HASH`] of the library that the program runs with.
#[unsafe(no_mangle)]
pub extern "C" fn sidestep_ring_layout_hash() -> u64 {
    sidestep_ring::layout::LAYOUT_HASH
}

fn words(code: c_int) -> &'static CStr {
    match code {
        0 => c"success",
        EFAILED => c"refused by the system, or by the state of the object",
        EUSAGE => c"wrong argument or call out of order",
        EFULL => c"full now",
        EEMPTY => c"nothing to read now",
        ETOOLONG => c"the message is too long",
        ECLOSED => c"the other side has closed the ring",
        EFAULTY => c"the other side violated the protocol",
        ETOOSHORT => c"the buffer is shorter than the message",
        ELOST => c"messages were overwritten unread",
        ETIMEDOUT => c"the timeout has passed",
        EPEERGONE => c"the process of the other side has ended",
        EBUG => c"a bug in the library",
        _ => c"unknown code",
    }
}

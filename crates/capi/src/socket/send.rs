//! Sending: of a copy, or of a payload written in place.

use super::address::address_if_any;
use super::engine::{Engine, engine};
use super::udp::Udp;
use crate::arguments::{handle, message, out, several};
use crate::failure::{Failure, call};
use libc::{sockaddr, socklen_t};
use sidestep_socket::{Handle, Message, SendError};
use std::ffi::{c_int, c_void};

/// The longest datagram (RFC 768), whatever the path: bytes beyond need not exist, so they are not accessed.
const PAYLOAD_BYTES_MAX: usize = 65_527;

/// `sidestep_reservation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CReservation {
    /// The memory for the payload.
    pub bytes: *mut c_void,
    /// Its length, bytes.
    pub length: usize,
    /// The token of the reservation; 0: none.
    pub token: u64,
}

/// [`sidestep_socket::Engine::send`] and [`sidestep_socket::Engine::send_to`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_send(
    engine: *mut Engine,
    socket: Udp,
    payload: *const c_void,
    length: usize,
    to: *const sockaddr,
    to_bytes: socklen_t,
) -> c_int {
    call("sidestep_udp_send", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { self::engine(engine)? };
        // SAFETY: as the crate's text says.
        unsafe { put(engine, socket, (payload, length), (to, to_bytes)) }?;
        Ok(engine.inner.flush()?)
    })
}

/// [`sidestep_socket::Engine::put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_put(
    engine: *mut Engine,
    socket: Udp,
    payload: *const c_void,
    length: usize,
    to: *const sockaddr,
    to_bytes: socklen_t,
) -> c_int {
    call("sidestep_udp_put", || {
        // SAFETY: as the crate's text says.
        unsafe { put(self::engine(engine)?, socket, (payload, length), (to, to_bytes)) }
    })
}

/// `sidestep_message`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CMessage {
    /// The payload.
    pub bytes: *const c_void,
    /// Its length, bytes.
    pub length: usize,
    /// Where it goes; null: to the peer.
    pub to: *const sockaddr,
    /// The length of the address.
    pub to_bytes: socklen_t,
}

/// [`sidestep_socket::Engine::send_many`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_send_many(
    engine: *mut Engine,
    socket: Udp,
    messages: *const CMessage,
    count: usize,
    sent: *mut usize,
) -> c_int {
    call("sidestep_udp_send_many", || {
        // SAFETY: as the crate's text says.
        let (engine, sent, messages) =
            unsafe { (self::engine(engine)?, out(sent, "sent")?, several(messages.cast_mut(), count, "messages")?) };
        sent.set(0);
        // What is wrong with a message ends the batch before it; of the first one it is the call's failure.
        let (mut failure, mut is_first) = (None, true);
        let good = messages.iter().map_while(|message| {
            // SAFETY: as the crate's text says.
            let checked = unsafe { check(message) };
            if let (true, Err(why)) = (std::mem::take(&mut is_first), &checked) {
                failure = Some(*why);
            }
            checked.ok()
        });
        let result = engine.inner.send_many(Handle::of_number(socket), good);
        if let Some(failure) = failure {
            return Err(failure);
        }
        sent.set(result?);
        Ok(())
    })
}

/// [`sidestep_socket::Engine::reserve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_reserve(
    engine: *mut Engine,
    socket: Udp,
    length: usize,
    to: *const sockaddr,
    to_bytes: socklen_t,
    reservation: *mut CReservation,
) -> c_int {
    call("sidestep_udp_reserve", || {
        // SAFETY: as the crate's text says.
        let (engine, place, to) =
            unsafe { (self::engine(engine)?, out(reservation, "reservation")?, address_if_any(to, to_bytes)?) };
        let reserved = engine.inner.reserve(Handle::of_number(socket), length, to)?;
        let bytes = engine.inner.reserved(&reserved).as_mut_ptr().cast();
        place.set(CReservation { bytes, length, token: engine.reservations.lend((reserved, length)) });
        Ok(())
    })
}

/// [`sidestep_socket::Engine::send_reserved`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_send_reserved(
    engine: *mut Engine,
    socket: Udp,
    reservation: *mut CReservation,
    length: usize,
) -> c_int {
    call("sidestep_udp_send_reserved", || {
        // SAFETY: as the crate's text says.
        let (engine, reservation) = unsafe { (self::engine(engine)?, handle(reservation, "reservation")?) };
        let room = engine.reservations.look(reservation.token).map(|(_, room)| *room);
        if let Some(claimed) = room.filter(|room| length > *room) {
            return Err(Failure::BeyondClaim { claimed });
        }
        let reserved = engine.take_reserved(reservation)?;
        Ok(engine.inner.send_reserved(Handle::of_number(socket), reserved, length)?)
    })
}

/// [`sidestep_socket::Engine::discard`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_discard(engine: *mut Engine, reservation: *mut CReservation) -> c_int {
    call("sidestep_udp_discard", || {
        // SAFETY: as the crate's text says.
        let (engine, reservation) = unsafe { (self::engine(engine)?, handle(reservation, "reservation")?) };
        let reserved = engine.take_reserved(reservation)?;
        engine.inner.discard(reserved);
        Ok(())
    })
}

/// Hands over a copy.
///
/// # Safety
/// The payload is null or has that many bytes, the address likewise, and no thread changes them during the call.
#[inline]
unsafe fn put(
    engine: &mut Engine,
    socket: Udp,
    (payload, length): (*const c_void, usize),
    (to, to_bytes): (*const sockaddr, socklen_t),
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let (payload, to) = unsafe { check(&CMessage { bytes: payload, length, to, to_bytes }) }?;
    Ok(engine.inner.put(Handle::of_number(socket), payload, to)?)
}

/// Looks through a message of C's.
///
/// # Safety
/// As for `put`.
#[inline]
unsafe fn check<'a>(given: &CMessage) -> Result<Message<'a>, Failure> {
    if given.length > PAYLOAD_BYTES_MAX {
        return Err(SendError::TooLong { payload_max: PAYLOAD_BYTES_MAX }.into());
    }
    // SAFETY: the caller's promise; the length is checked.
    unsafe { Ok((message(given.bytes, given.length)?, address_if_any(given.to, given.to_bytes)?)) }
}

impl Engine {
    /// Takes C's reservation.
    fn take_reserved(&mut self, reservation: &mut CReservation) -> Result<sidestep_socket::Reserved, Failure> {
        let lent = self.reservations.take(reservation.token);
        let (reserved, _) = lent.ok_or(Failure::Usage("the reservation is not open on this engine"))?;
        reservation.token = 0;
        Ok(reserved)
    }
}

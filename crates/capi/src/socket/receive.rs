//! Datagrams: lent, returned, sent back.

use super::address::CAddress;
use super::engine::{Engine, engine};
use super::udp::Udp;
use crate::arguments::{handle, out, several};
use crate::failure::{Failure, call};
use sidestep_socket::{Datagram, Handle};
use std::ffi::{c_int, c_void};

/// `sidestep_datagram`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CDatagram {
    /// The payload.
    pub bytes: *const c_void,
    /// The length of the payload, bytes.
    pub length: usize,
    /// [`Datagram::software_ns`].
    pub software_ns: u64,
    /// [`Datagram::hardware_ns`], or 0.
    pub hardware_ns: u64,
    /// The token of the loan; 0: none.
    pub token: u64,
    /// The source address.
    pub source: CAddress,
    /// The destination address.
    pub destination: CAddress,
    /// Index of the interface, or 0 for the kernel.
    pub interface: u32,
    /// [`Datagram::time_to_live`].
    pub time_to_live: u8,
    /// [`Datagram::type_of_service`].
    pub type_of_service: u8,
    /// Zero.
    pub reserved: [u8; 10],
}

/// [`sidestep_socket::Engine::receive`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_receive(engine: *mut Engine, socket: Udp, datagram: *mut CDatagram) -> c_int {
    call("sidestep_udp_receive", || {
        // SAFETY: as the crate's text says.
        let (engine, place) = unsafe { (self::engine(engine)?, out(datagram, "datagram")?) };
        let datagram = engine.inner.receive(Handle::of_number(socket))?.ok_or(Failure::NothingCame)?;
        place.set(engine.lend(datagram));
        Ok(())
    })
}

/// [`sidestep_socket::Engine::receive_many`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_receive_many(
    engine: *mut Engine,
    socket: Udp,
    datagrams: *mut CDatagram,
    most: usize,
    count: *mut usize,
) -> c_int {
    call("sidestep_udp_receive_many", || {
        // SAFETY: as the crate's text says.
        let (engine, first, count) =
            unsafe { (self::engine(engine)?, out(datagrams, "datagrams")?, out(count, "count")?) };
        let mut received = std::mem::take(&mut engine.received);
        let result = engine.inner.receive_many(Handle::of_number(socket), most, &mut received);
        count.set(received.len());
        for (at, datagram) in received.drain(..).enumerate() {
            let shown = engine.lend(datagram);
            // SAFETY: there are at most `most`, for which the caller has promised places.
            unsafe { first.after(at) }.set(shown);
        }
        engine.received = received;
        if result? == 0 { Err(Failure::NothingCame) } else { Ok(()) }
    })
}

/// [`sidestep_socket::Engine::release`] for each of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_release_many(
    engine: *mut Engine,
    datagrams: *mut CDatagram,
    count: usize,
) -> c_int {
    call("sidestep_udp_release_many", || {
        // SAFETY: as the crate's text says.
        let (engine, datagrams) = unsafe { (self::engine(engine)?, several(datagrams, count, "datagrams")?) };
        let mut all = Ok(());
        for datagram in datagrams.iter_mut().filter(|datagram| datagram.token != 0) {
            match engine.take(datagram) {
                Ok(datagram) => engine.inner.release(datagram),
                Err(failure) => all = Err(failure),
            }
        }
        all
    })
}

/// [`sidestep_socket::Engine::release`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_release(engine: *mut Engine, datagram: *mut CDatagram) -> c_int {
    call("sidestep_udp_release", || {
        // SAFETY: as the crate's text says.
        let (engine, datagram) = unsafe { (self::engine(engine)?, handle(datagram, "datagram")?) };
        let datagram = engine.take(datagram)?;
        engine.inner.release(datagram);
        Ok(())
    })
}

/// [`sidestep_socket::Engine::reply`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_reply(engine: *mut Engine, socket: Udp, datagram: *mut CDatagram) -> c_int {
    call("sidestep_udp_reply", || {
        // SAFETY: as the crate's text says.
        let (engine, datagram) = unsafe { (self::engine(engine)?, handle(datagram, "datagram")?) };
        let datagram = engine.take(datagram)?;
        Ok(engine.inner.reply(Handle::of_number(socket), datagram)?)
    })
}

impl Engine {
    /// Lends a datagram to C.
    fn lend(&mut self, datagram: Datagram) -> CDatagram {
        let shown = CDatagram {
            bytes: self.inner.payload(&datagram).as_ptr().cast(),
            length: datagram.len(),
            software_ns: datagram.software_ns(),
            hardware_ns: datagram.hardware_ns().unwrap_or(0),
            token: 0,
            source: datagram.source().into(),
            destination: datagram.destination().into(),
            interface: datagram.interface(),
            time_to_live: datagram.time_to_live(),
            type_of_service: datagram.type_of_service(),
            reserved: [0; 10],
        };
        CDatagram { token: self.datagrams.lend(datagram), ..shown }
    }

    /// Takes a datagram that C returns.
    #[inline]
    fn take(&mut self, datagram: &mut CDatagram) -> Result<Datagram, Failure> {
        let lent = self.datagrams.take(datagram.token);
        let lent = lent.ok_or(Failure::Usage("the datagram is not on loan from this engine"))?;
        datagram.token = 0;
        Ok(lent)
    }
}

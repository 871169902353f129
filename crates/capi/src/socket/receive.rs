//! Datagrams: lent, returned, sent back.

use super::address::CAddress;
use super::engine::{Engine, engine};
use super::udp::Udp;
use crate::arguments::{handle, out};
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
        let shown = CDatagram {
            bytes: engine.inner.payload(&datagram).as_ptr().cast(),
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
        place.set(CDatagram { token: engine.datagrams.lend(datagram), ..shown });
        Ok(())
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
    /// Takes a datagram that C returns.
    #[inline]
    fn take(&mut self, datagram: &mut CDatagram) -> Result<Datagram, Failure> {
        let lent = self.datagrams.take(datagram.token);
        let lent = lent.ok_or(Failure::Usage("the datagram is not on loan from this engine"))?;
        datagram.token = 0;
        Ok(lent)
    }
}

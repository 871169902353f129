//! UDP sockets: bound, connected, in groups, queried, closed.

use super::address::{CAddress, address, address_if_any};
use super::engine::{Engine, engine};
use super::options::{CUdpOptions, udp_options};
use super::path::CPath;
use crate::arguments::out;
use crate::failure::{Failure, call};
use crate::views::fill;
use libc::{sockaddr, socklen_t};
use sidestep_socket::{Handle, Statistics, Undelivered};
use std::ffi::c_int;
use std::os::fd::AsRawFd;

/// `sidestep_udp`: a [`Handle`] as a number.
pub type Udp = u64;

/// `sidestep_udp_counts`: the fields of [`Statistics`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // Each is the field of that name.
pub struct CCounts {
    pub received: u64,
    pub received_by_kernel: u64,
    pub sent: u64,
    pub sent_by_kernel: u64,
    pub dropped: u64,
}

impl From<Statistics> for CCounts {
    fn from(statistics: Statistics) -> Self {
        let Statistics { received, received_by_kernel, sent, sent_by_kernel, dropped } = statistics;
        Self { received, received_by_kernel, sent, sent_by_kernel, dropped }
    }
}

/// `sidestep_undelivered`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUndelivered {
    /// [`Undelivered::destination`].
    pub destination: CAddress,
    /// [`Undelivered::errno`].
    pub error: i32,
    /// [`Undelivered::mtu`], or 0.
    pub mtu: u32,
}

impl From<Undelivered> for CUndelivered {
    fn from(undelivered: Undelivered) -> Self {
        let Undelivered { destination, errno, mtu } = undelivered;
        Self { destination: destination.into(), error: errno, mtu: mtu.unwrap_or(0) }
    }
}

/// [`sidestep_socket::Engine::bind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_bind(
    engine: *mut Engine,
    address: *const sockaddr,
    address_bytes: socklen_t,
    options: *const CUdpOptions,
    options_bytes: usize,
    socket: *mut Udp,
) -> c_int {
    call("sidestep_udp_bind", || {
        // SAFETY: as the crate's text says.
        let (engine, socket) = unsafe { (self::engine(engine)?, out(socket, "socket")?) };
        // SAFETY: as the crate's text says.
        let (address, options) =
            unsafe { (self::address(address, address_bytes, "address")?, udp_options(options, options_bytes)?) };
        socket.set(engine.inner.bind(address, &options)?.number());
        Ok(())
    })
}

/// [`sidestep_socket::Engine::connect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_connect(
    engine: *mut Engine,
    socket: Udp,
    peer: *const sockaddr,
    peer_bytes: socklen_t,
) -> c_int {
    call("sidestep_udp_connect", || {
        // SAFETY: as the crate's text says.
        let (engine, peer) = unsafe { (self::engine(engine)?, address(peer, peer_bytes, "peer")?) };
        Ok(engine.inner.connect(Handle::of_number(socket), peer)?)
    })
}

/// [`sidestep_socket::Engine::join`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_join(
    engine: *mut Engine,
    socket: Udp,
    group: *const sockaddr,
    group_bytes: socklen_t,
    source: *const sockaddr,
    source_bytes: socklen_t,
    interface: u32,
    path: *mut CPath,
) -> c_int {
    call("sidestep_udp_join", || {
        // SAFETY: as the crate's text says.
        let (engine, path) = unsafe { (self::engine(engine)?, out(path, "path")?) };
        // SAFETY: as the crate's text says.
        let (group, source) = unsafe { (address(group, group_bytes, "group")?, address_if_any(source, source_bytes)?) };
        let source = source.map(|source| source.ip());
        path.set(engine.inner.join(Handle::of_number(socket), group.ip(), interface, source)?.into());
        Ok(())
    })
}

/// [`sidestep_socket::Engine::leave`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_leave(
    engine: *mut Engine,
    socket: Udp,
    group: *const sockaddr,
    group_bytes: socklen_t,
    source: *const sockaddr,
    source_bytes: socklen_t,
    interface: u32,
) -> c_int {
    call("sidestep_udp_leave", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { self::engine(engine)? };
        // SAFETY: as the crate's text says.
        let (group, source) = unsafe { (address(group, group_bytes, "group")?, address_if_any(source, source_bytes)?) };
        let source = source.map(|source| source.ip());
        Ok(engine.inner.leave(Handle::of_number(socket), group.ip(), interface, source)?)
    })
}

/// [`sidestep_socket::Engine::local`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_local(engine: *mut Engine, socket: Udp, address: *mut CAddress) -> c_int {
    call("sidestep_udp_local", || {
        // SAFETY: as the crate's text says.
        let (engine, address) = unsafe { (self::engine(engine)?, out(address, "address")?) };
        address.set(engine.inner.local(Handle::of_number(socket))?.into());
        Ok(())
    })
}

/// [`sidestep_socket::Engine::twin`]; it stays the engine's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_fd(engine: *mut Engine, socket: Udp, fd: *mut c_int) -> c_int {
    call("sidestep_udp_fd", || {
        // SAFETY: as the crate's text says.
        let (engine, fd) = unsafe { (self::engine(engine)?, out(fd, "fd")?) };
        fd.set(engine.inner.twin(Handle::of_number(socket))?.as_raw_fd());
        Ok(())
    })
}

/// [`sidestep_socket::Engine::path`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_path(engine: *mut Engine, socket: Udp, path: *mut CPath) -> c_int {
    call("sidestep_udp_path", || {
        // SAFETY: as the crate's text says.
        let (engine, path) = unsafe { (self::engine(engine)?, out(path, "path")?) };
        path.set(engine.inner.path(Handle::of_number(socket))?.into());
        Ok(())
    })
}

/// [`sidestep_socket::Engine::path_to`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_path_to(
    engine: *mut Engine,
    socket: Udp,
    to: *const sockaddr,
    to_bytes: socklen_t,
    path: *mut CPath,
) -> c_int {
    call("sidestep_udp_path_to", || {
        // SAFETY: as the crate's text says.
        let (engine, path, to) = unsafe { (self::engine(engine)?, out(path, "path")?, address(to, to_bytes, "to")?) };
        path.set(engine.inner.path_to(Handle::of_number(socket), to)?.into());
        Ok(())
    })
}

/// [`sidestep_socket::Engine::statistics`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_statistics(
    engine: *mut Engine,
    socket: Udp,
    counts: *mut CCounts,
    counts_bytes: usize,
) -> c_int {
    call("sidestep_udp_statistics", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { self::engine(engine)? };
        let found = CCounts::from(engine.inner.statistics(Handle::of_number(socket))?);
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, counts, counts_bytes, "counts") }
    })
}

/// [`sidestep_socket::Engine::take_error`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_take_error(engine: *mut Engine, socket: Udp, error: *mut c_int) -> c_int {
    call("sidestep_udp_take_error", || {
        // SAFETY: as the crate's text says.
        let (engine, error) = unsafe { (self::engine(engine)?, out(error, "error")?) };
        error.set(engine.inner.take_error(Handle::of_number(socket))?.unwrap_or(0));
        Ok(())
    })
}

/// [`sidestep_socket::Engine::next_error`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_next_error(
    engine: *mut Engine,
    socket: Udp,
    undelivered: *mut CUndelivered,
    undelivered_bytes: usize,
) -> c_int {
    call("sidestep_udp_next_error", || {
        // An error that is not returned would be lost.
        if undelivered.is_null() {
            return Err(Failure::Null("undelivered"));
        }
        // SAFETY: as the crate's text says.
        let engine = unsafe { self::engine(engine)? };
        let found = engine.inner.next_error(Handle::of_number(socket))?.ok_or(Failure::NothingCame)?;
        // SAFETY: as the crate's text says.
        unsafe { fill(&CUndelivered::from(found), undelivered, undelivered_bytes, "undelivered") }
    })
}

/// [`sidestep_socket::Engine::close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_close(engine: *mut Engine, socket: Udp) -> c_int {
    call("sidestep_udp_close", || {
        // SAFETY: as the crate's text says.
        Ok(unsafe { self::engine(engine)? }.inner.close(Handle::of_number(socket))?)
    })
}

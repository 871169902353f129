//! Socket addresses in C's structs.

use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::io::Errno;
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Reads an address of IPv4 or IPv6; `None` for all others, for null and for what is too short.
///
/// # Safety
/// `address` is null, or valid for reads of `length` bytes.
pub(crate) unsafe fn read(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if address.is_null() || (length as usize) < size_of::<sa_family_t>() {
        return None;
    }
    // SAFETY: the caller promises as many bytes as are read; the structs are integers alone.
    let family = unsafe { address.cast::<sa_family_t>().read_unaligned() };
    match i32::from(family) {
        libc::AF_INET if length as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: as above.
            let inet = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(inet.sin_port)).into())
        }
        libc::AF_INET6 if length as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let inet = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(inet.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(inet.sin6_port), inet.sin6_flowinfo, inet.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Returns whether an address is of no family (AF_UNSPEC).
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn is_unspecified(address: *const sockaddr, length: socklen_t) -> bool {
    if address.is_null() || (length as usize) < size_of::<sa_family_t>() {
        return false;
    }
    // SAFETY: the caller promises as many bytes as are read.
    i32::from(unsafe { address.cast::<sa_family_t>().read_unaligned() }) == libc::AF_UNSPEC
}

/// Refuses places for an address that the kernel refuses (move_addr_to_user, linux/net/socket.c).
///
/// # Safety
/// `length` is null, or valid.
pub(crate) unsafe fn check(address: *const sockaddr, length: *const socklen_t) -> Result<(), Errno> {
    // SAFETY: the caller promises it.
    let length = unsafe { length.as_ref() }.ok_or(Errno::FAULT)?;
    match length.cast_signed() {
        0 => Ok(()),
        1.. if address.is_null() => Err(Errno::FAULT),
        1.. => Ok(()),
        ..0 => Err(Errno::INVAL),
    }
}

/// Writes an address as the kernel does: as much as fits, and its whole length.
///
/// # Safety
/// `length` is null, or valid; `address` is null, or valid for writes of `*length` bytes.
pub(crate) unsafe fn write(from: SocketAddr, address: *mut sockaddr, length: *mut socklen_t) {
    if address.is_null() || length.is_null() {
        return;
    }
    let (storage, size) = stored(from);
    // SAFETY: the caller promises `*length` bytes at `address`, and no more than the storage has is copied.
    unsafe {
        let room = (*length as usize).min(size);
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), address.cast::<u8>(), room);
        *length = size as socklen_t;
    }
}

/// An address in C's form, and its length.
fn stored(from: SocketAddr) -> (sockaddr_storage, usize) {
    // SAFETY: the struct is integers alone.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = (&raw mut storage).cast::<u8>();
    match from {
        SocketAddr::V4(v4) => {
            let inet = sockaddr_in {
                sin_family: libc::AF_INET as sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is longer than any address.
            unsafe { place.cast::<sockaddr_in>().write(inet) };
            (storage, size_of::<sockaddr_in>())
        }
        SocketAddr::V6(v6) => {
            let inet = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<sockaddr_in6>().write(inet) };
            (storage, size_of::<sockaddr_in6>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for text in ["192.0.2.7:9000", "[2001:db8::7]:9000", "[::ffff:192.0.2.7]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let (storage, size) = stored(address);
            let place = (&raw const storage).cast::<sockaddr>();
            // SAFETY: the storage is longer than `size`.
            let read_back = |length: usize| unsafe { read(place, length as socklen_t) };
            assert_eq!(read_back(size), Some(address));
            assert_eq!((read_back(size - 1), read_back(1)), (None, None), "too short");
            let (mut room, mut length) = ([0xff_u8; 128], 6 as socklen_t);
            // SAFETY: the room is longer than `length`.
            unsafe { write(address, room.as_mut_ptr().cast(), &raw mut length) };
            assert_eq!((length as usize, room[6]), (size, 0xff), "cut, and the whole length told");
        }
    }
}

//! Addresses in C's form and in Rust's.

use crate::arguments::{out, text};
use crate::failure::{Failure, call};
use libc::{AF_INET, AF_INET6, in_addr, in6_addr, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use sidestep_sys::Problem;
use std::ffi::{c_char, c_int};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// `sidestep_address`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union CAddress {
    /// Of any family.
    pub any: sockaddr,
    /// IPv4.
    pub v4: sockaddr_in,
    /// IPv6.
    pub v6: sockaddr_in6,
}

const NONE: sockaddr_in6 = sockaddr_in6 {
    sin6_family: 0,
    sin6_port: 0,
    sin6_flowinfo: 0,
    sin6_addr: in6_addr { s6_addr: [0; 16] },
    sin6_scope_id: 0,
};

impl From<SocketAddr> for CAddress {
    #[inline]
    fn from(address: SocketAddr) -> Self {
        // All bytes are set, also those that IPv4 does not use.
        let mut bytes = Self { v6: NONE };
        match address {
            SocketAddr::V4(v4) => {
                bytes.v4 = sockaddr_in {
                    sin_family: AF_INET as sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: in_addr { s_addr: v4.ip().to_bits().to_be() },
                    sin_zero: [0; 8],
                };
            }
            SocketAddr::V6(v6) => {
                bytes.v6 = sockaddr_in6 {
                    sin6_family: AF_INET6 as sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
            }
        }
        bytes
    }
}

/// A required address.
///
/// # Safety
/// `pointer` is null or points to `bytes` bytes that no thread changes during the call.
pub(crate) unsafe fn address(
    pointer: *const sockaddr,
    bytes: socklen_t,
    name: &'static str,
) -> Result<SocketAddr, Failure> {
    // SAFETY: the caller's promise.
    unsafe { address_if_any(pointer, bytes) }?.ok_or(Failure::Null(name))
}

/// An optional address; null is none.
///
/// # Safety
/// As [`address`].
#[inline]
pub(crate) unsafe fn address_if_any(pointer: *const sockaddr, bytes: socklen_t) -> Result<Option<SocketAddr>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    let is_long_for = |needed: usize| bytes as usize >= needed;
    if !is_long_for(size_of::<sa_family_t>()) {
        return Err(Failure::Usage("the length of the address is too short"));
    }
    // SAFETY: the family is inside the bytes that the caller promised; so are the structures below.
    let family = c_int::from(unsafe { pointer.cast::<sa_family_t>().read_unaligned() });
    match family {
        AF_INET if is_long_for(size_of::<sockaddr_in>()) => {
            // SAFETY: as above.
            let v4 = unsafe { pointer.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
            Ok(Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into()))
        }
        AF_INET6 if is_long_for(size_of::<sockaddr_in6>()) => {
            // SAFETY: as above.
            let v6 = unsafe { pointer.cast::<sockaddr_in6>().read_unaligned() };
            let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
            Ok(Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into()))
        }
        AF_INET | AF_INET6 => Err(Failure::Usage("the length of the address is too short")),
        _ => Err(Failure::Usage("the address is neither of IPv4 nor of IPv6")),
    }
}

/// Parses an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_address_parse(text: *const c_char, address: *mut CAddress) -> c_int {
    call("sidestep_address_parse", || {
        // SAFETY: as the crate's text says.
        let (text, address) = unsafe { (self::text(text, "text")?, out(address, "address")?) };
        let parsed: SocketAddr = text.parse().map_err(|_| {
            Problem::usage(format!("cannot read the address {text:?}"), "it is not an IP address and a port")
                .next("write it like 198.18.0.1:7000 or [2001:db8::1]:7000")
        })?;
        address.set(parsed.into());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(address: &CAddress, bytes: usize) -> Result<Option<SocketAddr>, Failure> {
        // SAFETY: `bytes` is at most the size of the union, all of which is set.
        unsafe { address_if_any((&raw const *address).cast(), bytes as socklen_t) }
    }

    #[test]
    fn addresses_go_there_and_back() {
        for text in ["198.18.0.1:7000", "[2001:db8::1]:7", "[fe80::1%3]:65535", "0.0.0.0:0"] {
            let parsed: SocketAddr = text.parse().unwrap();
            let there = CAddress::from(parsed);
            let needed = if parsed.is_ipv4() { size_of::<sockaddr_in>() } else { size_of::<sockaddr_in6>() };
            assert_eq!(back(&there, needed).ok().flatten(), Some(parsed));
            for short in 0..needed {
                assert!(back(&there, short).is_err(), "{text} {short}");
            }
        }
        assert!(back(&CAddress { v6: NONE }, 28).is_err(), "no family");
    }
}

//! Memberships of groups: the kernel has joined, and says so to the routers; the engine follows.

use crate::address;
use libc::{c_int, c_void, socklen_t};
use sidestep_socket::{Engine, Handle};
use sidestep_sys::interface::of_address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A change of membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Join,
    Leave,
    Block,
    Unblock,
}

/// A membership that a program has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    change: Change,
    group: IpAddr,
    interface: u32,
    source: Option<IpAddr>,
}

impl Membership {
    /// Reads the value of an option that the kernel has accepted; `None` where it is none of a membership.
    ///
    /// # Safety
    /// `value` is valid for reads of `length` bytes.
    pub(crate) unsafe fn read(level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> Option<Self> {
        // SAFETY: the caller promises it.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length as usize) };
        let (change, has_source) = change_of(level, name)?;
        let (group, interface, source) = match name {
            libc::MCAST_JOIN_GROUP..=libc::MCAST_LEAVE_SOURCE_GROUP => of_any_family(bytes, has_source)?,
            _ if level == libc::IPPROTO_IPV6 => {
                let group = Ipv6Addr::from(bytes.first_chunk::<16>().copied()?);
                (group.into(), number(bytes, 16), None)
            }
            _ if has_source => (v4(bytes, 0)?, interface_at(bytes, 4), Some(v4(bytes, 8)?)),
            // struct ip_mreqn
            _ if bytes.len() >= 12 && number(bytes, 8) != 0 => (v4(bytes, 0)?, number(bytes, 8), None),
            _ => (v4(bytes, 0)?, interface_at(bytes, 4), None),
        };
        let interface = if interface == 0 { interface_toward(group)? } else { interface };
        Some(Self { change, group, interface, source })
    }

    /// Has the engine follow.
    pub(super) fn apply(self, engine: &mut Engine, handle: Handle) {
        let Self { change, group, interface, source } = self;
        // What the engine cannot follow comes by the program's own socket.
        match (change, source) {
            (Change::Join, _) => drop(engine.join(handle, group, interface, source)),
            (Change::Leave, _) => drop(engine.leave(handle, group, interface, source)),
            (Change::Block, Some(source)) => drop(engine.block(handle, group, interface, source)),
            (Change::Unblock, Some(source)) => drop(engine.unblock(handle, group, interface, source)),
            (Change::Block | Change::Unblock, None) => {}
        }
    }
}

/// The interface of IP_MULTICAST_IF, where the value gives its number (struct ip_mreqn); else 0.
///
/// # Safety
/// `value` is valid for reads of `length` bytes.
pub(crate) unsafe fn multicast_interface(value: *const c_void, length: socklen_t) -> u32 {
    // SAFETY: the caller promises it.
    number(unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length as usize) }, 8)
}

fn change_of(level: c_int, name: c_int) -> Option<(Change, bool)> {
    Some(match (level, name) {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP)
        | (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP)
        | (_, libc::MCAST_JOIN_GROUP) => (Change::Join, false),
        (libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP)
        | (libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP)
        | (_, libc::MCAST_LEAVE_GROUP) => (Change::Leave, false),
        (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP) | (_, libc::MCAST_JOIN_SOURCE_GROUP) => (Change::Join, true),
        (libc::IPPROTO_IP, libc::IP_DROP_SOURCE_MEMBERSHIP) | (_, libc::MCAST_LEAVE_SOURCE_GROUP) => {
            (Change::Leave, true)
        }
        (libc::IPPROTO_IP, libc::IP_BLOCK_SOURCE) | (_, libc::MCAST_BLOCK_SOURCE) => (Change::Block, true),
        (libc::IPPROTO_IP, libc::IP_UNBLOCK_SOURCE) | (_, libc::MCAST_UNBLOCK_SOURCE) => (Change::Unblock, true),
        _ => return None,
    })
}

/// struct group_req, struct group_source_req: the interface's number, and addresses that begin at multiples of 8 bytes.
fn of_any_family(bytes: &[u8], has_source: bool) -> Option<(IpAddr, u32, Option<IpAddr>)> {
    const FIRST: usize = align_of::<libc::sockaddr_storage>();
    const SECOND: usize = FIRST + size_of::<libc::sockaddr_storage>();
    let group = socket_address(bytes.get(FIRST..)?)?;
    let source = if has_source { Some(socket_address(bytes.get(SECOND..)?)?) } else { None };
    Some((group, number(bytes, 0), source))
}

fn socket_address(bytes: &[u8]) -> Option<IpAddr> {
    // SAFETY: the slice is as long as it says.
    unsafe { address::read(bytes.as_ptr().cast(), bytes.len() as socklen_t) }.map(|address| address.ip())
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk::<4>()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn v4(bytes: &[u8], at: usize) -> Option<IpAddr> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into())
}

/// The interface that has the address at this place; 0 where the route tells it.
fn interface_at(bytes: &[u8], at: usize) -> u32 {
    v4(bytes, at).filter(|address| !address.is_unspecified()).and_then(interface_of).unwrap_or(0)
}

/// The interface that has an address.
pub(super) fn interface_of(address: IpAddr) -> Option<u32> {
    let name = std::ffi::CString::new(of_address(address)?).ok()?;
    // SAFETY: the name is a C string.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

/// The interface on which the kernel joins a group where none was given: that of the route.
fn interface_toward(group: IpAddr) -> Option<u32> {
    crate::engine::source_toward(group).and_then(interface_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(level: c_int, name: c_int, bytes: &[u8]) -> Option<Membership> {
        // SAFETY: the slice is as long as it says.
        unsafe { Membership::read(level, name, bytes.as_ptr().cast(), bytes.len() as socklen_t) }
    }

    #[test]
    fn memberships_are_read_out_of_each_struct() {
        let group: IpAddr = Ipv4Addr::new(239, 1, 2, 3).into();
        let source: IpAddr = Ipv4Addr::new(198, 18, 0, 2).into();
        let by_number = [&[239, 1, 2, 3, 0, 0, 0, 0][..], &7_u32.to_ne_bytes()].concat();
        let join = Membership { change: Change::Join, group, interface: 7, source: None };
        assert_eq!(read(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &by_number), Some(join));
        let leave = Membership { change: Change::Leave, ..join };
        assert_eq!(read(libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, &by_number), Some(leave));
        // 127.0.0.1 is an address of interface 1 everywhere.
        let by_address = [239, 1, 2, 3, 127, 0, 0, 1];
        let here = Membership { interface: 1, ..join };
        assert_eq!(read(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &by_address), Some(here));
        let of_source = [239, 1, 2, 3, 127, 0, 0, 1, 198, 18, 0, 2];
        let from = Membership { source: Some(source), ..here };
        assert_eq!(read(libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, &of_source), Some(from));
        let six: Ipv6Addr = "ff15::7777".parse().unwrap();
        let bytes = [&six.octets()[..], &7_u32.to_ne_bytes()].concat();
        let in_six = Membership { group: six.into(), ..join };
        assert_eq!(read(libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &bytes), Some(in_six));
        assert_eq!(read(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &[239, 1]), None, "too short");
        assert_eq!(read(libc::IPPROTO_IP, libc::IP_TTL, &by_number), None);
    }

    #[test]
    fn addresses_of_any_family_stand_behind_the_interface() {
        let mut bytes = vec![0_u8; 8 + 2 * size_of::<libc::sockaddr_storage>()];
        bytes[..4].copy_from_slice(&7_u32.to_ne_bytes());
        for (at, last) in [(8, 1), (8 + size_of::<libc::sockaddr_storage>(), 2)] {
            bytes[at..at + 2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&[if last == 1 { 239 } else { 198 }, 0, 0, last]);
        }
        let group = Ipv4Addr::new(239, 0, 0, 1).into();
        let source = Some(Ipv4Addr::new(198, 0, 0, 2).into());
        let joined = Membership { change: Change::Join, group, interface: 7, source };
        assert_eq!(read(libc::IPPROTO_IP, libc::MCAST_JOIN_SOURCE_GROUP, &bytes), Some(joined));
        let blocked = Membership { change: Change::Block, ..joined };
        assert_eq!(read(libc::IPPROTO_IP, libc::MCAST_BLOCK_SOURCE, &bytes), Some(blocked));
        let whole = Membership { source: None, ..joined };
        assert_eq!(read(libc::IPPROTO_IP, libc::MCAST_JOIN_GROUP, &bytes), Some(whole));
    }
}

//! The membership of a socket in a multicast group (RFC 3678).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// MCAST_MSFILTER (linux/in.h), of both families.
const MCAST_MSFILTER: i32 = 48;

/// The most sources read: as many as the kernel allows by default (net.ipv4.igmp_max_msf is 10, mld_max_msf 64).
const SOURCES_MAX: usize = 64;

/// The layout of `struct group_filter`: the offsets of its fields, and the size of an address in it.
const GROUP_AT: usize = 8;
const MODE_AT: usize = 136;
const COUNT_AT: usize = 140;
const SOURCES_AT: usize = 144;
const ADDRESS_BYTES: usize = 128;
const BYTES: usize = SOURCES_AT + SOURCES_MAX * ADDRESS_BYTES;

/// MCAST_INCLUDE.
const INCLUDE: u32 = 1;

/// The sources that a member of a group receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// These alone.
    Only(Vec<IpAddr>),
    /// All but these.
    AllBut(Vec<IpAddr>),
}

impl Sources {
    /// Returns whether packets of `source` are received; of every source, if it is `None`.
    pub fn has(&self, source: Option<IpAddr>) -> bool {
        match (self, source) {
            (Self::Only(sources), Some(source)) => sources.contains(&source),
            (Self::Only(_), None) => false,
            (Self::AllBut(sources), Some(source)) => !sources.contains(&source),
            (Self::AllBut(sources), None) => sources.is_empty(),
        }
    }
}

/// The sources that the socket receives of a group that it has joined on this interface; `None` if it has not.
pub fn joined(socket: BorrowedFd<'_>, group: IpAddr, interface: u32) -> io::Result<Option<Sources>> {
    let mut filter = Box::new(Filter([0; BYTES]));
    let bytes = &mut filter.0;
    bytes[..4].copy_from_slice(&interface.to_ne_bytes());
    let (level, family) = match group {
        IpAddr::V4(group) => {
            bytes[GROUP_AT + 4..GROUP_AT + 8].copy_from_slice(&group.octets());
            (libc::IPPROTO_IP, libc::AF_INET)
        }
        IpAddr::V6(group) => {
            bytes[GROUP_AT + 8..GROUP_AT + 24].copy_from_slice(&group.octets());
            (libc::IPPROTO_IPV6, libc::AF_INET6)
        }
    };
    bytes[GROUP_AT..GROUP_AT + 2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[COUNT_AT..SOURCES_AT].copy_from_slice(&(SOURCES_MAX as u32).to_ne_bytes());
    let mut size = BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to the buffer, which has as many and is aligned as the structure is.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, MCAST_MSFILTER, bytes.as_mut_ptr().cast(), &raw mut size)
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) { Ok(None) } else { Err(error) };
    }
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let count = (word(COUNT_AT) as usize).min(SOURCES_MAX);
    let sources = (0..count).map(|number| address(&bytes[SOURCES_AT + number * ADDRESS_BYTES..], group)).collect();
    Ok(Some(if word(MODE_AT) == INCLUDE { Sources::Only(sources) } else { Sources::AllBut(sources) }))
}

/// `struct group_filter` with its sources, aligned as addresses are.
#[repr(align(8))]
struct Filter([u8; BYTES]);

/// The address of a `struct sockaddr_storage` of the group's family.
fn address(bytes: &[u8], group: IpAddr) -> IpAddr {
    let part = |at: usize, count: usize| bytes.get(at..at + count).unwrap_or_default();
    if group.is_ipv4() {
        Ipv4Addr::from(<[u8; 4]>::try_from(part(4, 4)).unwrap_or_default()).into()
    } else {
        Ipv6Addr::from(<[u8; 16]>::try_from(part(8, 16)).unwrap_or_default()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Loopback has index 1 in every namespace.
    const LOOPBACK: u32 = 1;

    #[test]
    fn a_member_of_a_group_is_one_on_its_interface_alone() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let group = Ipv4Addr::new(239, 7, 7, 7);
        let ask = |group: Ipv4Addr, interface| joined(socket.as_fd(), group.into(), interface).unwrap();
        assert_eq!(ask(group, LOOPBACK), None);
        if let Err(error) = socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST) {
            return eprintln!("skipped: cannot join on loopback: {error}");
        }
        assert_eq!(ask(group, LOOPBACK), Some(Sources::AllBut(Vec::new())));
        assert_eq!(ask(Ipv4Addr::new(239, 7, 7, 8), LOOPBACK), None, "another group");
        assert_eq!(ask(group, LOOPBACK + 1), None, "another interface");
        assert_eq!(joined(socket.as_fd(), group.into(), 0).unwrap(), None, "no interface is not any");
        socket.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        assert_eq!(ask(group, LOOPBACK), None);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(joined(file.as_fd(), group.into(), LOOPBACK).is_err());
    }

    #[test]
    fn a_member_of_one_source_receives_that_one() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let (group, source) = (Ipv4Addr::new(232, 7, 7, 7), Ipv4Addr::new(127, 0, 0, 9));
        // struct ip_mreq_source of Linux: group, interface, source; IP_ADD_SOURCE_MEMBERSHIP.
        let mut request = [0_u8; 12];
        request[..4].copy_from_slice(&group.octets());
        request[4..8].copy_from_slice(&Ipv4Addr::LOCALHOST.octets());
        request[8..].copy_from_slice(&source.octets());
        // SAFETY: the request lives for the call, and its size is given.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_ADD_SOURCE_MEMBERSHIP,
                request.as_ptr().cast(),
                12,
            )
        };
        if result != 0 {
            return eprintln!("skipped: cannot join on loopback: {}", io::Error::last_os_error());
        }
        let sources = joined(socket.as_fd(), group.into(), LOOPBACK).unwrap().unwrap();
        assert_eq!(sources, Sources::Only(vec![source.into()]));
        assert!(sources.has(Some(source.into())) && !sources.has(None));
        assert!(!sources.has(Some(Ipv4Addr::LOCALHOST.into())));
    }
}

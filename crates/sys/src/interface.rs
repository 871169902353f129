//! Network interfaces of the calling thread's namespace.

use crate::Problem;
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The name of the interface that has `address`.
pub fn of_address(address: IpAddr) -> Option<String> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is a valid place for the list, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut entry = list;
    let mut name = None;
    while !entry.is_null() && name.is_none() {
        // SAFETY: a non-null entry of the list is valid until the list is freed.
        let item = unsafe { &*entry };
        if ip_of(item.ifa_addr) == Some(address) {
            // SAFETY: `ifa_name` is a NUL-terminated string that lives as long as the list.
            let text = unsafe { CStr::from_ptr(item.ifa_name) };
            name = Some(text.to_string_lossy().into_owned());
        }
        entry = item.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and nothing of it is used after this.
    unsafe { libc::freeifaddrs(list) };
    name
}

/// The packets and bytes of an interface since it was made. A packet of a virtual device may be a super-packet of up to
/// 64 KiB, which counts as one; bytes include Ethernet headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
}

/// Reads the traffic of an interface of the calling thread's namespace (/proc/thread-self/net/dev); none if it is not there.
pub fn traffic(interface: &str) -> Option<Traffic> {
    traffic_in(&std::fs::read_to_string("/proc/thread-self/net/dev").ok()?, interface)
}

fn traffic_in(table: &str, interface: &str) -> Option<Traffic> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let columns: Vec<u64> = row.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // Eight columns for each direction: bytes, packets, and kinds of errors.
    let [rx_bytes, rx_packets, _, _, _, _, _, _, tx_bytes, tx_packets, ..] = columns[..] else { return None };
    Some(Traffic { rx_bytes, rx_packets, tx_bytes, tx_packets })
}

/// The names of all interfaces in the kernel's order; empty if they cannot be read.
pub fn names() -> Vec<String> {
    // SAFETY: if_nameindex takes nothing; what it returns is freed below.
    let list = unsafe { libc::if_nameindex() };
    let mut names = Vec::new();
    let mut entry = list;
    // SAFETY: the list ends with an entry whose name is null; until then each name is a NUL-terminated string, and all of them
    // live as long as the list.
    unsafe {
        while !entry.is_null() && !(*entry).if_name.is_null() {
            names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
    }
    if !list.is_null() {
        // SAFETY: the list came from if_nameindex and nothing of it is used after this.
        unsafe { libc::if_freenameindex(list) };
    }
    names
}

/// Refuses a name that no interface has.
pub fn check(name: &str) -> Result<(), Problem> {
    let present = names();
    if present.is_empty() || present.iter().any(|one| one == name) {
        return Ok(());
    }
    Err(Problem::usage(format!("cannot use interface {name}"), "there is none of this name")
        .next(format!("choose from: {}", present.join(", "))))
}

/// Refuses loopback where it is down: a new network namespace has it so, and then nothing on 127.0.0.1 or ::1 can be reached.
pub fn check_loopback() -> Result<(), Problem> {
    match flags("lo") {
        Ok(flags) if flags & libc::IFF_UP == 0 => {
            Err(Problem::failed("cannot use the loopback interface", "lo is down in this network namespace")
                .next("bring it up: ip link set lo up"))
        }
        // What cannot be asked is tried.
        _ => Ok(()),
    }
}

/// The index of an interface.
pub fn index(name: &str) -> Result<u32, Problem> {
    let failed = |error: io::Error| {
        Problem::failed(format!("cannot use interface {name}"), &error)
            .next(format!("choose from: {}", names().join(", ")))
            .errno(error.raw_os_error())
    };
    let text = CString::new(name).map_err(|_| failed(io::Error::from_raw_os_error(libc::ENODEV)))?;
    // SAFETY: the name is a C string that lives until after the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(failed(io::Error::last_os_error())),
        index => Ok(index),
    }
}

/// The flags of an interface (SIOCGIFFLAGS, netdevice(7)).
fn flags(interface: &str) -> io::Result<i32> {
    let mut request = request(interface)?;
    let socket = datagram_socket()?;
    // SAFETY: the request is an ifreq with a NUL-terminated name, which the kernel fills in.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a successful SIOCGIFFLAGS has filled in the flags.
    Ok(unsafe { request.ifr_ifru.ifru_flags }.into())
}

/// The name of the interface with this index; ENXIO if there is none.
pub fn name_of_index(index: u32) -> io::Result<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the IF_NAMESIZE bytes that the function asks for.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the function has put a NUL-terminated name into the buffer.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// The Ethernet address of an interface (SIOCGIFHWADDR); all zero on loopback. EINVAL if it is not an Ethernet
/// interface.
pub fn ethernet_address(interface: &str) -> io::Result<[u8; 6]> {
    let mut request = request(interface)?;
    let socket = datagram_socket()?;
    // SAFETY: the request is an ifreq with a NUL-terminated name, which the kernel fills in.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a successful SIOCGIFHWADDR has filled in the address, a sockaddr.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    if !matches!(address.sa_family, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let [a, b, c, d, e, f, ..] = address.sa_data.map(|byte| byte.to_ne_bytes()[0]);
    Ok([a, b, c, d, e, f])
}

/// A request about an interface; ENODEV where no interface can have the name.
fn request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(request)
}

/// A socket to ask the kernel about interfaces by.
fn datagram_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointer.
    let descriptor = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the kernel's addresses begin with their family, and have the type that the family says.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let address = *address.cast::<libc::sockaddr_in>();
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => Some(Ipv6Addr::from((*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_a_stranger_is_not() {
        assert_eq!(of_address(Ipv4Addr::LOCALHOST.into()).as_deref(), Some("lo"));
        assert_eq!(of_address(Ipv4Addr::new(203, 0, 113, 77).into()), None);
    }

    #[test]
    fn traffic_is_read_by_name() {
        let table = "Inter-|   Receive |  Transmit\n face |bytes packets errs|bytes packets\n  lab0: 10 2 0 0 0 0 0 0 30 4 0 0 0 0 0 0\n lab01:1 1\n";
        let lab0 = Traffic { rx_bytes: 10, rx_packets: 2, tx_bytes: 30, tx_packets: 4 };
        assert_eq!(traffic_in(table, "lab0"), Some(lab0));
        assert_eq!((traffic_in(table, "lab01"), traffic_in(table, "lab")), (None, None));
        assert!(traffic("lo").is_some() && traffic("none0").is_none());
    }

    #[test]
    fn all_are_listed_and_a_wrong_name_is_told_which_there_are() {
        assert!(names().contains(&"lo".to_owned()));
        check("lo").unwrap();
        let problem = check("none0").unwrap_err();
        assert_eq!(problem.kind(), crate::Kind::Usage);
        assert!(problem.to_string().contains("none0") && problem.next_step().contains("lo"), "{problem}");
    }

    #[test]
    fn the_first_interface_is_loopback_and_has_no_address() {
        let name = name_of_index(1).unwrap();
        assert_eq!(name, "lo");
        assert_eq!(ethernet_address(&name).unwrap(), [0; 6]);
        assert_eq!(index(&name).unwrap(), 1);
        assert!(index("none0").unwrap_err().to_string().contains("none0"));
        assert!(name_of_index(u32::MAX).is_err());
        assert!(ethernet_address("none0").is_err());
        assert!(ethernet_address("a name too long for an interface").is_err());
    }
}

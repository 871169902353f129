//! Network interfaces of the calling thread's namespace.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
}

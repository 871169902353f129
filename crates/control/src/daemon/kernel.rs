//! The kernel's answers for the registry, from the mirror.

use crate::guard::Guard;
use crate::mirror::Mirror;
use crate::netlink::sockets::{self, KernelSocket, Wanted};
use crate::registry::Host;
use sidestep_control_api::table::{Link, RouteKind};
use sidestep_sys::xdp::program::Injector;
use std::io;
use std::net::IpAddr;

pub(super) struct Kernel<'a> {
    pub(super) mirror: &'a mut Mirror,
    pub(super) here: &'a Here,
}

/// The network namespace that is served.
pub(crate) struct Here {
    /// The cookie that identifies it for ever.
    pub(crate) cookie: u64,
    pub(crate) guard: Guard,
    /// Puts frames into an interface's receive path (Linux 5.18).
    pub(crate) injector: Option<Injector>,
}

impl Host for Kernel<'_> {
    fn links(&self) -> &[Link] {
        self.mirror.links()
    }

    fn is_local(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.mirror.addresses().iter().any(|known| known.address == address)
    }

    fn is_neighbour(&self, interface: u32, address: IpAddr) -> bool {
        let routes = self.mirror.routes().iter().filter(|route| route.interface == interface);
        routes.into_iter().any(|route| match route.gateway {
            Some(gateway) => gateway == address,
            None => route.kind == RouteKind::Unicast && covers(route.destination, route.prefix_len, address),
        })
    }

    fn resolve(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        self.mirror.use_neighbour(interface, address)
    }

    fn namespace(&self) -> u64 {
        self.here.cookie
    }

    fn guard(&self) -> &Guard {
        &self.here.guard
    }

    fn injector(&self) -> Option<&Injector> {
        self.here.injector.as_ref()
    }

    fn has_socket(&self, wanted: Wanted, is_it: &mut dyn FnMut(&KernelSocket) -> bool) -> io::Result<bool> {
        sockets::any(wanted, is_it)
    }
}

/// Returns whether an address begins with the first `bits` of a prefix.
fn covers(prefix: IpAddr, bits: u8, address: IpAddr) -> bool {
    let bits = u32::from(bits);
    match (prefix, address) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) => {
            let differing = prefix.to_bits() ^ address.to_bits();
            differing.leading_zeros() >= bits.min(32)
        }
        (IpAddr::V6(prefix), IpAddr::V6(address)) => {
            let differing = prefix.to_bits() ^ address.to_bits();
            differing.leading_zeros() >= bits.min(128)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_prefix_covers_what_begins_with_it() {
        let covers =
            |prefix: &str, bits, address: &str| super::covers(prefix.parse().unwrap(), bits, address.parse().unwrap());
        assert!(covers("198.18.0.0", 24, "198.18.0.255") && !covers("198.18.0.0", 24, "198.18.1.0"));
        assert!(covers("198.18.0.1", 32, "198.18.0.1") && !covers("198.18.0.1", 32, "198.18.0.0"));
        assert!(covers("0.0.0.0", 0, "203.0.113.1") && !covers("0.0.0.0", 0, "2001:2::1"));
        assert!(covers("2001:2::", 64, "2001:2::9") && !covers("2001:2::", 64, "2001:3::9"));
        assert!(covers("2001:2::9", 128, "2001:2::9") && !covers("2001:2::9", 128, "2001:2::8"));
    }
}

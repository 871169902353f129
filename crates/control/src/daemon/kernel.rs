//! The kernel, as the registry asks it: through the mirror.

use crate::mirror::Mirror;
use crate::registry::Host;
use sidestep_plane::table::Link;
use std::io;
use std::net::IpAddr;

pub(super) struct Kernel<'a> {
    pub(super) mirror: &'a mut Mirror,
    pub(super) namespace: u64,
}

impl Host for Kernel<'_> {
    fn links(&self) -> &[Link] {
        self.mirror.links()
    }

    fn is_local(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.mirror.addresses().iter().any(|known| known.address == address)
    }

    fn resolve(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        self.mirror.use_neighbour(interface, address)
    }

    fn namespace(&self) -> u64 {
        self.namespace
    }
}

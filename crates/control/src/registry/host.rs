//! What the registry needs of the host: the kernel's answers, and a store of records.

use crate::guard::Guard;
use crate::netlink::sockets::{KernelSocket, Wanted};
use crate::state::{Record, State};
use sidestep_control_api::table::Link;
use sidestep_sys::xdp::program::Injector;
use std::io;
use std::net::IpAddr;

/// The kernel's side of requests.
pub(crate) trait Host {
    /// The interfaces.
    fn links(&self) -> &[Link];
    /// Returns whether an address is one of this host's.
    fn is_local(&self, address: IpAddr) -> bool;
    /// Returns whether the interface's routes reach this address without a gateway, or it is a gateway of them.
    fn is_neighbour(&self, interface: u32, address: IpAddr) -> bool;
    /// Makes the kernel resolve a neighbour.
    fn resolve(&mut self, interface: u32, address: IpAddr) -> io::Result<()>;
    /// The cookie of this network namespace.
    fn namespace(&self) -> u64;
    /// The guard, which checks whether sockets of this network namespace hold their ports.
    fn guard(&self) -> &Guard;
    /// The receive path of interfaces; `None` on a kernel that lets nobody put frames into it.
    fn injector(&self) -> Option<&Injector>;
    /// Returns whether the kernel has such a socket.
    fn has_socket(&self, wanted: Wanted, is_it: &mut dyn FnMut(&KernelSocket) -> bool) -> io::Result<bool>;
}

/// The store of records that outlive this process. Absent in tests.
pub(crate) trait RecordStore {
    fn store(&self, record: &Record) -> io::Result<()>;
    fn forget(&self, stack: u32);
}

impl RecordStore for State {
    fn store(&self, record: &Record) -> io::Result<()> {
        Self::store(self, record)
    }

    fn forget(&self, stack: u32) {
        Self::forget(self, stack);
    }
}

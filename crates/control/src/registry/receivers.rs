//! Kernel sockets that may share a port with an entry, by port.
//!
//! Another user may have a hundred thousand sockets. Those at ports without entries are discarded while they are read,
//! and an entry is compared only with those at its own port.

use super::{Host, RecordStore, Registry};
use crate::dataplane::Dataplane;
use crate::netlink::sockets::{KernelSocket, Wanted};
use sidestep_control_api::message::{Entry, Protocol};
use std::collections::{BTreeMap, BTreeSet};

/// Sockets that listen or receive datagrams, at the ports of entries.
#[derive(Default)]
pub(super) struct Receivers(BTreeMap<(Protocol, u16), Vec<KernelSocket>>);

impl Receivers {
    /// The sockets at the port of an entry.
    pub(super) fn beside(&self, entry: &Entry) -> &[KernelSocket] {
        self.0.get(&port(entry)).map_or(&[], Vec::as_slice)
    }
}

fn port(entry: &Entry) -> (Protocol, u16) {
    (entry.protocol(), entry.local().port())
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// The kernel sockets that listen or receive datagrams, as far as entries of another user, who is not root, may
    /// conflict with them. If they cannot be read, none are assumed: every entry was checked when it was made.
    pub(super) fn receivers(&self, host: &dyn Host) -> Receivers {
        let mut users: BTreeMap<(Protocol, u16), BTreeSet<u32>> = BTreeMap::new();
        for stack in self.stacks.values() {
            let uid = self.uid(stack.client);
            if uid != 0 {
                stack.entries.keys().for_each(|entry| _ = users.entry(port(entry)).or_default().insert(uid));
            }
        }
        let mut receivers = Receivers::default();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            if users.range((protocol, 0)..=(protocol, u16::MAX)).next().is_none() {
                continue;
            }
            let mut keep = |socket: &KernelSocket| {
                let place = (protocol, socket.local.port());
                if users.get(&place).is_some_and(|users| users.iter().any(|uid| *uid != socket.uid)) {
                    receivers.0.entry(place).or_default().push(*socket);
                }
                false
            };
            if let Err(error) = host.has_socket(Wanted::Receivers(protocol), &mut keep) {
                sidestep_sys::problem::say(format!("cannot check the owners of steered ports: {error}"));
            }
        }
        receivers
    }
}

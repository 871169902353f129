//! The right to read the traffic of an entry: a socket that receives it, and that no other user shares.

use super::verdict::{Receivers, do_meet};
use crate::dataplane::Dataplane;
use crate::foreign::Foreign;
use crate::registry::others::Claim;
use crate::registry::steer::{inode, place};
use crate::registry::{Host, RecordStore, Registry};
use crate::twin::{self, Place};
use sidestep_control_api::message::{Code, Entry, Protocol, Refusal};
use sidestep_sys::socket::{TcpState, tcp_state};
use sidestep_sys::source_filter::joined;
use sidestep_sys::tcp_repair;
use std::os::fd::AsFd;

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Refuses an entry to a client whose socket does not prove the right to read it.
    pub(super) fn check_proof(
        &self,
        id: u32,
        interface: u32,
        entry: &Entry,
        twin: &Foreign,
        host: &dyn Host,
    ) -> Result<(), Refusal> {
        self.check_twin(id, interface, entry, twin, host)?;
        let claim = Claim { entry, uid: self.uid(id), twin: inode(twin), place: place(host, interface) };
        if is_group(entry) { Ok(()) } else { claim.refuse_reading(host) }
    }

    /// The same at housekeeping, with the sockets that receive at present.
    pub(super) fn check_proof_again(
        &self,
        id: u32,
        interface: u32,
        entry: &Entry,
        twin: &Foreign,
        (receivers, host): (&Receivers, &dyn Host),
    ) -> Result<(), Refusal> {
        self.check_twin(id, interface, entry, twin, host)?;
        let claim = Claim { entry, uid: self.uid(id), twin: inode(twin), place: place(host, interface) };
        match receivers.beside(entry) {
            _ if is_group(entry) => Ok(()),
            Some(sockets) => claim.refuse_latecomers(sockets),
            None if claim.uid == 0 => Ok(()),
            None => {
                let reason = "it is not known whose sockets share the port";
                Err(Refusal::new(Code::Taken, thing(entry), reason))
            }
        }
    }

    /// The part that depends on this socket and on stacks.
    fn check_twin(
        &self,
        id: u32,
        interface: u32,
        entry: &Entry,
        twin: &Foreign,
        host: &dyn Host,
    ) -> Result<(), Refusal> {
        let place = place(host, interface);
        twin::check(entry, twin.as_fd(), place)?;
        if tcp_repair::is_on(twin.as_fd()).unwrap_or(false) {
            let reason = "the kernel's socket is in repair mode, in which it shares the ports of others";
            return Err(Refusal::new(Code::TwinMismatch, thing(entry), reason).next("send an ordinary one"));
        }
        if is_group(entry) {
            return check_member(entry, twin, place);
        }
        let is_own = self.check_stacks(id, interface, entry)?;
        // A socket that is bound and does not listen shares its port with connections of others.
        let is_flow = matches!(entry, Entry::Flow { protocol: Protocol::Tcp, .. });
        let is_connection = || tcp_state(twin.as_fd()).is_ok_and(|state| state == TcpState::Connection);
        if is_flow && !is_own && !is_connection() {
            let reason = "the kernel's socket is not this connection, and no stack of this user has it";
            return Err(Refusal::new(Code::TwinMismatch, thing(entry), reason).next("connect it, or accept it, first"));
        }
        Ok(())
    }

    /// Refuses what another user's stack receives; returns whether one of this user receives it. Root may read anything.
    fn check_stacks(&self, id: u32, interface: u32, entry: &Entry) -> Result<bool, Refusal> {
        let who = |client: u32| (self.owner(client), self.uid(client));
        let on_it = self.stacks.values().filter(|stack| stack.facts.index == interface);
        let meeting = on_it.filter(|stack| stack.entries.keys().any(|other| do_meet(other, entry)));
        let port = entry.local().port();
        let reserved = (entry.protocol() == Protocol::Tcp).then(|| self.pool.owner(port)).flatten();
        let reserved = reserved.and_then(|stack| self.stacks.get(&stack));
        let mut is_own = false;
        for stack in meeting.chain(reserved) {
            if who(stack.client) != who(id) && !self.owner(id).is_root() {
                return Err(Refusal::new(Code::Taken, thing(entry), "another user's stack receives it"));
            }
            is_own = true;
        }
        Ok(is_own)
    }
}

fn thing(entry: &Entry) -> String {
    format!("cannot copy {entry} into a feed")
}

fn is_group(entry: &Entry) -> bool {
    matches!(entry, Entry::Multicast { .. })
}

/// Refuses a socket that is not a member of the group on the interface by which the packets come: this one, or its VLAN's.
fn check_member(entry: &Entry, twin: &Foreign, place: Place<'_>) -> Result<(), Refusal> {
    let Entry::Multicast { group, source, vlan } = entry else { return Ok(()) };
    let refuse = |reason: String| {
        Refusal::new(Code::NotMember, thing(entry), reason).next("join the group on this interface first (ip(7))")
    };
    let device = match vlan {
        None => Some(place.interface),
        Some(id) => {
            let mut links = place.links.iter();
            links.find(|link| link.vlan == Some((place.interface, *id))).map(|link| link.index)
        }
    };
    let device = device.ok_or_else(|| refuse("there is no interface of this VLAN to join it on".into()))?;
    let sources = joined(twin.as_fd(), group.ip(), device).map_err(|error| refuse(error.to_string()))?;
    let sources = sources.ok_or_else(|| refuse(Code::NotMember.description().into()))?;
    if sources.has(*source) {
        return Ok(());
    }
    Err(refuse("the kernel's socket receives the group from other sources".into()))
}

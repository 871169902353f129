//! The table of sockets.

use super::chain::{Chain, Entry};
use super::error::TableError;
use super::key::{Bound, Connected};
use super::limits::SOCKETS_MAX;
use super::membership::{Change, Memberships};
use super::socket::{Bind, Socket, SocketId};
use crate::hash::FlowHash;
use crate::ip::Packet;
use sidestep_wire::Addresses;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// All UDP sockets of a stack.
#[derive(Debug, Default)]
pub struct Udp {
    sockets: Vec<Option<Socket>>,
    free: Vec<u32>,
    connected: HashMap<Connected, Chain, FlowHash>,
    bound: HashMap<Bound, Chain, FlowHash>,
    /// The sockets of the present datagram; room for all, so that a datagram never makes it grow.
    receivers: Vec<SocketId>,
}

impl Udp {
    /// The number of open sockets.
    pub fn len(&self) -> usize {
        self.sockets.len() - self.free.len()
    }

    /// Returns whether no socket is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a socket.
    pub fn bind(&mut self, bind: &Bind) -> Result<SocketId, TableError> {
        if bind.port == 0 {
            return Err(TableError::NoPort);
        }
        if self.len() == SOCKETS_MAX {
            return Err(TableError::TooManySockets);
        }
        let socket = Socket { bind: *bind, connected: None, groups: Memberships::default() };
        let id = match self.free.pop() {
            Some(place) => {
                self.sockets[place as usize] = Some(socket);
                SocketId(place)
            }
            None => {
                self.sockets.push(Some(socket));
                SocketId(self.sockets.len() as u32 - 1)
            }
        };
        self.receivers.clear();
        self.receivers.reserve(self.sockets.len());
        self.enter(id);
        Ok(id)
    }

    /// Closes a socket.
    pub fn close(&mut self, id: SocketId) -> Result<(), TableError> {
        self.socket(id)?;
        self.withdraw(id);
        self.sockets[id.index()] = None;
        self.free.push(id.0);
        Ok(())
    }

    /// From now on only what `peer` sends to `local`, the address that the route to the peer starts from. A second call
    /// chooses another peer.
    pub fn connect(&mut self, id: SocketId, local: IpAddr, peer: SocketAddr) -> Result<(), TableError> {
        Addresses::new(peer.ip(), local).ok_or(TableError::OtherFamily)?;
        self.socket(id)?;
        self.withdraw(id);
        self.socket_mut(id)?.connected = Some((local, peer));
        self.enter(id);
        Ok(())
    }

    /// Takes datagrams from anyone again.
    pub fn disconnect(&mut self, id: SocketId) -> Result<(), TableError> {
        self.socket(id)?;
        self.withdraw(id);
        self.socket_mut(id)?.connected = None;
        self.enter(id);
        Ok(())
    }

    /// Joins a group on an interface, for every source.
    pub fn join(&mut self, id: SocketId, group: IpAddr, interface: u32) -> Result<(), TableError> {
        self.groups(id, group)?.join(group, interface)
    }

    /// Leaves a group on an interface, for every source.
    pub fn leave(&mut self, id: SocketId, group: IpAddr, interface: u32) -> Result<(), TableError> {
        self.groups(id, group)?.leave(group, interface)
    }

    /// Joins a group for one source (more).
    pub fn join_source(
        &mut self,
        id: SocketId,
        group: IpAddr,
        interface: u32,
        source: IpAddr,
    ) -> Result<(), TableError> {
        self.groups(id, group)?.only(Change::Add, group, interface, source)
    }

    /// Leaves a group for one source.
    pub fn leave_source(
        &mut self,
        id: SocketId,
        group: IpAddr,
        interface: u32,
        source: IpAddr,
    ) -> Result<(), TableError> {
        self.groups(id, group)?.only(Change::Remove, group, interface, source)
    }

    /// Takes no more datagrams of one source, in a group that was joined for every source.
    pub fn block_source(
        &mut self,
        id: SocketId,
        group: IpAddr,
        interface: u32,
        source: IpAddr,
    ) -> Result<(), TableError> {
        self.groups(id, group)?.except(Change::Add, group, interface, source)
    }

    /// Takes the datagrams of a blocked source again.
    pub fn unblock_source(
        &mut self,
        id: SocketId,
        group: IpAddr,
        interface: u32,
        source: IpAddr,
    ) -> Result<(), TableError> {
        self.groups(id, group)?.except(Change::Remove, group, interface, source)
    }

    fn groups(&mut self, id: SocketId, group: IpAddr) -> Result<&mut Memberships, TableError> {
        if !group.is_multicast() {
            return Err(TableError::NotAGroup);
        }
        Ok(&mut self.socket_mut(id)?.groups)
    }

    fn socket(&self, id: SocketId) -> Result<&Socket, TableError> {
        self.sockets.get(id.index()).and_then(Option::as_ref).ok_or(TableError::NotOpen)
    }

    fn socket_mut(&mut self, id: SocketId) -> Result<&mut Socket, TableError> {
        self.sockets.get_mut(id.index()).and_then(Option::as_mut).ok_or(TableError::NotOpen)
    }

    /// The socket's place in the table of connected ones, if it is.
    fn connected_key(&self, id: SocketId) -> Option<Connected> {
        let socket = self.socket(id).ok()?;
        let (local, peer) = socket.connected?;
        let addresses = Addresses::new(peer.ip(), local)?;
        Some(Connected::new(&addresses, peer.port(), socket.bind.port))
    }

    /// Puts a socket where packets find it.
    fn enter(&mut self, id: SocketId) {
        let Ok(Socket { bind, .. }) = self.socket(id) else { return };
        let entry = Entry { socket: id, interface: bind.interface.unwrap_or(0), shares_port: bind.shares_port };
        let places = bind.places();
        let push = |chain: &mut Chain| chain.push(entry);
        match self.connected_key(id) {
            Some(key) => drop(self.connected.entry(key).and_modify(push).or_insert(Chain::One(entry))),
            None => places.into_iter().flatten().for_each(|place| {
                self.bound.entry(place).and_modify(push).or_insert(Chain::One(entry));
            }),
        }
    }

    fn withdraw(&mut self, id: SocketId) {
        if let Some(key) = self.connected_key(id) {
            if self.connected.get_mut(&key).is_some_and(|chain| chain.remove(id)) {
                self.connected.remove(&key);
            }
            return;
        }
        let places = self.socket(id).map(|socket| socket.bind.places()).unwrap_or_default();
        for place in places.into_iter().flatten() {
            if self.bound.get_mut(&place).is_some_and(|chain| chain.remove(id)) {
                self.bound.remove(&place);
            }
        }
    }

    /// The one socket that a datagram for one of our addresses is for, in Linux's order: connected, bound to the address,
    /// bound to any address, bound to any address of both families.
    #[inline]
    fn find(&self, key: &Connected, to: IpAddr, port: u16, interface: u32) -> Option<SocketId> {
        let choose = |chain: &Chain| chain.choose(interface, || key.flow_hash());
        let bound = |place: Bound| self.bound.get(&place).and_then(choose);
        self.connected_chain(key)
            .and_then(choose)
            .or_else(|| bound(Bound::exact(to, port)))
            .or_else(|| bound(Bound::any(to, port)))
            .or_else(|| if to.is_ipv4() { bound(Bound::both(port)) } else { None })
    }

    #[inline]
    fn connected_chain(&self, key: &Connected) -> Option<&Chain> {
        if self.connected.is_empty() { None } else { self.connected.get(key) }
    }

    /// The sockets that get a datagram, if any.
    #[inline]
    pub(crate) fn receivers(&mut self, packet: &Packet<'_>, source_port: u16, destination_port: u16) -> &[SocketId] {
        let key = Connected::new(&packet.addresses, source_port, destination_port);
        self.receivers.clear();
        if packet.is_group {
            self.find_members(&key, &packet.addresses, destination_port, packet.interface);
        } else if let Some(socket) = self.find(&key, packet.addresses.destination(), destination_port, packet.interface)
        {
            self.receivers.push(socket);
        }
        &self.receivers
    }

    /// Every socket that is bound to the group or to any address, hears the interface, and takes the source.
    fn find_members(&mut self, key: &Connected, addresses: &Addresses, port: u16, interface: u32) {
        let Self { sockets, connected, bound, receivers, .. } = self;
        let (source, group) = (addresses.source(), addresses.destination());
        let takes = |id: &SocketId| {
            let socket = sockets.get(id.index()).and_then(Option::as_ref);
            socket.is_some_and(|socket| {
                socket.groups.takes(group, interface, source).unwrap_or(socket.bind.takes_all_groups)
            })
        };
        let both = group.is_ipv4().then_some(Bound::both(port));
        let listening = [Some(Bound::exact(group, port)), Some(Bound::any(group, port)), both].into_iter().flatten();
        let chains = connected.get(key).into_iter().chain(listening.filter_map(|place| bound.get(&place)));
        for chain in chains {
            receivers.extend(chain.hearing(interface).filter(takes));
        }
    }

    /// The socket that sent a packet, and whether it is connected.
    pub(crate) fn sender(
        &self,
        sent: &Addresses,
        source_port: u16,
        destination_port: u16,
        interface: u32,
    ) -> Option<(SocketId, bool)> {
        let key = Connected::new(&sent.reversed(), destination_port, source_port);
        let socket = self.find(&key, sent.source(), source_port, interface)?;
        Some((socket, self.socket(socket).is_ok_and(|socket| socket.connected.is_some())))
    }
}

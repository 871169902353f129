//! Listeners, and the connections that wait to be accepted.

use crate::tcp::demux::ids::{ConnectionId, ListenerId};
use crate::tcp::error::Error;
use crate::tcp::handshake::held::HeldSyns;
use crate::tcp::options::Options;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

pub(crate) struct Listener {
    pub(crate) id: ListenerId,
    pub(crate) local: SocketAddr,
    pub(crate) options: Options,
    backlog: usize,
    /// Established, to be accepted: at most `backlog`.
    queue: VecDeque<ConnectionId>,
    /// Connections in SYN-RECEIVED.
    pub(crate) half_open: u32,
    /// The SYNs that wait for their answers; `None`: everything is answered at once.
    pub(crate) held: Option<HeldSyns>,
}

impl Listener {
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.backlog
    }

    pub(crate) fn set_backlog(&mut self, backlog: usize) {
        self.backlog = backlog.max(1);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// A connection is established.
    pub(crate) fn push(&mut self, id: ConnectionId) {
        self.queue.push_back(id);
    }

    pub(crate) fn pop(&mut self) -> Option<ConnectionId> {
        self.queue.pop_front()
    }
}

#[derive(Default)]
pub(crate) struct Listeners {
    slots: Vec<(u32, Option<Listener>)>,
    by_port: HashMap<u16, Vec<u32>>,
    /// SYNs are dropped, as if they were lost on the network.
    pub(crate) is_deaf: bool,
}

impl Listeners {
    /// A new one. `backlog` of 0 counts as 1, as with Linux.
    pub(crate) fn add(&mut self, local: SocketAddr, backlog: usize, options: Options) -> Result<ListenerId, Error> {
        if local.port() == 0 {
            return Err(Error::InvalidAddress);
        }
        if self.exact(local).is_some() {
            return Err(Error::AddressInUse);
        }
        let index = self.slots.iter().position(|(_, listener)| listener.is_none()).unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() - 1
        });
        let id = ListenerId { index: index as u32, generation: self.slots[index].0 };
        let queue = VecDeque::new();
        let listener = Listener { id, local, options, backlog: backlog.max(1), queue, half_open: 0, held: None };
        self.slots[index].1 = Some(listener);
        self.by_port.entry(local.port()).or_default().push(id.index);
        Ok(id)
    }

    /// Connections in SYN-RECEIVED, of all listeners.
    pub(crate) fn half_open(&self) -> u32 {
        self.slots.iter().filter_map(|(_, listener)| listener.as_ref()).map(|listener| listener.half_open).sum()
    }

    fn exact(&self, local: SocketAddr) -> Option<u32> {
        let indices = self.by_port.get(&local.port())?;
        indices.iter().copied().find(|&index| self.at(index).is_some_and(|listener| listener.local == local))
    }

    /// The listener for a SYN to `address`: one for this address before one for any.
    pub(crate) fn find(&self, address: IpAddr, port: u16) -> Option<u32> {
        let any = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        self.exact(SocketAddr::new(address, port)).or_else(|| self.exact(SocketAddr::new(any, port)))
    }

    fn at(&self, index: u32) -> Option<&Listener> {
        self.slots.get(index as usize)?.1.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Listener> {
        self.slots.get_mut(index as usize)?.1.as_mut()
    }

    pub(crate) fn held(&mut self, id: ListenerId) -> Option<&mut Listener> {
        match self.slots.get_mut(id.index()) {
            Some((generation, Some(listener))) if *generation == id.generation => Some(listener),
            _ => None,
        }
    }

    /// Removes one; what waits in it is the caller's to abort.
    pub(crate) fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        self.held(id)?;
        let slot = &mut self.slots[id.index()];
        slot.0 = slot.0.wrapping_add(1);
        let listener = slot.1.take()?;
        if let Some(indices) = self.by_port.get_mut(&listener.local.port()) {
            indices.retain(|&index| index != id.index);
        }
        Some(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Config;

    #[test]
    fn the_narrower_listener_wins() {
        let (mut listeners, options) = (Listeners::default(), Config::default().options());
        let mut add = |text: &str| listeners.add(text.parse().unwrap(), 0, options);
        let any = add("0.0.0.0:80").unwrap();
        let one = add("192.0.2.1:80").unwrap();
        assert_eq!(add("192.0.2.1:80"), Err(Error::AddressInUse));
        assert_eq!(add("192.0.2.1:0"), Err(Error::InvalidAddress));
        let find = |listeners: &Listeners, text: &str, port| listeners.find(text.parse().unwrap(), port);
        assert_eq!(find(&listeners, "192.0.2.1", 80), Some(one.index));
        assert_eq!(find(&listeners, "192.0.2.2", 80), Some(any.index));
        assert_eq!(find(&listeners, "2001:db8::1", 80), None);
        assert_eq!(find(&listeners, "192.0.2.1", 81), None);
        assert!(listeners.remove(one).is_some() && listeners.remove(one).is_none());
        assert_eq!(find(&listeners, "192.0.2.1", 80), Some(any.index));
        assert!(listeners.held(any).unwrap().backlog == 1, "zero is one");
    }
}

//! Streams and listeners by their handles.

use super::TcpError;
use super::opening::Opening;
use super::ports::Ports;
use super::reaccelerate::{Pending, Reacceleration};
use super::twin::{KernelListener, Twin};
use crate::error::Error;
use crate::reason::Reason;
use crate::released::Released;
use sidestep_control_api::message::Entry;
use sidestep_stack::tcp::{ConnectionId, ListenerId, Options};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

/// Streams of one engine, and as many listeners: the stack holds no more connections than this, either.
const HANDLES_MAX: usize = 65_536;

/// The bit that tells a listener's number from that of a UDP socket.
const TOKEN_BIT: u64 = 1 << 63;

/// A place, and which of its users in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    place: u32,
    generation: u32,
}

/// Names a stream of an engine; one that was closed is never confused with a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpStream(pub(super) Key);

/// Names a listener of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpListener(pub(super) Key);

/// A stream or a listener has news: what, [`super::Tcp::readiness`] and [`super::Tcp::accept`] tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpEvent {
    /// A stream past the kernel can do more than before, or more data has come.
    Stream(TcpStream),
    /// A listener may have a connection to accept.
    Listener(TcpListener),
}

/// Whether a number that the agent tells of is a listener's.
pub(crate) fn is_token(number: u64) -> bool {
    number & TOKEN_BIT != 0
}

impl TcpListener {
    pub(super) fn token(self) -> u64 {
        TOKEN_BIT | u64::from(self.0.generation & 0x7fff_ffff) << 32 | u64::from(self.0.place)
    }
}

/// How a stream's bytes travel.
#[derive(Debug)]
pub(super) enum StreamState {
    /// Not yet known.
    Opening(Box<Opening>),
    /// Past the kernel. Without a rule of its own its port is one that control has reserved.
    Accelerated { id: ConnectionId, steered: Option<Steered> },
    /// By the kernel's socket, for a reason.
    Kernel(socket2::Socket, Reason),
    /// No longer: it went past the kernel, and that way is no more.
    Lost(Reason),
    /// It could not begin; whether the program was told why.
    Failed(TcpError, bool),
}

/// What keeps a connection's packets coming here: until its TIME-WAIT is over.
#[derive(Clone, Debug)]
pub(super) struct Steered {
    /// The rule for its flow; `None` as long as its listener's rule covers it.
    pub(super) entry: Option<Entry>,
    /// The flow as a rule would name it.
    pub(super) flow: Entry,
    pub(super) twin: Arc<Twin>,
    pub(super) listener: Option<TcpListener>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The local end that the program has asked for.
    pub(super) asked: Option<SocketAddr>,
    pub(super) state: StreamState,
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) local: SocketAddr,
    pub(super) options: Options,
    pub(super) twin: Arc<Twin>,
    pub(super) kernel: KernelListener,
    pub(super) backlog: usize,
    /// Past the kernel.
    pub(super) id: Option<ListenerId>,
    pub(super) entry: Option<Entry>,
    /// Why not.
    pub(super) detour: Option<Reason>,
    /// Control has been asked for the rule.
    pub(super) pending: Option<Pending>,
    /// Control took its rule back, and its connections have none of their own yet.
    pub(super) is_deaf: bool,
    /// Whether the kernel may have a connection.
    pub(super) is_twin_ready: bool,
    /// Whether the thread beside us tells when it has; else every accept looks.
    pub(super) is_twin_watched: bool,
}

/// A connection that was closed and is not over yet.
#[derive(Debug)]
pub(super) struct Lingering {
    pub(super) id: ConnectionId,
    pub(super) steered: Steered,
}

/// Things by key.
#[derive(Debug)]
pub(super) struct Table<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    kind: PhantomData<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), kind: PhantomData }
    }
}

impl<T> Table<T> {
    /// Adds one; `None` when there is no place.
    pub(super) fn insert(&mut self, value: T) -> Option<Key> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() == HANDLES_MAX => return None,
            None => {
                self.places.push((0, None));
                self.places.len() as u32 - 1
            }
        };
        let (generation, empty) = &mut self.places[place as usize];
        *generation = generation.wrapping_add(1);
        *empty = Some(value);
        Some(Key { place, generation: *generation })
    }

    #[inline]
    pub(super) fn at(&mut self, key: Key) -> Result<&mut T, Error> {
        match self.places.get_mut(key.place as usize) {
            Some((generation, Some(value))) if *generation == key.generation => Ok(value),
            _ => Err(Error::NotOpen),
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Result<T, Error> {
        self.at(key)?;
        self.free.push(key.place);
        self.places[key.place as usize].1.take().ok_or(Error::NotOpen)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(place, (generation, value))| {
            let key = Key { place: place as u32, generation: *generation };
            value.as_mut().map(|value| (key, value))
        })
    }
}

/// All streams and listeners of an engine.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(super) streams: Table<Stream>,
    pub(super) listeners: Table<Listener>,
    pub(super) lingering: Vec<Lingering>,
    /// Where the look at those goes on.
    pub(super) looked_at: usize,
    /// Told by the thread beside us.
    pub(super) ready: VecDeque<TcpEvent>,
    /// Ports that were given back a moment ago.
    pub(super) released: Released,
    /// What the kernel's socket shows to who reads by reference.
    pub(super) shown: Vec<u8>,
    pub(super) reacceleration: Reacceleration,
    /// Connections that have not begun, in the order of the next look.
    pub(super) opening: VecDeque<TcpStream>,
    /// For connections from here.
    pub(crate) ports: Ports,
}

impl Streams {
    /// The kernel's socket of a listener has something.
    pub(crate) fn twin_is_ready(&mut self, token: u64) {
        let found = self.listeners.iter_mut().find(|(key, _)| TcpListener(*key).token() == token);
        if let Some((key, listener)) = found {
            listener.is_twin_ready = true;
            self.ready.push_back(TcpEvent::Listener(TcpListener(key)));
        }
    }

    /// The connections that the rule of a listener brings, those that were closed, too.
    pub(super) fn brought_by(&mut self, listener: TcpListener) -> Vec<&mut Steered> {
        let accepted = self.streams.iter_mut().filter_map(|(_, stream)| match &mut stream.state {
            StreamState::Accelerated { steered, .. } => steered.as_mut(),
            StreamState::Opening(_) | StreamState::Kernel(..) | StreamState::Lost(_) | StreamState::Failed(..) => None,
        });
        let closed = self.lingering.iter_mut().map(|Lingering { steered, .. }| steered);
        accepted.chain(closed).filter(|steered| steered.listener == Some(listener)).collect()
    }

    /// The fast path is no more: listeners go on by the kernel, connections past it have ended. Their ports are the kernel's
    /// again, which tells peers that still send.
    pub(crate) fn lose(&mut self, reason: Reason) {
        self.lingering.clear();
        self.looked_at = 0;
        self.reacceleration.forget();
        self.ports = Ports::default();
        for (_, listener) in self.listeners.iter_mut() {
            (listener.id, listener.entry, listener.detour) = (None, None, Some(reason));
            listener.pending = None;
            if std::mem::take(&mut listener.is_deaf) {
                listener.twin.hear();
            }
            (listener.is_twin_watched, listener.is_twin_ready) = (false, true);
        }
        for (key, stream) in self.streams.iter_mut() {
            match &mut stream.state {
                StreamState::Accelerated { .. } => {
                    stream.state = StreamState::Lost(reason);
                    self.ready.push_back(TcpEvent::Stream(TcpStream(key)));
                }
                StreamState::Opening(opening) => opening.stopped = Some(reason),
                StreamState::Kernel(..) | StreamState::Lost(_) | StreamState::Failed(..) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_never_confused_with_a_later_one() {
        let mut table = Table::default();
        let first = table.insert(1).unwrap();
        assert_eq!((table.remove(first), table.remove(first)), (Ok(1), Err(Error::NotOpen)));
        let second = table.insert(2).unwrap();
        assert_eq!(second.place, first.place);
        assert_eq!(table.at(first), Err(Error::NotOpen));
        assert_eq!(table.at(second), Ok(&mut 2));
        assert!(is_token(TcpListener(second).token()) && !is_token(u64::MAX >> 1));
    }
}

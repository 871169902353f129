//! The program's handles by the stack's numbers of connections and listeners.

use crate::tcp::table::{TcpListener, TcpStream};
use sidestep_stack::tcp::{ConnectionId, ListenerId};

/// The handles of all connections and listeners past the kernel.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    /// By the connection's index.
    streams: Vec<Option<TcpStream>>,
    /// By the listener's index.
    listeners: Vec<Option<TcpListener>>,
    /// The number of listeners.
    listening: usize,
}

impl Handles {
    pub(crate) fn insert_stream(&mut self, id: ConnectionId, stream: TcpStream) {
        put(&mut self.streams, id.index(), stream);
    }

    pub(crate) fn remove_stream(&mut self, id: ConnectionId) {
        self.streams.get_mut(id.index()).into_iter().for_each(|handle| *handle = None);
    }

    #[inline]
    pub(crate) fn stream(&self, id: ConnectionId) -> Option<TcpStream> {
        self.streams.get(id.index()).copied().flatten()
    }

    pub(crate) fn insert_listener(&mut self, id: ListenerId, listener: TcpListener) {
        put(&mut self.listeners, id.index(), listener);
        self.listening += 1;
    }

    pub(crate) fn remove_listener(&mut self, id: ListenerId) {
        self.listeners.get_mut(id.index()).into_iter().for_each(|handle| *handle = None);
        self.listening -= 1;
    }

    pub(crate) fn listener(&self, id: ListenerId) -> Option<TcpListener> {
        self.listeners.get(id.index()).copied().flatten()
    }

    #[inline]
    pub(crate) fn has_listeners(&self) -> bool {
        self.listening != 0
    }
}

fn put<T: Clone>(handles: &mut Vec<Option<T>>, index: usize, handle: T) {
    if handles.len() <= index {
        handles.resize(index + 1, None);
    }
    handles[index] = Some(handle);
}

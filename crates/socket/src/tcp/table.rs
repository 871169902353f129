//! Streams and listeners by their handles.

use crate::error::Error;
use std::marker::PhantomData;

/// Streams of one engine, and as many listeners: the stack holds no more connections than this, either.
pub(crate) const HANDLES_MAX: usize = 65_536;

/// The bit that tells a listener's number from that of a UDP socket.
const TOKEN_BIT: u64 = 1 << 63;

/// A place, and which of its users in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    place: u32,
    generation: u32,
}

/// Names a stream of an engine; one that was closed is never confused with a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpStream(pub(crate) Key);

/// Names a listener of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpListener(pub(crate) Key);

/// A stream or a listener has changed: ask [`super::Tcp::readiness`] or [`super::Tcp::accept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TcpEvent {
    /// A stream past the kernel can do more than before, or more data has come.
    Stream(TcpStream),
    /// A listener may have a connection to accept.
    Listener(TcpListener),
}

/// Returns whether a number that the agent tells of is a listener's.
pub(crate) fn is_token(number: u64) -> bool {
    number & TOKEN_BIT != 0
}

impl TcpStream {
    /// Its place among those of its engine: a small number, which a later stream has when this one is closed.
    pub fn place(self) -> usize {
        self.0.place as usize
    }
}

impl TcpListener {
    /// Its place among those of its engine, as [`TcpStream::place`].
    pub fn place(self) -> usize {
        self.0.place as usize
    }

    pub(crate) fn token(self) -> u64 {
        TOKEN_BIT | u64::from(self.0.generation & 0x7fff_ffff) << 32 | u64::from(self.0.place)
    }
}

/// A table by key.
#[derive(Debug)]
pub(crate) struct Table<T> {
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
    /// Adds one; `None` if the table is full.
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
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
    pub(crate) fn at(&mut self, key: Key) -> Result<&mut T, Error> {
        match self.places.get_mut(key.place as usize) {
            Some((generation, Some(value))) if *generation == key.generation => Ok(value),
            _ => Err(Error::NotOpen),
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Result<T, Error> {
        self.at(key)?;
        self.free.push(key.place);
        self.places[key.place as usize].1.take().ok_or(Error::NotOpen)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(place, (generation, value))| {
            let key = Key { place: place as u32, generation: *generation };
            value.as_mut().map(|value| (key, value))
        })
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

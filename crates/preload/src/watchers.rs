//! Those who want to know that an open file description has changed: threads in a call, and epoll sets.

use sidestep_socket::Handle;
use sidestep_socket::tcp::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Told of changes, with the engine's lock held: it must not lock the engine.
pub(crate) trait Watcher: Send + Sync {
    /// Something may be ready that was not.
    fn changed(&self);

    /// Returns whether a change that another exclusive watcher takes is none for it (EPOLLEXCLUSIVE).
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Tells an exclusive watcher of a change; returns whether somebody waits there, who will see to it.
    fn takes_change(&self) -> bool {
        self.changed();
        true
    }

    /// The description's numbers are the kernel's from now on.
    fn moved_to_kernel(&self) {
        self.changed();
    }
}

/// The watchers of one description.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Vec<Weak<dyn Watcher>>>);

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} watchers", self.list().len())
    }
}

impl Watchers {
    pub(crate) fn add(&self, watcher: Weak<dyn Watcher>) {
        let mut list = self.list();
        list.retain(|other| other.strong_count() != 0);
        list.push(watcher);
    }

    pub(crate) fn remove(&self, watcher: &Weak<dyn Watcher>) {
        self.list().retain(|other| !Weak::ptr_eq(other, watcher));
    }

    /// Tells all that something has changed.
    pub(crate) fn notify(&self) {
        let mut list = self.list();
        let mut taker = None;
        for (place, watcher) in list.iter().enumerate() {
            match watcher.upgrade() {
                Some(watcher) if !watcher.is_exclusive() => watcher.changed(),
                Some(watcher) if taker.is_none() && watcher.takes_change() => taker = Some(place),
                _ => {}
            }
        }
        if let Some(place) = taker {
            // The next change is another one's.
            list[place..].rotate_left(1);
        }
    }

    /// Tells all that the kernel has the description from now on.
    pub(crate) fn gone(&self) {
        let list = std::mem::take(&mut *self.list());
        list.iter().filter_map(Weak::upgrade).for_each(|watcher| watcher.moved_to_kernel());
    }

    fn list(&self) -> MutexGuard<'_, Vec<Weak<dyn Watcher>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle of the engine, one of those that have small places.
pub(crate) trait Placed: Copy + Eq {
    fn place(self) -> usize;
}

impl Placed for TcpStream {
    fn place(self) -> usize {
        self.place()
    }
}

impl Placed for TcpListener {
    fn place(self) -> usize {
        self.place()
    }
}

impl Placed for Handle {
    fn place(self) -> usize {
        self.place()
    }
}

/// A handle, and who watches its socket.
type Watched<K> = Option<(K, Weak<Watchers>)>;

/// The watchers of the engine's sockets, by their handles. A message that comes costs one look here, so it takes no hash.
#[derive(Debug)]
pub(crate) struct OfSockets<K>(Mutex<Vec<Watched<K>>>);

impl<K> Default for OfSockets<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Placed> OfSockets<K> {
    pub(crate) fn insert(&self, key: K, watchers: &Arc<Watchers>) {
        let mut list = self.list();
        if list.len() <= key.place() {
            list.resize_with(key.place() + 1, || None);
        }
        list[key.place()] = Some((key, Arc::downgrade(watchers)));
    }

    pub(crate) fn remove(&self, key: K) {
        self.list().get_mut(key.place()).into_iter().for_each(|entry| _ = entry.take_if(|(other, _)| *other == key));
    }

    pub(crate) fn notify(&self, key: K) {
        let of_key =
            |list: &[Watched<K>]| list.get(key.place())?.as_ref().filter(|(other, _)| *other == key)?.1.upgrade();
        let watchers = of_key(&self.list());
        watchers.iter().for_each(|watchers| watchers.notify());
    }

    fn list(&self) -> MutexGuard<'_, Vec<Watched<K>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

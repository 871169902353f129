//! Descriptors received from strangers, and their closing.
//!
//! Closing a descriptor can take as long as its maker likes: a TCP socket lingers for a peer that does not read
//! (SO_LINGER), a file waits for its FUSE server. So a stranger's descriptor is never closed on control's own thread,
//! but on one per user, which the user can block only for itself. (Connections in which such descriptors are still
//! queued are closed by the reaper.)
//!
//! Nothing of a descriptor is changed before, SO_LINGER neither: options belong to what the program may have open still.

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{socket_domain, socket_protocol};
use rustix::net::{AddressFamily, ipproto};
use sidestep_sys::Problem;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The most threads at a time. Further users share one, and each other's delays.
const THREADS_MAX: usize = 64;

/// The key of those users. No user has this number: it is the kernel's for "none".
const OTHERS: u32 = u32::MAX;

/// The most unclosed descriptors of one user before it gets no more connections, and its messages are not read.
const WAITING_MAX: usize = 512;

/// The most unclosed descriptors of all users; beyond it the same applies to each user who has any.
const WAITING_OF_ALL_MAX: usize = 2048;

/// A stranger's descriptor, closed on another thread when dropped.
#[derive(Debug)]
pub(crate) struct Foreign {
    descriptor: Option<OwnedFd>,
    uid: u32,
    closers: Closers,
}

/// The closing threads: one for each user with a descriptor to close, which ends when none is left.
#[derive(Clone, Debug)]
pub(crate) struct Closers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queues: Mutex<BTreeMap<u32, VecDeque<Doomed>>>,
    /// An eventfd that is written when a descriptor was closed that somebody waits for.
    bell: OwnedFd,
    is_awaited: AtomicBool,
}

/// A descriptor to be closed, which stays in its queue meanwhile.
#[derive(Debug)]
struct Doomed {
    /// Taken by the thread that closes it.
    descriptor: Option<OwnedFd>,
    /// Its place among all that were to be closed.
    place: u64,
}

/// A descriptor in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    key: u32,
    place: u64,
}

/// The places taken so far, in all queues.
static PLACES: AtomicU64 = AtomicU64::new(0);

impl Closers {
    pub(crate) fn new() -> Result<Self, Problem> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Problem::failed("cannot make an eventfd", io::Error::from(error)).next("see ulimit -n"))?;
        Ok(Self(Arc::new(Shared { queues: Mutex::default(), bell, is_awaited: AtomicBool::new(false) })))
    }

    /// Wraps a descriptor that a process of `uid` has sent.
    pub(crate) fn own(&self, uid: u32, descriptor: OwnedFd) -> Foreign {
        Foreign { descriptor: Some(descriptor), uid, closers: self.clone() }
    }

    /// Returns whether this user's descriptors cannot be closed.
    pub(crate) fn is_stuck(&self, uid: u32) -> bool {
        let queues = self.lock();
        let own = queues.get(&key(&queues, uid)).map_or(0, VecDeque::len);
        // The first one of each is being closed.
        let waiting = |count: usize| count.saturating_sub(1);
        waiting(own) >= WAITING_MAX
            || waiting(own) > 0
                && queues.values().map(|queue| waiting(queue.len())).sum::<usize>() >= WAITING_OF_ALL_MAX
    }

    /// The last of this user's descriptors that is not closed yet.
    pub(crate) fn last_of(&self, uid: u32) -> Option<Ticket> {
        let queues = self.lock();
        let key = key(&queues, uid);
        queues.get(&key).and_then(VecDeque::back).map(|doomed| Ticket { key, place: doomed.place })
    }

    /// Returns whether this descriptor, and all before it in its queue, are closed. If not, the bell rings after the next one.
    pub(crate) fn is_closed(&self, ticket: Ticket) -> bool {
        let queues = self.lock();
        let is_closed =
            queues.get(&ticket.key).and_then(VecDeque::front).is_none_or(|first| first.place > ticket.place);
        self.0.is_awaited.fetch_or(!is_closed, Ordering::Relaxed);
        is_closed
    }

    /// Readable when a descriptor was closed that somebody waits for.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.0.bell.as_fd()
    }

    /// Silences the bell.
    pub(crate) fn heard(&self) {
        // It was silent, then.
        let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
    }

    /// Closes a descriptor that a process of `uid` has sent; soon, on another thread.
    pub(crate) fn close(&self, uid: u32, descriptor: OwnedFd) {
        if is_udp(descriptor.as_fd()) {
            return; // Closing it does not block; by far the most common case.
        }
        let mut queues = self.lock();
        let place = PLACES.fetch_add(1, Ordering::Relaxed);
        let doomed = Doomed { descriptor: Some(descriptor), place };
        let key = key(&queues, uid);
        if let Some(queue) = queues.get_mut(&key) {
            return queue.push_back(doomed);
        }
        queues.insert(key, VecDeque::from([doomed]));
        drop(queues);
        let closers = self.clone();
        let thread = thread::Builder::new().name("closer".into()).spawn(move || closers.work(key));
        if thread.is_err() {
            // No thread is available: closing it here is better than never.
            self.work(key);
        }
    }

    fn work(&self, key: u32) {
        while let Some(descriptor) = self.first(key) {
            drop(descriptor);
            self.pop(key);
        }
    }

    /// Takes the descriptor that is to be closed next.
    fn first(&self, key: u32) -> Option<OwnedFd> {
        let mut queues = self.lock();
        queues.get_mut(&key).and_then(VecDeque::front_mut)?.descriptor.take()
    }

    /// It is closed. A queue without more ends.
    fn pop(&self, key: u32) {
        let mut queues = self.lock();
        let queue = queues.get_mut(&key);
        if queue.is_some_and(|queue| queue.pop_front().is_some() && queue.is_empty()) {
            queues.remove(&key);
        }
        if self.0.is_awaited.swap(false, Ordering::Relaxed) {
            // Full is awake.
            let _ = rustix::io::write(&self.0.bell, &1_u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, VecDeque<Doomed>>> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue of a user's descriptors.
fn key(waiting: &BTreeMap<u32, VecDeque<Doomed>>, uid: u32) -> u32 {
    if waiting.len() < THREADS_MAX || waiting.contains_key(&uid) { uid } else { OTHERS }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("it is there until dropped").as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.closers.close(self.uid, descriptor);
        }
    }
}

fn is_udp(descriptor: BorrowedFd<'_>) -> bool {
    let is_internet = |family| matches!(family, AddressFamily::INET | AddressFamily::INET6);
    socket_domain(descriptor).is_ok_and(is_internet)
        && socket_protocol(descriptor).is_ok_and(|protocol| protocol == Some(ipproto::UDP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use sidestep_testkit::lingering;
    use std::fs::File;
    use std::io::Read;
    use std::time::Duration;

    fn await_bell(closers: &Closers) {
        while poll(&mut [PollFd::from_borrowed_fd(closers.bell(), PollFlags::IN)], None).is_err() {}
        closers.heard();
    }

    #[test]
    fn a_ticket_is_good_when_its_descriptor_and_those_before_it_are_closed() {
        let closers = Closers::new().unwrap();
        assert!(closers.last_of(1).is_none());
        let (peer, slow) = lingering(Duration::from_millis(500));
        let (mut reader, writer) = rustix::pipe::pipe().map(|(reader, writer)| (File::from(reader), writer)).unwrap();
        closers.close(1, slow);
        closers.close(1, writer);
        let ticket = closers.last_of(1).unwrap();
        assert!(!closers.is_closed(ticket), "the first one lingers");
        let (other, quick) = rustix::pipe::pipe().unwrap();
        closers.close(2, quick);
        let of_other = closers.last_of(2);
        while of_other.is_some_and(|ticket| !closers.is_closed(ticket)) {
            await_bell(&closers);
        }
        assert_eq!(File::from(other).read(&mut [0; 8]).unwrap(), 0, "another user's is closed meanwhile");
        while !closers.is_closed(ticket) {
            await_bell(&closers);
        }
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "no copy of the writing end is left");
        assert!(closers.last_of(1).is_none());
        drop(peer);
    }
}

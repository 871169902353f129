//! Descriptors received from strangers, and their closing.
//!
//! Closing a descriptor can take as long as its maker likes: a TCP socket lingers for a peer that does not read
//! (SO_LINGER), a file waits for its FUSE server. So a stranger's descriptor is never closed on control's own thread,
//! but on one per user, which the user can block only for itself. (Connections in which such descriptors are still
//! queued are closed by the reaper.)

use rustix::net::sockopt::{set_socket_linger, socket_domain, socket_protocol};
use rustix::net::{AddressFamily, ipproto};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    /// It is a connection that the application goes on with: how that ends is the application's.
    keeps_linger: bool,
}

/// The closing threads: one for each user with a descriptor to close, which ends when none is left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closers(Arc<Mutex<BTreeMap<u32, VecDeque<Doomed>>>>);

/// A descriptor to be closed, and whether its SO_LINGER stays.
type Doomed = (OwnedFd, bool);

impl Closers {
    /// Wraps a descriptor that a process of `uid` has sent.
    pub(crate) fn own(&self, uid: u32, descriptor: OwnedFd) -> Foreign {
        Foreign { descriptor: Some(descriptor), uid, closers: self.clone(), keeps_linger: false }
    }

    /// Returns whether this user's descriptors cannot be closed.
    pub(crate) fn is_stuck(&self, uid: u32) -> bool {
        let waiting = self.lock();
        let own = waiting.get(&key(&waiting, uid)).map_or(0, VecDeque::len);
        // The one being closed is no longer in the queue.
        own >= WAITING_MAX || own > 0 && waiting.values().map(VecDeque::len).sum::<usize>() >= WAITING_OF_ALL_MAX
    }

    /// Closes a descriptor that a process of `uid` has sent; soon, on another thread.
    pub(crate) fn close(&self, uid: u32, descriptor: OwnedFd, keeps_linger: bool) {
        if is_udp(descriptor.as_fd()) {
            return; // Closing it does not block; by far the most common case.
        }
        let mut waiting = self.lock();
        let key = key(&waiting, uid);
        if let Some(waiting) = waiting.get_mut(&key) {
            return waiting.push_back((descriptor, keeps_linger));
        }
        waiting.insert(key, VecDeque::from([(descriptor, keeps_linger)]));
        drop(waiting);
        let closers = self.clone();
        let thread = thread::Builder::new().name("closer".into()).spawn(move || closers.work(key));
        if thread.is_err() {
            // No thread is available: closing it here is better than never.
            self.work(key);
        }
    }

    fn work(&self, key: u32) {
        while let Some((descriptor, keeps_linger)) = self.next(key) {
            // Avoids the wait if the maker has closed it; otherwise the wait is not ours.
            if !keeps_linger {
                let _ = set_socket_linger(&descriptor, None);
            }
        }
    }

    fn next(&self, key: u32) -> Option<Doomed> {
        let mut waiting = self.lock();
        let next = waiting.get_mut(&key).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&key);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, VecDeque<Doomed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.closers.close(self.uid, descriptor, self.keeps_linger);
        }
    }
}

impl Foreign {
    /// Closes it without a change of its SO_LINGER.
    pub(crate) fn keep_linger(mut self) {
        self.keeps_linger = true;
    }
}

fn is_udp(descriptor: BorrowedFd<'_>) -> bool {
    let is_internet = |family| matches!(family, AddressFamily::INET | AddressFamily::INET6);
    socket_domain(descriptor).is_ok_and(is_internet)
        && socket_protocol(descriptor).is_ok_and(|protocol| protocol == Some(ipproto::UDP))
}

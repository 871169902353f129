//! The descriptors past the kernel of one epoll set, and which of them may be ready: the ready list of fs/eventpoll.c, without a
//! system call and without the sockets.

use libc::{EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLWAKEUP};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Bits that say how events are told.
const MANNER: u32 = (EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE) as u32;

/// Events that are told without being asked for.
const ALWAYS: u32 = (EPOLLERR | EPOLLHUP) as u32;

/// A set of fewer items keeps those whose targets have ended until they are found.
const SWEEP_AT_LEAST: usize = 64;

/// Events that go together with EPOLLEXCLUSIVE.
const EXCLUSIVE: u32 = (EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE) as u32;

/// What the program has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) events: u32,
    pub(crate) data: u64,
}

impl Interest {
    pub(crate) fn has(self, bit: i32) -> bool {
        self.events & bit as u32 != 0
    }

    /// Errors and hangups are told to who asks for nothing, too.
    fn with_always(self) -> Self {
        Self { events: self.events | ALWAYS, ..self }
    }

    /// Returns whether its edges are those that marks show: room to send has edges of its own.
    pub(crate) fn is_of_marks(self) -> bool {
        self.has(EPOLLET) && !self.has(EPOLLOUT)
    }

    /// The interest after an event with EPOLLONESHOT.
    pub(crate) fn disarmed(self) -> Self {
        Self { events: self.events & MANNER, ..self }
    }

    /// Returns whether an event can be told: after EPOLLONESHOT not before the next EPOLL_CTL_MOD.
    pub(super) fn is_armed(self) -> bool {
        self.events & !MANNER != 0
    }
}

/// The state of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// The events of epoll(7) that are on.
    pub(crate) events: u32,
    /// A value that is another one after each edge of reading; `None` where each change that is announced is an edge.
    pub(crate) mark: Option<u64>,
}

impl From<u32> for Now {
    fn from(events: u32) -> Self {
        Self { events, mark: None }
    }
}

#[derive(Debug)]
struct Item<T> {
    interest: Interest,
    target: T,
    /// The mark of what was told last, since the interest was set.
    told: Option<u64>,
    /// In the ready list.
    is_listed: bool,
}

/// The items of a set, by their keys.
#[derive(Debug)]
pub(crate) struct Items<K, T> {
    items: HashMap<K, Item<T>>,
    /// Items that may be ready, the next to be asked first.
    ready: VecDeque<K>,
    /// The number of items at which those are looked for whose targets have ended.
    sweep_at: usize,
}

/// An event of an item.
#[derive(Debug)]
pub(crate) struct Told<'a, T> {
    pub(crate) target: &'a T,
    pub(crate) events: u32,
    pub(crate) interest: Interest,
}

impl<K, T> Default for Items<K, T> {
    fn default() -> Self {
        Self { items: HashMap::new(), ready: VecDeque::new(), sweep_at: SWEEP_AT_LEAST }
    }
}

impl<K: Copy + Eq + Hash, T> Items<K, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn target(&mut self, key: K) -> Option<&mut T> {
        self.items.get_mut(&key).map(|item| &mut item.target)
    }

    pub(crate) fn has(&self, key: K) -> bool {
        self.items.contains_key(&key)
    }

    /// EPOLL_CTL_ADD
    pub(crate) fn add(&mut self, key: K, target: T, interest: Interest) -> Result<(), Errno> {
        if interest.has(EPOLLEXCLUSIVE) && interest.events & !EXCLUSIVE != 0 {
            return Err(Errno::INVAL);
        }
        if self.has(key) {
            return Err(Errno::EXIST);
        }
        self.items.insert(key, Item { interest: interest.with_always(), target, told: None, is_listed: false });
        self.list(key);
        Ok(())
    }

    /// EPOLL_CTL_MOD: what is ready is told anew, with EPOLLET, too.
    pub(crate) fn modify(&mut self, key: K, interest: Interest) -> Result<(), Errno> {
        if interest.has(EPOLLEXCLUSIVE) {
            return Err(Errno::INVAL);
        }
        let item = self.items.get_mut(&key).ok_or(Errno::NOENT)?;
        if item.interest.has(EPOLLEXCLUSIVE) {
            return Err(Errno::INVAL);
        }
        item.interest = interest.with_always();
        item.told = None;
        self.list(key);
        Ok(())
    }

    /// EPOLL_CTL_DEL
    pub(crate) fn remove(&mut self, key: K) -> Result<(T, Interest), Errno> {
        let item = self.items.remove(&key).ok_or(Errno::NOENT)?;
        if item.is_listed {
            self.ready.retain(|other| *other != key);
        }
        Ok((item.target, item.interest))
    }

    /// Puts an item at the end of the ready list, if it is not there; returns whether it can be told.
    pub(crate) fn list(&mut self, key: K) -> bool {
        let Some(item) = self.items.get_mut(&key).filter(|item| item.interest.is_armed()) else { return false };
        if !std::mem::replace(&mut item.is_listed, true) {
            self.ready.push_back(key);
        }
        true
    }

    /// The number of items that may be ready.
    pub(crate) fn listed(&self) -> usize {
        self.ready.len()
    }

    /// Ends the items whose targets have ended. Called before one is added; looks when their number has doubled.
    pub(crate) fn sweep(&mut self, mut is_there: impl FnMut(&T) -> bool) {
        if self.items.len() < self.sweep_at {
            return;
        }
        self.items.retain(|_, item| is_there(&item.target));
        self.ready.retain(|key| self.items.contains_key(key));
        self.sweep_at = (self.items.len() * 2).max(SWEEP_AT_LEAST);
    }

    /// Returns whether an item of the list is ready. Those that are not leave the list.
    pub(crate) fn is_ready<N: Into<Now>>(&mut self, mut readiness: impl FnMut(&T) -> Option<N>) -> bool {
        while let Some(key) = self.ready.front().copied() {
            if self.told(key, &mut readiness).is_some_and(|now| now.events != 0) {
                return true;
            }
            self.ready.pop_front();
            self.items.get_mut(&key).into_iter().for_each(|item| item.is_listed = false);
        }
        false
    }

    /// Takes events, at most `max`: level-triggered items go to the end of the list, others leave it. `readiness` gives the
    /// events of a target that are on; `None` of one that is gone, which ends the item. `tell` returns whether the event has taken
    /// a place of its own.
    pub(crate) fn take<N: Into<Now>>(
        &mut self,
        max: usize,
        mut readiness: impl FnMut(&T) -> Option<N>,
        mut tell: impl FnMut(Told<'_, T>) -> bool,
    ) -> usize {
        let mut count = 0;
        for _ in 0..self.ready.len() {
            if count == max {
                break;
            }
            let Some(key) = self.ready.pop_front() else { break };
            let now = self.told(key, &mut readiness).unwrap_or(Now::from(0));
            let Some(item) = self.items.get_mut(&key) else { continue };
            item.is_listed = false;
            if now.events == 0 {
                continue;
            }
            item.told = now.mark;
            count += usize::from(tell(Told { target: &item.target, events: now.events, interest: item.interest }));
            if item.interest.has(EPOLLONESHOT) {
                item.interest = item.interest.disarmed();
            } else if !item.interest.has(EPOLLET) {
                self.list(key);
            }
        }
        count
    }

    /// Disarms the one-shot items that `was_told` chooses.
    pub(crate) fn disarm(&mut self, mut was_told: impl FnMut(&T, Interest) -> bool) {
        let items = self.items.values_mut().filter(|item| item.interest.has(EPOLLONESHOT));
        for item in items.filter(|item| was_told(&item.target, item.interest)) {
            item.interest = item.interest.disarmed();
        }
    }

    /// What is to be told of an item; no events if there are none, or if what has changed is no edge (EPOLLET). One whose target is gone
    /// is removed.
    fn told<N: Into<Now>>(&mut self, key: K, readiness: &mut impl FnMut(&T) -> Option<N>) -> Option<Now> {
        let item = self.items.get(&key)?;
        let Some(now) = readiness(&item.target).map(Into::into) else {
            self.items.remove(&key);
            return None;
        };
        let is_known = item.interest.is_of_marks() && now.mark.is_some() && now.mark == item.told;
        let events = if is_known { 0 } else { now.events & item.interest.events & !MANNER };
        Some(Now { events, ..now })
    }
}

#[cfg(test)]
mod against_kernel;

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = EPOLLIN as u32;
    const OUT: u32 = EPOLLOUT as u32;

    fn set(interests: &[(u32, u32)]) -> Items<u32, u32> {
        let mut items = Items::default();
        for (key, events) in interests {
            items.add(*key, *key, Interest { events: *events, data: u64::from(*key) }).unwrap();
        }
        items
    }

    fn take(items: &mut Items<u32, u32>, max: usize, ready: &[(u32, u32)]) -> Vec<(u64, u32)> {
        let mut told = Vec::new();
        let readiness =
            |target: &u32| Some(ready.iter().find(|(key, _)| key == target).map_or(0, |(_, events)| *events));
        items.take(max, readiness, |one| {
            told.push((one.interest.data, one.events));
            true
        });
        told
    }

    #[test]
    fn level_triggered_items_are_told_as_long_as_they_are_ready_and_in_turn() {
        let mut items = set(&[(1, IN), (2, IN), (3, IN)]);
        let ready = [(1, IN), (2, IN | OUT), (3, OUT)];
        assert_eq!(take(&mut items, 1, &ready), [(1, IN)]);
        assert_eq!(take(&mut items, 1, &ready), [(2, IN)]);
        assert_eq!(take(&mut items, 9, &ready), [(1, IN), (2, IN)]);
        assert_eq!(take(&mut items, 9, &[]), []);
        assert_eq!(take(&mut items, 9, &ready), [], "nothing has changed since");
        assert!(items.list(2));
        assert_eq!(take(&mut items, 9, &ready), [(2, IN)]);
    }

    #[test]
    fn edge_triggered_items_are_told_once_per_change() {
        let mut items = set(&[(1, IN | EPOLLET as u32)]);
        assert_eq!(take(&mut items, 9, &[(1, IN)]), [(1, IN)]);
        assert_eq!(take(&mut items, 9, &[(1, IN)]), []);
        assert!(items.list(1) && items.list(1) && items.listed() == 1);
        assert_eq!(take(&mut items, 9, &[(1, IN)]), [(1, IN)]);
        items.modify(1, Interest { events: IN | EPOLLET as u32, data: 7 }).unwrap();
        assert_eq!(take(&mut items, 9, &[(1, IN)]), [(7, IN)], "changed interest is asked anew");
    }

    #[test]
    fn a_change_that_is_no_edge_of_reading_is_not_told_to_who_does_not_write() {
        let mut items = set(&[(1, IN | EPOLLET as u32), (2, IN | OUT | EPOLLET as u32)]);
        let mut take = |mark| {
            let mut told = Vec::new();
            (1..=2).for_each(|key| _ = items.list(key));
            let now = |_: &u32| Some(Now { events: IN | OUT, mark: Some(mark) });
            items.take(9, now, |one| {
                told.push(one.interest.data);
                true
            });
            told
        };
        assert_eq!(take(1), [1, 2]);
        assert_eq!(take(1), [2], "room to send, perhaps");
        assert_eq!(take(2), [1, 2]);
    }

    #[test]
    fn one_shot_items_are_told_once_until_they_are_armed_again() {
        let mut items = set(&[(1, IN | EPOLLONESHOT as u32)]);
        assert_eq!(take(&mut items, 9, &[(1, IN)]), [(1, IN)]);
        assert!(!items.list(1));
        assert_eq!(take(&mut items, 9, &[(1, IN | EPOLLHUP as u32)]), []);
        items.modify(1, Interest { events: IN | EPOLLONESHOT as u32, data: 1 }).unwrap();
        assert_eq!(take(&mut items, 9, &[(1, IN)]), [(1, IN)]);
    }

    #[test]
    fn errors_and_hangups_are_always_told() {
        let mut items = set(&[(1, OUT)]);
        assert_eq!(take(&mut items, 9, &[(1, IN | ALWAYS)]), [(1, ALWAYS)]);
        let mut items = set(&[(1, 0)]);
        assert_eq!(take(&mut items, 9, &[(1, IN | ALWAYS)]), [(1, ALWAYS)], "asked for by nothing");
    }

    #[test]
    fn mistakes_have_the_kernels_errors() {
        let mut items = set(&[(1, IN)]);
        let interest = Interest { events: IN, data: 0 };
        assert_eq!(items.add(1, 1, interest), Err(Errno::EXIST));
        assert_eq!(items.modify(2, interest), Err(Errno::NOENT));
        assert_eq!(items.remove(2), Err(Errno::NOENT));
        let exclusive = Interest { events: IN | EPOLLEXCLUSIVE as u32, data: 0 };
        assert_eq!(
            items.add(2, 2, Interest { events: exclusive.events | EPOLLONESHOT as u32, data: 0 }),
            Err(Errno::INVAL)
        );
        items.add(2, 2, exclusive).unwrap();
        assert_eq!(items.modify(2, interest), Err(Errno::INVAL));
        assert_eq!(items.modify(1, exclusive), Err(Errno::INVAL));
        assert_eq!(items.remove(1), Ok((1, Interest { events: IN | ALWAYS, data: 1 })));
    }

    #[test]
    fn what_is_gone_leaves_the_set() {
        let mut items = set(&[(1, IN), (2, IN)]);
        let mut told = Vec::new();
        items.take(
            9,
            |target| (*target == 2).then_some(IN),
            |one| {
                told.push(one.interest.data);
                true
            },
        );
        assert!(told == [2] && !items.has(1) && items.has(2));
    }

    #[test]
    fn items_that_nobody_removes_do_not_pile_up() {
        let mut items = Items::default();
        for key in 0..100_000 {
            items.sweep(|target| key - *target < 10);
            items.add(key, key, Interest { events: IN, data: 0 }).unwrap();
            assert!(items.items.len() <= SWEEP_AT_LEAST && items.listed() <= SWEEP_AT_LEAST);
        }
    }

    #[test]
    fn an_event_without_a_place_of_its_own_is_told_beyond_the_limit() {
        let mut items = set(&[(1, IN), (2, IN)]);
        let mut told = Vec::new();
        let count = items.take(
            1,
            |_| Some(IN),
            |one| {
                told.push(*one.target);
                *one.target != 1
            },
        );
        assert!(count == 1 && told == [1, 2]);
    }

    #[test]
    fn one_shot_items_are_disarmed_by_the_kernels_event() {
        let mut items = set(&[(1, IN | EPOLLONESHOT as u32), (2, IN)]);
        items.disarm(|target, _| *target < 3);
        assert_eq!(take(&mut items, 9, &[(1, IN), (2, IN)]), [(2, IN)]);
    }
}

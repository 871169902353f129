//! One wheel for the deadlines of all connections: arming and cancelling take the same few steps for ten as for ten
//! thousand, and a poll before the next deadline takes a comparison.
//!
//! ```text
//!  level 0   64 slots of one tick        level 1   64 slots of 64 ticks     ...     level 5   64 slots of 2^30 ticks
//! ```
//!
//! An entry lies at the level of the highest group of six bits in which its tick differs from the current one. When the
//! current tick enters a slot of a higher level, its entries move down.
//!
//! A deadline that moves later, or goes away, is one store: the entry stays where it is until its turn comes, and then moves on
//! or goes. So a timer that is cancelled, as nearly all are, costs no search, and its connection is not touched for it.

use crate::tcp::time::Instant;

/// A tick is 2^16 ns = 65.5 us. An entry fires at its very deadline: within the current tick deadlines are compared.
const TICK_SHIFT: u32 = 16;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Six levels of six bits: 2^52 ns, 52 days, more than any timer of TCP.
const LEVELS: usize = 6;
const TICKS_MAX: u64 = (1 << (SLOT_BITS as usize * LEVELS)) - 1;
const NONE: u32 = u32::MAX;
const NOWHERE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Node {
    deadline: Instant,
    /// The deadline that it lies in its place by: not later.
    linked: Instant,
    previous: u32,
    next: u32,
    place: u16,
}

const IDLE: Node =
    Node { deadline: Instant::NEVER, linked: Instant::NEVER, previous: NONE, next: NONE, place: NOWHERE };

/// At most one deadline per slot number.
pub(crate) struct Wheel {
    nodes: Vec<Node>,
    heads: Vec<u32>,
    occupied: [u64; LEVELS],
    tick: u64,
    /// No entry of the current tick is due before this.
    look_again: Instant,
}

impl Wheel {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            nodes: Vec::new(),
            heads: vec![NONE; SLOTS * LEVELS],
            occupied: [0; LEVELS],
            tick: now.as_nanos() >> TICK_SHIFT,
            look_again: Instant::NEVER,
        }
    }

    /// The deadline of `index`; [`Instant::NEVER`] if there is none.
    #[cfg(feature = "audit")]
    pub(crate) fn deadline(&self, index: u32) -> Instant {
        self.nodes.get(index as usize).map_or(Instant::NEVER, |node| node.deadline)
    }

    /// Sets the deadline of `index` in place of the one it had; [`Instant::NEVER`] only if it has one.
    #[inline]
    pub(crate) fn arm(&mut self, index: u32, deadline: Instant) {
        match self.nodes.get_mut(index as usize) {
            Some(node) if node.place != NOWHERE && node.linked <= deadline => {
                node.deadline = deadline;
                // The current slot's deadlines are compared.
                if u64::from(node.place) == self.tick % SLOTS as u64 {
                    self.look_again = self.look_again.min(deadline);
                }
            }
            _ => self.place(index, deadline),
        }
    }

    fn place(&mut self, index: u32, deadline: Instant) {
        debug_assert!(deadline != Instant::NEVER);
        if self.nodes.len() <= index as usize {
            self.nodes.resize(index as usize + 1, IDLE);
        }
        self.cancel(index);
        self.nodes[index as usize].deadline = deadline;
        self.link(index);
    }

    /// Forgets the deadline of `index`.
    pub(crate) fn cancel(&mut self, index: u32) {
        let Some(node) = self.nodes.get(index as usize).copied() else { return };
        if node.place == NOWHERE {
            return;
        }
        let place = usize::from(node.place);
        match node.previous {
            NONE => self.heads[place] = node.next,
            previous => self.nodes[previous as usize].next = node.next,
        }
        if node.next != NONE {
            self.nodes[node.next as usize].previous = node.previous;
        }
        if self.heads[place] == NONE {
            self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
        }
        self.nodes[index as usize] = IDLE;
    }

    fn link(&mut self, index: u32) {
        let deadline = self.nodes[index as usize].deadline;
        let tick = (deadline.as_nanos() >> TICK_SHIFT).clamp(self.tick, self.tick.saturating_add(TICKS_MAX / 2));
        let differing = (tick ^ self.tick) & TICKS_MAX;
        let level = (u64::BITS - differing.leading_zeros()).saturating_sub(1) / SLOT_BITS;
        let slot = (tick >> (level * SLOT_BITS)) as usize % SLOTS;
        let place = level as usize * SLOTS + slot;
        let head = std::mem::replace(&mut self.heads[place], index);
        let node = &mut self.nodes[index as usize];
        (node.linked, node.previous, node.next, node.place) = (deadline, NONE, head, place as u16);
        if head != NONE {
            self.nodes[head as usize].previous = index;
        }
        self.occupied[level as usize] |= 1 << slot;
        if tick == self.tick {
            self.look_again = self.look_again.min(deadline);
        }
    }

    /// Takes out one entry whose deadline is not after `now`.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        if now < self.look_again && now.as_nanos() >> TICK_SHIFT <= self.tick {
            return None;
        }
        self.search(now)
    }

    fn search(&mut self, now: Instant) -> Option<u32> {
        let target = now.as_nanos() >> TICK_SHIFT;
        loop {
            if let Some(index) = self.due_in_current_slot(now) {
                self.cancel(index);
                return Some(index);
            }
            if self.tick >= target || !self.step(target) {
                return None;
            }
        }
    }

    fn due_in_current_slot(&mut self, now: Instant) -> Option<u32> {
        if now < self.look_again {
            return None;
        }
        self.look_again = Instant::NEVER;
        let mut index = self.heads[self.tick as usize % SLOTS];
        while index != NONE {
            let node = self.nodes[index as usize];
            if node.deadline <= now {
                // Others of this slot may be due, too.
                self.look_again = Instant::default();
                return Some(index);
            }
            if node.deadline.as_nanos() >> TICK_SHIFT > self.tick {
                self.cancel(index);
                self.link_again(index, node.deadline);
            } else {
                self.look_again = self.look_again.min(node.deadline);
            }
            index = node.next;
        }
        None
    }

    /// Links an entry that is in no list, if its deadline has not gone away.
    fn link_again(&mut self, index: u32, deadline: Instant) {
        self.nodes[index as usize] = Node { deadline, ..IDLE };
        if deadline != Instant::NEVER {
            self.link(index);
        }
    }

    /// Goes to the next tick that has something to do, not beyond `target`; false if there is none.
    fn step(&mut self, target: u64) -> bool {
        let Some((level, slot, tick)) = self.next_slot() else {
            self.go_to(target);
            return false;
        };
        if tick > target {
            self.go_to(target);
            return false;
        }
        self.go_to(tick);
        self.look_again = Instant::default();
        if level > 0 {
            self.move_down(level * SLOTS + slot);
        }
        true
    }

    fn go_to(&mut self, tick: u64) {
        if tick > self.tick {
            self.tick = tick;
            self.look_again = Instant::NEVER;
        }
    }

    fn move_down(&mut self, place: usize) {
        let mut index = std::mem::replace(&mut self.heads[place], NONE);
        self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
        while index != NONE {
            let Node { deadline, next, .. } = self.nodes[index as usize];
            self.link_again(index, deadline);
            index = next;
        }
    }

    /// The lowest level's first occupied slot behind the current tick: level, slot, its first tick. Entries of a level come
    /// before all entries of the levels above.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        for level in 0..LEVELS {
            let shift = SLOT_BITS * level as u32;
            let current = (self.tick >> shift) as usize % SLOTS;
            // A later slot of the same turn, or, at the top, of the next one.
            let behind = self.occupied[level] & (u64::MAX << current << 1);
            let wrapped = if level == LEVELS - 1 { self.occupied[level] } else { 0 };
            let turn = shift + SLOT_BITS;
            let base = self.tick >> turn << turn;
            if behind != 0 {
                let slot = behind.trailing_zeros() as usize;
                return Some((level, slot, base + ((slot as u64) << shift)));
            }
            if wrapped != 0 {
                let slot = wrapped.trailing_zeros() as usize;
                return Some((level, slot, base + (1 << turn) + ((slot as u64) << shift)));
            }
        }
        None
    }

    /// The earliest deadline of all, or, where one has moved later, the end of the slot that it lies in, if that is earlier.
    /// Walks one slot: for a caller that is about to sleep, not for each poll.
    pub(crate) fn earliest(&self) -> Option<Instant> {
        let current = self.tick as usize % SLOTS;
        let (level, slot, tick) = match self.occupied[0] >> current & 1 {
            1 => (0, current, self.tick),
            _ => self.next_slot()?,
        };
        // What lies in later slots is due behind it.
        let end = tick.saturating_add(1 << (SLOT_BITS * level as u32));
        let mut earliest = Instant::from_nanos(end.saturating_mul(1 << TICK_SHIFT));
        let mut index = self.heads[level * SLOTS + slot];
        while index != NONE {
            let node = self.nodes[index as usize];
            earliest = earliest.min(node.deadline);
            index = node.next;
        }
        Some(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn fires_at_the_nanosecond() {
        let mut wheel = Wheel::new(at(0));
        wheel.arm(3, at(100));
        wheel.arm(4, at(200_000_000));
        assert_eq!(wheel.earliest(), Some(at(100)));
        assert_eq!(wheel.pop_due(at(99)), None);
        assert_eq!(wheel.pop_due(at(100)), Some(3));
        assert_eq!(wheel.pop_due(at(199_999_999)), None);
        assert_eq!(wheel.pop_due(at(200_000_000)), Some(4));
        assert_eq!(wheel.earliest(), None);
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let start = random.u64(..1 << 55);
            let (mut wheel, mut now, mut map) = (Wheel::new(at(start)), start, BTreeMap::new());
            for _ in 0..3000 {
                let index = random.u32(..50);
                match random.u8(..4) {
                    0 => {
                        wheel.cancel(index);
                        map.remove(&index);
                    }
                    1 => now += random.u64(..) >> random.u32(26..63),
                    2 if map.contains_key(&index) && random.bool() => {
                        wheel.arm(index, Instant::NEVER);
                        map.remove(&index);
                    }
                    _ => {
                        let deadline = now + (random.u64(..) >> random.u32(20..63));
                        wheel.arm(index, at(deadline));
                        map.insert(index, deadline);
                    }
                }
                while let Some(fired) = wheel.pop_due(at(now)) {
                    let deadline = map.remove(&fired).expect("armed once, fires once");
                    assert!(deadline <= now, "seed {seed}: {fired} fired early");
                }
                assert!(map.values().all(|&deadline| deadline > now), "seed {seed}: one is late");
                let earliest = map.values().min().map_or(Instant::NEVER, |&ns| at(ns));
                assert!(wheel.earliest().unwrap_or(Instant::NEVER) <= earliest, "seed {seed}: it oversleeps");
            }
            // Sleeping until then, again and again, leads to each deadline, and to an empty wheel at last.
            while let Some(earliest) = wheel.earliest() {
                assert!(earliest > at(now), "seed {seed}: it does not sleep");
                now = earliest.as_nanos();
                while let Some(fired) = wheel.pop_due(at(now)) {
                    assert_eq!(map.remove(&fired), Some(now), "seed {seed}: {fired}");
                }
            }
            assert!(map.is_empty(), "seed {seed}: {map:?}");
        }
    }

    #[test]
    fn what_moves_later_fires_then_and_what_goes_away_never() {
        let mut wheel = Wheel::new(at(0));
        for index in 0..3 {
            wheel.arm(index, at(100_000));
            wheel.arm(index, Instant::NEVER);
        }
        wheel.arm(1, at(9_000_000));
        wheel.arm(2, at(120_000));
        assert_eq!(wheel.earliest(), Some(at(120_000)));
        assert_eq!(wheel.pop_due(at(119_999)), None);
        assert_eq!((wheel.pop_due(at(120_000)), wheel.pop_due(at(120_000))), (Some(2), None));
        assert_eq!(wheel.pop_due(at(8_999_999)), None);
        assert_eq!(wheel.earliest(), Some(at(9_000_000)));
        assert_eq!((wheel.pop_due(at(9_000_000)), wheel.earliest()), (Some(1), None));
    }
}

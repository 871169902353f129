//! Local ports of connections from here: which one the next connection takes.
//!
//! Control has reserved them in blocks; it is asked for more in time, and never waited for. A port is anybody's who connects
//! elsewhere: what must not be twice is the tuple of both addresses and both ports, and that the stack knows.

use crate::control_agent::ControlAgent;
use crate::engine::bypass::Bypass;
use crate::reason::Reason;
use sidestep_control_api::message::{BLOCK_PORTS, PortBlock, Protocol};
use sidestep_control_api::rss::Toward;
use sidestep_stack::tcp::{Instant, Tuple};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

/// Blocks that a stack may have at control: asking for more is of no use.
const BLOCKS_MAX: usize = 16;

/// Blocks asked for at a time: each takes control about a millisecond.
const ASKED_MAX: usize = 4;

/// Between a refusal and the next request: somebody may have closed a stack.
const REFUSED_NS: u64 = 1_000_000_000;

/// Counters of where to go on, each of the destinations that have its hash (RFC 6056 section 3.3.4).
const COUNTERS: usize = 64;

/// Looks into the table of connections in one turn of the engine, after which it begins no other search: there are other sockets
/// to serve. A search has at most as many as there are ports.
const LOOKS_PER_TURN: usize = 1024;

/// The time for which a search without a free port stands, unless ports are added: tuples leave TIME-WAIT all the time.
pub(crate) const NO_PORT_NS: u64 = 10_000_000;

/// A destination for which there was no port: what was seen, until when that stands (CLOCK_MONOTONIC), and for which ports.
#[derive(Clone, Copy, Debug)]
struct NoPort {
    ends: (IpAddr, SocketAddr),
    seen: Seen,
    until_ns: u64,
    generation: u32,
}

/// Local ports, and how to choose one.
#[derive(Debug)]
pub(crate) struct Ports {
    ports: Vec<u16>,
    blocks: usize,
    /// Blocks that control has been asked for.
    asked: usize,
    /// Control has refused the last one: why, and until when it is not asked again (CLOCK_MONOTONIC).
    refused: Option<(Reason, u64)>,
    /// Changes with whatever may make a choice possible that was not.
    generation: u32,
    secret: RandomState,
    counters: [u32; COUNTERS],
    /// The last one of the destinations that have its hash.
    no_port: [Option<NoPort>; COUNTERS],
    /// Looks that this turn has had.
    looks: usize,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            blocks: 0,
            asked: 0,
            refused: None,
            generation: 0,
            secret: RandomState::new(),
            counters: [0; COUNTERS],
            no_port: [None; COUNTERS],
            looks: 0,
        }
    }
}

/// The outcome of a search for a local port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Port(u16),
    /// None at the moment: ports have been asked for, or a tuple leaves TIME-WAIT within a second.
    Later,
    /// Control gives no ports: a connection has to show a socket of its own.
    ByEntry,
    /// All tuples to this destination are in use: EADDRNOTAVAIL.
    Exhausted,
    /// Answers would not come here.
    OtherQueue,
}

/// The findings of a search over all ports toward one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    is_ours: bool,
    is_waiting: bool,
}

impl Ports {
    /// Another turn of the engine.
    pub(crate) fn begin_turn(&mut self) {
        self.looks = 0;
    }

    /// Returns whether no other search begins in this turn.
    pub(crate) fn is_spent(&self) -> bool {
        self.looks >= LOOKS_PER_TURN
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns whether control has not said anything yet.
    pub(crate) fn are_unknown(&self) -> bool {
        self.ports.is_empty() && self.refused.is_none()
    }

    /// Control's answer; `now_ns` is CLOCK_MONOTONIC.
    pub(crate) fn answered(&mut self, answer: Result<PortBlock, Reason>, now_ns: u64) {
        self.asked = self.asked.saturating_sub(1);
        self.generation = self.generation.wrapping_add(1);
        match answer {
            Ok(block) => {
                self.refused = None;
                self.blocks += 1;
                self.ports.extend(block.ports());
            }
            Err(reason) => self.refused = Some((reason, now_ns.saturating_add(REFUSED_NS))),
        }
    }

    /// Answers come by other queues than before.
    pub(crate) fn invalidate(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The port of a connection from `source` to `remote`.
    pub(crate) fn choose(
        &mut self,
        bypass: &Bypass,
        agent: &ControlAgent,
        source: IpAddr,
        remote: SocketAddr,
        now: Instant,
    ) -> Choice {
        match bypass.queues.toward(Protocol::Tcp, remote, source) {
            Ok(toward) => self.choose_of(bypass, agent, toward.as_ref(), (source, remote), now),
            Err(_) => Choice::OtherQueue,
        }
    }

    fn choose_of(
        &mut self,
        bypass: &Bypass,
        agent: &ControlAgent,
        toward: Option<&Toward<'_>>,
        ends: (IpAddr, SocketAddr),
        now: Instant,
    ) -> Choice {
        let tuple = |port| bypass.stack.tcp().tuple(now, SocketAddr::new(ends.0, port), ends.1);
        let found = self.find(ends, now.as_nanos(), |port| bypass.queues.has_port(toward, port), tuple);
        let Some(found) = found else { return Choice::Later };
        let used = bypass.stack.tcp().connections().0 as usize;
        match found {
            Ok(port) => {
                // Before they run out: three of four are in use if all go to one peer.
                if 4 * used > 3 * self.ports.len() {
                    self.ask(agent, now, 1);
                }
                Choice::Port(port)
            }
            Err(_) if self.ports.is_empty() && self.refused.is_some() => {
                self.ask(agent, now, 1);
                Choice::ByEntry
            }
            Err(seen) if !self.ports.is_empty() && !seen.is_ours => Choice::OtherQueue,
            Err(seen) => {
                let is_growing = self.ask(agent, now, 1);
                if is_growing || seen.is_waiting { Choice::Later } else { Choice::Exhausted }
            }
        }
    }

    /// As [`Self::search`], but for a destination that has just been searched for in vain; `None` where the turn has no more looks.
    fn find(
        &mut self,
        ends: (IpAddr, SocketAddr),
        now_ns: u64,
        is_ours: impl Fn(u16) -> bool,
        tuple: impl Fn(u16) -> Tuple,
    ) -> Option<Result<u16, Seen>> {
        let place = self.place(ends);
        let stands = |no_port: &NoPort| {
            no_port.ends == ends && no_port.generation == self.generation && now_ns < no_port.until_ns
        };
        if let Some(no_port) = self.no_port[place].filter(stands) {
            return Some(Err(no_port.seen));
        }
        if self.is_spent() {
            return None;
        }
        let found = self.search(ends, is_ours, tuple);
        if let Err(seen) = found {
            let until_ns = now_ns.saturating_add(NO_PORT_NS);
            // What was in use may be free by then: only who has just looked knows that nothing is to be waited for.
            let seen = Seen { is_waiting: true, ..seen };
            self.no_port[place] = Some(NoPort { ends, seen, until_ns, generation: self.generation });
        }
        Some(found)
    }

    /// That of all destinations with the same hash.
    fn place(&self, ends: (IpAddr, SocketAddr)) -> usize {
        self.secret.hash_one((ends, 1)) as usize % COUNTERS
    }

    /// The next port whose tuple is free, from where the last search for such a destination ended (RFC 6056 section 3.3.4).
    /// So a tuple is used again as late as can be.
    fn search(
        &mut self,
        ends: (IpAddr, SocketAddr),
        is_ours: impl Fn(u16) -> bool,
        tuple: impl Fn(u16) -> Tuple,
    ) -> Result<u16, Seen> {
        let mut seen = Seen::default();
        let count = self.ports.len();
        if count == 0 {
            return Err(seen);
        }
        let place = self.place(ends);
        let counter = &mut self.counters[place];
        let start = (self.secret.hash_one(ends) as usize).wrapping_add(*counter as usize);
        for step in 0..count {
            let port = self.ports[start.wrapping_add(step) % count];
            self.looks += 1;
            if !is_ours(port) {
                continue;
            }
            seen.is_ours = true;
            match tuple(port) {
                Tuple::Free | Tuple::Replaceable => {
                    *counter = counter.wrapping_add(step as u32 + 1);
                    return Ok(port);
                }
                Tuple::Waiting => seen.is_waiting = true,
                Tuple::Used => {}
            }
        }
        Err(seen)
    }

    /// Has control reserve more, unless that is of no use; returns whether any are still to come.
    fn ask(&mut self, agent: &ControlAgent, now: Instant, blocks: usize) -> bool {
        let now_ns = now.as_nanos();
        let is_refused = self.refused.is_some_and(|(_, until_ns)| now_ns < until_ns);
        let room = BLOCKS_MAX.saturating_sub(self.blocks).min(blocks);
        if !is_refused {
            while self.asked < room {
                self.asked += 1;
                agent.reserve_ports();
            }
        }
        self.asked != 0
    }

    /// So many connections wait for ports.
    pub(crate) fn expect(&mut self, agent: &ControlAgent, now: Instant, waiting: usize) {
        self.ask(agent, now, waiting.div_ceil(usize::from(BLOCK_PORTS)).clamp(1, ASKED_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const ENDS: (IpAddr, SocketAddr) = (
        IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 1)),
        SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 2)), 7),
    );

    fn ports(count: u16) -> Ports {
        let mut ports = Ports::default();
        let mut block = PortBlock::around(50_000);
        (block.first()..block.first() + count).for_each(|port| block.insert(port));
        ports.answered(Ok(block), 0);
        ports
    }

    #[test]
    fn every_port_is_used_before_one_is_used_again() {
        let mut ports = ports(200);
        let mut used = BTreeSet::new();
        for _ in 0..200 {
            let port = ports.search(ENDS, |_| true, |_| Tuple::Free).ok().unwrap();
            assert!(used.insert(port), "{port} was used");
        }
        assert!(used.contains(&ports.search(ENDS, |_| true, |_| Tuple::Free).ok().unwrap()));
    }

    /// Thousands of connections that wait for a port look once, and one more destination is looked at in a turn at most.
    #[test]
    fn what_is_not_there_is_looked_for_once() {
        let looks = std::cell::Cell::new(0);
        let used = |_| {
            looks.set(looks.get() + 1);
            Tuple::Waiting
        };
        let mut ports = ports(256);
        for _ in 0..15 {
            let block = PortBlock::around(50_000 - 256 * ports.blocks as u16);
            let mut whole = block;
            (block.first()..=block.first() + (BLOCK_PORTS - 1)).for_each(|port| whole.insert(port));
            ports.answered(Ok(whole), 0);
        }
        let waiting = Some(Err(Seen { is_ours: true, is_waiting: true }));
        for _ in 0..8000 {
            assert_eq!(ports.find(ENDS, 5, |_| true, used), waiting);
        }
        assert_eq!(looks.get(), 4096);
        // Another destination has another turn.
        let other = (ENDS.0, SocketAddr::new(ENDS.1.ip(), 8));
        assert_eq!((ports.find(other, 5, |_| true, used), ports.is_spent()), (None, true));
        ports.begin_turn();
        assert_eq!(ports.find(other, 5, |_| true, used), waiting);
        assert_eq!(looks.get(), 2 * 4096);
        // Time, and other ports, make it worth another look.
        ports.begin_turn();
        assert_eq!(ports.find(ENDS, 5 + NO_PORT_NS, |_| true, used), waiting);
        ports.begin_turn();
        ports.answered(Err(Reason::TooManyEntries), 0);
        assert_eq!(ports.find(ENDS, 6 + NO_PORT_NS, |_| true, used), waiting);
        assert_eq!(looks.get(), 4 * 4096);
        // That all are in use is believed of a search alone.
        ports.begin_turn();
        let third = (ENDS.0, SocketAddr::new(ENDS.1.ip(), 9));
        let exhausted = Some(Err(Seen { is_ours: true, is_waiting: false }));
        assert_eq!(ports.find(third, 5, |_| true, |_| Tuple::Used), exhausted);
        assert_eq!(ports.find(third, 6, |_| true, |_| Tuple::Free), waiting);
    }

    /// RFC 6056 section 3.1: nobody outside can tell which port comes next.
    #[test]
    fn two_engines_begin_at_ports_of_their_own() {
        let first = || ports(256).search(ENDS, |_| true, |_| Tuple::Free).ok().unwrap();
        assert!((0..64).map(|_| first()).collect::<BTreeSet<_>>().len() > 8);
    }

    #[test]
    fn only_tuples_that_may_begin_and_ports_of_our_queues_are_taken() {
        let mut ports = ports(100);
        let odd = |port: u16| port % 2 == 1;
        let tuple = |port: u16| if port % 10 == 1 { Tuple::Replaceable } else { Tuple::Used };
        let taken: BTreeSet<u16> = (0..20).map(|_| ports.search(ENDS, odd, tuple).ok().unwrap()).collect();
        assert_eq!(taken.len(), 10);
        assert!(taken.iter().all(|port| port % 10 == 1));
        let seen = |ports: &mut Ports, is_ours: fn(u16) -> bool, tuple| {
            let seen = ports.search(ENDS, is_ours, |_| tuple).err().unwrap();
            (seen.is_ours, seen.is_waiting)
        };
        assert_eq!(seen(&mut ports, |_| true, Tuple::Used), (true, false));
        assert_eq!(seen(&mut ports, |_| true, Tuple::Waiting), (true, true));
        assert_eq!(seen(&mut ports, |_| false, Tuple::Free), (false, false));
        assert_eq!(seen(&mut Ports::default(), |_| true, Tuple::Free), (false, false));
    }
}

//! The backlog of connections that have not logged on: which of them is evicted when it is full.
//!
//! A new connection always gets an entry. Evicted is, in this order: the oldest of the newcomer's own host, if that has more than its
//! share; else the oldest of the host that has most, in the network that has most. Hosts from which somebody has logged on
//! before are evicted last. So a flood from one host, or from one network, costs only its own entries, and a
//! counterparty that is known keeps its entry whoever else connects.

use super::source::Source;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// The number of hosts that are remembered because a session has logged on from there.
const KNOWN_MAX: usize = 1024;
/// The share of the backlog that one host may have: one entry in so many.
const SHARE: usize = 4;

/// Entries by their numbers, which rise: the first is the oldest.
#[derive(Debug)]
pub(super) struct Backlog {
    taken: BTreeMap<u64, Entry>,
    hosts: HashMap<Source, usize>,
    /// Strangers alone.
    networks: HashMap<Source, usize>,
    known: HashSet<Source>,
    /// The same, the oldest first.
    known_order: VecDeque<Source>,
    next: u64,
    max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    source: Source,
    /// A session had logged on from there when the entry was made.
    is_known: bool,
}

impl Backlog {
    pub(super) fn new(max: usize) -> Self {
        Self {
            taken: BTreeMap::new(),
            hosts: HashMap::new(),
            networks: HashMap::new(),
            known: HashSet::new(),
            known_order: VecDeque::new(),
            next: 0,
            max: max.max(SHARE),
        }
    }

    /// Returns whether a session had logged on from there before this connection came.
    pub(super) fn is_known(&self, number: u64) -> bool {
        self.taken.get(&number).is_some_and(|entry| entry.is_known)
    }

    /// Adds an entry for a new connection, after those that [`to_evict`](Self::to_evict) names are evicted.
    pub(super) fn take(&mut self, source: Source) -> u64 {
        let number = self.next;
        self.next += 1;
        let is_known = self.known.contains(&source.narrow());
        self.taken.insert(number, Entry { source, is_known });
        *self.hosts.entry(source.narrow()).or_default() += 1;
        if !is_known {
            *self.networks.entry(source.wide()).or_default() += 1;
        }
        number
    }

    pub(super) fn leave(&mut self, number: u64) {
        let Some(Entry { source, is_known }) = self.taken.remove(&number) else { return };
        let of_strangers = (!is_known).then_some((&mut self.networks, source.wide()));
        for (counts, group) in [Some((&mut self.hosts, source.narrow())), of_strangers].into_iter().flatten() {
            if let Some(count) = counts.get_mut(&group) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&group);
                }
            }
        }
    }

    /// Returns the connection to evict before one from `source` is added; `None` if there is room.
    pub(super) fn to_evict(&self, source: Source) -> Option<u64> {
        let host = source.narrow();
        if self.hosts.get(&host).is_some_and(|count| *count >= self.max / SHARE) {
            return self.oldest(|entry| entry.source.narrow() == host);
        }
        if self.taken.len() < self.max { None } else { self.least_valued() }
    }

    /// Returns the connection to evict when there is room for none. Called for each one of a flood, so it compares numbers before names.
    pub(super) fn least_valued(&self) -> Option<u64> {
        let strangers = || self.taken.values().filter(|entry| !entry.is_known);
        let most = self.networks.values().copied().max().unwrap_or(0);
        // Of equals the first is taken, which is the oldest.
        let network =
            strangers().map(|entry| entry.source.wide()).find(|network| self.networks.get(network) == Some(&most));
        let Some(network) = network else { return self.taken.keys().next().copied() };
        if most == 1 {
            return self.oldest(|entry| !entry.is_known && entry.source.wide() == network);
        }
        let hosts = strangers().filter(|entry| entry.source.wide() == network).map(|entry| entry.source.narrow());
        let host = hosts.rev().max_by_key(|host| self.hosts.get(host).copied().unwrap_or(0))?;
        self.oldest(|entry| !entry.is_known && entry.source.narrow() == host)
    }

    fn oldest(&self, is_meant: impl Fn(&Entry) -> bool) -> Option<u64> {
        self.taken.iter().find(|(_, entry)| is_meant(entry)).map(|(number, _)| *number)
    }

    /// Remembers a host from which a session has logged on.
    pub(super) fn remember(&mut self, source: Source) {
        let host = source.narrow();
        if self.known.insert(host) {
            self.known_order.push_back(host);
            if self.known_order.len() > KNOWN_MAX
                && let Some(oldest) = self.known_order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Source {
        Source::host(text.parse().unwrap())
    }

    /// Adds an entry as the engine does; also returns the evicted one.
    fn come(backlog: &mut Backlog, source: Source) -> (u64, Option<u64>) {
        let gone = backlog.to_evict(source);
        gone.into_iter().for_each(|number| backlog.leave(number));
        (backlog.take(source), gone)
    }

    #[test]
    fn one_host_costs_only_itself_its_entries() {
        let mut backlog = Backlog::new(64);
        let (honest, _) = come(&mut backlog, host("192.0.2.1"));
        for _ in 0..10_000 {
            let (_, gone) = come(&mut backlog, host("198.51.100.1"));
            assert_ne!(gone, Some(honest));
        }
        assert_eq!(backlog.taken.len(), 1 + 64 / SHARE);
    }

    #[test]
    fn one_network_costs_only_itself_its_entries() {
        for network in ["198.51.100.", "2001:db8:5:"] {
            let mut backlog = Backlog::new(64);
            let (honest, _) = come(&mut backlog, host("192.0.2.1"));
            let (another, _) = come(&mut backlog, host("2001:db8:6::1"));
            for number in 0..10_000_u32 {
                let stranger = match network.contains(':') {
                    true => format!("{network}{:x}::{number:x}", number % 0xffff),
                    false => format!("{network}{}", number % 256),
                };
                let (_, gone) = come(&mut backlog, host(&stranger));
                assert!(gone.is_none_or(|gone| gone != honest && gone != another), "{stranger}");
            }
            assert_eq!(backlog.taken.len(), 64);
        }
    }

    #[test]
    fn a_process_costs_only_itself_its_entries() {
        let mut backlog = Backlog::new(64);
        let (honest, _) = come(&mut backlog, Source::Local { uid: 7, pid: 1 });
        for _ in 0..1000 {
            assert_ne!(come(&mut backlog, Source::Local { uid: 7, pid: 2 }).1, Some(honest));
        }
    }

    #[test]
    fn whole_networks_of_strangers_do_not_cost_a_known_host_its_entry() {
        let mut backlog = Backlog::new(64);
        backlog.remember(host("192.0.2.1"));
        let (known, _) = come(&mut backlog, host("192.0.2.1"));
        let mut gone = Vec::new();
        for number in 0..5_000_u32 {
            gone.extend(come(&mut backlog, Source::V4(0x0b00_0000 + number * 256)).1);
        }
        assert!(!gone.contains(&known));
        assert!(gone.is_sorted(), "of equals the oldest goes first");
    }

    #[test]
    fn hosts_that_are_remembered_are_bounded_and_all_may_be_known() {
        let mut backlog = Backlog::new(8);
        for number in 0..3000 {
            backlog.remember(Source::V4(number));
        }
        assert_eq!((backlog.known.len(), backlog.known_order.len()), (KNOWN_MAX, KNOWN_MAX));
        let numbers: Vec<u64> = (2990..2999).map(|number| come(&mut backlog, Source::V4(number * 1000)).0).collect();
        assert_eq!(backlog.taken.len(), 8);
        assert!(!backlog.taken.contains_key(&numbers[0]), "the oldest of them");
        numbers.iter().for_each(|number| backlog.leave(*number));
        assert!(backlog.hosts.is_empty() && backlog.networks.is_empty());
    }
}

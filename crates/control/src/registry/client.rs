//! One application, from control's view.

use sidestep_control_api::message::{Code, NAME_BYTES_MAX, Refusal};
use sidestep_sys::credentials::Credentials;
use sidestep_sys::owner::Owner;
use sidestep_sys::printable::printable;
use sidestep_sys::process::{Process, Watch};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

/// The most refusals kept for `sidestep ps`; the oldest is dropped.
const REFUSALS_KEPT: usize = 32;

/// The most neighbours kept confirmed for one application; the oldest is dropped. One per peer or router, not per
/// connection.
const NEIGHBOURS_MAX: usize = 256;

/// A connection, or the remains of one.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Credentials,
    /// The owner whose limits it counts against.
    pub(crate) owner: Owner,
    /// `None` if control's pid namespace cannot see it: then nothing outlives the connection.
    pub(crate) process: Option<Process>,
    pub(crate) watch: Option<Watch>,
    pub(crate) name: String,
    pub(crate) has_greeted: bool,
    /// The time since which its greeting is awaited.
    pub(crate) awaited_since: Instant,
    /// Without a connection: the time at which its stacks are closed.
    pub(crate) leaves_at: Option<Instant>,
    pub(crate) stacks: BTreeSet<u32>,
    /// It may read traffic without a socket that receives it.
    pub(crate) may_tap: bool,
    pub(crate) refusals: VecDeque<Kept>,
    pub(crate) refused: u64,
    pub(crate) neighbours: VecDeque<(u32, IpAddr)>,
}

/// A refusal kept for `sidestep ps`.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) subject: String,
    pub(crate) code: Code,
    pub(crate) reason: String,
    /// The number of times, and the last time.
    pub(crate) times: u64,
    pub(crate) last: Instant,
}

impl Client {
    pub(crate) fn new(peer: Credentials, owner: Owner, process: Option<Process>, now: Instant) -> Self {
        let watch = process.and_then(|process| Watch::new(process).ok().flatten());
        Self {
            peer,
            owner,
            // A process that cannot be watched must not outlive its connection.
            process: process.filter(|_| watch.is_some()),
            watch,
            name: String::new(),
            has_greeted: false,
            awaited_since: now,
            leaves_at: None,
            stacks: BTreeSet::new(),
            may_tap: owner.is_root(),
            refusals: VecDeque::new(),
            refused: 0,
            neighbours: VecDeque::new(),
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.leaves_at.is_none()
    }

    /// Records a refusal; a repeated one is only counted.
    pub(crate) fn keep(&mut self, refusal: &Refusal, now: Instant) {
        self.refused += 1;
        let reason = match refusal.next.as_str() {
            "" => refusal.reason.clone(),
            next => format!("{}; {next}", refusal.reason),
        };
        let (subject, reason) = (printable(&refusal.thing, 200), printable(&reason, 300));
        let code = refusal.code;
        let is_same = |kept: &Kept| kept.code == code && kept.subject == subject && kept.reason == reason;
        let before = self.refusals.iter().position(is_same).and_then(|at| self.refusals.remove(at));
        let times = before.map_or(0, |kept| kept.times) + 1;
        if self.refusals.len() == REFUSALS_KEPT {
            self.refusals.pop_front();
        }
        self.refusals.push_back(Kept { subject, code, reason, times, last: now });
    }

    /// Returns whether it wants a neighbour kept confirmed.
    pub(super) fn wants(&self, interface: u32, address: IpAddr) -> bool {
        self.neighbours.contains(&(interface, address))
    }

    /// Records a neighbour to be kept confirmed.
    pub(super) fn want(&mut self, interface: u32, address: IpAddr) {
        if self.neighbours.len() == NEIGHBOURS_MAX {
            self.neighbours.pop_front();
        }
        self.neighbours.push_back((interface, address));
    }
}

/// A name as it may be listed: short, and without terminal control characters.
pub(crate) fn name(text: &str) -> String {
    printable(text, NAME_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_a_stranger_calls_itself_is_harmless() {
        assert_eq!(name("feed\x1b[2J\u{202e}\n"), "feed?[2J??");
        assert_eq!(name(&"ä".repeat(100)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let now = Instant::now();
        let mut client = Client::new(Credentials { pid: None, uid: 0, gid: 0 }, Owner::User(0), None, now);
        for number in 0..1000_u32 {
            client.keep(&Refusal::plain(Code::Taken, format!("port {number}")), now);
            client.want(1, IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!((client.refusals.len(), client.refused), (REFUSALS_KEPT, 1000));
        assert_eq!(client.neighbours.len(), NEIGHBOURS_MAX);
        let later = now + Duration::from_secs(60);
        (0..3).for_each(|_| client.keep(&Refusal::plain(Code::Taken, "port 990"), later));
        assert_eq!((client.refusals.len(), client.refused), (REFUSALS_KEPT, 1003), "the same is one line");
        let newest = client.refusals.back().unwrap();
        assert_eq!((newest.subject.as_str(), newest.times, newest.last), ("port 990", 4, later));
    }
}

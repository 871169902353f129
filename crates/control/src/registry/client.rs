//! One application, as control sees it.

use sidestep_plane::message::{Code, NAME_BYTES_MAX, Refusal};
use sidestep_sys::credentials::Credentials;
use sidestep_sys::owner::Owner;
use sidestep_sys::process::{Process, Watch};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Refusals remembered for `sidestep ps`; the oldest goes.
const REFUSALS_KEPT: usize = 32;

/// Neighbours kept fresh for one application; the oldest goes. One per peer or router, not per connection.
const NEIGHBOURS_MAX: usize = 256;

/// Neighbours asked for in a second: more would be a scan of the network by control's privilege.
const RESOLVES_PER_SECOND: u32 = 64;

/// A connection, or what it has left behind.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Credentials,
    /// Whom limits are counted for.
    pub(crate) owner: Owner,
    /// `None` where control's pid namespace does not show it: then nothing outlives the connection.
    pub(crate) process: Option<Process>,
    pub(crate) watch: Option<Watch>,
    pub(crate) name: String,
    pub(crate) has_greeted: bool,
    pub(crate) since: Instant,
    /// Without a connection: when its stacks are closed.
    pub(crate) leaves_at: Option<Instant>,
    pub(crate) stacks: BTreeSet<u32>,
    pub(crate) refusals: VecDeque<Kept>,
    pub(crate) refused: u64,
    pub(crate) neighbours: VecDeque<(u32, IpAddr)>,
    resolves: (Instant, u32),
}

/// A refusal that people may ask for later.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) subject: String,
    pub(crate) code: Code,
    pub(crate) reason: String,
}

impl Client {
    pub(crate) fn new(peer: Credentials, owner: Owner, process: Option<Process>, now: Instant) -> Self {
        let watch = process.and_then(|process| Watch::over(process).ok().flatten());
        Self {
            peer,
            owner,
            // One that cannot be watched must not outlive its connection.
            process: process.filter(|_| watch.is_some()),
            watch,
            name: String::new(),
            has_greeted: false,
            since: now,
            leaves_at: None,
            stacks: BTreeSet::new(),
            refusals: VecDeque::new(),
            refused: 0,
            neighbours: VecDeque::new(),
            resolves: (now, 0),
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.leaves_at.is_none()
    }

    /// Remembers why something is not accelerated.
    pub(crate) fn keep(&mut self, refusal: &Refusal) {
        self.refused += 1;
        if self.refusals.len() == REFUSALS_KEPT {
            self.refusals.pop_front();
        }
        let reason = match refusal.next.as_str() {
            "" => refusal.reason.clone(),
            next => format!("{}; {next}", refusal.reason),
        };
        let (subject, reason) = (printable(&refusal.thing, 200), printable(&reason, 300));
        self.refusals.push_back(Kept { subject, code: refusal.code, reason });
    }

    /// Notes a neighbour to be kept fresh; refuses more than a network's worth in a second.
    pub(crate) fn want(&mut self, interface: u32, address: IpAddr, now: Instant) -> bool {
        // To ask again is no scan: every connection to the same peer does.
        if self.neighbours.contains(&(interface, address)) {
            return true;
        }
        if now.duration_since(self.resolves.0) >= Duration::from_secs(1) {
            self.resolves = (now, 0);
        }
        self.resolves.1 += 1;
        if self.resolves.1 > RESOLVES_PER_SECOND {
            return false;
        }
        if self.neighbours.len() == NEIGHBOURS_MAX {
            self.neighbours.pop_front();
        }
        self.neighbours.push_back((interface, address));
        true
    }
}

/// A name as it may stand in a list: short, and without what moves a terminal's cursor.
pub(crate) fn name(text: &str) -> String {
    printable(text, NAME_BYTES_MAX)
}

/// At most `bytes` bytes of a text that a stranger wrote, without control characters.
pub(crate) fn printable(text: &str, bytes: usize) -> String {
    let mut clean = String::new();
    for character in text.chars().map(|character| if character.is_control() { '?' } else { character }) {
        if clean.len() + character.len_utf8() > bytes {
            break;
        }
        clean.push(character);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_calls_itself_is_harmless() {
        assert_eq!(name("feed\x1b[2J\n"), "feed?[2J?");
        assert_eq!(name(&"ä".repeat(100)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let now = Instant::now();
        let mut client = Client::new(Credentials { pid: None, uid: 0, gid: 0 }, Owner::User(0), None, now);
        for number in 0..1000_u32 {
            client.keep(&Refusal::plain(Code::Taken, format!("port {number}")));
            client.want(1, IpAddr::from(number.to_be_bytes()), now + Duration::from_secs(u64::from(number)));
        }
        assert_eq!((client.refusals.len(), client.refused), (REFUSALS_KEPT, 1000));
        assert_eq!(client.neighbours.len(), NEIGHBOURS_MAX);
        let asked = (0..1000_u32).filter(|number| client.want(2, IpAddr::from(number.to_be_bytes()), now)).count();
        assert!(asked <= RESOLVES_PER_SECOND as usize);
        // A burst of connections to one peer, and then another peer.
        let (peer, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let later = now + Duration::from_secs(2000);
        assert!((0..1000).all(|_| client.want(1, peer, later)) && client.want(1, other, later));
    }
}

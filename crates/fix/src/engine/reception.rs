//! The time that pending connections get of the thread that trades: all are accepted, little is done for them at a time.
//!
//! Accepting does not wait for handshakes: in the kernel's backlog every connection waits behind a flood, known or not, while
//! among those that are let in known hosts go first.

use super::accept::accept;
use super::core::Engine;
use crate::clock::Now;
use crate::session::Application;
use sidestep_sys::problem::say;
use std::time::Duration;

/// The most rounds of one poll, while there are connections to accept.
const ROUNDS_MAX: usize = 16;
/// The longest time for strangers in one poll, before the sessions are polled, ns.
const LOOK_NS_MAX: u64 = Duration::from_millis(1).as_nanos() as u64;
/// The part of it for handshakes and Logons, ns: less than one handshake takes, so that one is done in a poll.
const WORK_NS_MAX: u64 = Duration::from_micros(100).as_nanos() as u64;

/// The time that this poll has taken.
#[derive(Default)]
struct Spent {
    work_ns: u64,
    logons: usize,
}

impl Spent {
    fn is_all(&self) -> bool {
        self.work_ns >= WORK_NS_MAX
    }
}

impl<A: Application> Engine<A> {
    /// Accepts connections and reads what they have sent. Returns how much was done.
    pub(super) fn receive_pending(&mut self, mono_ns: u64) -> usize {
        self.crowd.begin_look();
        let (mut accepted, mut spent, begun_ns) = (0, Spent::default(), Now::system_mono_ns());
        for _ in 0..ROUNDS_MAX {
            let let_in = accept(&mut self.io, &mut self.acceptors, &mut self.crowd, &mut self.refusals, mono_ns);
            let let_in = let_in.unwrap_or_else(|problem| {
                say(problem);
                0
            });
            accepted += let_in;
            self.read_pending(mono_ns, &mut spent);
            if let_in == 0 || Now::system_mono_ns().saturating_sub(begun_ns) >= LOOK_NS_MAX {
                break;
            }
        }
        accepted + spent.logons
    }

    /// Reads in one round. A connection in its handshake, or one that has logged on when the time is over, waits for the next poll.
    fn read_pending(&mut self, mono_ns: u64, spent: &mut Spent) {
        for number in self.crowd.turns(&mut self.io, mono_ns, &mut self.refusals) {
            let is_handshaking = self.crowd.is_handshaking(number);
            if is_handshaking && spent.is_all() {
                continue;
            }
            let begun_ns = Now::system_mono_ns();
            let logon = self.crowd.look_at(number, &mut self.io, &mut self.index, &mut self.refusals);
            let is_logon = logon.is_some();
            if let Some((pending, id, first)) = logon {
                self.assign(pending, &id, &first, mono_ns);
                spent.logons += 1;
            }
            if is_handshaking || is_logon {
                spent.work_ns += Now::system_mono_ns().saturating_sub(begun_ns);
            }
            if is_logon && spent.is_all() {
                return;
            }
        }
    }
}

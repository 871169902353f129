//! `refresh_on_logon` with a store that another process writes, too. (Our journal belongs to one process: there the key of the
//! same name is named as without effect, see `tests/config.rs`.)

use super::scripting::echo::Echo;
use super::scripting::world;
use sidestep_fix::session::{Role, Session, SessionId, SessionSettings};
use sidestep_fix::store::{MemoryStore, Store, Visit};
use sidestep_sys::Problem;

/// Numbers that another process has moved on, seen only when they are read again.
struct Shared {
    ours: MemoryStore,
    others: Result<u64, Problem>,
    refreshed: u32,
}

impl Store for Shared {
    fn next_outbound(&self) -> u64 {
        self.ours.next_outbound()
    }

    fn next_inbound(&self) -> u64 {
        self.ours.next_inbound()
    }

    fn record_outbound(&mut self, seq: u64, message: &[u8]) -> Result<(), Problem> {
        self.ours.record_outbound(seq, message)
    }

    fn record_inbound(&mut self, next: u64) -> Result<(), Problem> {
        self.ours.record_inbound(next)
    }

    fn set_next_outbound(&mut self, next: u64) -> Result<(), Problem> {
        self.ours.set_next_outbound(next)
    }

    fn outbound(&mut self, from: u64, to: u64, visit: &mut Visit<'_>) -> Result<(), Problem> {
        self.ours.outbound(from, to, visit)
    }

    fn reset(&mut self, utc_ns: i64) -> Result<(), Problem> {
        self.ours.reset(utc_ns)
    }

    fn created_utc_ns(&self) -> i64 {
        self.ours.created_utc_ns()
    }

    fn refresh(&mut self) -> Result<(), Problem> {
        self.refreshed += 1;
        self.ours.set_next_outbound(self.others.clone()?)
    }
}

/// An initiator that connects, and the MsgSeqNum (34) of its Logon if it sent one.
fn logon(refresh_on_logon: bool, others: Result<u64, Problem>) -> (Session<Shared>, Option<String>) {
    let id = SessionId::new("FIX.4.4", "US", "THEM");
    let reset_on_logon = others.is_err();
    let settings = SessionSettings { refresh_on_logon, reset_on_logon, ..SessionSettings::new(Role::Initiator, id) };
    let now = world::start();
    let mut ours = MemoryStore::new(now.utc_ns);
    ours.set_next_outbound(7).expect("memory does not fail");
    let store = Shared { ours, others, refreshed: 0 };
    let mut session = Session::new(settings, store, None, now).expect("a session");
    session.connected(now, &mut Echo::default());
    let sent = String::from_utf8_lossy(session.output()).into_owned();
    let number = sent.split('\x01').find_map(|field| field.strip_prefix("34=")).map(str::to_owned);
    (session, number)
}

#[test]
fn numbers_are_read_again_before_the_logon_if_so_set() {
    let (session, number) = logon(true, Ok(42));
    assert_eq!((session.store().refreshed, number.as_deref()), (1, Some("42")));
    let (session, number) = logon(false, Ok(42));
    assert_eq!((session.store().refreshed, number.as_deref()), (0, Some("7")));
}

#[test]
fn numbers_that_cannot_be_read_again_are_not_guessed() {
    let (session, number) = logon(true, Err(Problem::failed("cannot read the numbers", "the disk is gone")));
    assert_eq!(number, None, "no Logon leaves");
    assert_eq!(session.store().next_outbound(), 7, "nor are the numbers reset, though a Logon would have done that");
    assert!(session.ending().is_some());
}

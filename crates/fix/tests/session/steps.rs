//! Single steps of a session, with an application, a store or a reader of the test's own.

use super::scripting::{parse, world};
use sidestep_fix::session::{Application, End, Outbox, Refusal, Role, SendError, Session, SessionId, SessionSettings};
use sidestep_fix::store::{MemoryStore, Store, Visit};
use sidestep_fix::{Index, Message, Now};
use sidestep_sys::Problem;
use std::time::Duration;

/// Lets in who does not have a wrong Password (554).
#[derive(Debug, Default)]
struct Guard {
    resets: u64,
    delivered: u64,
}

impl Application for Guard {
    fn on_reset(&mut self, _: &SessionId) {
        self.resets += 1;
    }

    fn from_admin(&mut self, _: &SessionId, message: &Message<'_, '_>) -> Result<(), Refusal> {
        if message.get(554) == Some(b"wrong") { Err(Refusal::Logout("who are you?")) } else { Ok(()) }
    }

    fn from_app(&mut self, _: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        self.delivered += 1;
        Ok(())
    }
}

fn settings() -> SessionSettings {
    SessionSettings::new(Role::Acceptor, SessionId::new("FIX.4.4", "US", "THEM"))
}

/// A session that is connected.
struct Side<S> {
    session: Session<S>,
    app: Guard,
    now: Now,
}

impl<S: Store> Side<S> {
    fn connected(settings: SessionSettings, store: S) -> Self {
        let now = world::start();
        let session = Session::new(settings, store, None, now).expect("the settings are good");
        let mut side = Self { session, app: Guard::default(), now };
        side.session.connected(now, &mut side.app);
        side
    }

    fn take(&mut self, fields: &str) {
        let clock = world::World::new(Vec::new());
        let line = format!("8=FIX.4.4|{fields}").replace('|', "\x01");
        let raw = parse::complete(line.as_bytes(), &|shift| clock.clock(shift));
        let mut index = Index::default();
        let message = index.decode(&raw).expect("a good message");
        self.session.on_message(&message, self.now, &mut self.app);
    }

    fn log_on(&mut self) {
        self.take("35=A|34=1|49=THEM|52=<TIME>|56=US|98=0|108=30|");
        assert!(self.session.is_logged_on());
    }

    fn order(&mut self, text: &str) -> Result<u64, SendError> {
        self.session.send(b"8", self.now, |report| {
            report.str(58, text);
        })
    }

    /// The peer reads everything, as often as there is something.
    fn drain(&mut self) -> String {
        let mut read = Vec::new();
        while !self.session.output().is_empty() {
            read.extend_from_slice(self.session.output());
            self.session.sent(self.session.output().len(), self.now);
            self.session.on_timer(self.now, &mut self.app);
        }
        String::from_utf8_lossy(&read).into_owned()
    }
}

fn memory() -> MemoryStore {
    MemoryStore::new(world::start().utc_ns)
}

#[test]
fn a_logon_that_the_application_refuses_resets_nothing() {
    let mut store = memory();
    store.set_next_outbound(5).unwrap();
    store.record_inbound(7).unwrap();
    let mut side = Side::connected(SessionSettings { reset_on_logon: true, ..settings() }, store);
    side.take("35=A|34=1|49=THEM|52=<TIME>|56=US|98=0|108=30|141=Y|554=wrong|");
    assert_eq!(side.session.ending(), Some(End::LogonRefused));
    let store = side.session.store();
    assert_eq!((store.next_outbound(), store.next_inbound()), (6, 7), "the Logout has a number, and that is all");
    assert_eq!(side.app.resets, 0);
    assert!(side.drain().contains("\x0134=5\x01"));
}

#[test]
fn what_is_sent_behind_a_resend_leaves_although_messages_are_not_kept() {
    let mut side = Side::connected(SessionSettings { persist_messages: false, ..settings() }, memory());
    side.log_on();
    while side.session.output().len() < 70 << 10 {
        side.order(&"x".repeat(1000)).unwrap();
    }
    side.take("35=2|34=2|49=THEM|52=<TIME>|56=US|7=1|16=0|");
    assert!(side.session.is_resending(), "it waits for room");
    let number = side.order("behind the resend").unwrap();
    let read = side.drain();
    let found = read.find("58=behind the resend").expect("it leaves");
    let before = &read[..found];
    assert!(
        before.contains("\x01123=Y\x01") && before.contains(&format!("\x0134={number}\x01")),
        "behind the gap fill"
    );
    assert!(!side.session.is_resending());
}

/// Counts what is read of it.
struct Counting(MemoryStore, u32);

impl Store for Counting {
    fn next_outbound(&self) -> u64 {
        self.0.next_outbound()
    }

    fn next_inbound(&self) -> u64 {
        self.0.next_inbound()
    }

    fn record_outbound(&mut self, seq: u64, message: &[u8]) -> Result<(), Problem> {
        self.0.record_outbound(seq, message)
    }

    fn record_inbound(&mut self, next: u64) -> Result<(), Problem> {
        self.0.record_inbound(next)
    }

    fn set_next_outbound(&mut self, next: u64) -> Result<(), Problem> {
        self.0.set_next_outbound(next)
    }

    fn outbound(&mut self, from: u64, to: u64, visit: &mut Visit<'_>) -> Result<(), Problem> {
        let Self(store, visits) = self;
        store.outbound(from, to, &mut |seq, message| {
            *visits += 1;
            visit(seq, message)
        })
    }

    fn reset(&mut self, utc_ns: i64) -> Result<(), Problem> {
        self.0.reset(utc_ns)
    }

    fn created_utc_ns(&self) -> i64 {
        self.0.created_utc_ns()
    }
}

#[test]
fn a_long_history_of_what_is_not_sent_again_is_read_in_steps() {
    const HEARTBEATS: u64 = 10_000;
    let mut store = memory();
    for seq in 1..=HEARTBEATS {
        let text = format!("8=FIX.4.4\x019=5\x0135=0\x0134={seq}\x0110=000\x01");
        store.record_outbound(seq, text.as_bytes()).unwrap();
    }
    let mut side = Side::connected(settings(), Counting(store, 0));
    side.log_on();
    side.take("35=2|34=2|49=THEM|52=<TIME>|56=US|7=1|16=0|");
    let (mut steps, mut read) = (0, String::new());
    loop {
        let visits = std::mem::take(&mut side.session.store_mut().1);
        assert!(visits <= 1024, "step {steps} reads {visits} messages");
        if !side.session.is_resending() {
            break;
        }
        let waiting = side.session.output().len();
        assert!(waiting > 0, "who waits for the peer to read has something to read");
        read.push_str(&String::from_utf8_lossy(side.session.output()));
        side.session.sent(waiting, side.now);
        side.session.on_timer(side.now, &mut side.app);
        steps += 1;
    }
    read.push_str(&side.drain());
    assert!(steps >= 9, "{steps} steps");
    // The gap fills join without a hole, up to the Logon's successor.
    let mut next = 1;
    for part in read.split("8=FIX").filter(|part| part.contains("\x01123=Y\x01")) {
        let field =
            |tag: &str| part.split(&format!("\x01{tag}=")).nth(1).and_then(|rest| rest.split('\x01').next()).unwrap();
        assert_eq!(field("34"), next.to_string());
        next = field("36").parse().unwrap();
    }
    assert_eq!(next, HEARTBEATS + 2);
}

#[test]
fn a_consumer_that_reads_nothing_is_ended_however_much_may_wait() {
    for output_bytes_max in [1 << 10, 128 << 10, 300 << 10, 1 << 20] {
        let mut side = Side::connected(SessionSettings { output_bytes_max, ..settings() }, memory());
        side.log_on();
        let refusal = std::iter::repeat_with(|| side.order(&"x".repeat(200))).find_map(Result::err);
        assert!(matches!(refusal, Some(SendError::Full)), "{output_bytes_max}: {refusal:?}");
        assert!(side.session.output().len() >= output_bytes_max);
        assert_eq!(side.session.counters().full, 1);
        let later = Duration::from_secs(6).as_nanos() as u64;
        side.now = Now { utc_ns: side.now.utc_ns + later as i64, mono_ns: side.now.mono_ns + later };
        side.session.on_timer(side.now, &mut side.app);
        assert_eq!(side.session.ending(), Some(End::SlowConsumer), "{output_bytes_max}");
    }
}

#[test]
fn questions_without_end_from_who_reads_no_answers_end_the_connection() {
    for length in 1..40 {
        let mut side = Side::connected(settings(), memory());
        side.log_on();
        let id = "x".repeat(length * 100);
        for seq in 2_u64.. {
            side.take(&format!("35=1|34={seq}|49=THEM|52=<TIME>|56=US|112={id}|"));
            if side.session.ending().is_some() {
                break;
            }
        }
        assert_eq!(side.session.ending(), Some(End::SlowConsumer), "{length}");
        assert_eq!(side.session.counters().ignored, 0, "{length}: an answer was dropped");
    }
}

#[test]
fn a_message_of_more_fields_than_are_taken_is_sent_again_all_the_same() {
    const FIELDS: u32 = 6000;
    let mut side = Side::connected(settings(), memory());
    side.log_on();
    let sent = side.session.send(b"8", side.now, |report| {
        (0..FIELDS).for_each(|_| _ = report.str(58, "x"));
    });
    assert_eq!(sent.unwrap(), 2);
    let first = side.drain();
    side.take("35=2|34=2|49=THEM|52=<TIME>|56=US|7=2|16=2|");
    let again = side.drain();
    for (text, flag) in [(&first, false), (&again, true)] {
        assert_eq!(text.matches("\x0158=x").count(), FIELDS as usize);
        assert_eq!(text.contains("\x0143=Y\x01"), flag);
    }
}

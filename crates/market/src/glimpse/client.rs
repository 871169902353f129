//! The client of one snapshot at a time.

use crate::soup::{self, Settings};
use crate::units::{Nanos, Sequence};
use sidestep_sys::Problem;
use std::fmt::{self, Display, Formatter};

/// The type of the message that ends a snapshot. No message of ITCH 5.0 has it.
const END_OF_SNAPSHOT: u8 = b'G';
/// The length of that message, bytes.
const END_OF_SNAPSHOT_BYTES: usize = 21;

/// Bounds of one snapshot: a server that never ends it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages of a snapshot. Default: 64 Mi, some thirty times the live orders of the busiest published day.
    pub messages_max: u64,
    /// Time from the connection to the end of the snapshot, ns. Default: 5 minutes.
    pub duration_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { messages_max: 64 << 20, duration_ns: 300_000_000_000 }
    }
}

/// The reason why a snapshot failed. What came of it is to be thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection ended.
    Session(soup::End),
    /// The transport closed.
    Disconnected,
    /// The message that ends the snapshot has no sequence number, or 0.
    Malformed,
    /// More messages than [`Limits::messages_max`].
    TooLong,
    /// It took longer than [`Limits::duration_ns`].
    TooSlow,
}

impl Display for Failure {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(end) => write!(out, "the connection ended: {end}"),
            Self::Disconnected => out.write_str("the transport closed before the end of the snapshot"),
            Self::Malformed => out.write_str("the end of the snapshot has no sequence number"),
            Self::TooLong => out.write_str("the snapshot has more messages than the limit"),
            Self::TooSlow => out.write_str("the snapshot took longer than the limit"),
        }
    }
}

/// What a snapshot tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The login is accepted: what was known before is void, the snapshot begins.
    Begin,
    /// A message of ITCH.
    Message(&'a [u8]),
    /// The snapshot is complete. The live feed goes on at this number.
    Complete(Sequence),
    /// The snapshot failed.
    Failed(Failure),
}

/// The progress of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no transport, and none was needed yet.
    Idle,
    /// It has begun, or waits for the login.
    Running,
    /// It is complete: the caller writes the output, and closes the transport.
    Complete(Sequence),
    /// It failed: the caller closes the transport. The next one begins with [`Client::connected`].
    Failed(Failure),
}

/// A client of GLIMPSE, for one snapshot after the other. It is driven as [`soup::Client`] is.
#[derive(Debug)]
pub struct Client {
    soup: soup::Client,
    spin: Spin,
}

/// One snapshot: what is kept beside its session.
#[derive(Debug)]
struct Spin {
    limits: Limits,
    state: State,
    messages: u64,
    deadline: Nanos,
}

impl Client {
    /// Makes a client, and all the memory that it will use. The login is always for message 1 of the current session.
    ///
    /// # Errors
    /// A setting cannot work.
    pub fn new(mut settings: Settings, limits: Limits) -> Result<Self, Problem> {
        (settings.session, settings.sequence) = (soup::SessionName::CURRENT, Sequence(1));
        let spin = Spin { limits, state: State::Idle, messages: 0, deadline: Nanos(0) };
        Ok(Self { soup: soup::Client::new(settings)?, spin })
    }

    /// There is a new transport: a new snapshot begins, and its login is in the output.
    pub fn connected(&mut self, now: Nanos) {
        // A snapshot that was cut off cannot be gone on with: the server would send another one.
        self.soup.forget_session();
        self.soup.connected(now);
        (self.spin.state, self.spin.messages) = (State::Running, 0);
        self.spin.deadline = now.after(self.spin.limits.duration_ns);
    }

    /// The transport is gone. It is a failure if the snapshot is not complete.
    pub fn disconnected(&mut self, mut sink: impl FnMut(Event<'_>)) {
        self.soup.disconnected();
        self.spin.fail(Failure::Disconnected, &mut sink);
    }

    /// Takes bytes that came, in any pieces, and tells the events in them. Whatever comes behind the end is dropped.
    pub fn receive(&mut self, bytes: &[u8], now: Nanos, mut sink: impl FnMut(Event<'_>)) {
        let Self { soup, spin } = self;
        if spin.state == State::Running {
            soup.receive(bytes, now, |event, _| spin.take(&event, &mut sink));
            self.log_out(now);
        }
    }

    /// Does what is due: heartbeats, time-outs.
    pub fn poll(&mut self, now: Nanos, mut sink: impl FnMut(Event<'_>)) {
        let Self { soup, spin } = self;
        soup.poll(now, |event, _| spin.take(&event, &mut sink));
        if now >= spin.deadline {
            spin.fail(Failure::TooSlow, &mut sink);
            self.log_out(now);
        }
    }

    /// The time when [`poll`](Self::poll) has something to do.
    pub fn next_poll(&self) -> Option<Nanos> {
        let session = self.soup.next_poll()?;
        Some(if self.spin.state == State::Running { session.min(self.spin.deadline) } else { session })
    }

    /// The bytes to be written to the transport.
    pub fn output(&self) -> &[u8] {
        self.soup.output()
    }

    /// So many bytes of the output are written.
    pub fn written(&mut self, bytes: usize) {
        self.soup.written(bytes);
    }

    /// The progress of the snapshot.
    pub fn state(&self) -> State {
        self.spin.state
    }

    /// Messages of the snapshot so far.
    pub fn messages(&self) -> u64 {
        self.spin.messages
    }

    fn log_out(&mut self, now: Nanos) {
        if self.spin.state != State::Running && self.soup.state() == soup::State::LoggedIn {
            // If it does not fit, closing the transport says the same.
            _ = self.soup.logout(now);
        }
    }
}

impl Spin {
    fn take(&mut self, event: &soup::Event<'_>, sink: &mut impl FnMut(Event<'_>)) {
        if self.state != State::Running {
            return;
        }
        match *event {
            soup::Event::LoggedIn { .. } => sink(Event::Begin),
            soup::Event::Sequenced { message, .. } if message.first() == Some(&END_OF_SNAPSHOT) => {
                match end_of_snapshot(message) {
                    Some(next) => {
                        self.state = State::Complete(next);
                        sink(Event::Complete(next));
                    }
                    None => self.fail(Failure::Malformed, sink),
                }
            }
            soup::Event::Sequenced { message, .. } => {
                self.messages += 1;
                if self.messages > self.limits.messages_max {
                    return self.fail(Failure::TooLong, sink);
                }
                sink(Event::Message(message));
            }
            soup::Event::Unsequenced(_) => {}
            soup::Event::Ended(end) => self.fail(Failure::Session(end), sink),
        }
    }

    fn fail(&mut self, failure: Failure, sink: &mut impl FnMut(Event<'_>)) {
        if self.state == State::Running {
            self.state = State::Failed(failure);
            sink(Event::Failed(failure));
        }
    }
}

/// The number at which the live feed goes on.
fn end_of_snapshot(message: &[u8]) -> Option<Sequence> {
    soup::number(message.get(1..END_OF_SNAPSHOT_BYTES)?).filter(|number| *number > 0).map(Sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soup::{Password, UserName};

    const MINUTE: u64 = 60_000_000_000;

    fn client(messages_max: u64) -> Client {
        let settings = Settings::new(UserName::new("BOOK").unwrap(), Password::default());
        let limits = Limits { messages_max, ..Limits::default() };
        Client::new(Settings { sequence: Sequence(99), ..settings }, limits).unwrap()
    }

    fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len() + 1).unwrap().to_be_bytes();
        [&length[..], &[kind], payload].concat()
    }

    fn accepted(session: &str) -> Vec<u8> {
        packet(b'A', format!("{session:>10}{:>20}", 1).as_bytes())
    }

    fn text(event: Event<'_>) -> String {
        match event {
            Event::Begin => "begin".into(),
            Event::Message(message) => message.escape_ascii().to_string(),
            Event::Complete(next) => format!("live at {}", next.0),
            Event::Failed(why) => format!("failed: {why}"),
        }
    }

    fn receive(client: &mut Client, bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        client.receive(bytes, Nanos(1), |event| events.push(text(event)));
        events
    }

    #[test]
    fn a_snapshot_ends_with_the_number_at_which_the_feed_goes_on() {
        let mut client = client(10);
        client.connected(Nanos(0));
        assert!(client.output().ends_with(format!("{:>20}", 1).as_bytes()), "the login is for message 1");
        client.written(usize::MAX);
        let end = packet(b'S', format!("G{:>20}", 4711).as_bytes());
        let bytes = [accepted("DAY"), packet(b'S', b"R1"), packet(b'S', b"A1"), end, packet(b'S', b"D1")].concat();
        assert_eq!(receive(&mut client, &bytes), ["begin", "R1", "A1", "live at 4711"]);
        assert_eq!((client.state(), client.messages()), (State::Complete(Sequence(4711)), 2));
        assert_eq!(client.output(), packet(b'O', b""));
        client.disconnected(|event| panic!("{event:?}: it is complete"));
    }

    #[test]
    fn a_snapshot_that_is_cut_off_fails_and_the_next_one_begins_anew() {
        let mut client = client(10);
        client.connected(Nanos(0));
        receive(&mut client, &[accepted("DAY"), packet(b'S', b"A1")].concat());
        let mut events = Vec::new();
        client.disconnected(|event| events.push(text(event)));
        assert_eq!(events, ["failed: the transport closed before the end of the snapshot"]);
        client.connected(Nanos(9));
        assert!(client.output().ends_with(format!("{:>10}{:>20}", "", 1).as_bytes()));
        assert_eq!(receive(&mut client, &[accepted("OTHER"), packet(b'S', b"A2")].concat()), ["begin", "A2"]);
    }

    #[test]
    fn an_end_without_a_number_fails() {
        let number = |text: &str| [b"G", text.as_bytes()].concat();
        for end in [
            number(""),
            number("4711"),
            number(&" ".repeat(20)),
            number(&format!("{:>20}", 0)),
            number(&"9".repeat(20)),
        ] {
            let mut client = client(10);
            client.connected(Nanos(0));
            let events = receive(&mut client, &[accepted("DAY"), packet(b'S', &end)].concat());
            assert_eq!(events, ["begin", "failed: the end of the snapshot has no sequence number"]);
        }
    }

    #[test]
    fn a_snapshot_without_end_is_given_up_by_count_and_by_time() {
        let mut by_count = client(2);
        by_count.connected(Nanos(0));
        let bytes = [accepted("DAY"), packet(b'S', b"A").repeat(5)].concat();
        let events = receive(&mut by_count, &bytes);
        assert_eq!(events, ["begin", "A", "A", "failed: the snapshot has more messages than the limit"]);

        let mut by_time = client(1000);
        by_time.connected(Nanos(0));
        let mut events = receive(&mut by_time, &accepted("DAY"));
        for time in (0..6 * MINUTE).step_by(10_000_000_000) {
            by_time.receive(&packet(b'H', b""), Nanos(time), |event| events.push(text(event)));
            by_time.poll(Nanos(time), |event| events.push(text(event)));
            by_time.written(usize::MAX);
        }
        assert_eq!(events, ["begin", "failed: the snapshot took longer than the limit"]);
    }

    #[test]
    fn the_end_of_the_connection_is_the_reason_of_the_failure() {
        let mut client = client(10);
        client.connected(Nanos(0));
        assert_eq!(
            receive(&mut client, &packet(b'J', b"A")),
            ["failed: the connection ended: login rejected: user or password is wrong (A)"]
        );
    }
}

//! One session and its connection: bytes in, bytes out, and nothing leaves before it is kept.

use super::channel::Channel;
use crate::clock::Now;
use crate::decode::Index;
use crate::frame::Framer;
use crate::metrics::Metrics;
use crate::session::{Application, Phase, Session};
use crate::store::AnyStore;
use intake::Intake;
use sidestep_socket::Path;
use sidestep_socket::stream::{Io, is_retry};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::io;
use std::time::Duration;

/// Output at which it is written although more messages of the batch are there: one write of the transport.
const BATCH_BYTES: usize = 64 << 10;
/// The longest time for the peer to read the last bytes of an ending connection.
const LINGER: Duration = Duration::from_secs(2);

/// A connection and the framing of its messages.
struct Line {
    channel: Channel,
    framer: Framer,
    peer: String,
    /// The time at which an ending connection is cut.
    cut_at: Option<u64>,
    /// Whole messages may wait here for the session to take them.
    stalled: bool,
}

impl Line {
    fn new((channel, framer, peer): (Channel, Framer, String)) -> Self {
        Self { channel, framer, peer, cut_at: None, stalled: false }
    }
}

/// The part of the output that may leave: committed, and durable where that was requested.
#[derive(Default)]
struct Gate {
    /// Bytes of the output that the last commit covers.
    committed: usize,
    /// Bytes that may leave.
    open: usize,
    /// A commit waits for the disk.
    waits: bool,
}

/// A session as the engine holds it.
pub(super) struct Slot {
    pub(super) session: Session<AnyStore>,
    line: Option<Line>,
    gate: Gate,
    /// The next deadline of the session's timers, ns.
    deadline: u64,
    /// The time at which the input being answered was read, until the answer has left.
    answering: Option<u64>,
    /// The reason why the store cannot be written; the session stays stopped.
    failed: Option<Problem>,
    /// The end of its last connection, ns.
    left_ns: u64,
    pub(super) metrics: Metrics,
}

impl Slot {
    pub(super) fn new(session: Session<AnyStore>) -> Self {
        Self {
            session,
            line: None,
            gate: Gate::default(),
            deadline: 0,
            answering: None,
            failed: None,
            left_ns: 0,
            metrics: Metrics::default(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.line.is_some()
    }

    /// The end of its last connection, ns.
    pub(super) fn left_ns(&self) -> u64 {
        self.left_ns
    }

    /// The reason why the session cannot go on, if any.
    pub(super) fn failure(&self) -> Option<&Problem> {
        self.failed.as_ref()
    }

    pub(super) fn peer(&self) -> &str {
        self.line.as_ref().map_or("", |line| &line.peer)
    }

    pub(super) fn channel(&self) -> Option<&Channel> {
        self.line.as_ref().map(|line| &line.channel)
    }

    /// Returns whether bytes wait for the peer to read.
    pub(super) fn wants_write(&self) -> bool {
        let Some(line) = &self.line else { return false };
        // What a resend has put there since the last write is not behind the gate yet; it leaves with the next poll.
        let has_bytes = self.gate.open > 0 || (!self.gate.waits && !self.session.output().is_empty());
        line.channel.wants_write() || (has_bytes && !line.channel.is_handshaking())
    }

    /// Returns whether what comes would be read. What is not read waits with the counterparty: that is the back-pressure.
    pub(super) fn wants_read(&self) -> bool {
        self.session.takes_input()
    }

    /// Returns whether something waits that no descriptor tells of.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.gate.waits
    }

    pub(super) fn deadline(&self) -> u64 {
        if self.failed.is_some() {
            return u64::MAX;
        }
        self.line.as_ref().and_then(|line| line.cut_at).map_or(self.deadline, |cut| cut.min(self.deadline))
    }

    /// Takes a connection up; `first` is a message that was already read.
    pub(super) fn connect<A: Application + ?Sized>(
        &mut self,
        io: &mut Io,
        index: &mut Index,
        parts: (Channel, Framer, String),
        first: Option<&[u8]>,
        app: &mut A,
    ) {
        let now = Now::system();
        self.begin(Line::new(parts), index, first, now, app);
        if first.is_none() || self.session.is_logged_on() {
            self.tell_of_path(io);
        }
        self.process(io, index, now, app);
    }

    /// Takes up the first connection of a session that exists only if it logs on by `first`; `keep` is called when it has.
    /// Where it has not, the connection ends without an answer, as the name may be a stranger's.
    ///
    /// # Errors
    /// The session cannot be kept.
    pub(super) fn admit<A: Application + ?Sized>(
        &mut self,
        io: &mut Io,
        index: &mut Index,
        parts: (Channel, Framer, String),
        first: &[u8],
        app: &mut A,
        keep: impl FnOnce(&mut Session<AnyStore>) -> Result<(), Problem>,
    ) -> Result<bool, Problem> {
        let now = Now::system();
        self.begin(Line::new(parts), index, Some(first), now, app);
        let is_logged_on = self.session.counters().logons > 0;
        let kept = if is_logged_on { keep(&mut self.session) } else { Ok(()) };
        if !is_logged_on || kept.is_err() {
            self.hang_up(io, app);
            return kept.map(|()| false);
        }
        self.tell_of_path(io);
        self.process(io, index, now, app);
        Ok(true)
    }

    /// A connection that was to go past the kernel and does not is said.
    fn tell_of_path(&mut self, io: &mut Io) {
        let path = self.line.as_ref().and_then(|line| line.channel.path(io));
        self.metrics.accelerated = path.is_some_and(Path::is_accelerated);
        if let Some(Path::Kernel(reason)) = path {
            say(format!("{} goes by the kernel, {}: {reason}", self.session.id(), self.peer()));
        }
    }

    fn begin<A: Application + ?Sized>(
        &mut self,
        line: Line,
        index: &mut Index,
        first: Option<&[u8]>,
        now: Now,
        app: &mut A,
    ) {
        self.gate = Gate::default();
        self.line = Some(line);
        self.metrics.connections += 1;
        self.session.connected(now, app);
        if let Some(first) = first {
            match self.session.decode(index, first) {
                Ok(message) => self.session.on_message(&message, now, app),
                Err(garbled) => self.session.on_garbled(garbled, now, app),
            }
        }
    }

    /// Receives, answers, does what is due. Returns how much was done.
    #[inline]
    pub(super) fn poll<A: Application + ?Sized>(
        &mut self,
        io: &mut Io,
        index: &mut Index,
        mono_ns: u64,
        app: &mut A,
    ) -> usize {
        let mut work = 0;
        if !self.wants_read() {
            return self.attend(io, mono_ns, app);
        }
        if self.line.as_ref().is_some_and(|line| line.stalled) {
            work += self.process(io, index, Now::system(), app);
        }
        if self.line.as_mut().is_some_and(|line| !line.stalled && !line.framer.spare().is_empty()) {
            match self.receive(io, index, app) {
                Ok(0) => {
                    self.hang_up(io, app);
                    return 1;
                }
                Ok(count) => work += count,
                Err(error) if is_retry(&error) => {}
                Err(error) => {
                    self.cut(&error, io, app);
                    return 1;
                }
            }
        }
        work + self.attend(io, mono_ns, app)
    }

    /// Reads what is there and hands it over where it stands; the rest waits in the framer. Returns how much was done, 0 when the
    /// peer has finished.
    #[inline]
    fn receive<A: Application + ?Sized>(&mut self, io: &mut Io, index: &mut Index, app: &mut A) -> io::Result<usize> {
        let Self { session, line: Some(Line { channel, framer, .. }), .. } = self else { return Ok(0) };
        let (mut work, mut is_all, mut read_at) = (0, true, None);
        let count = channel.receive_with(io, &mut |mut bytes| {
            let (now, length) = (*read_at.get_or_insert_with(Now::system), bytes.len());
            let mut intake = Intake { session, framer, index, app, now };
            let (handed, all) = intake.hand_over(&mut bytes, BATCH_BYTES);
            (work, is_all) = (work + handed, all);
            if !all {
                framer.keep(&mut bytes);
            }
            if session.ending().is_some() {
                // Nobody reads it any more; behind it is the end of the stream.
                bytes = &[];
            }
            length - bytes.len()
        })?;
        let Some(now) = read_at else { return Ok(0) };
        self.metrics.bytes_in += count as u64;
        self.answering.get_or_insert(now.mono_ns);
        if is_all {
            self.settle(io, now, app);
        } else {
            work += self.process(io, index, now, app);
        }
        Ok(work + 1)
    }

    /// Hands over every whole message that waits and that the session takes, and has the answers leave: when there is one write
    /// of them, and at the end.
    #[inline]
    fn process<A: Application + ?Sized>(&mut self, io: &mut Io, index: &mut Index, now: Now, app: &mut A) -> usize {
        let (mut count, mut write_at) = (0, BATCH_BYTES);
        loop {
            if self.session.output().len() >= write_at || !self.session.takes_input() {
                self.settle(io, now, app);
                write_at = self.session.output().len() + BATCH_BYTES;
            }
            let Self { session, line: Some(Line { framer, stalled, .. }), .. } = self else { return count };
            *stalled = !session.takes_input();
            let is_stalled = *stalled;
            let (handed, is_all) = Intake { session, framer, index, app, now }.hand_over(&mut &[][..], write_at);
            count += handed;
            if is_all || is_stalled {
                break;
            }
        }
        self.settle(io, now, app);
        count
    }

    /// Does what is due without input: timers, the disk, a peer that reads again, an end.
    #[inline]
    fn attend<A: Application + ?Sized>(&mut self, io: &mut Io, mono_ns: u64, app: &mut A) -> usize {
        let is_due = mono_ns >= self.deadline;
        if is_due {
            let now = Now::system();
            self.session.on_timer(now, app);
        }
        // With TLS the last bytes may be the channel's already.
        let has_left =
            self.session.output().is_empty() && !self.line.as_ref().is_some_and(|line| line.channel.wants_write());
        let idle = has_left && self.session.ending().is_none() && !self.gate.waits;
        if !is_due && idle && !self.session.store().is_dirty() {
            return 0;
        }
        let moved = self.settle(io, Now::system(), app);
        usize::from(is_due || moved)
    }

    /// Sends an application message by `send` and has it leave.
    pub(super) fn act<A: Application + ?Sized, R>(
        &mut self,
        io: &mut Io,
        app: &mut A,
        act: impl FnOnce(&mut Session<AnyStore>, Now, &mut A) -> R,
    ) -> R {
        let now = Now::system();
        let result = act(&mut self.session, now, app);
        self.settle(io, now, app);
        result
    }

    /// Keeps what was recorded, lets what is kept leave, ends what is to end. Whether bytes were written.
    #[inline]
    fn settle<A: Application + ?Sized>(&mut self, io: &mut Io, now: Now, app: &mut A) -> bool {
        self.look_at_store(now, app);
        if let Err(problem) = self.keep() {
            self.stop(problem, io, app);
            return true;
        }
        let moved = match self.write(io, now) {
            Ok(moved) => moved,
            Err(error) => {
                self.cut(&error, io, app);
                return true;
            }
        };
        if moved && self.session.waits_for_room() {
            // What this puts into the output leaves with the next poll.
            self.session.on_timer(now, app);
        }
        if !self.gate.waits
            && self.session.output().is_empty()
            && let Some(read_ns) = self.answering.take()
        {
            self.metrics.turnaround(read_ns);
            self.session.store_mut().prepare();
        }
        if self.session.ending().is_some() {
            self.end(io, now, app);
        }
        self.deadline = self.session.next_deadline().unwrap_or(u64::MAX);
        moved
    }

    /// Commits what is recorded and opens the gate for what is kept.
    #[inline]
    fn keep(&mut self) -> Result<(), Problem> {
        let output = self.session.output().len();
        self.gate.committed = self.gate.committed.min(output);
        self.gate.open = self.gate.open.min(output);
        let store = self.session.store_mut();
        if self.gate.waits {
            if !store.is_durable()? {
                return Ok(());
            }
            self.gate.waits = false;
            self.gate.open = self.gate.committed;
        }
        if store.is_dirty() {
            store.commit()?;
            self.gate.waits = !store.is_durable()?;
        }
        self.gate.committed = output;
        if !self.gate.waits {
            self.gate.open = output;
        }
        Ok(())
    }

    /// Writes what may leave; whether any of it did.
    #[inline]
    fn write(&mut self, io: &mut Io, now: Now) -> io::Result<bool> {
        let Some(line) = &mut self.line else { return Ok(false) };
        let mut moved = false;
        while self.gate.open > 0 {
            let bytes = &self.session.output()[..self.gate.open];
            match line.channel.write(io, bytes) {
                Ok(0) => break,
                Ok(count) => {
                    self.session.sent(count, now);
                    self.gate.open -= count;
                    self.gate.committed -= count;
                    self.metrics.bytes_out += count as u64;
                    self.metrics.writes += 1;
                    moved = true;
                }
                Err(error) if is_retry(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if !moved && line.channel.wants_write() {
            line.channel.flush(io)?;
        }
        Ok(moved)
    }

    /// The connection is to end: at once when everything has left, else when the peer has had time to read it.
    #[cold]
    fn end<A: Application + ?Sized>(&mut self, io: &mut Io, now: Now, app: &mut A) {
        let Some(line) = &mut self.line else { return };
        let cut_at = *line.cut_at.get_or_insert(now.mono_ns + LINGER.as_nanos() as u64);
        let is_written = self.session.output().is_empty() && !line.channel.wants_write();
        if is_written || now.mono_ns >= cut_at {
            self.hang_up(io, app);
        }
    }

    /// Ends the connection and tells the session.
    #[cold]
    pub(super) fn hang_up<A: Application + ?Sized>(&mut self, io: &mut Io, app: &mut A) {
        self.answering = None;
        self.metrics.accelerated = false;
        if let Some(mut line) = self.line.take() {
            line.channel.close(io);
            self.metrics.garbled_bytes += line.framer.counters().garbled_bytes;
        }
        let now = Now::system();
        self.left_ns = now.mono_ns;
        self.session.disconnected(now, app);
        self.gate = Gate::default();
        self.deadline = self.session.next_deadline().unwrap_or(u64::MAX);
        if self.failed.is_none()
            && let Err(problem) = self.session.store_mut().commit()
        {
            self.stop(problem, io, app);
        }
    }

    #[cold]
    fn cut<A: Application + ?Sized>(&mut self, error: &io::Error, io: &mut Io, app: &mut A) {
        self.metrics.last_error = error.to_string();
        self.hang_up(io, app);
    }

    /// The store failed: what is not kept does not leave, and the session stays stopped.
    #[cold]
    fn stop<A: Application + ?Sized>(&mut self, problem: Problem, io: &mut Io, app: &mut A) {
        if self.failed.is_none() {
            app.on_problem(self.session.id(), &problem);
            self.metrics.last_error = problem.brief();
            self.failed = Some(problem);
        }
        self.hang_up(io, app);
    }

    /// A store that will soon be full ends the session while there is room for a Logout.
    #[inline]
    fn look_at_store<A: Application + ?Sized>(&mut self, now: Now, app: &mut A) {
        if self.session.phase() == Phase::LoggedOn
            && let Some(problem) = self.session.store_mut().nearly_full()
        {
            app.on_problem(self.session.id(), &problem);
            self.metrics.last_error = problem.brief();
            self.session.logout("store is full", now, app);
        }
    }

    /// Ends the connection in order, by a Logout.
    pub(super) fn log_out<A: Application + ?Sized>(&mut self, io: &mut Io, text: &str, app: &mut A) {
        if self.session.phase() == Phase::LoggedOn {
            self.act(io, app, |session, now, app| session.logout(text, now, app));
        }
    }
}

mod away;
#[cfg(test)]
mod flow_tests;
mod intake;
#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;

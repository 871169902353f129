//! One slice of an open loop: messages leave when they are due, whatever has become of those before them, and all are answered.
//!
//! Response time counts from when a message was due, service time from when it left. A message that is not answered, or that could
//! not leave before the slice was over, is missing in both, and is counted.

use super::in_flight::{Answer, InFlight};
use super::schedule::{Arrival, Schedule};
use super::{Bench, FAREWELLS, LOOK_UP, Meter, SAMPLES_MAX, Target, settling_time};
use crate::cpu_time::{BothSpent, Spent, SpentSince};
use crate::link::{Link, send_all};
use crate::message::{Header, filled};
use crate::path::Medium;
use crate::peer::protocol::{Done, Reply};
use crate::stats::Slice;
use sidestep_report::schema::Noise;
use sidestep_socket::stream::is_retry;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::time::Duration;

/// The longest wait for answers after the last message was due: far above the latency of any path that keeps up.
const GRACE: Duration = Duration::from_millis(200);
/// The longest wait for a stream's end, with answers that nobody waits for.
const DRAIN: Duration = Duration::from_secs(2);
/// A message that leaves later than this after it was due is late: several times what a turn of the sender takes.
const LATE: Duration = Duration::from_micros(10);
/// Bytes that one receive takes from a stream.
const BUFFER_BYTES: usize = 1 << 16;

/// The load of an open loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Messages per second.
    pub(crate) rate: f64,
    /// Their spacing.
    pub(crate) arrival: Arrival,
    /// The number of the slice, by which random schedules differ.
    pub(crate) slice: u64,
}

/// The results of a slice.
#[derive(Debug, Default)]
pub(crate) struct OpenSlice {
    /// From when messages were due to their answers.
    pub(crate) response: Slice,
    /// From when they left.
    pub(crate) service: Slice,
    /// From when they were due until they left.
    pub(crate) lateness: Slice,
    /// Messages that left.
    pub(crate) sent: u64,
    /// Messages that were answered.
    pub(crate) answered: u64,
    /// Messages that were due and could not leave before the slice was over.
    pub(crate) unsent: u64,
    /// Messages that left later than [`LATE`].
    pub(crate) late: u64,
    /// Answers that came again.
    pub(crate) duplicates: u64,
    /// Answers that came after that to a later message.
    pub(crate) reordered: u64,
    /// Answers to no message.
    pub(crate) unknown: u64,
    /// Time in which the messages that count were due, or their answers came, seconds.
    pub(crate) elapsed_s: f64,
    /// Disturbances.
    pub(crate) noise: Noise,
    /// CPU time of both ends.
    pub(crate) cpu: BothSpent,
    /// A note on the path, for the report.
    pub(crate) note: Option<String>,
}

impl Bench {
    /// Measures `target` under `load` for `duration`, over a connection made for it.
    pub(crate) fn open_loop(&mut self, target: Target, load: Load, duration: Duration) -> Result<OpenSlice, Problem> {
        self.place_thread(target.path.pinned)?;
        let (link, note) = match target.path.medium {
            Medium::Stack => self.open_stack(target).map(|(link, note)| (link, Some(note)))?,
            _ => (self.open(target)?, None),
        };
        // From here on the peer sends one more reply, whatever happens to the slice.
        let meter = Meter::start(self.watched_cpus());
        let clock = self.clock.clone();
        let mut sender = Sender::new(link, &clock, target, load);
        let measured = sender.run(settling_time(target.path.waiting), duration);
        let noise = meter.stop();
        let done = self.say_goodbye(&mut sender);
        let (mut slice, done) = (measured.map(|()| sender.slice())?, done?);
        slice.noise = Noise { involuntary_switches: noise.involuntary_switches + done.involuntary_switches, ..noise };
        slice.cpu.peer = done.cpu;
        slice.note = note;
        Ok(slice)
    }

    /// Ends the slice on the peer's side, and receives its counts.
    fn say_goodbye(&mut self, sender: &mut Sender<'_>) -> Result<Done, Problem> {
        if sender.is_datagram {
            for _ in 0..FAREWELLS {
                sender.say_farewell();
                if self.control().has_word(LOOK_UP) {
                    break;
                }
            }
        } else {
            sender.drain();
        }
        sender.link = None;
        match self.control().reply()? {
            Reply::Done(done) => Ok(done),
            _ => {
                Err(Problem::failed("lost the peer", "it did not say that the slice is over").next("restart the peer"))
            }
        }
    }
}

/// The sender of one slice, which receives, too.
struct Sender<'a> {
    /// None when the slice is over.
    link: Option<Box<dyn Link>>,
    clock: &'a Clock,
    is_datagram: bool,
    load: Load,
    message: Vec<u8>,
    /// Bytes of the message that have left.
    written: usize,
    /// When its first byte left.
    left: u64,
    buffer: Vec<u8>,
    filled: usize,
    flight: InFlight,
    late_ticks: u64,
    unsent: u64,
    /// When the last answer that counts came.
    last_answer: u64,
    elapsed_ticks: u64,
    spent: Spent,
    response: Vec<u64>,
    service: Vec<u64>,
    lateness: Vec<u64>,
}

impl<'a> Sender<'a> {
    fn new(link: Box<dyn Link>, clock: &'a Clock, target: Target, load: Load) -> Self {
        let size = target.size as usize;
        let is_datagram = target.transport.is_datagram();
        // Of datagrams one byte more than there should be, to see one that is too long.
        let room = if is_datagram { size + 1 } else { (BUFFER_BYTES / size.max(1)).max(1) * size };
        Self {
            link: Some(link),
            clock,
            is_datagram,
            load,
            message: filled(target.size),
            written: 0,
            left: 0,
            buffer: vec![0; room],
            filled: 0,
            flight: InFlight::new(),
            late_ticks: clock.ticks(LATE),
            unsent: 0,
            last_answer: 0,
            elapsed_ticks: 0,
            spent: Spent::default(),
            response: Vec::new(),
            service: Vec::new(),
            lateness: Vec::new(),
        }
    }

    /// Sends for `settle` and `duration`, and waits for the answers.
    fn run(&mut self, settle: Duration, duration: Duration) -> Result<(), Problem> {
        let interval = self.clock.ticks(Duration::from_secs(1)) as f64 / self.load.rate;
        let room = (duration.as_secs_f64() * self.load.rate * 1.1) as usize;
        for samples in [&mut self.response, &mut self.service, &mut self.lateness] {
            samples.reserve(room.min(SAMPLES_MAX));
        }
        let (begin, length) = (self.clock.ticks(settle), self.clock.ticks(settle + duration));
        let mut schedule = Schedule::new(self.load.arrival, interval, self.load.slice);
        let start = self.clock.stop();
        let mut since = None;
        while schedule.due() < length && self.clock.stop() - start < length && self.response.len() < SAMPLES_MAX {
            if since.is_none() && schedule.due() >= begin {
                self.flight.begin();
                since = Some(SpentSince::now());
            }
            self.turn(start, &mut schedule)?;
        }
        if since.is_none() {
            self.flight.begin();
        }
        let end = self.clock.stop();
        // One that ended because it has enough samples owes nothing.
        let owed_until = if self.response.len() < SAMPLES_MAX { length } else { 0 };
        self.unsent = schedule.rest(owed_until, u64::from(u32::MAX));
        self.spent = since.map_or_else(Spent::default, |since| since.on(self.flight.sent()));
        self.await_answers(end)?;
        let counted_from = start + begin;
        self.elapsed_ticks = end.max(self.last_answer).max(start + owed_until).saturating_sub(counted_from).max(1);
        Ok(())
    }

    /// Sends the next message if it is due, and receives what has come.
    #[inline]
    fn turn(&mut self, start: u64, schedule: &mut Schedule) -> Result<(), Problem> {
        let (now, due) = (self.clock.stop(), start + schedule.due());
        if (now >= due || self.written > 0) && self.send(due)? {
            schedule.advance();
        }
        if !self.flight.is_empty() { self.receive() } else { Ok(()) }
    }

    /// Sends what the transport takes of the message that was due at `due`; returns whether it has left.
    #[inline]
    fn send(&mut self, due: u64) -> Result<bool, Problem> {
        let Some(link) = self.link.as_mut() else { return Ok(false) };
        if self.written == 0 {
            Header { sequence: self.flight.next(), last: false }.write(&mut self.message);
            self.left = self.clock.stop();
        }
        while self.written < self.message.len() {
            match link.send(&self.message[self.written..]) {
                Ok(taken) => self.written += taken,
                Err(error) if is_retry(&error) => return Ok(false),
                Err(error) => return Err(stopped(error)),
            }
        }
        // What the flush cannot send now leaves with the next one.
        if let Err(error) = link.flush() {
            if !is_retry(&error) {
                return Err(stopped(error));
            }
        }
        self.written = 0;
        self.lateness.push(self.left.saturating_sub(due));
        self.flight.send(due, self.left);
        Ok(true)
    }

    /// Receives once: a datagram, or what a stream has.
    #[inline]
    fn receive(&mut self) -> Result<(), Problem> {
        let Some(link) = self.link.as_mut() else { return Ok(()) };
        let count = match link.receive(&mut self.buffer[self.filled..]) {
            Ok(0) if !self.is_datagram => return Err(stopped("it closed the connection")),
            Ok(count) => count,
            Err(error) if is_retry(&error) => return Ok(()),
            Err(error) => return Err(stopped(error)),
        };
        let now = self.clock.stop();
        if self.is_datagram {
            self.take(0..count, now);
            return Ok(());
        }
        self.filled += count;
        let size = self.message.len();
        let whole = self.filled - self.filled % size;
        (0..whole).step_by(size).for_each(|at| self.take(at..at + size, now));
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        Ok(())
    }

    /// Takes an answer, which may be anything.
    #[inline]
    fn take(&mut self, place: std::ops::Range<usize>, now: u64) {
        let answer = &self.buffer[place];
        let header = Header::read(answer).filter(|header| !header.last && answer.len() == self.message.len());
        let Some(header) = header else { return self.flight.cannot_read() };
        if let Answer::Expected { response, service, is_counted: true } = self.flight.answer(header.sequence, now) {
            self.response.push(response);
            self.service.push(service);
            self.last_answer = now;
        }
    }

    fn await_answers(&mut self, from: u64) -> Result<(), Problem> {
        let end = from + self.clock.ticks(GRACE);
        while !self.flight.is_empty() && self.clock.stop() < end {
            self.receive()?;
        }
        Ok(())
    }

    /// Sends the message that ends a slice over datagrams.
    fn say_farewell(&mut self) {
        Header { sequence: self.flight.next(), last: true }.write(&mut self.message);
        if let Some(link) = self.link.as_mut() {
            let _ = send_all(link.as_mut(), &self.message).and_then(|()| link.flush());
        }
    }

    /// Ends a stream, and reads it to its end: a peer that still answers would else fail.
    fn drain(&mut self) {
        let Some(link) = self.link.as_mut() else { return };
        let end = self.clock.stop() + self.clock.ticks(DRAIN);
        let _ = link.shutdown();
        while self.clock.stop() < end {
            match link.receive(&mut self.buffer) {
                Ok(1..) => {}
                Err(error) if is_retry(&error) => {}
                _ => break,
            }
        }
    }

    fn slice(&self) -> OpenSlice {
        let ns = |ticks: &[u64]| Slice::of(ticks.iter().map(|ticks| self.clock.ns(*ticks)));
        // Those that left while settling are at the front.
        let settling = self.lateness.len().saturating_sub(self.flight.sent() as usize);
        OpenSlice {
            response: ns(&self.response),
            service: ns(&self.service),
            lateness: ns(&self.lateness[settling..]),
            sent: self.flight.sent(),
            answered: self.flight.answered,
            unsent: self.unsent,
            late: self.lateness[settling..].iter().filter(|ticks| **ticks > self.late_ticks).count() as u64,
            duplicates: self.flight.duplicates,
            reordered: self.flight.reordered,
            unknown: self.flight.unknown,
            elapsed_s: self.clock.ns(self.elapsed_ticks) as f64 / 1e9,
            cpu: BothSpent { here: self.spent, peer: Spent::default() },
            ..OpenSlice::default()
        }
    }
}

fn stopped(why: impl std::fmt::Display) -> Problem {
    Problem::failed("the peer stopped answering", why).next("see what the peer printed, and whether its host is up")
}

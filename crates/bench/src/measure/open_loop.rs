//! One slice of an open loop: messages leave when they are due, whatever has become of those before them, and all are answered.
//!
//! Response time counts from when a message was due, service time from when it left. A message that is not answered, or that could
//! not leave soon after the slice was over, is missing in both, and is counted.

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

/// The time after a slice in which messages that were due in it may still leave, and the longest wait for answers after that: far above
/// the latency of any path that keeps up. A stall at the end of a slice is then a long response, and no loss.
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
    /// Messages that were due and could not leave until [`GRACE`] after the slice.
    pub(crate) unsent: u64,
    /// Messages that left later than [`LATE`].
    pub(crate) late: u64,
    /// Answers that came again.
    pub(crate) duplicates: u64,
    /// Answers that came after that to a later message.
    pub(crate) reordered: u64,
    /// Answers to no message.
    pub(crate) unknown: u64,
    /// Time in which the messages that count were due, seconds.
    pub(crate) due_s: f64,
    /// Time in which they were due, or answered, seconds; without the wait for the answer to the last of them.
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
            _ => self.open(target)?,
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
    due_ticks: u64,
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
            due_ticks: 0,
            elapsed_ticks: 0,
            spent: Spent::default(),
            response: Vec::new(),
            service: Vec::new(),
            lateness: Vec::new(),
        }
    }

    /// Sends for `settle` and `duration`, and waits for the answers.
    fn run(&mut self, settle: Duration, duration: Duration) -> Result<(), Problem> {
        let interval = 1e9 / self.clock.ns_per_tick() / self.load.rate;
        let room = (duration.as_secs_f64() * self.load.rate * 1.1) as usize;
        for samples in [&mut self.response, &mut self.service, &mut self.lateness] {
            samples.reserve(room.min(SAMPLES_MAX));
        }
        // A message due at the very end is the next slice's. A tick less, as intervals are rounded.
        let (begin, length) = (self.clock.ticks(settle), self.clock.ticks(settle + duration).saturating_sub(1));
        let mut schedule = Schedule::new(self.load.arrival, interval, self.load.slice);
        let start = self.clock.stop();
        let mut since = None;
        let last = length + self.clock.ticks(GRACE);
        while schedule.due() < length && self.clock.stop() - start < last && self.response.len() < SAMPLES_MAX {
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
        let due_until = if owed_until > 0 { start + owed_until } else { end };
        self.due_ticks = due_until.saturating_sub(counted_from).max(1);
        // The answer to the last message comes a round trip after it, also where nothing is behind.
        let answered = self.last_answer.saturating_sub(middle(&mut self.response.clone()));
        self.elapsed_ticks = end.max(answered).max(due_until).saturating_sub(counted_from).max(1);
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
        if let Err(error) = link.flush()
            && !is_retry(&error)
        {
            return Err(stopped(error));
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
            due_s: self.clock.ns(self.due_ticks) as f64 / 1e9,
            elapsed_s: self.clock.ns(self.elapsed_ticks) as f64 / 1e9,
            cpu: BothSpent { here: self.spent, peer: Spent::default() },
            ..OpenSlice::default()
        }
    }
}

fn stopped(why: impl std::fmt::Display) -> Problem {
    Problem::failed("the peer stopped answering", why).next("see what the peer printed, and whether its host is up")
}

/// The median; 0 of nothing.
fn middle(values: &mut [u64]) -> u64 {
    let at = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(at).1 }
}

#[cfg(test)]
mod tests {
    use super::super::Work;
    use super::*;
    use crate::path::Path;
    use crate::transport::Transport;
    use sidestep_sys::clock::Choice;
    use std::collections::VecDeque;
    use std::io::{self, ErrorKind};

    const SIZE: u32 = 16;
    const RATE: f64 = 20_000.0;
    const SETTLE: Duration = Duration::from_millis(1);
    const DURATION: Duration = Duration::from_millis(20);
    /// Messages due in the time that counts.
    const DUE: u64 = 400;

    /// What the other end makes of a message.
    type Peer = fn(&[u8], &mut VecDeque<Vec<u8>>);

    /// A transport to a peer that does what it likes.
    struct Fake {
        peer: Peer,
        /// Bytes that one call takes or gives.
        most: usize,
        sent: Vec<u8>,
        answers: VecDeque<Vec<u8>>,
    }

    impl Link for Fake {
        fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.most);
            if taken == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.sent.extend(&bytes[..taken]);
            if self.sent.len() >= SIZE as usize {
                let message: Vec<u8> = self.sent.drain(..SIZE as usize).collect();
                (self.peer)(&message, &mut self.answers);
            }
            Ok(taken)
        }

        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut answer) = self.answers.pop_front() else { return Err(ErrorKind::WouldBlock.into()) };
            let count = answer.len().min(self.most).min(buffer.len());
            buffer[..count].copy_from_slice(&answer[..count]);
            if answer.len() > count && self.most < SIZE as usize {
                self.answers.push_front(answer.split_off(count));
            }
            Ok(count)
        }
    }

    fn slice(transport: Transport, most: usize, peer: Peer) -> Result<OpenSlice, Problem> {
        let clock = Clock::calibrate(Choice::Monotonic);
        let path = Path::named("kernel-spin").expect("a path");
        let target = Target { work: Work::OpenLoop, transport, path, size: SIZE };
        let load = Load { rate: RATE, arrival: Arrival::Constant, slice: 0 };
        let link = Fake { peer, most, sent: Vec::new(), answers: VecDeque::new() };
        let mut sender = Sender::new(Box::new(link), &clock, target, load);
        sender.run(SETTLE, DURATION)?;
        Ok(sender.slice())
    }

    fn whole(transport: Transport, peer: Peer) -> OpenSlice {
        slice(transport, usize::MAX, peer).expect("whatever it sends is counted")
    }

    /// Every message that was due is accounted for, however slow this machine is.
    fn check_balance(slice: &OpenSlice) {
        let due = slice.sent + slice.unsent;
        assert!((DUE - 2..=DUE + 22).contains(&due), "{due}");
        assert!(slice.answered <= slice.sent && slice.late <= slice.sent);
        assert_eq!((slice.response.len(), slice.service.len()), (slice.answered, slice.answered));
        assert_eq!(slice.lateness.len(), slice.sent);
    }

    #[test]
    fn every_message_is_answered_or_missing() {
        for transport in [Transport::Udp, Transport::Tcp] {
            let answered = whole(transport, |message, answers| answers.push_back(message.to_vec()));
            check_balance(&answered);
            assert_eq!((answered.answered, answered.unknown), (answered.sent, 0));
            assert!(answered.response.is_empty() || answered.elapsed_s >= DURATION.as_secs_f64() * 0.9);
            let silent = whole(transport, |_, _| {});
            check_balance(&silent);
            assert_eq!(silent.answered, 0);
        }
    }

    #[test]
    fn a_stream_comes_and_goes_in_pieces() {
        let pieces = slice(Transport::Tcp, 5, |message, answers| answers.push_back(message.to_vec()));
        let pieces = pieces.expect("pieces are put together");
        check_balance(&pieces);
        assert_eq!((pieces.answered, pieces.unknown), (pieces.sent, 0));
    }

    #[test]
    fn what_cannot_leave_is_counted_and_does_not_stop_the_schedule() {
        let deaf = slice(Transport::Tcp, 0, |_, _| {}).expect("the slice ends");
        check_balance(&deaf);
        assert_eq!((deaf.sent, deaf.answered), (0, 0));
    }

    #[test]
    fn a_hostile_peer_is_counted_and_gives_no_sample_that_was_not_sent() {
        let twice = whole(Transport::Udp, |message, answers| answers.extend([message.to_vec(), message.to_vec()]));
        check_balance(&twice);
        assert!(twice.sent == 0 || twice.duplicates > 0);
        let of_the_future = whole(Transport::Udp, |message, answers| {
            let mut answer = message.to_vec();
            answer[..8].copy_from_slice(&(u64::MAX >> 1).to_le_bytes());
            answers.push_back(answer);
        });
        check_balance(&of_the_future);
        assert!(of_the_future.answered == 0 && (of_the_future.sent == 0 || of_the_future.unknown > 0));
        let backwards = whole(Transport::Udp, |message, answers| answers.push_front(message.to_vec()));
        check_balance(&backwards);
        assert_eq!(backwards.unknown, 0);
        let of_wrong_sizes: [Peer; 5] = [
            |_, answers| answers.push_back(Vec::new()),
            |message, answers| answers.push_back(message[..3].to_vec()),
            |message, answers| answers.push_back(message[..15].to_vec()),
            |message, answers| answers.push_back([message, &[1]].concat()),
            |message, answers| answers.push_back(message.repeat(7)),
        ];
        for peer in of_wrong_sizes {
            let found = whole(Transport::Udp, peer);
            check_balance(&found);
            assert_eq!(found.answered, 0, "no answer has another size");
            assert!(found.sent == 0 || found.unknown > 0);
        }
        let last =
            whole(Transport::Tcp, |message, answers| answers.push_back([&message[..7], &[0xff; 9][..]].concat()));
        check_balance(&last);
        assert_eq!(last.answered, 0, "an answer does not end a slice");
    }

    #[test]
    fn a_stream_that_ends_is_an_error() {
        let ended = slice(Transport::Tcp, usize::MAX, |_, answers| answers.push_back(Vec::new()));
        // On a machine so slow that nothing was sent nothing ends.
        assert!(
            ended.map_or_else(|problem| problem.brief().contains("closed the connection"), |slice| slice.sent == 0)
        );
    }
}

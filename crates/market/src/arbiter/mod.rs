//! Arbitration: messages that come by several lines are delivered once, in order.
//!
//! The lines of a feed carry the same messages, not the same datagrams: Cboe and IEX frame A and B differently. So it is the sequence of
//! messages that is compared. A line is whatever brings messages of the session: A, B, the kernel twin of a socket, answers to
//! requests. None has precedence.
//!
//! | concern | file |
//! |---|---|
//! | the next message, delivery | `mod.rs` |
//! | messages that came too early | `hold_back.rs` |
//! | counters, losses and lag of each line | `line.rs`, `holes.rs`, `histogram.rs` |
//!
//! A datagram that is next in sequence is delivered from where it stands. The arbiter knows nothing of time-outs and requests:
//! that is [`feed`](crate::feed).

mod histogram;
mod hold_back;
mod holes;
mod line;

pub use histogram::Histogram;
pub use line::{LineKind, LineStatistics};

use crate::units::{LineId, Nanos, Sequence};
use hold_back::HoldBack;
use holes::Holes;
use line::{FirstArrivals, Line};
use sidestep_sys::Problem;
use std::ops::Range;

/// Lines that a feed can have: a line's number is one byte.
pub const LINES_MAX: usize = 256;
/// The least bytes of a hold-back buffer: the longest message of a datagram fits.
pub const HELD_BYTES_MIN: usize = 65_536;

/// The bounds of an arbiter. All of it is allocated at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages in the hold-back buffer, rounded up to a power of two; sequences further ahead are refused. The default, 65,536, is
    /// what comes in 60 ms at 1.1 M messages/s: long enough for the other line and for a re-request. 48 bytes of memory each.
    pub held_messages: usize,
    /// Bytes in the hold-back buffer. The default, 4 MiB, is 64 bytes to a message; ITCH has at most 50.
    pub held_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { held_messages: 65_536, held_bytes: 4 << 20 }
    }
}

impl Limits {
    fn check(&self, lines: usize) -> Result<(), Problem> {
        let wrong = |why: &str, next: &str| Err(Problem::usage("cannot arbitrate lines", why).next(next));
        if !(1..=LINES_MAX).contains(&lines) {
            return wrong(&format!("{lines} lines are given"), "give 1 to 256 lines");
        }
        if !(1..=1 << 24).contains(&self.held_messages) {
            return wrong("held_messages is out of range", "set it to 1 to 16,777,216");
        }
        if !(HELD_BYTES_MIN..=1 << 31).contains(&self.held_bytes) {
            return wrong("held_bytes is out of range", "set it to 65,536 to 2,147,483,648");
        }
        Ok(())
    }
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The line that brought it first.
    pub line: LineId,
    /// The line is one of answers to requests.
    pub recovered: bool,
}

impl Origin {
    const NONE: Self = Self { line: LineId(0), recovered: false };
}

/// A message, in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// Its number.
    pub sequence: Sequence,
    /// The line that brought it.
    pub origin: Origin,
    /// When it came by that line, however long it was held back.
    pub arrived: Nanos,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It brought the next message: all of it that was new is delivered, and what was held behind it.
    Delivered,
    /// All its messages had come before, or had been given up.
    Duplicate,
    /// A message ahead of it is missing; it is held.
    Held,
    /// A message ahead of it is missing, and the hold-back buffer has no room for all of it.
    Overflow,
    /// It is further ahead than the hold-back buffer reaches. One such datagram may be damaged, and changes nothing; if a second one
    /// agrees, and no live line has brought a message in between, that is [`Placed::Overflow`].
    Implausible,
    /// The arbiter has no such line.
    NoSuchLine,
}

/// A datagram whose turn it is.
pub(crate) struct Turn {
    /// The number of its first new message.
    next: u64,
    origin: Origin,
}

impl Turn {
    /// Delivers its new messages.
    #[inline(always)]
    pub(crate) fn deliver<'a>(
        &self,
        arrived: Nanos,
        messages: impl Iterator<Item = &'a [u8]>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        for (bytes, sequence) in messages.zip(self.next..) {
            deliver(Delivery { sequence: Sequence(sequence), origin: self.origin, arrived, bytes });
        }
    }
}

/// Merges lines into one sequence of messages.
#[derive(Debug)]
pub struct Arbiter {
    /// The next message to deliver.
    next: u64,
    /// One past the highest sequence that is known to exist; `next` at least.
    highest: u64,
    hold: HoldBack,
    /// Nothing is delivered; all is held, the newest at the expense of the oldest.
    is_collecting: bool,
    /// One datagram far ahead: its sequence, and the messages that live lines had brought first until then.
    far_ahead: Option<(u64, u64)>,
    lines: Box<[Line]>,
    arrivals: FirstArrivals,
    given_up: Holes,
}

impl Arbiter {
    /// An arbiter of these lines ([`LineId`] is the index), whose first message is `next`.
    ///
    /// # Errors
    /// Of usage: no lines or too many, limits out of range. Of the host: not enough memory.
    pub fn new(lines: &[LineKind], limits: Limits, next: Sequence) -> Result<Self, Problem> {
        limits.check(lines.len())?;
        let hold = HoldBack::new(limits.held_messages, limits.held_bytes).map_err(|error| {
            Problem::failed("cannot make the hold-back buffer", error).next("lower held_messages and held_bytes")
        })?;
        Ok(Self {
            next: next.0,
            highest: next.0,
            hold,
            is_collecting: false,
            far_ahead: None,
            lines: lines.iter().map(|kind| Line::new(*kind)).collect(),
            arrivals: FirstArrivals::new(),
            given_up: Holes::default(),
        })
    }

    /// The next message to deliver.
    #[inline]
    pub fn next(&self) -> Sequence {
        Sequence(self.next)
    }

    /// One past the last message that is known to exist.
    #[inline]
    pub fn highest(&self) -> Sequence {
        Sequence(self.highest)
    }

    /// The counters of a line.
    pub fn line(&self, line: LineId) -> Option<&LineStatistics> {
        self.lines.get(usize::from(line.0)).map(|line| &line.statistics)
    }

    /// Messages that are held back now, and the most so far.
    pub fn held(&self) -> (usize, usize) {
        self.hold.depth()
    }

    /// The messages of one datagram, numbered from `first` on. Calls `deliver` for each message whose turn it is.
    #[inline]
    pub fn datagram<'a>(
        &mut self,
        line: LineId,
        arrived: Nanos,
        first: Sequence,
        mut messages: impl ExactSizeIterator<Item = &'a [u8]>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Placed {
        let Some(range) = range(first, messages.len()) else { return Placed::Implausible };
        if range.end <= self.next {
            return self.duplicate(line, arrived, &range);
        }
        let Some(old) = self.turn(&range) else {
            return self.out_of_turn(line, arrived, &range, messages, deliver);
        };
        let Some(turn) = self.take_turn(line, arrived, &range) else { return Placed::NoSuchLine };
        for _ in 0..old {
            messages.next();
        }
        turn.deliver(arrived, messages, deliver);
        Placed::Delivered
    }

    /// Counts a datagram whose messages have all come before; its bytes need not be looked at. It is one if its range ends at
    /// [`next`](Self::next) or before.
    #[inline]
    pub(crate) fn duplicate(&mut self, line: LineId, arrived: Nanos, range: &Range<u64>) -> Placed {
        let Some(own) = self.lines.get_mut(usize::from(line.0)) else { return Placed::NoSuchLine };
        own.note(arrived, range);
        self.again(line, arrived, range);
        Placed::Duplicate
    }

    /// For a datagram that brings the next message while nothing is held: the number of its messages that are old.
    #[inline]
    pub(crate) fn turn(&self, range: &Range<u64>) -> Option<u64> {
        let old = self.next.checked_sub(range.start)?;
        (self.hold.is_empty() && !self.is_collecting).then_some(old)
    }

    /// Counts such a datagram, whose new messages are to be delivered at once. Nothing if the line does not exist.
    #[inline]
    pub(crate) fn take_turn(&mut self, line: LineId, arrived: Nanos, range: &Range<u64>) -> Option<Turn> {
        let own = self.lines.get_mut(usize::from(line.0))?;
        let origin = Origin { line, recovered: own.kind == LineKind::Recovery };
        let next = self.next;
        own.note(arrived, range);
        own.statistics.first += range.end - next;
        self.arrivals.put(&(next..range.end), arrived);
        if range.start < next {
            self.again(line, arrived, &(range.start..next));
        }
        self.next = range.end;
        self.highest = self.highest.max(range.end);
        Some(Turn { next, origin })
    }

    /// A datagram that comes too early, or while others are held.
    #[cold]
    #[inline(never)]
    pub(crate) fn out_of_turn<'a>(
        &mut self,
        line: LineId,
        arrived: Nanos,
        range: &Range<u64>,
        messages: impl Iterator<Item = &'a [u8]>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Placed {
        let index = usize::from(line.0);
        if index >= self.lines.len() {
            return Placed::NoSuchLine;
        }
        let is_implausible = self.is_implausible(range);
        let own = &mut self.lines[index];
        if is_implausible {
            own.statistics.implausible += 1;
            return Placed::Implausible;
        }
        own.note(arrived, range);
        let origin = Origin { line, recovered: own.kind == LineKind::Recovery };
        self.place(origin, arrived, range, messages, deliver)
    }

    fn place<'a>(
        &mut self,
        origin: Origin,
        arrived: Nanos,
        range: &Range<u64>,
        messages: impl Iterator<Item = &'a [u8]>,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) -> Placed {
        self.highest = self.highest.max(range.end);
        let is_held = range.start > self.next || self.is_collecting;
        let mut refused = 0;
        for (sequence, bytes) in (range.start..range.end).zip(messages) {
            let message = Delivery { sequence: Sequence(sequence), origin, arrived, bytes };
            if sequence < self.next || self.hold.has(sequence) {
                self.again(origin.line, arrived, &(sequence..sequence + 1));
            } else if is_held {
                refused += u64::from(!self.keep(&message));
            } else {
                self.first(&message);
                deliver(message);
                self.next = sequence + 1;
            }
            if !is_held {
                self.drain(deliver);
            }
        }
        self.lines[usize::from(origin.line.0)].statistics.overflowed += refused;
        match (refused > 0, is_held) {
            (true, _) => Placed::Overflow,
            (false, true) => Placed::Held,
            (false, false) => Placed::Delivered,
        }
    }

    /// A datagram far ahead, without a second one that agrees.
    fn is_implausible(&mut self, range: &Range<u64>) -> bool {
        let from = if self.is_collecting { self.highest } else { self.next };
        let reach = from.saturating_add(self.hold.span());
        if range.start <= from || range.end <= reach {
            return false;
        }
        let live = self.lines.iter().filter(|line| line.kind != LineKind::Recovery);
        let brought = live.fold(0, |sum: u64, line| sum.wrapping_add(line.statistics.first));
        let agrees = |(first, then): (u64, u64)| then == brought && first.abs_diff(range.start) <= self.hold.span();
        let is_known = self.highest > reach && range.start.saturating_sub(self.highest) <= self.hold.span();
        let is_confirmed = is_known || self.far_ahead.is_some_and(agrees);
        self.far_ahead = Some((range.start, brought));
        !is_confirmed
    }

    fn first(&mut self, message: &Delivery<'_>) {
        self.lines[usize::from(message.origin.line.0)].statistics.first += 1;
        self.arrivals.put(&(message.sequence.0..message.sequence.0 + 1), message.arrived);
    }

    /// Copies of messages that are held, were delivered or given up.
    #[inline]
    fn again(&mut self, line: LineId, arrived: Nanos, range: &Range<u64>) {
        let own = &mut self.lines[usize::from(line.0)].statistics;
        let late = if range.start < self.given_up.end() { self.given_up.fill(range) } else { 0 };
        own.late += late;
        own.duplicates += range.end - range.start - late;
        if let Some(before) = self.arrivals.get(range) {
            own.lag.record(arrived.since(before));
        }
    }

    /// Holds a message back. False if there is no room.
    fn keep(&mut self, message: &Delivery<'_>) -> bool {
        let Delivery { sequence, origin, arrived, bytes } = *message;
        if self.is_collecting {
            self.hold.hold_newest(sequence.0, origin, arrived, bytes);
        } else if sequence.0 - self.next >= self.hold.span() || !self.hold.hold(sequence.0, origin, arrived, bytes) {
            return false;
        }
        self.first(message);
        true
    }

    /// Delivers what is held and next.
    pub(crate) fn drain(&mut self, deliver: &mut impl FnMut(Delivery<'_>)) {
        while let Some(held) = self.hold.get(self.next) {
            let (sequence, origin, arrived) = (Sequence(self.next), held.origin, held.arrived);
            deliver(Delivery { sequence, origin, arrived, bytes: held.bytes });
            self.hold.forget(self.next);
            self.next += 1;
        }
        self.highest = self.highest.max(self.next);
    }

    /// A heartbeat, or the end of the session: `next` is the next message to be sent.
    pub fn heartbeat(&mut self, line: LineId, arrived: Nanos, next: Sequence) -> Placed {
        let Some(own) = self.lines.get_mut(usize::from(line.0)) else { return Placed::NoSuchLine };
        let range = next.0..next.0;
        // An answer tells nothing of what is to come.
        if next.0 <= self.next || own.kind == LineKind::Recovery {
            own.note(arrived, &range);
            return Placed::Duplicate;
        }
        if self.is_implausible(&range) {
            self.lines[usize::from(line.0)].statistics.implausible += 1;
            return Placed::Implausible;
        }
        self.lines[usize::from(line.0)].note(arrived, &range);
        self.highest = self.highest.max(next.0);
        let is_near = next.0 - self.next <= self.hold.span();
        if is_near || self.is_collecting { Placed::Held } else { Placed::Overflow }
    }

    /// The session has messages up to `end`, whatever was brought.
    pub(crate) fn expect(&mut self, end: Sequence) {
        self.highest = self.highest.max(end.0);
    }

    /// How far ahead of the next message others can be held.
    pub(crate) fn span(&self) -> u64 {
        self.hold.span()
    }

    /// A datagram of the line could not be read.
    pub fn malformed(&mut self, line: LineId) {
        if let Some(line) = self.lines.get_mut(usize::from(line.0)) {
            line.statistics.malformed += 1;
        }
    }

    /// The first messages that are missing: the first of them, and their number, `count_max` at most. Takes time by their number.
    pub fn missing(&self, count_max: u64) -> Option<(Sequence, u64)> {
        let end = self.highest.min(self.next.saturating_add(count_max));
        if self.hold.is_empty() {
            return (end > self.next).then_some((Sequence(self.next), end - self.next));
        }
        let count = (self.next..end).take_while(|sequence| !self.hold.has(*sequence)).count() as u64;
        (count > 0).then_some((Sequence(self.next), count))
    }

    /// The arrival of a message that is held.
    pub(crate) fn arrival(&self, sequence: Sequence) -> Option<Nanos> {
        self.hold.get(sequence.0).map(|held| held.arrived)
    }

    /// The first message from which on all is held up to the last one that is known: a snapshot that is continued there leaves nothing out.
    pub fn continuous_from(&self) -> Sequence {
        let lowest = self.next.max(self.highest.saturating_sub(self.hold.span()));
        let missing = (lowest..self.highest).rev().find(|sequence| !self.hold.has(*sequence));
        Sequence(missing.map_or(lowest, |missing| missing + 1))
    }

    /// Gives up the first messages that are missing, those before `end` at most, and returns the first of them and their number. What
    /// is held behind them is delivered by the next [`drain`](Self::drain).
    pub(crate) fn give_up(&mut self, end: Sequence) -> Option<(Sequence, u64)> {
        let (first, end) = (self.next, self.highest.min(end.0));
        let reach = end.min(first.saturating_add(self.hold.span()));
        let held = (first..reach).find(|sequence| self.hold.has(*sequence));
        self.skip_to(held.unwrap_or(end));
        (self.next > first).then_some((Sequence(first), self.next - first))
    }

    fn skip_to(&mut self, next: u64) {
        if next > self.next {
            self.given_up.open(self.next..next);
            self.next = next;
            self.highest = self.highest.max(next);
        }
    }

    /// From now on nothing is delivered; all is held, the newest messages at the expense of the oldest ones.
    pub(crate) fn collect(&mut self) {
        self.is_collecting = true;
    }

    /// Ends [`collect`](Self::collect): messages before `next` are dropped, and `next` is the next one that is delivered (by
    /// [`drain`](Self::drain)). True if messages behind `next` were brought and had to give way to newer ones.
    pub(crate) fn resume(&mut self, next: Sequence) -> bool {
        self.is_collecting = false;
        self.skip_to(next.0);
        // What was brought is known to exist, though it may have given way. What datagrams told that brought nothing is told again by the
        // next ones.
        self.highest = self.hold.highest().map_or(self.next, |highest| self.next.max(highest + 1));
        let reach = self.next.saturating_add(self.hold.span());
        self.hold.keep_only(self.next..reach);
        self.far_ahead = None;
        self.highest > reach
    }

    /// Begins a new session at `next`. Counters go on.
    pub fn restart(&mut self, next: Sequence) {
        self.hold.keep_only(0..0);
        (self.next, self.highest, self.is_collecting, self.far_ahead) = (next.0, next.0, false, None);
        self.arrivals.clear();
        self.given_up = Holes::default();
        self.lines.iter_mut().for_each(Line::restart);
    }
}

/// The sequences of so many messages from `first` on; nothing if they exceed 64 bits.
#[inline]
pub(crate) fn range(first: Sequence, count: usize) -> Option<Range<u64>> {
    Some(first.0..first.0.checked_add(count as u64)?)
}

#[cfg(test)]
mod tests;

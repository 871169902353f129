//! The feed's side.

use super::{Channel, Instrument, Level, RECORD_WORDS, State, Top};
use crate::event::{EVENTS_PER_MESSAGE_MAX, Event, Events, Flags, Kind, Origin, reference_of};
use crate::units::{Locate, Side};
use sidestep_ring::seqlock::{WriteError, Writer};
use sidestep_ring::{ClaimError, broadcast};
use sidestep_sys::Problem;
use std::fmt;

/// The most events of one call: those of a message, a change of each side, a change of the state.
pub const EVENTS_PER_CALL_MAX: usize = EVENTS_PER_MESSAGE_MAX + 3;

/// The best bid and offer of an instrument after a message, as its book has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The instrument.
    pub locate: Locate,
    /// The best bid.
    pub bid: Option<Level>,
    /// The best offer.
    pub offer: Option<Level>,
    /// The state of the book: [`State::Live`] or [`State::Stale`]; unknown is told as stale.
    pub state: State,
}

/// A message that was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishError {
    /// The arrays have no record for this instrument, and locate 0 is none.
    NoInstrument(Locate),
    /// This is a child that was forked from the process that publishes.
    Forked,
    /// Somebody else has written the ring or the arrays.
    Overwritten,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInstrument(locate) => write!(f, "the arrays have no record for instrument {}", locate.0),
            Self::Forked => f.write_str("this process was forked from the one that publishes"),
            Self::Overwritten => f.write_str("another process has written the ring or the arrays"),
        }
    }
}

impl std::error::Error for PublishError {}

impl From<WriteError> for PublishError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Forked => Self::Forked,
            WriteError::NoRecord | WriteError::Stamp { .. } => Self::Overwritten,
        }
    }
}

impl From<ClaimError> for PublishError {
    fn from(error: ClaimError) -> Self {
        if error == ClaimError::Forked { Self::Forked } else { Self::Overwritten }
    }
}

/// Events of one call, in order.
struct Batch {
    events: [Option<Event>; EVENTS_PER_CALL_MAX],
    count: usize,
}

impl Batch {
    fn of(events: &Events) -> Self {
        let mut batch = Self { events: [None; EVENTS_PER_CALL_MAX], count: 0 };
        events.iter().for_each(|event| batch.push(*event));
        batch
    }

    fn push(&mut self, event: Event) {
        self.events[self.count] = Some(event);
        self.count += 1;
    }

    /// Puts the flag of the last event to the last one.
    fn finish(&mut self) {
        let last = self.count.wrapping_sub(1);
        for (index, event) in self.events.iter_mut().flatten().enumerate() {
            let flags = event.flags.without(Flags::LAST);
            event.flags = if index == last { flags | Flags::LAST } else { flags };
        }
    }
}

/// Publishes the events of one channel, the best bid and offer of its instruments and their names. It waits for no reader.
pub struct Publisher {
    events: broadcast::Publisher,
    tops: Writer<RECORD_WORDS>,
    instruments: Writer<RECORD_WORDS>,
    known: Box<[Top]>,
    channel: Channel,
}

impl Publisher {
    /// Publishes to these. If another process did so before, its successor begins with a [`Kind::Reset`]: books are
    /// empty now, and the channel is stale until [`Publisher::channel`] says otherwise.
    pub fn new(
        events: broadcast::Publisher,
        tops: Writer<RECORD_WORDS>,
        instruments: Writer<RECORD_WORDS>,
        channel: Channel,
    ) -> Result<Self, Problem> {
        let known = vec![Top::default(); tops.records() as usize].into_boxed_slice();
        let mut publisher = Self { events, tops, instruments, known, channel };
        publisher.take_over()?;
        let began = Origin::default();
        publisher
            .reset(&began, channel)
            .map_err(|error| Problem::failed("cannot publish market data", error).next("make ring and arrays anew"))?;
        Ok(publisher)
    }

    /// Brings the numbers of the ring to the stamps of the array: a writer that died between record and events has left records that
    /// are ahead.
    fn take_over(&mut self) -> Result<(), Problem> {
        let ahead = self.tops.newest().saturating_sub(self.events.messages());
        if ahead > EVENTS_PER_CALL_MAX as u64 {
            let (newest, messages) = (self.tops.newest(), self.events.messages());
            let why =
                format!("the array contains event {newest}, the ring has had {messages}: they do not belong together");
            return Err(Problem::usage("cannot publish market data", why).next("make ring and arrays anew"));
        }
        for _ in 0..ahead {
            self.send(&Event::new(Kind::Void, Locate(0))).map_err(|error| {
                Problem::failed("cannot publish market data", error).next("make a ring of at least 4 KiB")
            })?;
        }
        Ok(())
    }

    /// Publishes the events of one message, all or (on an error) mostly none, and the best bid and offer of its instrument if the message may have changed it.
    #[inline]
    pub fn message(&mut self, from: &Origin, events: &Events, change: Option<&Change>) -> Result<(), PublishError> {
        let mut batch = Batch::of(events);
        if let Some(change) = change {
            let index = usize::from(change.locate.0);
            let known =
                *self.known.get(index).filter(|_| index > 0).ok_or(PublishError::NoInstrument(change.locate))?;
            let top = changed(known, from, change, &mut batch);
            if top != known {
                let stamp = self.events.messages() + batch.count as u64;
                self.tops.write(u32::from(change.locate.0), stamp, &top.words(change.locate))?;
                self.known[index] = top;
            }
        }
        batch.finish();
        batch.events.iter().flatten().try_for_each(|event| self.send(event))
    }

    /// Tells the state of the whole channel, if it is another one.
    pub fn channel(&mut self, from: &Origin, state: State) -> Result<(), PublishError> {
        if state == self.channel.state {
            return Ok(());
        }
        self.channel = Channel { state, sequence: from.sequence, time_ns: from.time_ns, ..self.channel };
        self.tops.write(0, self.events.messages() + 1, &self.channel.words())?;
        let event = from.event(Kind::State, Locate(0));
        self.send(&Event { flags: state_flags(event.flags, state) | Flags::LAST, ..event })
    }

    /// Tells an instrument to the directory. Its event comes with the message that names it.
    pub fn instrument(&mut self, instrument: &Instrument) -> Result<(), PublishError> {
        let locate = instrument.locate;
        if locate == Locate(0) || u32::from(locate.0) >= self.instruments.records() {
            return Err(PublishError::NoInstrument(locate));
        }
        let stamp = self.instruments.newest() + 1;
        Ok(self.instruments.write(u32::from(locate.0), stamp, &instrument.words())?)
    }

    /// Makes everything unknown: a new session, or a new day. The channel is stale until [`Publisher::channel`] says otherwise. Looks
    /// at every record.
    pub fn reset(&mut self, from: &Origin, channel: Channel) -> Result<(), PublishError> {
        let stamp = self.events.messages() + 1;
        let (sequence, time_ns) = (from.sequence, from.time_ns);
        self.channel = Channel { state: State::Stale, sequence, time_ns, ..channel };
        // The channel first: whoever reads one of the records after this one knows not to trust it.
        self.tops.write(0, stamp, &self.channel.words())?;
        for index in 1..self.tops.records() {
            if self.tops.stamp(index) > Some(0) {
                self.tops.write(index, stamp, &[0; RECORD_WORDS])?;
            }
        }
        self.known.fill(Top::default());
        let names = self.instruments.newest() + 1;
        for index in 0..self.instruments.records() {
            if self.instruments.stamp(index) > Some(0) {
                self.instruments.write(index, names, &[0; RECORD_WORDS])?;
            }
        }
        let mut event = from.event(Kind::Reset, Locate(0));
        event.flags = event.flags | Flags::STALE | Flags::LAST;
        event.reference = reference_of(std::array::from_fn(|at| channel.session.0[at]));
        self.send(&event)
    }

    #[inline]
    fn send(&mut self, event: &Event) -> Result<(), PublishError> {
        Ok(self.events.publish(&event.encode())?)
    }

    /// What is known of an instrument; nothing if there is no record for it.
    pub fn top(&self, locate: Locate) -> Option<&Top> {
        self.known.get(usize::from(locate.0))
    }

    /// Events published so far, by this process and those before.
    pub fn published(&self) -> u64 {
        self.events.messages()
    }

    /// Gives a sign of life to readers of ring and array ([`Tops::heartbeat_ns`](super::Tops::heartbeat_ns)): some 30 ns. To be called from
    /// the thread that handles the feed, as nothing else shows that it runs.
    pub fn beat(&self) {
        self.events.side().beat();
        self.tops.side().beat();
    }

    /// The ring, for its doorbell and heartbeat.
    pub fn ring(&mut self) -> &mut broadcast::Publisher {
        &mut self.events
    }
}

/// The new record of an instrument; what differs is appended to the batch.
#[inline]
fn changed(known: Top, from: &Origin, change: &Change, batch: &mut Batch) -> Top {
    let state = if change.state == State::Live { State::Live } else { State::Stale };
    let of_flags = |event: Event| Event { flags: state_flags(event.flags, state), ..event };
    if state != known.state {
        batch.push(of_flags(from.event(Kind::State, change.locate)));
    }
    let mut top = Top { state, ..known };
    for (side, old, new) in [(Side::Buy, known.bid, change.bid), (Side::Sell, known.offer, change.offer)] {
        let new = new.filter(|level| level.quantity > 0);
        if old == new {
            continue;
        }
        let mut event = from.event(Kind::Top, change.locate);
        event.side = Some(side);
        if let Some(level) = new {
            (event.price, event.quantity) = (Some(level.price), level.quantity);
            event.reference = u64::from(level.orders);
        }
        batch.push(of_flags(event));
        match side {
            Side::Buy => top.bid = new,
            Side::Sell => top.offer = new,
        }
        (top.sequence, top.time_ns) = (from.sequence, from.time_ns);
    }
    top
}

fn state_flags(flags: Flags, state: State) -> Flags {
    if state == State::Live { flags.without(Flags::STALE) } else { flags | Flags::STALE }
}

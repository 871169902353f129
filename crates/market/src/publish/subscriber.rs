//! A strategy's side.

use super::{Channel, Interest, RECORD_WORDS, State, Top, Tops};
use crate::event::{EVENT_BYTES, Event, Kind, Unknown};
use crate::units::Locate;
use sidestep_ring::seqlock::{self, Reader};
use sidestep_ring::{Deadline, Fault, Loss, Peer, ReadError, WaitError, broadcast};
use sidestep_sys::idle::IdleStrategy;
use std::fmt;

/// The most events of no interest that one call passes over: about 20 us. The caller gets its thread back although the feed is
/// faster than it reads.
pub const PASSED_MAX: u32 = 1024;

/// What a subscriber learns next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The state of an instrument, from the array: everything that events have told of it so far. Instruments of which nothing is known
    /// do not come.
    Top(Locate, Top),
    /// The state of all instruments has come. Events follow.
    Synchronised(Channel),
    /// The next event.
    Event(Event),
    /// So many events were overwritten before they were read, of all instruments together. What was known is void; the state of all
    /// instruments follows.
    Lost(Loss),
    /// A new session, or a new feed handler: what was known is void. The state of all instruments follows.
    Reset(Event),
}

/// Nothing can be read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscribeError {
    /// The record of this instrument is being written, or the writer died in the middle: the next call tries again.
    Busy(Locate),
    /// The publisher has closed; another one may go on.
    Closed,
    /// The ring contradicts itself: somebody else writes it.
    Faulty(Fault),
    /// An event of a later version; the next call goes on behind it.
    Unknown(Unknown),
    /// A message of so many bytes, which is no event. The next call goes on behind a short one; a long one stays, as the ring is not of
    /// events.
    NoEvent(usize),
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(locate) => {
                write!(f, "the record of instrument {} is being written, or its writer has died", locate.0)
            }
            Self::Closed => f.write_str("the feed handler has closed"),
            Self::Faulty(fault) => write!(f, "the ring is out of use: {fault}"),
            Self::Unknown(unknown) => unknown.fmt(f),
            Self::NoEvent(bytes) => write!(f, "a message of {bytes} bytes is no event of market data"),
        }
    }
}

impl std::error::Error for SubscribeError {}

/// The state and the events of the instruments of interest, in order, none twice.
pub struct Subscriber {
    events: broadcast::Subscriber,
    tops: Reader<RECORD_WORDS>,
    interest: Interest,
    /// The stamp of each record when it was read: events before that number are in the record.
    stamps: Box<[u64]>,
    /// The record to be read next; nothing once all have been read.
    walk: Option<u32>,
    /// The greatest of the stamps.
    settled: u64,
    channel: Channel,
    lost: Loss,
}

impl Subscriber {
    /// Subscribes to these instruments. The first updates are their state.
    pub fn new(events: broadcast::Subscriber, tops: Reader<RECORD_WORDS>, interest: Interest) -> Self {
        let stamps = vec![0; tops.records() as usize].into_boxed_slice();
        let (channel, lost) = (Channel::default(), Loss::default());
        Self { events, tops, interest, stamps, walk: Some(0), settled: 0, channel, lost }
    }

    /// The next update; nothing if there is none at this moment, or if [`PASSED_MAX`] events were of no interest.
    #[inline]
    pub fn try_next(&mut self) -> Result<Option<Update>, SubscribeError> {
        if self.walk.is_some() {
            return self.next_record().map(Some);
        }
        for _ in 0..PASSED_MAX {
            let number = self.events.sequence();
            let mut bytes = [0; EVENT_BYTES];
            match self.events.try_read(&mut bytes) {
                Ok(EVENT_BYTES) => {}
                Ok(other) => return Err(SubscribeError::NoEvent(other)),
                Err(ReadError::Empty) => return Ok(None),
                Err(error) => return self.not_read(error).map(Some),
            }
            let locate = Event::locate_of(&bytes);
            if !self.interest.contains(locate) || number < self.settled && self.is_known(&bytes, number) {
                continue;
            }
            let event = Event::decode(&bytes).map_err(SubscribeError::Unknown)?;
            match event.kind {
                Kind::Void => {}
                Kind::Reset => return Ok(Some(self.reset(event))),
                _ => {
                    self.follow(&event);
                    return Ok(Some(Update::Event(event)));
                }
            }
        }
        Ok(None)
    }

    /// The next record of interest that says something.
    fn next_record(&mut self) -> Result<Update, SubscribeError> {
        let mut from = self.walk.unwrap_or_default();
        while let Some(index) = self.interest.first_from(from).filter(|index| *index < self.tops.records()) {
            self.walk = Some(index);
            let locate = Locate(index as u16);
            let record = self.tops.read(index).map_err(|error| match error {
                seqlock::ReadError::NoRecord | seqlock::ReadError::Busy => SubscribeError::Busy(locate),
            })?;
            self.stamps[index as usize] = record.stamp;
            self.settled = self.settled.max(record.stamp);
            from = index + 1;
            self.walk = Some(from);
            if index == 0 {
                self.channel = Channel::of_words(&record.words);
            } else if record.words != [0; RECORD_WORDS] {
                return Ok(Update::Top(locate, Top::of_words(&record.words)));
            }
        }
        self.walk = None;
        Ok(Update::Synchronised(self.channel))
    }

    /// Returns whether the record that was read has this event. A reset, which is about all records, comes in any case.
    #[cold]
    fn is_known(&self, event: &[u8; EVENT_BYTES], number: u64) -> bool {
        let stamp = self.stamps.get(usize::from(Event::locate_of(event).0));
        stamp.is_some_and(|stamp| number < *stamp) && Event::kind_of(event) != Some(Kind::Reset)
    }

    fn follow(&mut self, event: &Event) {
        if event.kind == Kind::State && event.locate == Locate(0) {
            self.channel.state = State::of_event(event);
            (self.channel.sequence, self.channel.time_ns) = (event.sequence, event.time_ns);
        }
    }

    /// Events before a reset are older than records that were read meanwhile: everything is read again, from this place on.
    #[cold]
    fn reset(&mut self, event: Event) -> Update {
        self.read_again();
        Update::Reset(event)
    }

    #[cold]
    fn not_read(&mut self, error: ReadError) -> Result<Update, SubscribeError> {
        match error {
            ReadError::Lost(loss) => {
                self.lost.messages += loss.messages;
                self.lost.bytes += loss.bytes;
                self.read_again();
                Ok(Update::Lost(loss))
            }
            ReadError::Faulty(fault) => Err(SubscribeError::Faulty(fault)),
            ReadError::TooShort { needs } => Err(SubscribeError::NoEvent(needs)),
            ReadError::Closed | ReadError::Empty | ReadError::Forked => Err(SubscribeError::Closed),
        }
    }

    fn read_again(&mut self) {
        (self.walk, self.settled) = (Some(0), 0);
        self.channel.state = State::Unknown;
    }

    /// Adds or removes instruments; what is known of all of interest comes again.
    pub fn set_interest(&mut self, change: impl FnOnce(&mut Interest)) {
        change(&mut self.interest);
        self.read_again();
    }

    /// Waits until [`Subscriber::try_next`] has something, or [`PASSED_MAX`] events to pass over.
    pub fn wait(&mut self, idle: IdleStrategy, deadline: Deadline) -> Result<(), WaitError> {
        if self.walk.is_some() { Ok(()) } else { self.events.wait(idle, deadline) }
    }

    /// The channel as of the last update. Its state counts for every instrument.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// True if the state of all instruments has come.
    pub fn is_synchronised(&self) -> bool {
        self.walk.is_none()
    }

    /// The number of the next event.
    pub fn number(&self) -> u64 {
        self.events.sequence()
    }

    /// All events lost so far.
    pub fn lost(&self) -> Loss {
        self.lost
    }

    /// The state of the publishing process.
    pub fn peer(&mut self) -> Peer {
        self.events.peer()
    }

    #[cfg(test)]
    pub(super) fn stamps(&self) -> &[u64] {
        &self.stamps
    }

    /// The array alone.
    pub fn tops(&self) -> Tops {
        Tops::new(self.tops.clone())
    }
}

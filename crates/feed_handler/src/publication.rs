//! Publication to other processes of the host: a ring of events, arrays of best bids and offers and of instruments, in one folder.

use sidestep_market::arbiter::Delivery;
use sidestep_market::book::{Books, Change, PriceLevel, Refusal, Touched};
use sidestep_market::event::{Events, Flags, Origin};
use sidestep_market::feed::{Action, State};
use sidestep_market::itch::{Message, PRICE_DECIMALS};
use sidestep_market::mold64::Session;
use sidestep_market::publish::{
    self, Channel, Directory, INSTRUMENTS_TAG, Instrument, Interest, Level, PublishError, Publisher, RECORD_WORDS,
    Subscriber, TOPS_TAG,
};
use sidestep_market::units::{Locate, Side};
use sidestep_ring::seqlock::{self, Array};
use sidestep_ring::{Access, Cell, Kind, Segment, Waking, broadcast};
use sidestep_sys::Problem;
use std::path::{Path, PathBuf};

/// The files of a publication.
const EVENTS: &str = "events";
const TOPS: &str = "tops";
const INSTRUMENTS: &str = "instruments";

/// The least ring: fewer than 1,024 events would lap every reader.
const RING_BYTES_MIN: usize = 64 << 10;

/// A place where a feed handler publishes: a folder, best on a file system in memory (/dev/shm/NAME).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The folder. It is made if it is not there; what another handler has left in it is gone on with.
    pub folder: PathBuf,
    /// The ring's size, bytes. The default, 16 MiB, holds 262,144 events: a quarter of a second at a million a second.
    pub ring_bytes: usize,
}

impl Publication {
    /// In this folder.
    pub fn within(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), ring_bytes: 16 << 20 }
    }

    /// What the publication tells, for a process that reads it: events and best bids and offers of these instruments, and the directory.
    /// The first updates are the present state.
    ///
    /// # Errors
    /// Nobody has published there, or the files are not such ones.
    pub fn subscribe(&self, interest: Interest) -> Result<(Subscriber, Directory), Problem> {
        let absent = |problem: Problem| problem.next("start the feed handler that publishes there");
        let events = Segment::open(&self.folder.join(EVENTS), Access::ReadOnly).map_err(absent)?;
        let tops = Array::<RECORD_WORDS>::open(&self.folder.join(TOPS), Access::ReadOnly, TOPS_TAG).map_err(absent)?;
        let names = self.folder.join(INSTRUMENTS);
        let instruments = Array::<RECORD_WORDS>::open(&names, Access::ReadOnly, INSTRUMENTS_TAG).map_err(absent)?;
        let subscriber = Subscriber::new(events.subscriber(broadcast::Start::Latest)?, tops.reader(), interest);
        Ok((subscriber, Directory::new(instruments.reader())))
    }
}

/// What a channel publishes to.
pub(crate) struct Published {
    publisher: Publisher,
    channel: Channel,
    /// The feed is live.
    is_live: bool,
    /// Messages are lost, and nothing has replaced them: whatever the feed says, the channel is stale.
    is_suspect: bool,
}

impl Published {
    /// Opens the files, or makes them, for locates up to this one.
    pub(crate) fn open(publication: &Publication, instruments: u16) -> Result<Self, Problem> {
        let Publication { folder, ring_bytes } = publication;
        std::fs::create_dir_all(folder).map_err(|error| {
            Problem::failed(format!("cannot publish in {}", folder.display()), error)
                .next("name a folder that you may make, as /dev/shm/feed")
        })?;
        if *ring_bytes < RING_BYTES_MIN {
            return Err(Problem::usage("cannot publish", format!("a ring of {ring_bytes} bytes is too small"))
                .next(format!("give it {RING_BYTES_MIN} bytes or more")));
        }
        let records = u32::from(instruments) + 1;
        let events = ring(&folder.join(EVENTS), *ring_bytes)?;
        let tops = array(&folder.join(TOPS), records, TOPS_TAG)?;
        let names = array(&folder.join(INSTRUMENTS), records, INSTRUMENTS_TAG)?;
        let channel = Channel { decimals: PRICE_DECIMALS, ..Channel::default() };
        let publisher = Publisher::new(events.publisher()?, tops.writer()?, names.writer()?, channel)?;
        Ok(Self { publisher, channel, is_live: false, is_suspect: false })
    }

    /// Publishes a message and what it has changed; returns 1 if that was not possible.
    #[inline]
    pub(crate) fn message(
        &mut self,
        delivery: &Delivery<'_>,
        message: &Message<'_>,
        change: Result<Option<Change>, Refusal>,
        books: &Books,
    ) -> u64 {
        // The thread that polls has taken the time, not the card.
        let mut flags = Flags::SOFTWARE_TIME;
        if delivery.origin.recovered {
            flags = flags | Flags::RECOVERED;
        }
        if !self.is_live || self.is_suspect {
            flags = flags | Flags::STALE;
        }
        let from = Origin {
            sequence: delivery.sequence,
            time_ns: message.timestamp_ns(),
            arrived: delivery.arrived,
            line: delivery.origin.line,
            flags,
        };
        if let Message::StockDirectory(stock) = message
            && self.publisher.instrument(&Instrument::of_itch(stock)).is_err()
        {
            return 1;
        }
        let (change, other) = match change {
            Ok(Some(change)) if change.touched == Touched::Top => (top(change.locate, books), None),
            Ok(_) => (None, None),
            Err(refusal) => (top(message.locate(), books), also_suspect(refusal, message, books)),
        };
        let published = failed(self.publisher.message(&from, &from.itch(message), change.as_ref()));
        match other.and_then(|locate| top(locate, books)) {
            Some(other) => published + failed(self.publisher.message(&from, &Events::default(), Some(&other))),
            None => published,
        }
    }

    pub(crate) fn beat(&self) {
        self.publisher.beat();
    }

    /// Messages are lost: the channel is stale until the books are taken anew. Returns 1 if that could not be published.
    #[cold]
    pub(crate) fn suspect_all(&mut self) -> u64 {
        self.is_suspect = true;
        failed(self.publisher.channel(&Origin::default(), publish::State::Stale))
    }

    /// Follows the feed; returns 1 if that was not possible.
    #[cold]
    pub(crate) fn action(&mut self, action: &Action<Session>) -> u64 {
        match action {
            Action::State(state) => {
                self.is_live = *state == State::Live;
                let is_live = self.is_live && !self.is_suspect;
                let state = if is_live { publish::State::Live } else { publish::State::Stale };
                failed(self.publisher.channel(&Origin::default(), state))
            }
            // The books are empty now.
            Action::OpenSnapshot { session, .. } | Action::SessionAdopted { session, .. } => {
                self.channel.session = *session;
                self.is_suspect = false;
                let reset = self.publisher.reset(&Origin::default(), self.channel);
                if !self.is_live {
                    return failed(reset);
                }
                failed(reset) + failed(self.publisher.channel(&Origin::default(), publish::State::Live))
            }
            _ => 0,
        }
    }
}

/// The other instrument whose book a refused message makes suspect: that of the order.
#[cold]
fn also_suspect(refusal: Refusal, message: &Message<'_>, books: &Books) -> Option<Locate> {
    if refusal != Refusal::OtherInstrument {
        return None;
    }
    let reference = match message {
        Message::OrderExecuted(less) => less.order_reference(),
        Message::OrderExecutedWithPrice(less) => less.order_reference(),
        Message::OrderCancel(less) => less.order_reference(),
        Message::OrderDelete(delete) => delete.order_reference(),
        Message::OrderReplace(new) => new.old_order_reference(),
        _ => return None,
    };
    books.order(reference).map(|order| order.locate)
}

fn failed(published: Result<(), PublishError>) -> u64 {
    u64::from(published.is_err())
}

/// The best bid and offer of an instrument; nothing if the books have none of it.
#[inline]
fn top(locate: Locate, books: &Books) -> Option<publish::Change> {
    let book = books.book(locate)?;
    let state = if book.suspect().is_none() { publish::State::Live } else { publish::State::Stale };
    let level = |side| book.best(side).map(of_level);
    Some(publish::Change { locate, bid: level(Side::Buy), offer: level(Side::Sell), state })
}

#[inline]
fn of_level(level: PriceLevel) -> Level {
    Level { price: level.price, quantity: level.shares, orders: u16::try_from(level.orders).unwrap_or(u16::MAX) }
}

fn ring(path: &Path, bytes: usize) -> Result<Segment, Problem> {
    if path.exists() {
        return Segment::open(path, Access::ReadWrite);
    }
    let options = sidestep_ring::Options { kind: Kind::Broadcast, cell: Cell::Line, bytes, waking: Waking::Fence };
    Segment::create(path, &options)
}

fn array(path: &Path, records: u32, tag: u64) -> Result<Array<RECORD_WORDS>, Problem> {
    if !path.exists() {
        return Array::create(path, &seqlock::Options { records, tag });
    }
    let array = Array::open(path, Access::ReadWrite, tag)?;
    let found = array.reader().records();
    if found < records {
        let why =
            format!("{} has room for locates up to {}, and {} are needed", path.display(), found - 1, records - 1);
        return Err(Problem::usage("cannot publish", why).next("remove the folder, or publish in another one"));
    }
    Ok(array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_market::book::{Depth, Limits};
    use sidestep_market::units::{LineId, Nanos, Sequence};

    #[test]
    fn a_folder_is_gone_on_with_unless_it_has_too_little_room() {
        let folder = tempfile::tempdir().unwrap();
        let publication = Publication { ring_bytes: RING_BYTES_MIN, ..Publication::within(folder.path()) };
        drop(Published::open(&publication, 100).unwrap());
        assert!(Published::open(&publication, 50).is_ok());
        let refused = Published::open(&publication, 101).err().expect("it would leave out locate 101");
        assert!(refused.to_string().contains("locates up to 100, and 101 are needed"), "{refused}");
    }

    #[test]
    fn events_tell_that_no_card_has_taken_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let publication = Publication { ring_bytes: RING_BYTES_MIN, ..Publication::within(folder.path()) };
        let mut published = Published::open(&publication, 1).unwrap();
        let mut interest = Interest::none();
        interest.insert(Locate(0));
        let (mut subscriber, _) = publication.subscribe(interest).unwrap();
        while !subscriber.is_synchronised() {
            subscriber.try_next().unwrap();
        }
        let limits = Limits { instruments: 1, orders: 1, levels: 1, side_levels: 1 };
        let books = Books::new(limits, Depth::Levels).unwrap();
        let bytes = *b"S\0\0\0\0\0\0\0\0\0\x09Q";
        let origin = sidestep_market::arbiter::Origin { line: LineId(1), recovered: true };
        let delivery = Delivery { sequence: Sequence(7), origin, arrived: Nanos(8), bytes: &bytes };
        published.message(&delivery, &Message::parse(&bytes).unwrap(), Ok(None), &books);
        let Ok(Some(publish::Update::Event(event))) = subscriber.try_next() else { panic!("one event") };
        let flags = Flags::SOFTWARE_TIME | Flags::RECOVERED | Flags::STALE | Flags::LAST;
        assert_eq!((event.sequence, event.arrived, event.flags), (Sequence(7), Nanos(8), flags));
    }
}

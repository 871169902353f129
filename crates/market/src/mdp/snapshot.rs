//! The snapshot loops of a channel.

use super::apply::{Applying, Scope, level_told};
use super::channel::Channel;
use super::event::{BookKind, Event};
use super::instrument::Chunks;
use super::order_book::Order;
use super::packet::{BadPacket, Packet};
use super::schema::types::EntryType;
use super::schema::{Message, OrderSnapshot, Snapshot};
use crate::book::by_price::Action;
use crate::sbe::Malformed;
use crate::units::{OrderReference, Price, Side};

/// Packets by which a snapshot may be ahead of the incremental feed: some seconds of the fastest channels. One that names a packet
/// of a far future would make a book deaf until then.
const AHEAD_MAX: u32 = 10_000;

/// A pass of a snapshot loop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loop {
    /// The pass, from 1; 0 before the first packet of a pass.
    number: u32,
    /// The next packet; 0 if one is missing.
    pub(super) next: u32,
    /// Books that came.
    books: u32,
    /// The oldest packet that a book of the pass names.
    oldest: u32,
}

impl Channel {
    /// Takes a packet of the snapshot loop of one kind of books, each once, as after arbitration. It is ignored unless books are stale, and before the first packet of the
    /// incremental feed: that is to be joined first.
    ///
    /// # Errors
    /// Fails if it is no packet, or a message's size cannot be.
    pub fn snapshot(&mut self, kind: BookKind, bytes: &[u8], mut sink: impl FnMut(Event)) -> Result<(), BadPacket> {
        let sink = &mut sink;
        let packet = Packet::parse(bytes).inspect_err(|_| self.counters.malformed += 1)?;
        let (true, Some(_)) = (self.is_recovering, self.last) else { return Ok(()) };
        let pass = &mut self.loops[kind as usize];
        match packet.sequence {
            1 => *pass = Loop { number: pass.number.wrapping_add(1).max(1), next: 2, books: 0, oldest: u32::MAX },
            sequence if sequence == pass.next => pass.next = pass.next.saturating_add(1),
            _ => pass.next = 0,
        }
        let mut reports = 0;
        for message in packet.messages() {
            let message = message.inspect_err(|_| self.counters.malformed += 1)?;
            let counted = match (Message::decode(message), kind) {
                (Ok(Message::Snapshot(one)), BookKind::Prices) => {
                    self.price_snapshot(&one, sink).map(|()| one.reports())
                }
                (Ok(Message::OrderSnapshot(one)), BookKind::Orders) => {
                    self.order_snapshot(&one, sink).map(|()| one.reports())
                }
                (Ok(_), _) => continue,
                (Err(error), _) => Err(error),
            };
            match counted {
                Ok(all) => reports = all,
                Err(_) => {
                    self.counters.malformed += 1;
                    self.loops[kind as usize].next = 0;
                }
            }
        }
        self.end_of_loop(kind, reports, sink);
        self.note_recovery(sink);
        Ok(())
    }

    fn note_book(&mut self, kind: BookKind, sequence: u32) -> u32 {
        let pass = &mut self.loops[kind as usize];
        pass.books = pass.books.saturating_add(1);
        pass.oldest = pass.oldest.min(sequence);
        pass.number
    }

    fn price_snapshot(&mut self, snapshot: &Snapshot<'_>, sink: &mut impl FnMut(Event)) -> Result<(), Malformed> {
        let levels = snapshot.levels()?;
        let pass = self.note_book(BookKind::Prices, snapshot.last_sequence());
        let Some(place) = self.waiting(snapshot.security_id(), BookKind::Prices, pass, snapshot.last_sequence()) else {
            return Ok(());
        };
        let instrument = &mut self.instruments.list[place];
        instrument.clear(BookKind::Prices);
        instrument.rpt_seq = Some(snapshot.rpt_seq());
        for entry in levels {
            let (side, book) = match entry.entry_type() {
                EntryType::BID => (Side::Buy, &mut instrument.book),
                EntryType::OFFER => (Side::Sell, &mut instrument.book),
                EntryType::IMPLIED_BID => (Side::Buy, &mut instrument.implied),
                EntryType::IMPLIED_OFFER => (Side::Sell, &mut instrument.implied),
                _ => continue,
            };
            // A number that cannot be is refused by the book.
            let number = entry.level().and_then(|number| u8::try_from(number).ok()).unwrap_or_default();
            let told = level_told(entry.price().mantissa(), entry.size(), entry.orders());
            let applied = told.map(|level| book.apply(side, number, Action::New(level)));
            if !matches!(applied, Some(Ok(()))) {
                self.counters.snapshots_refused += 1;
                instrument.clear(BookKind::Prices);
                return Ok(());
            }
        }
        self.catch_up(place, BookKind::Prices, snapshot.last_sequence(), sink);
        Ok(())
    }

    fn order_snapshot(&mut self, snapshot: &OrderSnapshot<'_>, sink: &mut impl FnMut(Event)) -> Result<(), Malformed> {
        let orders = snapshot.orders()?;
        let (chunk, chunks, sequence) = (snapshot.chunk(), snapshot.chunks(), snapshot.last_sequence());
        let pass = match chunk >= chunks {
            true => self.note_book(BookKind::Orders, sequence),
            false => self.loops[BookKind::Orders as usize].number,
        };
        let Some(place) = self.waiting(snapshot.security_id(), BookKind::Orders, pass, sequence) else { return Ok(()) };
        let instrument = &mut self.instruments.list[place];
        if chunk == 1 {
            instrument.clear(BookKind::Orders);
            instrument.chunks = Chunks { next: 1, sequence };
        }
        if instrument.chunks != (Chunks { next: chunk, sequence }) || chunk == 0 {
            instrument.chunks = Chunks::default();
            return Ok(());
        }
        for order in orders {
            let side = match order.entry_type() {
                EntryType::BID => Side::Buy,
                EntryType::OFFER => Side::Sell,
                _ => continue,
            };
            let order = Order {
                id: OrderReference(order.order_id()),
                priority: order.priority().unwrap_or_default(),
                price: Price(order.price().mantissa().unwrap_or_default()),
                size: order.size(),
            };
            if instrument.orders.add(side, order).is_err() {
                self.counters.snapshots_refused += 1;
                instrument.chunks = Chunks::default();
                return Ok(());
            }
        }
        instrument.chunks.next = chunk.saturating_add(1);
        if chunk == chunks {
            instrument.chunks = Chunks::default();
            self.catch_up(place, BookKind::Orders, sequence, sink);
        }
        Ok(())
    }

    /// The instrument, if its book waits for a snapshot and this one can be continued from.
    fn waiting(&mut self, security_id: i32, kind: BookKind, pass: u32, sequence: u32) -> Option<usize> {
        let place = self.instruments.find(security_id)?;
        let progress = self.instruments.list[place].progress_mut(kind);
        progress.seen_in = pass;
        if progress.is_live {
            return None;
        }
        let can_continue = self.can_continue(sequence);
        self.counters.snapshots_too_old += u64::from(!can_continue);
        can_continue.then_some(place)
    }

    /// All packets after this one are held, or still to come.
    fn can_continue(&self, sequence: u32) -> bool {
        let Some(last) = self.last else { return false };
        if sequence > last {
            sequence - last <= AHEAD_MAX
        } else {
            sequence == last || self.held.has_all_after(sequence)
        }
    }

    /// Applies the packets after a snapshot to a book that is as it was then.
    fn catch_up(&mut self, place: usize, kind: BookKind, sequence: u32, sink: &mut impl FnMut(Event)) {
        let Self { instruments, held, counters, .. } = self;
        let progress = instruments.list[place].progress_mut(kind);
        (progress.is_live, progress.included) = (true, sequence);
        for (sequence, bytes) in held.after(sequence) {
            let Ok(packet) = Packet::parse(bytes) else { continue };
            for message in packet.messages() {
                let mut quiet = |_| ();
                let read = message.map(|message| {
                    let message = Message::decode(message)?;
                    let scope = Scope::One(place, kind);
                    Applying { instruments, counters, scope, sequence, sink: &mut quiet }.message(&message)
                });
                // What cannot be read was counted when it came, and made all books stale: a snapshot before it is of no use.
                if !matches!(read, Ok(Ok(()) | Err(Malformed::Schema { .. }))) {
                    instruments.list[place].clear(kind);
                    instruments.list[place].progress_mut(kind).is_live = false;
                }
            }
        }
        if instruments.list[place].is_live(kind) {
            instruments.touch(place);
            counters.books_recovered += 1;
            self.is_changed = true;
            sink(Event::Live { security_id: self.instruments.list[place].security_id(), kind });
        }
    }

    /// After a whole pass: instruments that it does not have are not active, and their books empty.
    fn end_of_loop(&mut self, kind: BookKind, reports: u32, sink: &mut impl FnMut(Event)) {
        let pass = self.loops[kind as usize];
        if pass.next == 0 || reports == 0 || pass.books != reports || !self.can_continue(pass.oldest) {
            return;
        }
        for place in 0..self.instruments.list.len() {
            let progress = *self.instruments.list[place].progress(kind);
            if !progress.is_live && progress.seen_in != pass.number {
                self.instruments.list[place].clear(kind);
                self.catch_up(place, kind, pass.oldest, sink);
            }
        }
    }
}

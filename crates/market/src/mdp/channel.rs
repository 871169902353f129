//! A channel, and its incremental feed.

use super::apply::{Applying, Scope, depths};
use super::event::{Counters, Event, StaleReason};
use super::held::Held;
use super::instrument::{Instrument, Instruments, NotAdded};
use super::limits::Limits;
use super::packet::{BadPacket, Packet};
use super::schema::Message;
use super::schema::types::MatchEvent;
use super::snapshot::Loop;
use crate::sbe::Malformed;
use sidestep_sys::Problem;
use std::collections::TryReserveError;

/// A packet with an old number that was sent so much later than the last one, ns, is no copy of another line: numbers have begun anew. Lines
/// lie some us apart, and their senders' clocks some ms.
const RESTART_NS: u64 = 1_000_000_000;

/// The books of a channel. See the [module](super) for the rules.
#[derive(Debug)]
pub struct Channel {
    pub(super) instruments: Instruments,
    pub(super) held: Held,
    pub(super) counters: Counters,
    /// The sequence of the last packet.
    pub(super) last: Option<u32>,
    /// When it was sent.
    sent_ns: u64,
    pub(super) is_recovering: bool,
    /// A book became live or stale, so that `is_recovering` may have to change.
    pub(super) is_changed: bool,
    pub(super) loops: [Loop; 2],
}

impl Channel {
    /// A channel without instruments. All of its memory is taken here, and every page of it written.
    ///
    /// # Errors
    /// A limit is too large, or there is not enough memory.
    pub fn new(limits: Limits) -> Result<Self, Problem> {
        limits.check()?;
        Self::take_memory(limits).map_err(|error| {
            Problem::failed(format!("cannot make a channel of books of {} bytes", limits.bytes()), error)
                .next("lower Limits::orders_per_side, Limits::instruments or Limits::packets_held")
        })
    }

    fn take_memory(limits: Limits) -> Result<Self, TryReserveError> {
        Ok(Self {
            instruments: Instruments::new(limits)?,
            held: Held::new(limits.packets_held)?,
            counters: Counters::default(),
            last: None,
            sent_ns: 0,
            is_recovering: false,
            is_changed: false,
            loops: [Loop::default(); 2],
        })
    }

    /// Adds an instrument, whose books are stale. Definitions (template 54) in packets do so by themselves; other kinds of instruments are
    /// added by this call.
    ///
    /// # Errors
    /// Fails if there are [`Limits::instruments`], or a depth is more than [`DEPTH_MAX`](crate::book::by_price::DEPTH_MAX).
    pub fn add(&mut self, security_id: i32, depth: u8, implied_depth: u8) -> Result<(), NotAdded> {
        self.is_changed = true;
        self.instruments.add(security_id, depth, implied_depth).map(|_| ())
    }

    /// An instrument.
    #[inline]
    pub fn instrument(&self, security_id: i32) -> Option<&Instrument> {
        self.instruments.find(security_id).map(|place| &self.instruments.list[place])
    }

    /// All instruments, in the order in which they were added.
    pub fn instruments(&self) -> &[Instrument] {
        &self.instruments.list
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes the next packet of the incremental feed. One that has come before is ignored, one that comes too early is a gap. So is an old
    /// number in a packet that was sent a second later than the last one: the feed has begun again, as at the beginning of a week, and all
    /// books are stale until a snapshot or a channel reset. A new channel is empty at once instead.
    ///
    /// # Errors
    /// Fails if it is no packet, or a message's size cannot be. Messages before that one are applied; all books are stale.
    pub fn incremental(&mut self, bytes: &[u8], mut sink: impl FnMut(Event)) -> Result<(), BadPacket> {
        let mut is_changed = false;
        let result = self.take(bytes, &mut |event| {
            is_changed |= matches!(event, Event::Live { .. } | Event::Stale { .. });
            sink(event);
        });
        self.is_changed |= is_changed;
        self.note_recovery(&mut sink);
        result
    }

    fn take(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event)) -> Result<(), BadPacket> {
        let packet = Packet::parse(bytes).inspect_err(|_| self.counters.malformed += 1)?;
        let sequence = packet.sequence;
        if let Some(last) = self.last {
            let begins_anew = packet.sending_time_ns.saturating_sub(self.sent_ns) > RESTART_NS;
            if sequence <= last && !begins_anew {
                self.counters.old_packets += 1;
                return Ok(());
            }
            if sequence.checked_sub(1) != Some(last) {
                self.counters.packet_gaps += 1;
                let reason = StaleReason::PacketGap { expected: last.saturating_add(1), found: sequence };
                self.instruments.stale_all(reason, sink);
                self.is_changed = true;
            }
            if sequence <= last {
                self.counters.restarts += 1;
                self.instruments.forget_numbers();
                self.held.clear();
            }
        }
        (self.last, self.sent_ns) = (Some(sequence), packet.sending_time_ns);
        self.counters.packets += 1;
        self.note_recovery(sink);
        if self.is_recovering {
            self.held.push(sequence, bytes);
        }
        self.messages(&packet, sink)
    }

    fn messages(&mut self, packet: &Packet<'_>, sink: &mut impl FnMut(Event)) -> Result<(), BadPacket> {
        for message in packet.messages() {
            let read =
                message.map(|bytes| Message::decode(bytes).and_then(|one| self.message(&one, packet.sequence, sink)));
            match read {
                Ok(Ok(())) => {}
                Ok(Err(Malformed::Schema { .. })) => self.counters.unknown_messages += 1,
                Ok(Err(_)) => self.malformed(sink),
                Err(error) => {
                    self.malformed(sink);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn malformed(&mut self, sink: &mut impl FnMut(Event)) {
        self.counters.malformed += 1;
        self.instruments.stale_all(StaleReason::Malformed, sink);
    }

    fn message(&mut self, message: &Message<'_>, sequence: u32, sink: &mut impl FnMut(Event)) -> Result<(), Malformed> {
        let Self { instruments, counters, .. } = self;
        Applying { instruments, counters, scope: Scope::All, sequence, sink }.message(message)?;
        let (event, time) = match message {
            Message::ChannelReset(one) => (one.match_event(), one.transact_time()),
            Message::BookUpdate(one) => (one.match_event(), one.transact_time()),
            Message::OrderUpdate(one) => (one.match_event(), one.transact_time()),
            Message::TradeSummary(one) => (one.match_event(), one.transact_time()),
            Message::Volume(one) => (one.match_event(), one.transact_time()),
            Message::DailyStatistics(one) => (one.match_event(), one.transact_time()),
            Message::PriceLimits(one) => (one.match_event(), one.transact_time()),
            Message::SessionStatistics(one) => (one.match_event(), one.transact_time()),
            Message::SecurityStatus(one) => {
                sink(Event::Status {
                    security_id: one.security_id(),
                    group: *one.group(),
                    status: one.status(),
                    transact_time_ns: one.transact_time(),
                });
                (one.match_event(), one.transact_time())
            }
            Message::Definition(one) => {
                let [depth, implied] = depths(one)?;
                let added = self.instruments.add(one.security_id(), depth, implied);
                self.counters.instruments_refused += u64::from(added.is_err());
                self.is_changed = true;
                (one.match_event(), one.last_update_time())
            }
            Message::Unknown(..) => {
                self.counters.unknown_messages += 1;
                return Ok(());
            }
            Message::Heartbeat(_) | Message::Snapshot(_) | Message::OrderSnapshot(_) => return Ok(()),
        };
        self.end_of_event(event, time, sink);
        Ok(())
    }

    /// Tells the books that an event has changed, at its end.
    fn end_of_event(&mut self, event: MatchEvent, transact_time_ns: u64, sink: &mut impl FnMut(Event)) {
        if !event.end_of_event() {
            return;
        }
        self.instruments.take_touched(|security_id| sink(Event::Book { security_id, transact_time_ns }));
    }

    pub(super) fn note_recovery(&mut self, sink: &mut impl FnMut(Event)) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let is_stale = self.instruments.has_stale();
        match (self.is_recovering, is_stale) {
            (false, true) => {
                // A pass is whole only if it began after this.
                self.loops.iter_mut().for_each(|pass| pass.next = 0);
                sink(Event::Recover);
            }
            (true, false) => {
                self.held.clear();
                sink(Event::Recovered);
            }
            _ => {}
        }
        self.is_recovering = is_stale;
    }
}

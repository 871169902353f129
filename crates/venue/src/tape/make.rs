//! Making a tape: load, matching and datagrams, with triggers at their places.

use super::{Datagram, MESSAGES_PER_PACKET_MAX, Tape, Trigger};
use crate::load::{Load, LoadSettings, Offer, Pace, Profile};
use crate::matching::{Limits, Matching, Sink};
use crate::mold::{PAYLOAD_MAX, Packer, Session};
use crate::random::Random;
use crate::units::Side;
use std::collections::VecDeque;

/// Settings of a tape.
#[derive(Debug, Clone, Copy)]
pub struct TapeSettings {
    /// The load.
    pub load: LoadSettings,
    /// Messages after the prologue.
    pub messages: u64,
    /// The course of the rate.
    pub profile: Profile,
    /// Messages per second of the steady profile.
    pub rate: u64,
    /// Messages of each datagram, 1 to [`MESSAGES_PER_PACKET_MAX`].
    pub messages_per_packet: u16,
    /// Messages for each trigger; `None`: no triggers. At most one trigger stands in a datagram.
    pub trigger_every: Option<u64>,
    /// The place of a trigger in its datagram.
    pub trigger_at: TriggerAt,
    /// The time of day at which trading starts, ns since midnight.
    pub start_ns: u64,
    /// MoldUDP64's session.
    pub session: Session,
}

impl Default for TapeSettings {
    fn default() -> Self {
        Self {
            load: LoadSettings::default(),
            messages: 1_000_000,
            profile: Profile::Steady,
            rate: 100_000,
            messages_per_packet: 4,
            trigger_every: Some(100),
            trigger_at: TriggerAt::Any,
            start_ns: 34_200_000_000_000, // 09:30
            session: *b"SIDESTEP01",
        }
    }
}

/// The place of a trigger among the messages of its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerAt {
    /// The first message.
    First,
    /// The last message.
    Last,
    /// Each place as often as the others.
    Any,
}

/// Messages between a trigger and the trade that takes it, after which its instrument can have another one.
const LIFT_AFTER: u64 = 32;

impl Tape {
    /// A tape, the same for equal settings.
    pub fn generate(settings: &TapeSettings) -> Self {
        Maker::new(settings).run()
    }
}

/// Datagrams that are cut from a stream of messages.
pub(super) struct Cutter {
    packer: Packer,
    per_packet: u16,
    session: Session,
    bytes: Vec<u8>,
    datagrams: Vec<Datagram>,
    triggers: Vec<Trigger>,
    prologue: usize,
    trigger: Option<u32>,
}

impl Cutter {
    pub(super) fn new(session: Session, messages_per_packet: u16) -> Self {
        Self {
            packer: Packer::new(session, 1, PAYLOAD_MAX),
            per_packet: messages_per_packet.clamp(1, MESSAGES_PER_PACKET_MAX),
            session,
            bytes: Vec::new(),
            datagrams: Vec::new(),
            triggers: Vec::new(),
            prologue: 0,
            trigger: None,
        }
    }

    /// Appends a message; the datagram before it is cut if it does not fit.
    pub(super) fn push(&mut self, message: &[u8], due_ns: u64) {
        if !self.packer.push(message) {
            self.cut(due_ns);
            self.packer.push(message);
        }
    }

    /// The message that was pushed last is a trigger.
    pub(super) fn mark(&mut self, trigger: Trigger) {
        let sequence = self.packer.first() + u64::from(self.packer.count()) - 1;
        let (datagram, end) = (self.datagrams.len(), self.packer.length());
        self.trigger = Some(self.triggers.len() as u32);
        self.triggers.push(Trigger { sequence, datagram, end, ..trigger });
    }

    pub(super) fn has_trigger(&self) -> bool {
        self.trigger.is_some()
    }

    pub(super) fn cut_if_full(&mut self, due_ns: u64) {
        if self.packer.count() >= self.per_packet {
            self.cut(due_ns);
        }
    }

    pub(super) fn cut(&mut self, due_ns: u64) {
        let (first, count) = (self.packer.first(), self.packer.count());
        let Some(packet) = self.packer.packet() else { return };
        let (start, length) = (self.bytes.len(), packet.len() as u16);
        self.bytes.extend_from_slice(packet);
        let trigger = self.trigger.take();
        self.datagrams.push(Datagram { start, length, count, first, due_ns, trigger });
        self.packer.clear();
    }

    pub(super) fn end_prologue(&mut self) {
        self.cut(0);
        self.prologue = self.datagrams.len();
    }

    pub(super) fn finish(mut self, due_ns: u64) -> Tape {
        self.cut(due_ns);
        let Self { bytes, datagrams, triggers, prologue, session, .. } = self;
        Tape { bytes, datagrams, prologue, triggers, session, messages: self.packer.first() - 1 }
    }
}

/// Feed messages go to the cutter at the time that is set.
struct Feed {
    cutter: Cutter,
    due_ns: u64,
}

impl Sink for Feed {
    fn publish(&mut self, message: &[u8]) {
        self.cutter.push(message, self.due_ns);
        if self.due_ns == 0 {
            self.cutter.cut_if_full(0);
        }
    }
}

struct Maker<'a> {
    settings: &'a TapeSettings,
    load: Load,
    matching: Matching,
    feed: Feed,
    random: Random,
    offers: VecDeque<(u64, Offer)>,
}

impl<'a> Maker<'a> {
    fn new(settings: &'a TapeSettings) -> Self {
        let orders = 2 * settings.load.live_orders + 32 * settings.load.symbols;
        let limits = Limits { orders, ..Limits::default() };
        let matching = Matching::new(Load::symbols(&settings.load), limits);
        let cutter = Cutter::new(settings.session, settings.messages_per_packet);
        let random = Random::new(settings.load.seed ^ 0x7461_7065);
        let feed = Feed { cutter, due_ns: 0 };
        Self { settings, load: Load::new(&settings.load), matching, feed, random, offers: VecDeque::new() }
    }

    fn run(mut self) -> Tape {
        let settings = self.settings;
        self.matching.open(settings.start_ns, &mut self.feed);
        while self.load.open(settings.start_ns, &mut self.matching, &mut self.feed) {}
        self.feed.cutter.end_prologue();
        let mut pace = Pace::new(settings.profile, settings.rate, settings.load.seed);
        let mut next_trigger = settings.trigger_every.unwrap_or(u64::MAX).max(1);
        let mut place = self.place();
        for message in 1..=settings.messages {
            self.feed.due_ns = pace.next_due_ns().max(1);
            let is_place = place == self.feed.cutter.packer.count();
            if message >= next_trigger && is_place && !self.feed.cutter.has_trigger() && self.trigger(message) {
                next_trigger += settings.trigger_every.unwrap_or(u64::MAX);
                place = self.place();
            } else {
                self.ordinary(message);
            }
            self.feed.cutter.cut_if_full(self.feed.due_ns);
        }
        self.feed.cutter.finish(self.feed.due_ns)
    }

    fn place(&mut self) -> u16 {
        let per_packet = self.feed.cutter.per_packet;
        match self.settings.trigger_at {
            TriggerAt::First => 0,
            TriggerAt::Last => per_packet - 1,
            TriggerAt::Any => self.random.below(u64::from(per_packet)) as u16,
        }
    }

    fn time_ns(&self) -> u64 {
        self.settings.start_ns + self.feed.due_ns
    }

    fn trigger(&mut self, message: u64) -> bool {
        let time_ns = self.time_ns();
        let Some(offer) = self.load.trigger(time_ns, &mut self.matching, &mut self.feed) else { return false };
        self.offers.push_back((message + LIFT_AFTER, offer));
        let Some(symbol) = self.matching.symbol(offer.locate) else { return false };
        let Offer { locate, handle, price, shares } = offer;
        let (side, reference) = (Side::Buy, handle.reference);
        let place = Trigger { sequence: 0, datagram: 0, end: 0, locate, symbol, side, price, shares, reference };
        self.feed.cutter.mark(place);
        true
    }

    fn ordinary(&mut self, message: u64) {
        let time_ns = self.time_ns();
        if self.offers.front().is_some_and(|(due, _)| *due <= message)
            && let Some((_, offer)) = self.offers.pop_front()
            && self.load.lift(time_ns, &offer, &mut self.matching, &mut self.feed)
        {
            return;
        }
        self.load.step(time_ns, &mut self.matching, &mut self.feed);
    }
}

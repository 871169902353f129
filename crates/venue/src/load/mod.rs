//! A load by seed: synthetic participants whose orders have the published mix of messages.
//!
//! * `pace`: times between messages, by profile.
//! * `zipf`: which instrument.
//! * [`Recording`]: another load, which has its orders and times from a file.
//!
//! Mix of order messages of one day (AAPL, 1,993,352 messages; repository markwinter/orderbook-rust-itch): A 45.5 %, D 43.6 %,
//! U 7.6 %, E 2.8 %, X 0.5 %. Prices follow a value of each instrument that returns to where it began. No order of the load
//! comes nearer than two cents to the other side, with one exception: the [trigger](Load::trigger).

mod pace;
mod quotes;
mod recording;
mod zipf;

pub use pace::{OPEN_FACTOR, Pace, Profile, SPARSE_DIVISOR};
pub use recording::{Fault, FaultKind, Other, Recording, RecordingCounters, RecordingSettings, Skipped};

use crate::itch::ANONYMOUS;
use crate::matching::{CancelReason, Enter, Handle, Matching, Replacement, Sink, TimeInForce};
use crate::random::Random;
use crate::units::{Side, Symbol, TICK};
use quotes::Quotes;
use zipf::Zipf;

/// The owner of the load's orders.
pub const LOAD_OWNER: u64 = 0;

/// Settings of a load.
#[derive(Debug, Clone, Copy)]
pub struct LoadSettings {
    /// Equal seeds give equal bytes.
    pub seed: u64,
    /// Instruments, 1 to 65,535. Nasdaq had 8,371 on 30 January 2017.
    pub symbols: usize,
    /// Live orders that the load keeps, at least 8 for each instrument.
    pub live_orders: usize,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self { seed: 1, symbols: 8_000, live_orders: 200_000 }
    }
}

/// Live orders of an instrument at least.
const LIVE_MIN: usize = 8;

/// Orders of an instrument that are cancelled first: most orders die young.
const YOUNG: usize = 32;

/// Market participants that are published with some orders.
const PARTICIPANTS: [[u8; 4]; 4] = [*b"SYNA", *b"SYNB", *b"SYNC", *b"SYND"];

/// The orders of the load for one instrument.
#[derive(Debug)]
struct Participant {
    quotes: Quotes,
    /// Live orders that it aims at.
    target: usize,
    /// Its orders; some may be filled already.
    orders: Vec<Handle>,
    /// Orders that it tried to enter before trading.
    entered: usize,
}

impl Participant {
    /// A live order, the younger the more likely. Those that are gone are forgotten.
    fn pick(&mut self, matching: &Matching, random: &mut Random) -> Option<usize> {
        while !self.orders.is_empty() {
            let oldest = if random.one_in(4) { 0 } else { self.orders.len().saturating_sub(YOUNG) };
            let at = oldest + random.index(self.orders.len() - oldest);
            if matching.order(self.orders[at]).is_some() {
                return Some(at);
            }
            self.orders.swap_remove(at);
        }
        None
    }
}

/// An order to which a trader has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Its instrument.
    pub locate: u16,
    /// The order.
    pub handle: Handle,
    /// Its price, one cent above the best bid.
    pub price: u32,
    /// Its shares.
    pub shares: u32,
}

/// The load.
#[derive(Debug)]
pub struct Load {
    random: Random,
    zipf: Zipf,
    participants: Vec<Participant>,
    /// Instruments that want more orders before trading.
    unopened: Vec<u32>,
}

/// What is done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Add,
    Delete,
    Replace,
    Execute,
    Reduce,
}

impl Load {
    /// A load for [`Load::symbols`].
    pub fn new(settings: &LoadSettings) -> Self {
        let symbols = settings.symbols.clamp(1, usize::from(u16::MAX));
        let mut random = Random::new(settings.seed);
        let even = (settings.live_orders / 2 / symbols).max(LIVE_MIN);
        let shares = Zipf::share(symbols, settings.live_orders / 2);
        let participants: Vec<Participant> = shares
            .iter()
            .map(|share| Participant {
                quotes: Quotes::new(&mut random),
                target: even + share,
                orders: Vec::with_capacity(2 * (even + share)),
                entered: 0,
            })
            .collect();
        let unopened = (0..symbols as u32).collect();
        Self { random, zipf: Zipf::new(symbols), participants, unopened }
    }

    /// The symbols of the instruments, in the order of their locate codes.
    pub fn symbols(settings: &LoadSettings) -> impl Iterator<Item = Symbol> + use<> {
        (0..settings.symbols.clamp(1, usize::from(u16::MAX))).map(Symbol::synthetic)
    }

    /// Enters one of the orders that stand in the books before trading: one message. False if all are entered.
    pub fn open(&mut self, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) -> bool {
        if self.unopened.is_empty() {
            return false;
        }
        let picked = self.random.index(self.unopened.len());
        let at = self.unopened[picked] as usize;
        self.add(at, time_ns, matching, sink);
        let Participant { target, entered, .. } = &mut self.participants[at];
        *entered += 1;
        // Tries are counted, as an engine without room refuses.
        if *entered >= *target {
            self.unopened.swap_remove(picked);
        }
        true
    }

    /// One action of one participant: one message.
    pub fn step(&mut self, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) {
        let at = self.zipf.pick(&mut self.random);
        let done = match self.action(at) {
            Action::Add => false,
            Action::Delete => self.delete(at, time_ns, matching, sink),
            Action::Replace => self.replace(at, time_ns, matching, sink),
            Action::Execute => self.execute(at, time_ns, matching, sink),
            Action::Reduce => self.reduce(at, time_ns, matching, sink),
        };
        if !done {
            self.add(at, time_ns, matching, sink);
        }
    }

    /// Draws from the mix; an instrument with too few or too many orders adds or deletes instead.
    fn action(&mut self, at: usize) -> Action {
        let Participant { target, orders, .. } = &self.participants[at];
        let action = match self.random.below(1_000) {
            0..455 => Action::Add,
            455..891 => Action::Delete,
            891..967 => Action::Replace,
            967..995 => Action::Execute,
            _ => Action::Reduce,
        };
        match action {
            Action::Add if orders.len() >= target + target / 2 => Action::Delete,
            Action::Delete if orders.len() < target - target / 2 => Action::Add,
            action => action,
        }
    }

    fn add(&mut self, at: usize, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) {
        let locate = (at + 1) as u16;
        let best = [Side::Buy, Side::Sell].map(|side| matching.best(locate, side));
        let side = match best {
            [None, Some(_)] => Side::Buy,
            [Some(_), None] => Side::Sell,
            _ if self.random.one_in(2) => Side::Buy,
            _ => Side::Sell,
        };
        let participant = &mut self.participants[at];
        let price = participant.quotes.price(side, best[side.opposite() as usize], &mut self.random);
        let attribution = if self.random.one_in(64) { PARTICIPANTS[self.random.index(4)] } else { ANONYMOUS };
        let order = day_order(locate, side, price, quotes::shares(&mut self.random), attribution);
        if let Ok(handle) = matching.enter(time_ns, &order, sink) {
            participant.orders.push(handle);
        }
    }

    fn delete(&mut self, at: usize, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) -> bool {
        let participant = &mut self.participants[at];
        let Some(picked) = participant.pick(matching, &mut self.random) else { return false };
        let handle = participant.orders.swap_remove(picked);
        matching.cancel(time_ns, handle, 0, CancelReason::User, sink).is_ok()
    }

    fn replace(&mut self, at: usize, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) -> bool {
        let participant = &mut self.participants[at];
        let Some(picked) = participant.pick(matching, &mut self.random) else { return false };
        let Some(old) = matching.order(participant.orders[picked]).copied() else { return false };
        let opposite = matching.best(old.locate, old.side.opposite());
        let price = participant.quotes.price(old.side, opposite, &mut self.random);
        let shares = if self.random.one_in(2) { old.shares } else { quotes::shares(&mut self.random) };
        let new = Replacement { owner: LOAD_OWNER, shares, price, is_displayed: true };
        let replaced = matching.replace(time_ns, participant.orders[picked], &new, sink);
        if let Ok(handle) = replaced {
            participant.orders[picked] = handle;
        }
        replaced.is_ok()
    }

    /// Takes the best order of a side, in two of three cases to the last share.
    fn execute(&mut self, at: usize, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) -> bool {
        let locate = (at + 1) as u16;
        let side = if self.random.one_in(2) { Side::Buy } else { Side::Sell };
        let Some(front) = matching.front(locate, side.opposite()) else { return false };
        let (price, all) = (front.price, front.shares);
        let part =
            if all > 1 && self.random.one_in(3) { 1 + self.random.below(u64::from(all) - 1) as u32 } else { all };
        take(time_ns, locate, side, price, part, matching, sink)
    }

    fn reduce(&mut self, at: usize, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) -> bool {
        let participant = &mut self.participants[at];
        let Some(picked) = participant.pick(matching, &mut self.random) else { return false };
        let handle = participant.orders[picked];
        let left = matching.order(handle).map_or(0, |order| order.shares / 2);
        if left == 0 {
            participant.orders.swap_remove(picked);
        }
        matching.cancel(time_ns, handle, left, CancelReason::User, sink).is_ok()
    }

    /// Offers shares of some instrument one cent above the best bid, which makes it the best offer: one message, an
    /// ordinary add of the sizes and prices that other adds have. Only a book built from earlier messages tells that it
    /// is within one cent of the bid. `None`, and nothing is done, if no instrument that was tried has both sides, two
    /// cents apart.
    pub fn trigger(&mut self, time_ns: u64, matching: &mut Matching, sink: &mut impl Sink) -> Option<Offer> {
        let (locate, price) = (0..TRIGGER_TRIES).find_map(|_| {
            let locate = (self.zipf.pick(&mut self.random) + 1) as u16;
            let bid = matching.best(locate, Side::Buy)?;
            let offer = matching.best(locate, Side::Sell)?;
            (bid + TICK < offer).then_some((locate, bid + TICK))
        })?;
        let shares = quotes::shares(&mut self.random);
        let order = day_order(locate, Side::Sell, price, shares, ANONYMOUS);
        let handle = matching.enter(time_ns, &order, sink).ok()?;
        Some(Offer { locate, handle, price, shares })
    }

    /// Takes an offer, as a trader would that answers it: one message, unless it is gone or changed.
    pub fn lift(&mut self, time_ns: u64, offer: &Offer, matching: &mut Matching, sink: &mut impl Sink) -> bool {
        let Some(order) = matching.order(offer.handle).copied() else { return false };
        let is_front = matching.front(offer.locate, Side::Sell).is_some_and(|front| front.reference == order.reference);
        is_front && take(time_ns, offer.locate, Side::Buy, order.price, order.shares, matching, sink)
    }
}

/// Instruments that are tried for a trigger.
const TRIGGER_TRIES: usize = 64;

fn day_order(locate: u16, side: Side, price: u32, shares: u32, attribution: [u8; 4]) -> Enter {
    let time_in_force = TimeInForce::Day;
    Enter { owner: LOAD_OWNER, locate, side, shares, price, time_in_force, is_displayed: true, attribution }
}

fn take(
    time_ns: u64,
    locate: u16,
    side: Side,
    price: u32,
    shares: u32,
    matching: &mut Matching,
    sink: &mut impl Sink,
) -> bool {
    let order = day_order(locate, side, price, shares, ANONYMOUS);
    let order = Enter { time_in_force: TimeInForce::Immediate, ..order };
    matching.enter(time_ns, &order, sink).is_ok()
}

#[cfg(test)]
mod tests;

//! A load that was recorded: the orders of a day of TotalView-ITCH 5.0, entered again at their times.
//!
//! * `file`: the messages of a BinaryFILE, as they come.
//! * `message`: their fields.
//! * `pace`: when each is due.
//!
//! A and F enter an order, X reduces it, D cancels and U replaces it. E and C become an order of the other side, of those shares at the
//! limit of the order that was executed; it meets whoever is first in the books now. So an order of a client that stands before the
//! recorded one is filled instead of it. From each message on, an order has no more shares than the recorded one: it never stays
//! longer. R lists the instrument; one that has none is listed by its first order. Messages about no displayed order do nothing.

mod file;
mod message;
mod pace;

pub use file::{Fault, FaultKind, Other};

use super::{LOAD_OWNER, day_order, take};
use crate::core::Core;
use crate::matching::{CancelReason, Handle, Refused, Replacement};
use crate::units::Side;
use file::{File, Frame};
use message::{Add, Recorded, Said};
use pace::Pace;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;

/// Settings of a recorded load.
#[derive(Debug, Clone, Copy)]
pub struct RecordingSettings {
    /// Recorded orders that live at once, at most: one more is skipped. Nasdaq had 1,647,972 on 30 January 2017.
    pub orders: usize,
    /// How many times faster than recorded, 1 to 1,000.
    pub speed: u64,
    /// The time of day, ns since midnight, before which the recorded times are not waited for; `None`: the time of the first order.
    pub from_ns: Option<u64>,
}

impl Default for RecordingSettings {
    fn default() -> Self {
        Self { orders: 2_000_000, speed: 1, from_ns: None }
    }
}

/// Messages of a recording that were not done, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The order is not known: it was added before the recording began, or was skipped itself.
    pub unknown: u64,
    /// An order with the reference of a live one.
    pub known: u64,
    /// The order would trade with another one of the load.
    pub crossing: u64,
    /// A limit is reached: of live orders, of prices, or of instruments.
    pub full: u64,
    /// The venue does not take the size or the price.
    pub refused: u64,
    /// Shares were traded of an order of which clients had taken all.
    pub taken: u64,
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self { unknown, known, crossing, full, refused, taken } = *self;
        [unknown, known, crossing, full, refused, taken].iter().sum()
    }

    fn count(&mut self, refused: Refused) {
        let counter = match refused {
            Refused::Full | Refused::Symbol => &mut self.full,
            Refused::Quantity | Refused::Price | Refused::Halted => &mut self.refused,
            Refused::Gone => &mut self.taken,
        };
        *counter += 1;
    }
}

impl fmt::Display for Skipped {
    /// The reasons that there were.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = [
            (self.unknown, "of orders from before the recording, or skipped themselves"),
            (self.known, "with the reference of a live order"),
            (self.crossing, "would trade with the load"),
            (self.full, "beyond a limit of the venue"),
            (self.refused, "of a size or price that the venue does not take"),
            (self.taken, "traded of orders that clients had taken"),
        ];
        let mut separator = "";
        for (count, why) in reasons.iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} {why}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Counts of a recorded load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordingCounters {
    /// Messages that were read and whose time has come.
    pub messages: u64,
    /// Those that were not done.
    pub skipped: Skipped,
}

/// A recorded order: the venue's own one, and the shares that it has in the recording.
#[derive(Debug, Clone, Copy)]
struct Live {
    handle: Handle,
    shares: u32,
    /// Its side and limit, which tell what executes it after clients have taken it.
    side: Side,
    price: u32,
    locate: u16,
}

/// The load. Its memory does not grow with the file.
pub struct Recording {
    file: File,
    pace: Pace,
    next: Option<Recorded>,
    /// Recorded references, and what they are here; at most `limit`.
    orders: HashMap<u64, Live>,
    limit: usize,
    /// The venue's locate code of each recorded one; 0 for none.
    locates: Vec<u16>,
    has_started: bool,
    is_over: bool,
    fault: Option<Fault>,
    counters: RecordingCounters,
}

/// How soon a reader that had nothing is asked again, ns.
const PENDING_NS: u64 = 1_000_000;

impl Recording {
    /// A load of the BinaryFILE that this reads. A reader that would block ([`std::io::ErrorKind::WouldBlock`]) is asked again.
    pub fn new(read: Box<dyn Read + Send>, settings: &RecordingSettings) -> Self {
        Self {
            file: File::new(read),
            pace: Pace::new(settings.speed, settings.from_ns),
            next: None,
            orders: HashMap::with_capacity(settings.orders),
            limit: settings.orders,
            locates: vec![0; usize::from(u16::MAX) + 1],
            has_started: false,
            is_over: false,
            fault: None,
            counters: RecordingCounters::default(),
        }
    }

    /// Reads ahead to the first message, which tells whether it is a recording at all. It may block as its reader does.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn check(&mut self) -> Result<(), Fault> {
        self.fetch();
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Reads the next message, if it has none.
    pub(crate) fn fetch(&mut self) {
        if self.next.is_some() || self.is_over {
            return;
        }
        let is_first = !self.pace.has_seen();
        let read = self.file.next().and_then(|frame| match frame {
            Frame::Pending => Ok(None),
            Frame::End => {
                self.is_over = true;
                Ok(None)
            }
            Frame::Message(offset, bytes) if is_first && !message::is_known(bytes[0]) => {
                Err(Fault { offset, kind: FaultKind::NotItch })
            }
            Frame::Message(offset, bytes) => message::parse(bytes).map(Some).map_err(|kind| Fault { offset, kind }),
        });
        match read {
            Ok(None) => {}
            Ok(Some(recorded)) => {
                self.pace.see(recorded.time_ns, matches!(recorded.said, Said::Add(_)));
                self.next = Some(recorded);
            }
            Err(fault) => {
                let kind = match fault.kind {
                    FaultKind::CutOff if is_first => FaultKind::NotItch,
                    kind => kind,
                };
                (self.is_over, self.fault) = (true, Some(Fault { kind, ..fault }));
            }
        }
    }

    /// ns since the start at which the next message is due; `None` after the last one. `now_ns` counts from the start.
    pub(crate) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        match self.next {
            Some(_) => Some(self.pace.due_ns()),
            None => (!self.is_over).then_some(now_ns + PENDING_NS),
        }
    }

    /// True from the message on from which recorded times are waited for.
    pub(crate) fn is_trading(&self) -> bool {
        self.pace.has_started()
    }

    /// True after the last message.
    pub fn is_over(&self) -> bool {
        self.is_over && self.next.is_none()
    }

    /// Why it ended before its end.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// What it has done so far.
    pub fn counters(&self) -> RecordingCounters {
        self.counters
    }

    /// Does the next message.
    pub(crate) fn step(&mut self, time_ns: u64, core: &mut Core) {
        let Some(recorded) = self.next.take() else { return };
        self.counters.messages += 1;
        match recorded.said {
            Said::Event(b'Q') if !self.has_started => {
                self.has_started = true;
                core.matching.start(time_ns, &mut core.output);
            }
            Said::Directory { locate, symbol } => {
                self.locates[usize::from(locate)] = core.list(time_ns, symbol).unwrap_or_default();
            }
            Said::Add(add) => self.add(time_ns, &add, core),
            Said::Executed { reference, shares } => self.execute(time_ns, reference, shares, core),
            Said::Cancelled { reference, shares } => self.reduce(time_ns, reference, shares, core),
            Said::Deleted { reference } => self.reduce(time_ns, reference, u32::MAX, core),
            Said::Replaced { old, new, shares, price } => self.replace(time_ns, old, (new, shares, price), core),
            Said::Event(_) | Said::Other => {}
        }
    }

    fn add(&mut self, time_ns: u64, add: &Add, core: &mut Core) {
        let Add { reference, side, shares, price, .. } = *add;
        if self.orders.contains_key(&reference) {
            self.counters.skipped.known += 1;
            return;
        }
        let locate = &mut self.locates[usize::from(add.locate)];
        if *locate == 0 {
            *locate = core.list(time_ns, add.symbol).unwrap_or_default();
        }
        let locate = *locate;
        if crosses_load(locate, side, price, core) {
            self.counters.skipped.crossing += 1;
        } else if self.orders.len() >= self.limit {
            self.counters.skipped.full += 1;
        } else {
            match core.enter(time_ns, &day_order(locate, side, price, shares, add.attribution)) {
                Ok(handle) => {
                    self.orders.insert(reference, Live { handle, shares, side, price, locate });
                }
                Err(refused) => self.counters.skipped.count(refused),
            }
        }
    }

    /// An order of the other side takes the shares; what the order has too much afterwards is cancelled.
    fn execute(&mut self, time_ns: u64, reference: u64, shares: u32, core: &mut Core) {
        let Some(live) = self.orders.get(&reference).copied() else {
            self.counters.skipped.unknown += 1;
            return;
        };
        // Of what clients have taken before, nobody else takes as much again.
        let here = core.matching.order(live.handle).map_or(0, |order| order.shares);
        let wanted = shares.min(live.shares).min(here);
        if wanted == 0 {
            self.counters.skipped.taken += 1;
        } else {
            let Core { matching, output, .. } = core;
            take(time_ns, live.locate, live.side.opposite(), live.price, wanted, matching, output);
        }
        self.shrink(time_ns, reference, shares, core);
    }

    fn reduce(&mut self, time_ns: u64, reference: u64, shares: u32, core: &mut Core) {
        if self.orders.contains_key(&reference) {
            self.shrink(time_ns, reference, shares, core);
        } else {
            self.counters.skipped.unknown += 1;
        }
    }

    /// The recorded order has so many shares less; the own one has no more than it.
    fn shrink(&mut self, time_ns: u64, reference: u64, shares: u32, core: &mut Core) {
        let Some(live) = self.orders.get_mut(&reference) else { return };
        live.shares = live.shares.saturating_sub(shares);
        let Live { handle, shares: left, .. } = *live;
        if left == 0 {
            self.orders.remove(&reference);
        }
        // One that clients have taken is gone already.
        let _ = core.cancel(time_ns, handle, left, CancelReason::User);
    }

    /// Replaces an order by `new`: reference, shares and price. If that cannot be, the old one is gone all the same.
    fn replace(&mut self, time_ns: u64, old: u64, new: (u64, u32, u32), core: &mut Core) {
        let (reference, shares, price) = new;
        let Some(live) = self.orders.remove(&old) else {
            self.counters.skipped.unknown += 1;
            return;
        };
        let Live { locate, side, .. } = live;
        let replacement = Replacement { owner: LOAD_OWNER, shares, price, is_displayed: true };
        let handle = if self.orders.contains_key(&reference) {
            self.counters.skipped.known += 1;
            None
        } else if crosses_load(locate, side, price, core) {
            self.counters.skipped.crossing += 1;
            None
        } else if core.matching.order(live.handle).is_none() {
            // Clients have taken it; the new one is an order of its own.
            let order = day_order(locate, side, price, shares, crate::itch::ANONYMOUS);
            core.enter(time_ns, &order).map_err(|refused| self.counters.skipped.count(refused)).ok()
        } else {
            let replaced = core.replace(time_ns, live.handle, &replacement);
            replaced.map_err(|refused| self.counters.skipped.count(refused)).ok()
        };
        match handle {
            Some(handle) => {
                self.orders.insert(reference, Live { handle, shares, side, price, locate });
            }
            None => drop(core.cancel(time_ns, live.handle, 0, CancelReason::User)),
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("counters", &self.counters)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// True if an order would trade with one of the load first: the books are not those of the recording there.
fn crosses_load(locate: u16, side: Side, price: u32, core: &Core) -> bool {
    let front = core.matching.front(locate, side.opposite());
    front.is_some_and(|front| front.owner == LOAD_OWNER && side.takes(price, front.price))
}

#[cfg(test)]
mod tests;

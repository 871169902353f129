//! A user of the OUCH server: the orders, and the answers that are kept for reconnects.

use super::message::{Accepted, Answer, Enter, RejectReason, Replace, Request, Terms, book_side};
use crate::core::Core;
use crate::itch::ANONYMOUS;
use crate::matching::{self, CancelReason, Handle, Refused, Replacement, TimeInForce};
use crate::units::SHARES_END;
use std::collections::{BTreeMap, VecDeque};

/// Answers that are kept of each user, so that a client can resume. An order brings two to four of them.
pub const KEPT_MAX: usize = 65_536;

/// Answers that are kept of all users, 115 bytes each: 240 MB. Many users share it, so that made-up names do not fill the memory.
pub const KEPT_ALL_MAX: usize = 2 * 1024 * 1024;

/// Live orders of a user.
pub const LIVE_MAX: usize = 20_000;

/// Live orders of all users: with those of FIX, what the books have room for beside a load. Without it a crowd of users would leave none.
pub const LIVE_ALL_MAX: usize = 300_000;

/// The place of the owner's kind and the user's number in [`matching::Enter::owner`]; UserRefNum stands below.
pub(super) const USER_SHIFT: u32 = 32;

/// An order that lives, or is being entered.
#[derive(Debug, Clone, Copy)]
struct Live {
    handle: Option<Handle>,
    terms: Terms,
    /// Shares of the whole chain of replacements.
    quantity: u32,
    /// Shares of the chain that were executed.
    executed: u32,
    price: u32,
    /// The order of the chain before this one.
    replaces: Option<u32>,
}

/// A user.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) user: [u8; 6],
    /// The owner of its orders, without UserRefNum.
    owner: u64,
    last_ref: u32,
    live: BTreeMap<u32, Live>,
    kept: VecDeque<Answer>,
    /// Answers that it may keep.
    kept_max: usize,
    /// The sequence number of the first answer that is kept.
    first: u64,
    /// The connection that it is logged in by.
    pub(super) connection: Option<usize>,
    /// The next answer that this connection gets.
    pub(super) cursor: u64,
}

impl Account {
    pub(super) fn new(user: [u8; 6], owner: u64) -> Self {
        let (live, kept) = (BTreeMap::new(), VecDeque::new());
        Self { user, owner, last_ref: 0, live, kept, kept_max: KEPT_MAX, first: 1, connection: None, cursor: 1 }
    }

    /// The sequence number of the answer that comes next.
    pub(super) fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// The sequence number of the oldest answer that is kept.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn answer(&self, sequence: u64) -> Option<&Answer> {
        self.kept.get(usize::try_from(sequence.checked_sub(self.first)?).ok()?)
    }

    pub(super) fn live(&self) -> usize {
        self.live.len()
    }

    pub(super) fn say(&mut self, answer: Answer) {
        if self.kept.len() >= self.kept_max {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(answer);
    }

    /// It is one of so many users: the oldest of its answers go, if they are more than its share.
    pub(super) fn share(&mut self, users: usize) {
        self.kept_max = KEPT_MAX.min(KEPT_ALL_MAX / users.max(1));
        let over = self.kept.len().saturating_sub(self.kept_max);
        self.kept.drain(..over);
        self.kept.shrink_to(self.kept_max);
        self.first += over as u64;
    }

    fn reject(&mut self, time_ns: u64, user_ref: u32, reason: RejectReason, cl_ord_id: &[u8; 14]) {
        self.say(Answer::rejected(time_ns, user_ref, reason, cl_ord_id));
    }

    /// True if the number is a new one. Others are ignored without an answer, which makes repeating harmless.
    fn is_new(&mut self, user_ref: u32) -> bool {
        let is_new = user_ref > self.last_ref;
        self.last_ref = self.last_ref.max(user_ref);
        is_new
    }

    /// Does what a client asks for; without room no order is entered. Answers come by [`Self::hear`], after [`Core::take_answers_of`]. Those before are to be heard first: what was executed counts.
    pub(super) fn handle(&mut self, time_ns: u64, request: &Request, has_room: bool, core: &mut Core) {
        match request {
            Request::Enter(order) => self.enter(time_ns, order, has_room, core),
            Request::Replace(new) => self.replace(time_ns, new, core),
            Request::Cancel { user_ref, quantity } => {
                self.reduce(time_ns, *user_ref, *quantity, CancelReason::User, core);
            }
            Request::Modify { user_ref, side, quantity } => self.modify(time_ns, *user_ref, *side, *quantity, core),
            Request::Query => self.say(Answer::query(time_ns, self.last_ref.saturating_add(1))),
        }
    }

    fn enter(&mut self, time_ns: u64, order: &Enter, has_room: bool, core: &mut Core) {
        let Enter { user_ref, quantity, ref terms, .. } = *order;
        if !self.is_new(user_ref) {
            return;
        }
        let entered = match self.check_enter(order, has_room, core) {
            Ok(entered) => entered,
            Err(reason) => return self.reject(time_ns, user_ref, reason, &terms.cl_ord_id),
        };
        self.live.insert(
            user_ref,
            Live { handle: None, terms: *terms, quantity, executed: 0, price: entered.price, replaces: None },
        );
        if let Err(refused) = core.enter(time_ns, &entered) {
            self.live.remove(&user_ref);
            self.reject(time_ns, user_ref, reason(refused), &terms.cl_ord_id);
        }
    }

    /// The order as the books take it.
    fn check_enter(&self, order: &Enter, has_room: bool, core: &Core) -> Result<matching::Enter, RejectReason> {
        let Enter { user_ref, quantity, price, ref terms, ref options } = *order;
        let side = terms.side().ok_or(RejectReason::InvalidSide)?;
        let time_in_force = match terms.time_in_force {
            b'0' | b'5' | b'E' => TimeInForce::Day,
            b'3' => TimeInForce::Immediate,
            _ => return Err(RejectReason::Other),
        };
        if terms.cross != b'N' {
            return Err(RejectReason::InvalidCross);
        }
        if options.minimum > 0 {
            return Err(RejectReason::InvalidMinimum);
        }
        if options.is_unsupported {
            return Err(RejectReason::Other);
        }
        if !has_room || self.live.len() >= LIVE_MAX {
            return Err(RejectReason::ProcessingError);
        }
        let is_displayed = is_displayed(terms.display)?;
        let attribution = if terms.display == b'A' { options.firm } else { ANONYMOUS };
        let locate = core.locate(terms.symbol).ok_or(RejectReason::InvalidSymbol)?;
        let price = u32::try_from(price).map_err(|_| RejectReason::InvalidPrice)?;
        let owner = self.owner | u64::from(user_ref);
        Ok(matching::Enter { owner, locate, side, shares: quantity, price, time_in_force, is_displayed, attribution })
    }

    fn replace(&mut self, time_ns: u64, new: &Replace, core: &mut Core) {
        if !self.is_new(new.new) {
            return;
        }
        if let Err(reason) = self.try_replace(time_ns, new, core) {
            self.reject(time_ns, new.new, reason, &new.cl_ord_id);
        }
    }

    fn try_replace(&mut self, time_ns: u64, new: &Replace, core: &mut Core) -> Result<(), RejectReason> {
        let live = *self.live.get(&new.old).ok_or(RejectReason::ReplaceNotAllowed)?;
        let handle = live.handle.ok_or(RejectReason::ReplaceNotAllowed)?;
        if new.options.minimum > 0 || new.options.is_unsupported || !matches!(new.time_in_force, b'0' | b'5' | b'E') {
            return Err(RejectReason::Other);
        }
        if new.quantity >= SHARES_END {
            return Err(RejectReason::InvalidQuantity);
        }
        let is_displayed = is_displayed(new.display)?;
        let price = u32::try_from(new.price).map_err(|_| RejectReason::InvalidPrice)?;
        let shares = new.quantity.saturating_sub(live.executed);
        if shares == 0 {
            // As many as it may have in all are executed already: nothing is left to be replaced.
            self.reduce(time_ns, new.old, live.executed, CancelReason::User, core);
            return Ok(());
        }
        let Replace { time_in_force, display, sweep, cl_ord_id, .. } = *new;
        let terms = Terms { time_in_force, display, sweep, cl_ord_id, ..live.terms };
        self.live.insert(new.new, Live { terms, quantity: new.quantity, price, replaces: Some(new.old), ..live });
        let owner = self.owner | u64::from(new.new);
        let replaced = core.replace(time_ns, handle, &Replacement { owner, shares, price, is_displayed });
        // One of the two is gone from here on.
        self.live.remove(if replaced.is_ok() { &new.old } else { &new.new });
        replaced.map(drop).map_err(reason)
    }

    /// Reduces an order so that its chain trades no more than `quantity` shares in all. One that is gone gets no answer.
    fn reduce(&mut self, time_ns: u64, user_ref: u32, quantity: u32, why: CancelReason, core: &mut Core) {
        let Some(live) = self.live.get_mut(&user_ref) else { return };
        let Some(handle) = live.handle else { return };
        let left = quantity.saturating_sub(live.executed);
        live.quantity = live.quantity.min(quantity.max(live.executed));
        // What the books do not know any more was answered already.
        let _ = core.cancel(time_ns, handle, left, why);
    }

    fn modify(&mut self, time_ns: u64, user_ref: u32, side: u8, quantity: u32, core: &mut Core) {
        let Some(live) = self.live.get_mut(&user_ref) else { return };
        // A sell may become short or exempt, and back; a buy stays one.
        if book_side(side) != live.terms.side() || side == b'B' && live.terms.side != b'B' {
            return;
        }
        live.terms.side = side;
        if quantity >= live.quantity {
            let outstanding = live.quantity.saturating_sub(live.executed);
            return self.say(Answer::modified(time_ns, user_ref, side, outstanding));
        }
        self.reduce(time_ns, user_ref, quantity, CancelReason::Modified, core);
    }

    /// Cancels all live orders: the connection is gone.
    pub(super) fn cancel_all(&mut self, time_ns: u64, core: &mut Core) {
        for live in self.live.values() {
            if let Some(handle) = live.handle {
                let _ = core.cancel(time_ns, handle, 0, CancelReason::Supervisory);
            }
        }
    }

    /// Writes what happened to an order.
    pub(super) fn hear(&mut self, time_ns: u64, user_ref: u32, answer: &matching::Answer) {
        let Some(live) = self.live.get_mut(&user_ref) else { return };
        let (answer, left) = match *answer {
            matching::Answer::Accepted { handle } | matching::Answer::Replaced { handle, .. } => {
                live.handle = Some(handle);
                let (price, reference, terms) = (u64::from(live.price), handle.reference, &live.terms);
                let quantity = live.quantity - live.executed;
                let order = Accepted { user_ref, quantity, price, reference, terms };
                (Answer::accepted(time_ns, live.replaces, &order), quantity)
            }
            matching::Answer::Executed(matching::Execution {
                shares, left, price, match_number, liquidity, ..
            }) => {
                live.executed += shares;
                (Answer::executed(time_ns, user_ref, shares, price, liquidity, match_number), left)
            }
            matching::Answer::Cancelled { left, reason: CancelReason::Modified, .. } if left > 0 => {
                (Answer::modified(time_ns, user_ref, live.terms.side, left), left)
            }
            matching::Answer::Cancelled { shares, left, reason, .. } => {
                (Answer::cancelled(time_ns, user_ref, shares, reason), left)
            }
        };
        if left == 0 {
            self.live.remove(&user_ref);
        }
        self.say(answer);
    }
}

fn is_displayed(display: u8) -> Result<bool, RejectReason> {
    match display {
        b'Y' | b'A' => Ok(true),
        b'N' => Ok(false),
        _ => Err(RejectReason::InvalidDisplay),
    }
}

fn reason(refused: Refused) -> RejectReason {
    match refused {
        Refused::Symbol => RejectReason::InvalidSymbol,
        Refused::Quantity => RejectReason::InvalidQuantity,
        Refused::Price => RejectReason::InvalidPrice,
        Refused::Full => RejectReason::ProcessingError,
        Refused::Gone => RejectReason::ReplaceNotAllowed,
        Refused::Halted => RejectReason::Halted,
    }
}

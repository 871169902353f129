//! The orders of one port: those that wait for an answer, and those that are live.
//!
//! ```text
//!            enter, replace                A, U                 E, C, D until nothing is open
//!  (nothing) ──────────────> Sent ─────────────────────> Live ──────────────────────────────> Closed (not kept)
//!                              └── J, or the order that it replaces closed before it ──────> (nothing)
//! ```
//!
//! What the exchange does not say is concluded, as its messages are in order: when an order closes, the cancel that waits comes too
//! late, and a replacement that waits never comes. What is left without an answer is [`overdue`](OpenOrders::overdue).
//!
//! The account is that of a session, not of a connection: after a reconnect SoupBinTCP sends what was missed, a message that comes
//! twice is known by its number, and what is [not answered](OpenOrders::next_unanswered) may be sent again. A new account to which
//! the whole session is told from message 1 has the same orders.

mod answers;
mod table;

use super::letters::OrderSide;
use super::{CancelOrder, EnterOrder, ModifyOrder, ReplaceOrder, UserRefNum};
use crate::units::{Nanos, OrderReference, Price, Sequence, Symbol};
pub use answers::Change;
use sidestep_sys::Problem;
use std::fmt::{self, Display, Formatter};
use table::Table;

/// The most orders that an account may be made for: 220 MB.
const ORDERS_MAX: usize = 1 << 20;

/// Bounds of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Orders that are sent or live at a time, 1,048,576 at most. Default: 4,096, which take less than 1 MB.
    pub orders_max: usize,
    /// Time after which a request without an answer is overdue, ns. Default: 1 s, far beyond the exchange's own time.
    pub answer_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { orders_max: 4096, answer_ns: 1_000_000_000 }
    }
}

/// The progress of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is not answered yet; the exchange may never have seen it.
    Sent,
    /// The exchange has it.
    Live,
    /// Nothing of it is open any more.
    Closed,
}

/// A request about an order that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To cancel it.
    Cancel(CancelOrder),
    /// To modify it.
    Modify(ModifyOrder),
    /// To replace it by the order of this number, which is [`Stage::Sent`].
    Replace(UserRefNum),
}

/// One order. `quantity = executed + cancelled + open` once the exchange has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub user_ref_num: UserRefNum,
    /// Its progress.
    pub stage: Stage,
    /// The instrument.
    pub symbol: Symbol,
    /// Side; nothing if the exchange told a letter without a meaning.
    pub side: Option<OrderSide>,
    /// Limit.
    pub price: Price,
    /// Shares of the whole chain of replaced orders.
    pub quantity: u32,
    /// Shares executed, of the whole chain.
    pub executed: u32,
    /// Shares cancelled, or lost by being replaced.
    pub cancelled: u32,
    /// Shares that can still be executed; 0 until the exchange has it.
    pub open: u32,
    /// The exchange's number; 0 until the exchange has it.
    pub order_reference: OrderReference,
    /// The order that it is to replace, until the exchange has it.
    pub replaces: Option<UserRefNum>,
    /// The request that has no answer yet.
    pub request: Option<Request>,
    /// The time when it, or its request, is overdue.
    pub due: Option<Nanos>,
}

/// The reason why a request is not to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The number is not higher than those before: the exchange would ignore it silently.
    NumberUsed {
        /// The lowest number that is free; nothing if all are used.
        next: Option<UserRefNum>,
    },
    /// As many orders as [`Limits::orders_max`].
    Full,
    /// No such order, or it is closed.
    Unknown(UserRefNum),
    /// The order waits to be replaced by this one: the request is to be about that.
    Replaced(UserRefNum),
}

impl Display for Refused {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumberUsed { next: Some(next) } => write!(out, "the number is used; {} is free", next.0),
            Self::NumberUsed { next: None } => out.write_str("the numbers of this day are used up"),
            Self::Full => out.write_str("as many orders are open as the limit says"),
            Self::Unknown(number) => write!(out, "order {} is not open", number.0),
            Self::Replaced(by) => write!(out, "the order waits to be replaced by order {}", by.0),
        }
    }
}

impl std::error::Error for Refused {}

/// Counts since the account was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers that came twice, after a reconnect.
    pub repeated: u64,
    /// Answers about orders that are not known.
    pub unknown: u64,
    /// Orders that the exchange told and that did not fit.
    pub untracked: u64,
    /// Answers with more shares than were open. They are taken for all that was open; executed shares count in full.
    pub excess: u64,
    /// Replacements that never came, as the old order was closed before.
    pub void_replacements: u64,
}

/// The account of one port's orders.
#[derive(Debug)]
pub struct OpenOrders {
    limits: Limits,
    table: Table,
    /// The lowest number that is free.
    next: u64,
    /// The number of the last answer in its session.
    applied: Sequence,
    counters: Counters,
}

impl OpenOrders {
    /// Makes an account, and all the memory that it will use.
    ///
    /// # Errors
    /// A limit is 0 or too high.
    pub fn new(limits: Limits) -> Result<Self, Problem> {
        if !(1..=ORDERS_MAX).contains(&limits.orders_max) || limits.answer_ns == 0 {
            let why = format!("orders_max is not of 1 to {ORDERS_MAX}, or answer_ns is 0");
            return Err(Problem::usage("limits of an account of orders", why).next("leave them at their defaults"));
        }
        let table = Table::new(limits.orders_max);
        Ok(Self { limits, table, next: 1, applied: Sequence(0), counters: Counters::default() })
    }

    /// Forgets all: a new session begins, with its numbers.
    pub fn new_session(&mut self) {
        self.table.clear();
        (self.next, self.applied) = (1, Sequence(0));
    }

    /// The lowest number that is free; nothing if all are used.
    #[inline]
    pub fn next_number(&self) -> Option<UserRefNum> {
        u32::try_from(self.next).ok().map(UserRefNum)
    }

    /// The number of the last answer in its session; the session is to go on behind it.
    pub fn applied(&self) -> Sequence {
        self.applied
    }

    /// Notes an order that is about to be sent. If it then is not, [`give_up`](Self::give_up) takes it back.
    ///
    /// # Errors
    /// [`Refused`]; it is not to be sent then.
    #[inline]
    pub fn enter(&mut self, order: &EnterOrder<'_>, now: Nanos) -> Result<(), Refused> {
        let EnterOrder { user_ref_num, side, quantity, symbol, price, .. } = *order;
        self.note(Order {
            due: Some(now.after(self.limits.answer_ns)),
            ..Order::new(user_ref_num, symbol, Some(side), price, quantity)
        })
    }

    /// Notes a replacement that is about to be sent.
    ///
    /// # Errors
    /// [`Refused`]; it is not to be sent then.
    #[inline]
    pub fn replace(&mut self, replace: &ReplaceOrder<'_>, now: Nanos) -> Result<(), Refused> {
        let ReplaceOrder { old_user_ref_num, user_ref_num, quantity, price, .. } = *replace;
        let old = *self.requestable(old_user_ref_num)?;
        self.note(Order {
            executed: old.executed,
            replaces: Some(old_user_ref_num),
            due: Some(now.after(self.limits.answer_ns)),
            ..Order::new(user_ref_num, old.symbol, old.side, price, quantity)
        })?;
        if let Some(old) = self.table.find_mut(old_user_ref_num) {
            old.request = Some(Request::Replace(user_ref_num));
            old.due = old.due.filter(|_| old.stage == Stage::Sent);
        }
        Ok(())
    }

    /// Notes a cancel that is about to be sent; again is allowed.
    ///
    /// # Errors
    /// [`Refused`]; it is not to be sent then.
    #[inline]
    pub fn cancel(&mut self, cancel: &CancelOrder, now: Nanos) -> Result<(), Refused> {
        self.ask(cancel.user_ref_num, Request::Cancel(*cancel), now)
    }

    /// Notes a modification that is about to be sent.
    ///
    /// # Errors
    /// [`Refused`]; it is not to be sent then.
    #[inline]
    pub fn modify(&mut self, modify: &ModifyOrder, now: Nanos) -> Result<(), Refused> {
        self.ask(modify.user_ref_num, Request::Modify(*modify), now)
    }

    /// Waits no longer for an answer, or takes back what was not sent: an order that the exchange may never have seen is removed (and
    /// known again if it comes after all), with those that were to replace it; a request about a live one is forgotten. Whether there was something to give up.
    pub fn give_up(&mut self, number: UserRefNum) -> bool {
        let Some(order) = self.table.find_mut(number) else { return false };
        let sent = match order.request {
            _ if order.stage == Stage::Sent => number,
            Some(Request::Replace(by)) => by,
            asked => {
                (order.request, order.due) = (None, None);
                return asked.is_some();
            }
        };
        self.remove_sent(sent);
        true
    }

    /// The order of a number, if it is sent or live.
    #[inline]
    pub fn find(&self, number: UserRefNum) -> Option<&Order> {
        self.table.find(number)
    }

    /// All orders that are sent or live, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Order> {
        self.table.iter()
    }

    /// Orders that are sent or live.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// No order is sent or live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Orders that have waited too long for an answer, or whose request has. It looks at every slot: a few times a second is enough.
    pub fn overdue(&self, now: Nanos) -> impl Iterator<Item = &Order> {
        self.iter().filter(move |order| order.due.is_some_and(|due| due <= now))
    }

    /// The order with the lowest number above `after` that waits for an answer, or whose request does. After a reconnect the caller
    /// sends those messages again (it keeps them), **in this order**: the exchange ignores a number that is lower than one before. It
    /// looks at every slot.
    pub fn next_unanswered(&self, after: UserRefNum) -> Option<&Order> {
        let waits = |order: &&Order| order.user_ref_num > after && order.due.is_some();
        self.iter().filter(waits).min_by_key(|order| order.user_ref_num)
    }

    /// Counts since the account was made.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn note(&mut self, order: Order) -> Result<(), Refused> {
        if u64::from(order.user_ref_num.0) < self.next {
            return Err(Refused::NumberUsed { next: self.next_number() });
        }
        self.table.insert(order).ok_or(Refused::Full)?;
        self.next = u64::from(order.user_ref_num.0) + 1;
        Ok(())
    }

    /// The order, if a request about it makes sense.
    fn requestable(&mut self, number: UserRefNum) -> Result<&mut Order, Refused> {
        let order = self.table.find_mut(number).ok_or(Refused::Unknown(number))?;
        match order.request {
            Some(Request::Replace(by)) => Err(Refused::Replaced(by)),
            _ => Ok(order),
        }
    }

    fn ask(&mut self, number: UserRefNum, request: Request, now: Nanos) -> Result<(), Refused> {
        let due = now.after(self.limits.answer_ns);
        let order = self.requestable(number)?;
        (order.request, order.due) = (Some(request), Some(due));
        Ok(())
    }

    /// Removes an order that the exchange does not have, and those that were to replace it; how many.
    fn remove_sent(&mut self, number: UserRefNum) -> u64 {
        let (mut next, mut removed) = (Some(number), 0);
        while let Some(number) = next.filter(|number| self.is_sent(*number)) {
            let Some(order) = self.table.remove(number) else { break };
            removed += 1;
            self.no_longer_replaced_by(&order);
            next = order.replaced_by();
        }
        removed
    }

    fn is_sent(&self, number: UserRefNum) -> bool {
        self.table.find(number).is_some_and(|order| order.stage == Stage::Sent)
    }

    /// The order that this one was to replace waits no longer for that.
    fn no_longer_replaced_by(&mut self, order: &Order) {
        if let Some(old) = order.replaces.and_then(|old| self.table.find_mut(old)) {
            old.request = old.request.filter(|request| *request != Request::Replace(order.user_ref_num));
        }
    }
}

impl Order {
    fn new(user_ref_num: UserRefNum, symbol: Symbol, side: Option<OrderSide>, price: Price, quantity: u32) -> Self {
        Self {
            user_ref_num,
            stage: Stage::Sent,
            symbol,
            side,
            price,
            quantity,
            executed: 0,
            cancelled: 0,
            open: 0,
            order_reference: OrderReference(0),
            replaces: None,
            request: None,
            due: None,
        }
    }

    fn replaced_by(&self) -> Option<UserRefNum> {
        match self.request {
            Some(Request::Replace(by)) => Some(by),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

//! What the answers of the exchange do to the orders.

use super::{OpenOrders, Order, Request, Stage, UserRefNum};
use crate::ouch::answer::{Accepted, Answer, Cancelled, Executed, Modified, Replaced, SelfMatchCancelled};
use crate::units::{Price, Sequence};

/// The letter of an order that is accepted and cancelled at once.
const DEAD: u8 = b'D';

/// What an answer has changed. Orders are told as they are afterwards; with a request that is void if they are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No order.
    Nothing,
    /// The answer was known: it has come again after a reconnect.
    Repeated,
    /// An order is live, or closed at once.
    Accepted(Order),
    /// An order is live, or closed at once, in the place of another one.
    Replaced {
        /// The number of the old order.
        old: UserRefNum,
        /// The new order.
        order: Order,
    },
    /// Shares are executed.
    Executed {
        /// The order.
        order: Order,
        /// Shares executed now.
        quantity: u32,
        /// Price.
        price: Price,
        /// Match number.
        match_number: u64,
    },
    /// Shares are cancelled.
    Cancelled {
        /// The order.
        order: Order,
        /// Shares cancelled now.
        quantity: u32,
        /// The reason.
        reason: u8,
    },
    /// The exchange does not take the order. One that it was to replace is as it was.
    Rejected {
        /// The order.
        order: Order,
        /// Number of the reason.
        reason: u16,
    },
    /// A cancel is put off.
    CancelPending(Order),
    /// A cancel is not possible.
    CancelRejected(Order),
    /// Side, shares, price, place in the book or displayed part are other ones.
    Updated(Order),
    /// An execution is void.
    Broken {
        /// The order, which may be closed for long.
        user_ref_num: UserRefNum,
        /// Match number of the execution.
        match_number: u64,
    },
    /// An answer about an order that is not known.
    Unknown(UserRefNum),
}

impl OpenOrders {
    /// Applies the answer that has this number in its session. Numbers rise; one that is not higher than the last is known already.
    #[inline]
    pub fn apply(&mut self, sequence: Sequence, answer: &Answer<'_>) -> Change {
        if sequence <= self.applied {
            self.counters.repeated += 1;
            return Change::Repeated;
        }
        self.applied = sequence;
        match answer {
            Answer::Executed(executed) => self.executed(executed),
            Answer::Accepted(accepted) => self.accepted(accepted),
            Answer::Replaced(replaced) => self.replaced(replaced),
            Answer::Cancelled(cancelled) => self.cancelled(cancelled),
            Answer::SelfMatchCancelled(cancelled) => self.self_match_cancelled(cancelled),
            Answer::Rejected(rejected) => self.rejected(rejected.user_ref_num(), rejected.reason()),
            Answer::CancelPending(pending) => {
                self.update(pending.user_ref_num(), |order| order.due = None, Change::CancelPending)
            }
            Answer::CancelRejected(rejected) => {
                self.update(rejected.user_ref_num(), Order::answered, Change::CancelRejected)
            }
            Answer::Modified(modified) => self.modified(modified),
            Answer::PriorityUpdate(update) => self.update(
                update.user_ref_num(),
                |order| (order.price, order.order_reference) = (update.price(), update.order_reference()),
                Change::Updated,
            ),
            Answer::Restated(restated) => self.update(restated.user_ref_num(), |_| {}, Change::Updated),
            Answer::BrokenTrade(broken) => {
                Change::Broken { user_ref_num: broken.user_ref_num(), match_number: broken.match_number() }
            }
            Answer::QueryResponse(response) => {
                self.next = self.next.max(u64::from(response.next_user_ref_num().0));
                Change::Nothing
            }
            Answer::SystemEvent(_) | Answer::Unknown(_) => Change::Nothing,
        }
    }

    fn accepted(&mut self, accepted: &Accepted<'_>) -> Change {
        let (number, quantity) = (accepted.user_ref_num(), accepted.quantity());
        let sent = self.table.find(number).copied();
        if sent.is_some_and(|order| order.stage != Stage::Sent) {
            return self.unknown(number);
        }
        let told = Order {
            open: quantity,
            order_reference: accepted.order_reference(),
            ..Order::new(number, accepted.symbol(), accepted.side(), accepted.price(), quantity)
        };
        Change::Accepted(self.goes_live(told, sent.as_ref(), accepted.order_state() == DEAD))
    }

    fn replaced(&mut self, replaced: &Replaced<'_>) -> Change {
        let (old_number, number) = (replaced.old_user_ref_num(), replaced.user_ref_num());
        let sent = self.table.find(number).copied();
        if old_number == number || sent.is_some_and(|order| order.stage != Stage::Sent) {
            return self.unknown(number);
        }
        let old = self.table.remove(old_number);
        let executed = old.or(sent).map_or(0, |order| order.executed);
        // The exchange tells what is outstanding; it is never more than was asked for.
        let asked = sent.map_or(u32::MAX, |sent| sent.quantity);
        let open = replaced.quantity().min(asked.saturating_sub(executed));
        let quantity = sent.map_or(executed.saturating_add(open), |sent| sent.quantity);
        let told = Order {
            executed,
            cancelled: quantity.saturating_sub(executed.saturating_add(open)),
            open,
            order_reference: replaced.order_reference(),
            ..Order::new(number, replaced.symbol(), replaced.side(), replaced.price(), quantity)
        };
        // Another replacement of the old order can no longer come.
        if let Some(by) = old.and_then(|old| old.replaced_by()).filter(|by| *by != number) {
            self.counters.void_replacements += self.remove_sent(by);
        }
        let order = self.goes_live(told, sent.as_ref(), replaced.order_state() == DEAD);
        Change::Replaced { old: old_number, order }
    }

    /// The exchange has an order. Of what was sent, only the request that came after it is still of interest.
    fn goes_live(&mut self, mut order: Order, sent: Option<&Order>, is_dead: bool) -> Order {
        self.next = self.next.max(u64::from(order.user_ref_num.0) + 1);
        order.stage = Stage::Live;
        if let Some(sent) = sent {
            self.no_longer_replaced_by(sent);
            order.request = sent.request;
            order.due = sent.due.filter(|_| sent.request.is_some() && sent.replaced_by().is_none());
        }
        if is_dead {
            order.take_off(order.open);
        }
        if order.open == 0 {
            return self.close(order);
        }
        self.counters.untracked += u64::from(self.table.insert(order).is_none());
        order
    }

    fn executed(&mut self, executed: &Executed<'_>) -> Change {
        let (number, quantity) = (executed.user_ref_num(), executed.quantity());
        let (price, match_number) = (executed.price(), executed.match_number());
        self.shrink(
            number,
            quantity,
            |order| {
                order.executed = order.executed.saturating_add(quantity);
                order.open = order.open.saturating_sub(quantity);
            },
            |order| Change::Executed { order, quantity, price, match_number },
        )
    }

    fn cancelled(&mut self, cancelled: &Cancelled<'_>) -> Change {
        let (number, quantity, reason) = (cancelled.user_ref_num(), cancelled.quantity(), cancelled.reason());
        let shrink = |order: &mut Order| {
            order.take_off(quantity);
            order.cancel_answered();
        };
        self.shrink(number, quantity, shrink, |order| Change::Cancelled { order, quantity, reason })
    }

    fn self_match_cancelled(&mut self, cancelled: &SelfMatchCancelled<'_>) -> Change {
        let (number, quantity, reason) = (cancelled.user_ref_num(), cancelled.quantity(), cancelled.reason());
        let shrink = |order: &mut Order| order.take_off(quantity);
        self.shrink(number, quantity, shrink, |order| Change::Cancelled { order, quantity, reason })
    }

    fn modified(&mut self, modified: &Modified<'_>) -> Change {
        let number = modified.user_ref_num();
        let Some(order) = self.table.find(number) else { return self.unknown(number) };
        let less = order.open.saturating_sub(modified.quantity());
        let change = |order: &mut Order| {
            order.side = modified.side();
            order.take_off(less);
            order.answered();
        };
        self.shrink(number, less, change, Change::Updated)
    }

    fn rejected(&mut self, number: UserRefNum, reason: u16) -> Change {
        match self.table.find(number).copied() {
            Some(order) if order.stage == Stage::Sent => {
                // Those that were to replace it are void; it is one of the removed itself.
                self.counters.void_replacements += self.remove_sent(number) - 1;
                Change::Rejected { order: Order { stage: Stage::Closed, due: None, ..order }, reason }
            }
            _ => self.unknown(number),
        }
    }

    /// Fewer shares of an order are open; it closes with the last.
    fn shrink(
        &mut self,
        number: UserRefNum,
        quantity: u32,
        change: impl FnOnce(&mut Order),
        told: impl FnOnce(Order) -> Change,
    ) -> Change {
        let Some(order) = self.table.find_mut(number) else { return self.unknown(number) };
        self.counters.excess += u64::from(quantity > order.open);
        change(order);
        let order = *order;
        told(if order.open == 0 { self.close(order) } else { order })
    }

    /// The order is gone, and with it what waits for it.
    fn close(&mut self, mut order: Order) -> Order {
        self.table.remove(order.user_ref_num);
        if let Some(by) = order.replaced_by() {
            self.counters.void_replacements += self.remove_sent(by);
        }
        (order.stage, order.due) = (Stage::Closed, None);
        order
    }

    fn update(
        &mut self,
        number: UserRefNum,
        change: impl FnOnce(&mut Order),
        told: impl FnOnce(Order) -> Change,
    ) -> Change {
        let Some(order) = self.table.find_mut(number) else { return self.unknown(number) };
        change(order);
        told(*order)
    }

    fn unknown(&mut self, number: UserRefNum) -> Change {
        self.counters.unknown += 1;
        Change::Unknown(number)
    }
}

impl Order {
    /// So many of the open shares are cancelled.
    fn take_off(&mut self, quantity: u32) {
        let less = quantity.min(self.open);
        self.open -= less;
        self.cancelled = self.cancelled.saturating_add(less);
    }

    /// The request has its answer. A replacement has one of its own.
    fn answered(&mut self) {
        if self.replaced_by().is_none() {
            (self.request, self.due) = (None, None);
        }
    }

    fn cancel_answered(&mut self) {
        if matches!(self.request, Some(Request::Cancel(_))) {
            self.answered();
        }
    }
}

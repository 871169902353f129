//! An instrument that is halted takes orders and does not match them, so its book may be crossed. It opens by a cross.

use super::orders::Order;
use super::{Answer, Execution, Liquidity, Matching, Refused, Sink};
use crate::itch::{self, Header};
use crate::units::Side;

impl Matching {
    /// Halts an instrument: orders rest, even if the book is crossed by them.
    ///
    /// # Errors
    ///
    /// No such instrument.
    pub fn halt(&mut self, time_ns: u64, locate: u16, sink: &mut impl Sink) -> Result<(), Refused> {
        self.book(locate).ok_or(Refused::Symbol)?;
        let book = self.book_mut(locate);
        if !book.is_halted {
            book.is_halted = true;
            sink.publish(&itch::trading_action(Header { time_ns, locate }, book.symbol, true));
        }
        Ok(())
    }

    /// Opens a halted instrument: all that crosses trades at one price, told by C for each order and Q for the whole.
    /// The price is the limit of the last bid that trades.
    ///
    /// # Errors
    ///
    /// No such instrument.
    pub fn resume(&mut self, time_ns: u64, locate: u16, sink: &mut impl Sink) -> Result<(), Refused> {
        let book = self.book(locate).ok_or(Refused::Symbol)?;
        let (symbol, is_halted) = (book.symbol, book.is_halted);
        if !is_halted {
            return Ok(());
        }
        let header = Header { time_ns, locate };
        if let Some(price) = self.cross_price(locate) {
            let match_number = self.match_number();
            let mut total = 0;
            while let Some(shares) = self.cross_once(header, price, match_number, sink) {
                total += u64::from(shares);
            }
            sink.publish(&itch::cross(header, total, symbol, price, match_number));
        }
        self.book_mut(locate).is_halted = false;
        sink.publish(&itch::trading_action(header, symbol, false));
        Ok(())
    }

    /// The price at which all crossing orders trade: the limit of the last bid that finds an offer.
    fn cross_price(&self, locate: u16) -> Option<u32> {
        let book = self.book(locate)?;
        let mut bids = book.levels(Side::Buy).iter().flat_map(|level| self.queues(level));
        let mut offers = book.levels(Side::Sell).iter().flat_map(|level| self.queues(level));
        let (mut bid, mut offer) = (bids.next()?, offers.next()?);
        let mut price = None;
        while bid.1 >= offer.1 {
            price = Some(bid.1);
            let traded = bid.0.min(offer.0);
            bid.0 -= traded;
            offer.0 -= traded;
            let Some(next) = (if bid.0 == 0 { bids.next() } else { Some(bid) }) else { break };
            bid = next;
            let Some(next) = (if offer.0 == 0 { offers.next() } else { Some(offer) }) else { break };
            offer = next;
        }
        price
    }

    /// Shares and limits of the orders of a level, by priority.
    fn queues(&self, level: &super::book::Level) -> impl Iterator<Item = (u32, u32)> {
        let orders = self.orders.queue(level.displayed).chain(self.orders.queue(level.hidden));
        orders.map(|(_, order)| (order.shares, order.price))
    }

    /// Trades the first bid with the first offer, if they cross. Answers the shares.
    fn cross_once(&mut self, header: Header, price: u32, match_number: u64, sink: &mut impl Sink) -> Option<u32> {
        let book = self.book(header.locate)?;
        let bid = book.levels(Side::Buy).best()?.front();
        let offer = book.levels(Side::Sell).best()?.front();
        let pair = [*self.orders.at(bid), *self.orders.at(offer)];
        if pair[0].price < pair[1].price {
            return None;
        }
        let shares = pair[0].shares.min(pair[1].shares);
        self.totals.trades += 1;
        for (slot, Order { reference, owner, is_displayed, .. }) in [bid, offer].into_iter().zip(pair) {
            let left = self.reduce(slot, shares);
            self.count_fill(shares, left);
            if is_displayed {
                sink.publish(&itch::executed_in_cross(header, reference, shares, match_number, price));
            }
            let liquidity = Liquidity::Cross;
            sink.answer(
                owner,
                &Answer::Executed(Execution { reference, shares, left, price, match_number, liquidity }),
            );
        }
        Some(shares)
    }
}

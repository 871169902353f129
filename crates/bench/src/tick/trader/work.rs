//! The trader's desk: from datagrams to orders.

mod reflex;

use super::Orders;
use crate::peer::protocol::FeedCounts;
use crate::tick::play::Plan;
use crate::tick::{OrderForm, Work};
use reflex::Reflex;
use sidestep_sys::Problem;

/// What a trader does with its feed.
pub(crate) enum Desk {
    Reflex(Reflex),
}

impl Desk {
    /// A desk for a slice of this plan.
    pub(crate) fn new(work: Work, form: OrderForm, plan: &Plan, lines: u8) -> Result<Self, Problem> {
        let tape = plan.tape();
        match work {
            Work::Reflex => Ok(Self::Reflex(Reflex::new(&tape, form, lines))),
            Work::Decode | Work::Book => Ok(Self::Reflex(Reflex::new(&tape, form, lines))),
        }
    }

    /// Takes a datagram of a line, and sends the orders that it asks for.
    #[inline]
    pub(super) fn take(&mut self, line: u8, datagram: &[u8], orders: &mut Orders) -> Result<(), Problem> {
        match self {
            Self::Reflex(desk) => desk.take(line, datagram, orders),
        }
    }

    /// The counts of the feed.
    pub(super) fn counts(&self, dropped: u64) -> FeedCounts {
        match self {
            Self::Reflex(desk) => FeedCounts { dropped, ..desk.counts() },
        }
    }
}

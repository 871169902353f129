//! What bounds a channel.

use super::held;
use super::instrument::Instrument;
use super::order_book::{ORDERS_MAX, OrderBook};
use sidestep_sys::Problem;

/// The limits of a channel. Its memory is taken at the beginning ([`Limits::bytes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instruments, [`Limits::INSTRUMENTS_MAX`] at most; a channel of a venue has some thousands. Each takes 2 KB, and its orders.
    pub instruments: usize,
    /// Orders of one side of one instrument; 0 for no books by order. Each instrument has the memory of both sides, 97 bytes an order
    /// ([`OrderBook::bytes_for`]): 5,000 orders a side of 100 instruments take 97 MB.
    pub orders_per_side: u32,
    /// Packets held while books are stale, 1.5 KB each: as many as come during one snapshot loop.
    pub packets_held: usize,
    /// After a packet gap, a book by price is live again if its next update has the next number. That is soon, and usual; it is wrong if a
    /// channel reset is among the lost packets, as numbers begin anew after it. Otherwise only a snapshot helps.
    pub trusts_numbers: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { instruments: 1_000, orders_per_side: 0, packets_held: 4_096, trusts_numbers: false }
    }
}

impl Limits {
    /// The most instruments: far more than any channel has, and 2 GB.
    pub const INSTRUMENTS_MAX: usize = 1 << 20;

    /// The memory that a channel of these limits takes, bytes.
    pub fn bytes(&self) -> usize {
        // The place in the hash of numbers, twice or four times, and the one in the list of those touched.
        let places = (2 * self.instruments).next_power_of_two().max(2) + self.instruments;
        let instrument = 2 * size_of::<Instrument>() + OrderBook::bytes_for(self.orders_per_side);
        places * size_of::<u32>() + self.instruments * instrument + held::bytes(self.packets_held)
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        let refuse = |why: String, next: &str| Err(Problem::usage("cannot make a channel of books", why).next(next));
        if self.instruments > Self::INSTRUMENTS_MAX {
            let why = format!("{} instruments are more than {}", self.instruments, Self::INSTRUMENTS_MAX);
            return refuse(why, "lower Limits::instruments");
        }
        if self.orders_per_side > ORDERS_MAX {
            let why = format!("{} orders of a side are more than {ORDERS_MAX}", self.orders_per_side);
            return refuse(why, "lower Limits::orders_per_side");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_limits_is_what_the_documentation_says() {
        let none = Limits { instruments: 0, orders_per_side: 0, packets_held: 0, trusts_numbers: false };
        assert_eq!(none.bytes(), 2 * size_of::<u32>());
        let books = Limits { instruments: 100, orders_per_side: 5_000, ..none };
        assert!((96_000_000..98_000_000).contains(&books.bytes()), "{}", books.bytes());
        let kilobytes = Limits { instruments: 1_000, ..none }.bytes() / 1_000_000;
        assert_eq!((kilobytes, Limits { packets_held: 1_000, ..none }.bytes() / 100_000), (3, 14));
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused_with_a_next_step() {
        assert!(Limits::default().check().is_ok());
        for wrong in [
            Limits { instruments: Limits::INSTRUMENTS_MAX + 1, ..Limits::default() },
            Limits { orders_per_side: ORDERS_MAX + 1, ..Limits::default() },
        ] {
            assert!(!wrong.check().unwrap_err().next_step().is_empty());
        }
    }
}

//! What the exchange has received: bytes with the times at which they were seen. They are read as orders after the slice.

use super::judge::{Order, Tick};
use super::text::{Front, NO_SYMBOL, Reader};
use std::collections::HashMap;

/// Room for what one receive may bring.
const SPARE_BYTES: usize = 4096;
/// The longest order, bytes: that of FIX.
const ORDER_BYTES_MAX: usize = 256;

/// The bytes of one slice.
pub(super) struct Intake {
    bytes: Vec<u8>,
    filled: usize,
    /// The end of what each receive brought, and when it was seen, ticks of the clock.
    seen: Vec<(usize, u64)>,
}

/// An order, and when its first byte was seen.
pub(super) type Stamped = (Order, u64);

impl Intake {
    /// With room for so many orders, and as many more that nobody asked for. A trader that sends more is not read to its end, which the
    /// judge sees.
    pub(super) fn for_orders(count: usize) -> Self {
        let count = 2 * count + 16;
        // Touched now, so that no page fault falls into a slice.
        let mut seen = vec![(0, 0); count];
        seen.clear();
        Self { bytes: vec![0; count * ORDER_BYTES_MAX + SPARE_BYTES], filled: 0, seen }
    }

    /// The place of the next receive; empty when there is no more room.
    #[inline]
    pub(super) fn spare(&mut self) -> &mut [u8] {
        let room = if self.seen.len() < self.seen.capacity() { self.bytes.len() } else { self.filled };
        let end = room.min(self.filled + SPARE_BYTES);
        &mut self.bytes[self.filled..end]
    }

    /// Notes that a receive brought `count` bytes, which were seen at `now`.
    #[inline]
    pub(super) fn took(&mut self, count: usize, now: u64) {
        self.filled += count;
        self.seen.push((self.filled, now));
    }

    /// Reads whole orders, in the order of their coming. The error says what else came, and holds what could be read before it.
    pub(super) fn orders(&self, mut reader: Reader, ticks: &[Tick]) -> (Vec<Stamped>, Option<String>) {
        let symbols: HashMap<u64, [u8; 8]> = ticks.iter().map(|tick| (tick.asks.reference, tick.asks.symbol)).collect();
        let (mut at, mut orders) = (0, Vec::new());
        loop {
            match reader.front(&self.bytes[at..self.filled]) {
                Ok(Front::Incomplete) if at < self.filled => {
                    let rest = self.filled - at;
                    return (orders, Some(format!("{rest} bytes that are no whole order at the end of the slice")));
                }
                Ok(Front::Incomplete) => return (orders, None),
                Ok(Front::Session(length)) => at += length,
                Ok(Front::Order(mut order, length)) => {
                    if order.symbol == NO_SYMBOL {
                        order.symbol = symbols.get(&order.reference).copied().unwrap_or_default();
                    }
                    orders.push((order, self.seen_at(at)));
                    at += length;
                }
                Err(why) => return (orders, Some(why)),
            }
        }
    }

    /// Returns when the byte at `place` was seen.
    fn seen_at(&self, place: usize) -> u64 {
        let at = self.seen.partition_point(|(end, _)| *end <= place);
        self.seen.get(at).map_or(0, |(_, seen)| *seen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::OrderForm;
    use super::super::text::write;
    use super::*;

    fn order(reference: u64) -> Order {
        Order { reference, symbol: *b"SIDE    ", buys: true, price: 10_000, quantity: 100 }
    }

    fn take(intake: &mut Intake, bytes: &[u8], now: u64) {
        intake.spare()[..bytes.len()].copy_from_slice(bytes);
        intake.took(bytes.len(), now);
    }

    #[test]
    fn an_order_is_seen_when_its_first_byte_is() {
        let (mut intake, mut bytes) = (Intake::for_orders(3), Vec::new());
        (1..=3).for_each(|number| write(&mut bytes, OrderForm::Fix, &order(number.into()), number));
        let length = bytes.len() / 3;
        take(&mut intake, &bytes[..length + 1], 100);
        take(&mut intake, &bytes[length + 1..2 * length], 200);
        take(&mut intake, &bytes[2 * length..], 300);
        let (orders, problem) = intake.orders(Reader::new(OrderForm::Fix), &[]);
        assert_eq!(orders, [(order(1), 100), (order(2), 100), (order(3), 300)]);
        assert!(problem.is_none());
    }

    #[test]
    fn an_order_without_a_symbol_has_that_of_its_tick() {
        let (mut intake, mut bytes) = (Intake::for_orders(2), Vec::new());
        [1, 9].iter().for_each(|reference| write(&mut bytes, OrderForm::Raw, &order(*reference), 1));
        take(&mut intake, &bytes, 5);
        let tick = Tick { asks: order(1), due_ns: Some(1) };
        let (orders, _) = intake.orders(Reader::new(OrderForm::Raw), &[tick]);
        assert_eq!(orders[0], (order(1), 5));
        assert_eq!(orders[1].0.symbol, NO_SYMBOL, "no tick has this reference");
    }

    #[test]
    fn what_is_no_order_is_told_and_what_came_before_it_counts() {
        let (mut intake, mut bytes) = (Intake::for_orders(2), Vec::new());
        write(&mut bytes, OrderForm::Fix, &order(1), 1);
        bytes.extend(b"8=FIX.4.4\x019=x\x01");
        take(&mut intake, &bytes, 5);
        let (orders, problem) = intake.orders(Reader::new(OrderForm::Fix), &[]);
        assert_eq!((orders.len(), problem.is_some()), (1, true));
        let mut cut = Intake::for_orders(1);
        take(&mut cut, b"8=FIX", 5);
        assert!(cut.orders(Reader::new(OrderForm::Fix), &[]).1.expect("it is told").contains("5 bytes"));
    }

    #[test]
    fn a_trader_that_floods_takes_no_more_memory() {
        let mut intake = Intake::for_orders(1);
        let before = intake.bytes.len();
        while !intake.spare().is_empty() {
            let count = intake.spare().len().min(7);
            intake.took(count, 1);
        }
        assert_eq!(intake.bytes.len(), before);
        assert!(intake.seen.len() == 18 && intake.seen.capacity() == 18, "as many receives as there may be orders");
    }
}

//! Order books fed with anything: what they hold stays consistent, and refused messages change nothing.

#![no_main]

use sidestep_market::book::{Books, Depth, Limits};
use sidestep_market::itch::Message;
use sidestep_market::units::Side;

const LIMITS: Limits = Limits { instruments: 4, orders: 32, levels: 16, side_levels: 8 };

/// Orders and shares that the levels tell, and that the queues hold.
fn sums(books: &Books) -> [(u64, u64); 2] {
    let mut sums = [(0, 0); 2];
    for book in books.all() {
        for side in [Side::Buy, Side::Sell] {
            assert_eq!(book.best(side), book.levels(side).next());
            let mut last = None;
            for level in book.levels(side) {
                assert!(level.orders > 0 && level.shares > 0);
                let rank = if side == Side::Buy { -level.price.0 } else { level.price.0 };
                assert!(last.replace(rank).is_none_or(|last| last < rank), "the best first");
                sums[0].0 += u64::from(level.orders);
                sums[0].1 += level.shares;
                for order in book.orders_at(side, level.price) {
                    assert_eq!(books.order(order.reference), Some(order));
                    sums[1].0 += 1;
                    sums[1].1 += u64::from(order.shares);
                }
            }
        }
    }
    sums
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut books = Books::new(LIMITS, Depth::Orders).expect("the limits can be kept");
    let mut rest = input;
    while let Some((length, bytes)) = rest.split_first() {
        let (bytes, behind) = bytes.split_at(usize::from(*length).min(bytes.len()));
        rest = behind;
        let Ok(message) = Message::parse(bytes) else { continue };
        books.prefetch(std::iter::once(message));
        let before = sums(&books);
        let refused = books.apply(&message).is_err();
        let after = sums(&books);
        assert!(!refused || before == after);
        assert_eq!(after[0], after[1]);
        assert_eq!(after[0].0, u64::from(books.orders()));
    }
    assert_eq!(books.bytes(), LIMITS.bytes(Depth::Orders));
});

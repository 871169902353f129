//! Books against a naive model: every message, refused or not, leaves both equal.

#[allow(unreachable_pub, dead_code)] // The benches' generator.
#[path = "../../examples/support/day.rs"]
mod day;
mod model;

use day::{Day, Event, Settings};
use model::Model;
use proptest::prelude::*;
use sidestep_market::book::{Books, Depth, Limits, Refusal, Suspect};
use sidestep_market::itch::Message;
use sidestep_market::units::{Locate, OrderReference, Price, Side};

/// So small that every limit is reached; on no side more levels than one block of the pool has.
const SMALL: Limits = Limits { instruments: 3, orders: 24, levels: 12, side_levels: 5 };

/// Applies a message to both; they must agree on what it does.
fn step(books: &mut Books, model: &mut Model, bytes: &[u8]) -> Result<(), Refusal> {
    let message = Message::parse(bytes).expect("it is whole");
    let (refused, locate) = (Refusal::ALL.iter().map(|why| books.refused(*why)).sum::<u64>(), message.locate());
    let (outcome, wanted) = (books.apply(&message), model.apply(&message));
    assert_eq!(outcome, wanted, "{message:?}");
    let refused_now = Refusal::ALL.iter().map(|why| books.refused(*why)).sum::<u64>();
    assert_eq!(refused_now - refused, u64::from(outcome.is_err()));
    if outcome.is_err() {
        assert_eq!(books.suspect(locate).is_some(), books.book(locate).is_some());
    }
    outcome.map(|_| ())
}

fn bytes_of(event: &Event, bad_side: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    event.encode(1, &mut bytes);
    if bad_side && matches!(event.kind, b'A' | b'F') {
        bytes[19] = b'b';
    }
    bytes
}

/// Messages that often meet: few references, few prices, and those at the ends of what a field holds.
fn events() -> impl Strategy<Value = (Event, bool)> {
    let kind = prop_oneof![4 => Just(b'A'), 1 => Just(b'F'), 2 => Just(b'E'), 1 => Just(b'C'), 1 => Just(b'X'), 3 => Just(b'D'), 3 => Just(b'U')];
    let reference = || prop_oneof![20 => 0..40_u64, 1 => Just(u64::MAX)];
    let shares = prop_oneof![9 => 0..4_u32, 1 => Just(u32::MAX)];
    let price = prop_oneof![20 => 1..9_u32, 1 => Just(0), 1 => Just(i32::MAX as u32), 1 => Just(u32::MAX)];
    let rest = (0..5_u16, any::<bool>(), reference(), reference(), 0..50_u8);
    (kind, shares, price, rest).prop_map(|(kind, shares, price, (locate, buy, reference, old, bad))| {
        (Event { kind, locate, buy, shares, price, reference, old }, bad == 0)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn books_are_the_naive_models_after_any_messages(events in prop::collection::vec(events(), 1..150)) {
        let mut books = Books::new(SMALL, Depth::Orders).unwrap();
        let mut model = Model::new(SMALL);
        let bytes = books.bytes();
        for (event, bad_side) in &events {
            let _ = step(&mut books, &mut model, &bytes_of(event, *bad_side));
            model.check(&books, true);
        }
        prop_assert_eq!((books.bytes(), SMALL.bytes(Depth::Orders)), (bytes, bytes));
        books.clear_instrument(Locate(1));
        model.forget(Locate(1));
        model.check(&books, true);
        prop_assert_eq!(books.suspect(Locate(1)), None);
        books.clear();
        model.check_empty(&books);
    }
}

/// A day in which messages get lost, come twice or are damaged: what is left is consistent, and nothing is used up.
#[test]
fn a_long_day_with_losses_and_repetitions_leaves_both_equal() {
    let seed = std::env::var("SIDESTEP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = fastrand::Rng::with_seed(seed);
    let limits = Limits { instruments: 200, orders: 20_000, levels: 20_000, side_levels: 4_096 };
    for depth in [Depth::Levels, Depth::Orders] {
        let mut day = Day::new(Settings { instruments: 200, live: 6_000, step: 3, seed });
        let (mut books, mut model) = (Books::new(limits, depth).unwrap(), Model::new(limits));
        let (mut refused, bytes) = (0, books.bytes());
        for number in 1..=120_000 {
            let mut event = day.next();
            let copies = if random.u32(0..200) == 0 { 2 * random.usize(0..=1) } else { 1 };
            if random.u32(0..500) == 0 {
                event.shares = event.shares.wrapping_mul(random.u32(..));
            }
            for _ in 0..copies {
                refused += u32::from(step(&mut books, &mut model, &bytes_of(&event, false)).is_err());
            }
            if number % 6_000 == 0 {
                model.check(&books, depth == Depth::Orders);
            }
        }
        assert!(refused > 400 && books.orders() > 5_000, "seed {seed}: {refused} refused, {} orders", books.orders());
        assert_eq!(books.bytes(), bytes);
    }
}

/// References that rise in steps share no more lines than random ones do: the table takes as many orders as its limit says.
#[test]
fn a_table_is_filled_to_its_limit_whatever_the_references_steps_are() {
    for step in [1, 2, 3, 4, 64, 1 << 12, 1 << 32, 0x9e37_79b9_7f4a_7c15] {
        let limits = Limits { instruments: 1, orders: 200_000, levels: 10, side_levels: 10 };
        let mut books = Books::new(limits, Depth::Levels).unwrap();
        let mut add = |number: u64| {
            let reference = OrderReference(number.wrapping_mul(step));
            books.add(Locate(1), reference, Some(Side::Buy), 1, Price(1)).map(|change| change.level.orders)
        };
        for number in 0..200_000 {
            assert_eq!(add(number), Ok(number as u32 + 1), "in steps of {step}");
        }
        assert_eq!(add(200_000), Err(Refusal::OrdersFull));
    }
}

fn step_by(books: &mut Books, model: &mut Model, event: &Event) -> Result<(), Refusal> {
    step(books, model, &bytes_of(event, false))
}

#[test]
fn a_gap_makes_all_books_suspect_until_they_are_emptied() {
    let mut books = Books::new(SMALL, Depth::Levels).unwrap();
    let unknown = Event { kind: b'D', locate: 2, buy: true, shares: 0, price: 0, reference: 9, old: 0 };
    let bytes = bytes_of(&unknown, false);
    assert_eq!(books.apply(&Message::parse(&bytes).unwrap()), Err(Refusal::UnknownOrder));
    books.suspect_all();
    assert_eq!(books.suspect(Locate(1)), Some(Suspect::Lost));
    assert_eq!(books.suspect(Locate(2)), Some(Suspect::Refused(Refusal::UnknownOrder)), "the first reason stays");
    books.clear();
    assert!(books.all().all(|book| book.suspect().is_none()));
    assert_eq!(books.refused(Refusal::UnknownOrder), 1);
}

#[test]
fn the_queue_before_an_order_is_what_came_earlier_at_its_price() {
    let mut books = Books::new(SMALL, Depth::Orders).unwrap();
    let mut model = Model::new(SMALL);
    let event = |kind, reference, shares| Event { kind, locate: 1, buy: false, shares, price: 7, reference, old: 1 };
    for reference in 1..=4 {
        step_by(&mut books, &mut model, &event(b'A', reference, 10 * reference as u32)).unwrap();
    }
    step_by(&mut books, &mut model, &event(b'E', 2, 5)).unwrap();
    let ahead = |books: &Books, number| books.ahead_of(OrderReference(number)).map(|it| (it.orders, it.shares));
    assert_eq!(ahead(&books, 3), Some((2, 10 + 15)));
    // A replace at the same price loses its place.
    step_by(&mut books, &mut model, &event(b'U', 5, 10)).unwrap();
    assert_eq!((ahead(&books, 3), ahead(&books, 5)), (Some((1, 15)), Some((3, 15 + 30 + 40))));
    assert_eq!(ahead(&books, 1), None);
}

use super::*;
use crate::naive::Kept;
use crate::random::Random;
use crate::units::TICK;
use proptest::prelude::*;

fn matching() -> Matching {
    Matching::new((0..3).map(Symbol::synthetic), Limits { orders: 200, levels: 20 })
}

fn order(owner: u64, side: Side, shares: u32, price: u32) -> Enter {
    let (time_in_force, attribution) = (TimeInForce::Day, itch::ANONYMOUS);
    Enter { owner, locate: 1, side, shares, price: price * TICK, time_in_force, is_displayed: true, attribution }
}

fn kinds(kept: &Kept) -> String {
    kept.messages.iter().map(|message| message[0] as char).collect()
}

#[test]
fn the_better_price_trades_first_then_the_displayed_then_the_earlier() {
    let (mut matching, mut kept) = (matching(), Kept::default());
    let hidden = Enter { is_displayed: false, ..order(3, Side::Sell, 10, 500) };
    for resting in [order(1, Side::Sell, 10, 501), hidden, order(2, Side::Sell, 10, 500), order(4, Side::Sell, 10, 500)]
    {
        matching.enter(0, &resting, &mut kept).unwrap();
    }
    matching.enter(0, &order(9, Side::Buy, 35, 501), &mut kept).unwrap();
    let taken: Vec<(u64, u32)> = kept.answers[&9][1..]
        .iter()
        .map(|answer| match answer {
            Answer::Executed(execution) => (execution.match_number, execution.price),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(taken, [(1, 500 * TICK), (2, 500 * TICK), (3, 500 * TICK), (4, 501 * TICK)]);
    for (owner, match_number) in [(2, 1), (4, 2), (3, 3), (1, 4)] {
        let Answer::Executed(execution) = kept.answers[&owner][1] else { panic!() };
        assert_eq!((execution.match_number, execution.liquidity), (match_number, Liquidity::Added));
    }
    assert_eq!(kinds(&kept), "AAAEEPE");
    assert_eq!(matching.order(Handle::new(0, 1)).unwrap().shares, 5);
}

#[test]
fn a_reduced_order_keeps_its_place_and_a_replaced_one_loses_it() {
    let (mut matching, mut kept) = (matching(), Kept::default());
    let first = matching.enter(0, &order(1, Side::Buy, 100, 500), &mut kept).unwrap();
    matching.enter(0, &order(2, Side::Buy, 100, 500), &mut kept).unwrap();
    matching.cancel(0, first, 40, CancelReason::User, &mut kept).unwrap();
    assert_eq!(matching.front(1, Side::Buy).unwrap().owner, 1);
    let new = Replacement { owner: 1, shares: 40, price: 500 * TICK, is_displayed: true };
    let second = matching.replace(0, first, &new, &mut kept).unwrap();
    assert_eq!(matching.front(1, Side::Buy).unwrap().owner, 2);
    assert_eq!(matching.cancel(0, first, 0, CancelReason::User, &mut kept), Err(Refused::Gone));
    matching.cancel(0, second, 0, CancelReason::User, &mut kept).unwrap();
    assert_eq!(kinds(&kept), "AAXUD");
}

#[test]
fn a_replacement_that_trades_leaves_the_book_first() {
    let (mut matching, mut kept) = (matching(), Kept::default());
    matching.enter(0, &order(1, Side::Sell, 30, 510), &mut kept).unwrap();
    let bid = matching.enter(0, &order(2, Side::Buy, 100, 500), &mut kept).unwrap();
    let new = Replacement { owner: 2, shares: 100, price: 510 * TICK, is_displayed: true };
    let handle = matching.replace(0, bid, &new, &mut kept).unwrap();
    assert_eq!(kinds(&kept), "AADEA");
    assert_eq!(matching.order(handle).unwrap().shares, 70);
    assert_eq!(matching.best(1, Side::Buy), Some(510 * TICK));
    kept.naive.assert_equal(&matching, 1);
}

#[test]
fn an_immediate_order_takes_what_is_there_and_never_rests() {
    let (mut matching, mut kept) = (matching(), Kept::default());
    matching.enter(0, &order(1, Side::Sell, 30, 500), &mut kept).unwrap();
    let immediate = Enter { time_in_force: TimeInForce::Immediate, ..order(2, Side::Buy, 100, 500) };
    let handle = matching.enter(0, &immediate, &mut kept).unwrap();
    let (reference, reason) = (handle.reference, CancelReason::Immediate);
    assert_eq!(kept.answers[&2][2], Answer::Cancelled { reference, shares: 70, left: 0, reason });
    assert_eq!((matching.live(), matching.order(handle).is_none()), (0, true));
}

#[test]
fn wrong_terms_and_full_tables_are_refused() {
    let (mut matching, mut kept) = (matching(), Kept::default());
    let valid = order(1, Side::Buy, 100, 500);
    for (wrong, expected) in [
        (Enter { locate: 0, ..valid }, Refused::Symbol),
        (Enter { locate: 4, ..valid }, Refused::Symbol),
        (Enter { shares: 0, ..valid }, Refused::Quantity),
        (Enter { shares: 1_000_000, ..valid }, Refused::Quantity),
        (Enter { price: 0, ..valid }, Refused::Price),
        (Enter { price: 10_001, ..valid }, Refused::Price),
        (Enter { price: u32::MAX, ..valid }, Refused::Price),
    ] {
        assert_eq!(matching.enter(0, &wrong, &mut kept), Err(expected));
    }
    for price in 1..=20 {
        matching.enter(0, &order(1, Side::Buy, 1, price), &mut kept).unwrap();
    }
    assert_eq!(matching.enter(0, &order(1, Side::Buy, 1, 21), &mut kept), Err(Refused::Full));
    while matching.live() < 200 {
        matching.enter(0, &order(1, Side::Buy, 1, 20), &mut kept).unwrap();
    }
    assert_eq!(matching.enter(0, &order(1, Side::Buy, 1, 20), &mut kept), Err(Refused::Full));
    let immediate = Enter { time_in_force: TimeInForce::Immediate, ..order(1, Side::Sell, 1, 20) };
    assert!(matching.enter(0, &immediate, &mut kept).is_ok());
}

#[test]
fn a_halted_instrument_crosses_at_one_price_when_it_opens() {
    let (mut matching, mut kept) = (matching(), Kept::default());
    matching.halt(0, 1, &mut kept).unwrap();
    let immediate = Enter { time_in_force: TimeInForce::Immediate, ..order(1, Side::Buy, 1, 1) };
    assert_eq!(matching.enter(0, &immediate, &mut kept), Err(Refused::Halted));
    for (side, shares, price) in [(Side::Buy, 100, 510), (Side::Buy, 50, 505), (Side::Buy, 50, 500)] {
        matching.enter(0, &order(1, side, shares, price), &mut kept).unwrap();
    }
    for (shares, price) in [(120, 502), (100, 506)] {
        matching.enter(0, &order(2, Side::Sell, shares, price), &mut kept).unwrap();
    }
    matching.resume(0, 1, &mut kept).unwrap();
    // 100 at 510 and 20 at 505 meet 120 at 502; then 505 is below 506.
    assert_eq!(kinds(&kept), "HAAAAACCCCQH");
    let cross = &kept.messages[10];
    assert_eq!((&cross[11..19], &cross[27..31]), (&120_u64.to_be_bytes()[..], &(505 * TICK).to_be_bytes()[..]));
    kept.naive.assert_equal(&matching, 1);
    assert!(matching.best(1, Side::Buy) < matching.best(1, Side::Sell));
    // What is not halted is not opened.
    matching.resume(0, 1, &mut kept).unwrap();
    assert_eq!(kept.messages.len(), 12);
}

#[test]
fn a_snapshot_has_what_the_feed_has_built() {
    let (mut matching, mut kept) = (matching(), Kept::default());
    matching.open(7, &mut kept);
    (0..500).for_each(|step| random_step(&mut matching, &mut kept, &mut Random::new(step), &mut Vec::new()));
    let mut told = crate::naive::Naive::default();
    matching.snapshot(9, |message| told.apply(message));
    assert_eq!((told.orders, told.counts[&b'R']), (kept.naive.orders.clone(), 3));
}

/// One action of one of five clients.
fn random_step(matching: &mut Matching, kept: &mut Kept, random: &mut Random, handles: &mut Vec<Handle>) {
    let side = if random.one_in(2) { Side::Buy } else { Side::Sell };
    let (shares, price) = (1 + random.below(300) as u32, (490 + random.below(20) as u32) * TICK);
    let (owner, locate) = (1 + random.below(5), 1 + random.below(3) as u16);
    let handle = if handles.is_empty() { Handle::new(0, 99) } else { handles[random.index(handles.len())] };
    let is_displayed = !random.one_in(4);
    match random.below(20) {
        0..11 => {
            let is_day = !random.one_in(5);
            let time_in_force = if is_day { TimeInForce::Day } else { TimeInForce::Immediate };
            let attribution = if random.one_in(2) { itch::ANONYMOUS } else { *b"TEST" };
            let enter = Enter { owner, locate, side, shares, price, time_in_force, is_displayed, attribution };
            handles.extend(matching.enter(5, &enter, kept));
        }
        11..14 => {
            let new = Replacement { owner, shares, price, is_displayed };
            handles.extend(matching.replace(5, handle, &new, kept));
        }
        14..18 => {
            let left = if random.one_in(2) { 0 } else { shares };
            let _ = matching.cancel(5, handle, left, CancelReason::User, kept);
        }
        18 => matching.halt(5, locate, kept).unwrap(),
        _ => matching.resume(5, locate, kept).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn books_of_the_feed_are_those_of_the_venue_and_nothing_is_lost(seed: u64) {
        let (mut matching, mut kept) = (matching(), Kept::default());
        let (mut random, mut handles) = (Random::new(seed), Vec::new());
        for _ in 0..400 {
            random_step(&mut matching, &mut kept, &mut random, &mut handles);
            (1..=3).for_each(|locate| kept.naive.assert_equal(&matching, locate));
            let live: u64 = handles.iter().filter_map(|handle| matching.order(*handle)).map(|o| u64::from(o.shares)).sum();
            let totals = matching.totals();
            prop_assert_eq!(totals.accepted, matching.live() as u64 + totals.filled + totals.cancelled);
            prop_assert_eq!(totals.shares_accepted, live + totals.shares_filled + totals.shares_cancelled);
            for locate in 1..=3 {
                let is_halted = matching.book(locate).unwrap().is_halted;
                if let (Some(bid), Some(offer), false) =
                    (matching.best(locate, Side::Buy), matching.best(locate, Side::Sell), is_halted) {
                    prop_assert!(bid < offer);
                }
            }
        }
    }

    #[test]
    fn a_level_keeps_the_sum_of_its_orders(seed: u64) {
        let (mut matching, mut kept) = (matching(), Kept::default());
        let (mut random, mut handles) = (Random::new(seed), Vec::new());
        (0..300).for_each(|_| random_step(&mut matching, &mut kept, &mut random, &mut handles));
        let mut sums = std::collections::BTreeMap::<(u16, u8, u32), u64>::new();
        for order in handles.iter().filter_map(|handle| matching.order(*handle)) {
            *sums.entry((order.locate, order.side.letter(), order.price)).or_default() += u64::from(order.shares);
        }
        for locate in 1..=3 {
            for side in [Side::Buy, Side::Sell] {
                for (price, shown, hidden) in (0..).map_while(|place| matching.depth(locate, side, place)) {
                    prop_assert_eq!(sums.remove(&(locate, side.letter(), price)), Some(shown + hidden));
                }
            }
        }
        prop_assert!(sums.is_empty());
    }
}

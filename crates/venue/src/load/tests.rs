use super::*;
use crate::matching::Limits;
use crate::naive::Kept;
use std::time::Instant;

fn run(settings: &LoadSettings, steps: usize) -> (Matching, Kept, usize) {
    let mut matching = Matching::new(Load::symbols(settings), Limits { orders: 1 << 19, levels: 5_000 });
    let (mut load, mut kept) = (Load::new(settings), Kept::default());
    while load.open(0, &mut matching, &mut kept) {}
    let opening = kept.messages.len();
    (0..steps).for_each(|step| load.step(step as u64, &mut matching, &mut kept));
    (matching, kept, opening)
}

const SMALL: LoadSettings = LoadSettings { seed: 3, symbols: 50, live_orders: 2_000 };

#[test]
fn the_mix_of_messages_is_the_published_one() {
    let (_, kept, opening) = run(&LoadSettings { symbols: 8_000, ..LoadSettings::default() }, 400_000);
    let trading = &kept.messages[opening..];
    let part = |kinds: &[u8]| {
        let count = trading.iter().filter(|message| kinds.contains(&message[0])).count();
        count as f64 * 100.0 / trading.len() as f64
    };
    let mix = [part(b"AF"), part(b"D"), part(b"U"), part(b"E"), part(b"X")];
    println!("A and F, D, U, E, X: {mix:.2?} %, live {}", kept.naive.orders.len());
    for (found, (published, tolerance)) in
        mix.iter().zip([(45.5, 1.0), (43.6, 1.0), (7.6, 0.5), (2.8, 0.3), (0.5, 0.2)])
    {
        assert!((found - published).abs() < tolerance, "{mix:?}");
    }
    assert_eq!(part(b"C") + part(b"P"), 0.0);
}

#[test]
fn one_step_is_one_message() {
    let (_, kept, opening) = run(&SMALL, 50_000);
    assert_eq!(kept.messages.len() - opening, 50_000);
}

#[test]
fn live_orders_stay_near_the_target() {
    let (matching, kept, opening) = run(&SMALL, 300_000);
    println!("{opening} orders at first, {} at last", matching.live());
    assert!((opening / 2..=opening * 2).contains(&matching.live()));
    assert_eq!(matching.live(), kept.naive.orders.len());
}

#[test]
fn equal_seeds_give_equal_messages_and_others_do_not() {
    let bytes = |seed| run(&LoadSettings { seed, ..SMALL }, 20_000).1.messages;
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn books_are_never_crossed_nor_narrower_than_two_cents() {
    let (matching, kept, _) = run(&SMALL, 100_000);
    let mut naive = crate::naive::Naive::default();
    for message in &kept.messages {
        naive.apply(message);
        let locate = u16::from_be_bytes([message[1], message[2]]);
        if let (Some(bid), Some(offer)) = (naive.best(locate, Side::Buy), naive.best(locate, Side::Sell)) {
            assert!(bid + 2 * TICK <= offer);
        }
    }
    (1..=50).for_each(|locate| kept.naive.assert_equal(&matching, locate));
}

#[test]
fn a_load_of_one_instrument_without_room_goes_on() {
    let settings = LoadSettings { seed: 1, symbols: 1, live_orders: 10_000 };
    let mut matching = Matching::new(Load::symbols(&settings), Limits { orders: 100, levels: 4 });
    let (mut load, mut kept) = (Load::new(&settings), Kept::default());
    while load.open(0, &mut matching, &mut kept) {}
    (0..10_000).for_each(|step| load.step(step, &mut matching, &mut kept));
    assert!(matching.live() <= 100);
    kept.naive.assert_equal(&matching, 1);
}

/// Takes the feed and forgets it.
struct Forgotten(u64);

impl Sink for Forgotten {
    fn publish(&mut self, message: &[u8]) {
        self.0 += message.len() as u64;
    }
}

/// Prints the speed of load and matching: `cargo test --profile bench -p sidestep-venue speed -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let settings = LoadSettings::default();
    let mut matching = Matching::new(Load::symbols(&settings), Limits::default());
    let (mut load, mut forgotten) = (Load::new(&settings), Forgotten(0));
    while load.open(0, &mut matching, &mut forgotten) {}
    for _ in 0..5 {
        let (start, steps) = (Instant::now(), 2_000_000);
        (0..steps).for_each(|step| load.step(step, &mut matching, &mut forgotten));
        let ns = start.elapsed().as_nanos() as u64 / steps;
        println!("{ns} ns for each message, {} live orders", matching.live());
    }
}

//! Packets of a channel in the layout of MDP 3.0, of the incremental feed and of both snapshot loops: whatever comes is applied or told, and
//! the books stay within their bounds.

#![no_main]

use sidestep_market::book::by_price::DEPTH_MAX;
use sidestep_market::mdp::{BookKind, Channel, Event, Limits, Order};
use sidestep_market::units::Side;
use std::cell::Cell;

const LIMITS: Limits = Limits { instruments: 3, orders_per_side: 4, packets_held: 8, trusts_numbers: false };

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut channel = Channel::new(LIMITS).expect("there is memory");
    let recovering = Cell::new(false);
    let told = |event| match event {
        Event::Recover => assert!(!recovering.replace(true)),
        Event::Recovered => assert!(recovering.replace(false)),
        _ => {}
    };
    channel.add(7, 10, 2).expect("there is room");
    // A packet: the feed, the length, then the bytes.
    let mut rest = input;
    while let [feed, low, high, bytes @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(bytes.len());
        let (packet, next) = bytes.split_at(length);
        rest = next;
        let _ = match feed % 4 {
            0 => channel.snapshot(BookKind::Prices, packet, told),
            1 => channel.snapshot(BookKind::Orders, packet, told),
            _ => channel.incremental(packet, told),
        };
    }
    assert!(channel.instruments().len() <= LIMITS.instruments);
    let mut is_stale = false;
    for one in channel.instruments() {
        is_stale |= !one.is_live(BookKind::Prices) || !one.is_live(BookKind::Orders);
        for side in [Side::Buy, Side::Sell] {
            assert!(one.book().levels(side).len() <= usize::from(DEPTH_MAX));
            assert!(one.orders().len(side) <= LIMITS.orders_per_side as usize);
            let stands_before = |one: &Order, next: &Order| match side {
                Side::Buy => (next.price, one.priority) <= (one.price, next.priority),
                Side::Sell => (one.price, one.priority) <= (next.price, next.priority),
            };
            let orders: Vec<Order> = one.orders().orders(side).collect();
            assert_eq!(orders.len(), one.orders().len(side));
            assert!(orders.is_sorted_by(stands_before));
        }
    }
    assert!(!recovering.get() || is_stale);
});

//! Packets of a channel in the layout of MDP 3.0, of the incremental feed and of both snapshot loops: whatever comes is applied or told, and
//! the books stay within their bounds.

#![no_main]

use sidestep_market::mdp::{BookKind, Channel, DEPTH_MAX, Event, Limits};
use sidestep_market::units::Side;
use std::cell::Cell;

const LIMITS: Limits = Limits { instruments: 3, orders_per_side: 4, packets_held: 8, trusts_numbers: false };

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut channel = Channel::new(LIMITS);
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
            assert!(one.book().levels(side).len() <= DEPTH_MAX && one.orders().orders(side).len() <= LIMITS.orders_per_side);
            let by_price = |two: &[_]| {
                let [one, other]: [sidestep_market::mdp::Order; 2] = [two[0], two[1]];
                if side == Side::Buy { one.price >= other.price } else { one.price <= other.price }
            };
            assert!(one.orders().orders(side).windows(2).all(by_price));
        }
    }
    assert!(!recovering.get() || is_stale);
});

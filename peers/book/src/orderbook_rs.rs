//! orderbook-rs 0.15: a book of matching per instrument. What a feed executes is told by quantity, so the shares that are left of each order
//! are worked out before.

use crate::day::Event;
use orderbook_rs::{Id, OrderBook, Side, TimeInForce};
use pricelevel::{OrderUpdate, Quantity};
use sidestep_sys::cpu::thread_time_ns;
use std::collections::HashMap;

/// The shares that are left after each message.
fn left(events: &[Event]) -> Vec<u64> {
    let mut orders = HashMap::new();
    let after = |event: &Event| match event.kind {
        b'A' | b'F' | b'U' => {
            orders.insert(event.reference, u64::from(event.shares));
            u64::from(event.shares)
        }
        b'D' => 0,
        _ => {
            let left = orders.get_mut(&event.reference).expect("it was added");
            *left -= u64::from(event.shares);
            *left
        }
    };
    events.iter().map(after).collect()
}

fn add(book: &OrderBook<()>, event: &Event) {
    let side = if event.buy { Side::Buy } else { Side::Sell };
    let (id, price) = (Id::Sequential(event.reference), u128::from(event.price));
    book.add_limit_order(id, price, u64::from(event.shares), side, TimeInForce::Gtc, None).expect("it is new");
}

fn cancel(book: &OrderBook<()>, reference: u64) {
    book.cancel_order(Id::Sequential(reference)).expect("it can be cancelled").expect("it is there");
}

fn apply(books: &[OrderBook<()>], event: &Event, left: u64) {
    let book = &books[usize::from(event.locate)];
    match event.kind {
        b'A' | b'F' => add(book, event),
        b'U' => {
            cancel(book, event.old);
            add(book, event);
        }
        _ if left == 0 => cancel(book, event.reference),
        _ => {
            let (order_id, new_quantity) = (Id::Sequential(event.reference), Quantity::new(left));
            _ = book.update_order(OrderUpdate::UpdateQuantity { order_id, new_quantity }).expect("it is there");
        }
    }
}

/// ns per message of each slice.
pub fn time(events: &[Event], instruments: u16, first: usize, slice: usize) -> Vec<f64> {
    let left = left(events);
    let books: Vec<OrderBook<()>> = (0..=instruments).map(|locate| OrderBook::new(&format!("S{locate}"))).collect();
    let run = |from: usize, to: usize| (from..to).for_each(|at| apply(&books, &events[at], left[at]));
    run(0, first);
    let slices = (first..).step_by(slice).take_while(|from| from + slice <= events.len());
    let timed = |from: usize| {
        let start = thread_time_ns();
        run(from, from + slice);
        (thread_time_ns() - start) as f64 / slice as f64
    };
    slices.map(timed).collect()
}

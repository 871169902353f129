//! Ours, three ways: fed with numbers as the others are, and with ITCH in datagrams, which are parsed and prefetched.

use crate::day::Event;
use sidestep_market::book::{Books, Depth, Limits};
use sidestep_market::itch::Message;
use sidestep_market::units::{Locate, OrderReference, Price, Side};
use sidestep_sys::cpu::thread_time_ns;

/// Messages in a datagram of 1,400 bytes.
const DATAGRAM: usize = 38;

fn books(instruments: u16, depth: Depth) -> Books {
    let limits = Limits { instruments, orders: 2_400_000, ..Limits::default() };
    Books::new(limits, depth).expect("there is memory")
}

fn apply(books: &mut Books, event: &Event) {
    let (locate, reference) = (Locate(event.locate), OrderReference(event.reference));
    let price = Price(i64::from(event.price));
    let done = match event.kind {
        b'A' | b'F' => {
            let side = if event.buy { Side::Buy } else { Side::Sell };
            books.add(locate, reference, Some(side), event.shares, price).map(Some)
        }
        b'D' => books.delete(locate, reference).map(Some),
        b'U' => books.replace(locate, OrderReference(event.old), reference, event.shares, price).map(Some),
        _ => books.reduce(locate, reference, event.shares),
    };
    std::hint::black_box(done.expect("the day is clean"));
}

/// ns per message of each slice, from numbers.
pub fn numbers(events: &[Event], instruments: u16, first: usize, slice: usize) -> Vec<f64> {
    let mut books = books(instruments, Depth::Levels);
    events[..first].iter().for_each(|event| apply(&mut books, event));
    let timed = |events: &[Event]| {
        let start = thread_time_ns();
        events.iter().for_each(|event| apply(&mut books, event));
        (thread_time_ns() - start) as f64 / slice as f64
    };
    events[first..].chunks_exact(slice).map(timed).collect()
}

/// ns per message of each slice, from datagrams of ITCH: parsing is in it.
pub fn datagrams(events: &[Event], instruments: u16, first: usize, slice: usize, depth: Depth) -> Vec<f64> {
    let mut books = books(instruments, depth);
    events[..first].iter().for_each(|event| apply(&mut books, event));
    let (mut bytes, mut starts) = (Vec::new(), Vec::new());
    let mut timed = |events: &[Event]| {
        bytes.clear();
        starts.clear();
        for event in events {
            starts.push(bytes.len());
            event.encode(1, &mut bytes);
        }
        let start = thread_time_ns();
        for datagram in starts.chunks(DATAGRAM) {
            let messages = datagram.iter().map(|start| Message::parse(&bytes[*start..]).expect("it is whole"));
            books.prefetch(messages.clone());
            messages.for_each(|message| _ = std::hint::black_box(books.apply(&message).expect("the day is clean")));
        }
        (thread_time_ns() - start) as f64 / slice as f64
    };
    events[first..].chunks_exact(slice).map(&mut timed).collect()
}

/// The checksum of Parity's `check`.
pub fn check(events: &[Event], instruments: u16) -> String {
    let mut books = books(instruments, Depth::Levels);
    let fold = |sum: u64, value: u64| (sum.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut sum = 0;
    for (at, event) in events.iter().enumerate() {
        apply(&mut books, event);
        let book = books.book(Locate(event.locate)).expect("it is one of them");
        for (side, end) in [(Side::Buy, 1), (Side::Sell, 2)] {
            let shown = if at % 1024 == 0 { usize::MAX } else { 1 };
            for level in book.levels(side).take(shown) {
                sum = fold(fold(sum, level.price.0 as u64), level.shares);
            }
            sum = fold(sum, end);
        }
    }
    format!("{sum:x}")
}

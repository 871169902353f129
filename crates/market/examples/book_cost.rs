//! What a message costs in order books: ns, by depth, with and without prefetching over datagrams, by live orders; and the worst cases.
//!
//! `cargo run --release -p sidestep-market --example book_cost [ROUNDS]`
//!
//! Messages are ITCH, parsed where they stand in datagrams of 38, as TotalView's are. Each arm has books of its own; a round gives every arm
//! the same slice of the day, forward and back (A B C C B A: an arm's second pass has a slice of its own). The first arm comes twice: what
//! lies between the two is the noise.

#[path = "support/day.rs"]
mod day;
#[path = "../../../peers/rounds.rs"]
mod rounds;

use day::{Day, Event, Settings};
use rounds::{median, rounds};
use sidestep_market::book::{Books, Depth, Limits};
use sidestep_market::itch::Message;
use sidestep_market::units::{Locate, OrderReference, Price, Side};
use std::hint::black_box;
use std::time::Instant;

/// Messages in a datagram of 1,400 bytes.
const DATAGRAM: usize = 38;
/// Datagrams in a slice: some ms.
const SLICE: usize = 2_000;
const INSTRUMENTS: u16 = 8_000;

/// Messages, one behind the other, and where each begins.
#[derive(Default)]
struct Messages {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Messages {
    fn push(&mut self, event: &Event) {
        self.starts.push(self.bytes.len());
        event.encode(34_200_000_000_000, &mut self.bytes);
    }

    fn take(day: &mut Day, count: usize) -> Self {
        let mut messages = Self::default();
        (0..count).for_each(|_| messages.push(&day.next()));
        messages
    }

    fn datagrams(&self) -> impl Iterator<Item = impl Iterator<Item = Message<'_>> + Clone> {
        self.starts
            .chunks(DATAGRAM)
            .map(move |starts| starts.iter().map(|start| Message::parse(&self.bytes[*start..]).expect("it is whole")))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Decode,
    Apply,
    Prefetch,
}

struct Arm {
    name: &'static str,
    books: Books,
    work: Work,
}

fn arm(name: &'static str, depth: Depth, work: Work, live: u32) -> Arm {
    let limits = Limits { instruments: INSTRUMENTS, orders: live + live / 10, ..Limits::default() };
    Arm { name, books: Books::new(limits, depth).expect("there is memory"), work }
}

impl Arm {
    /// ns per message.
    fn run(&mut self, messages: &Messages) -> f64 {
        let start = Instant::now();
        for datagram in messages.datagrams() {
            if self.work == Work::Decode {
                datagram.for_each(|message| _ = black_box(message));
                continue;
            }
            if self.work == Work::Prefetch {
                self.books.prefetch(datagram.clone());
            }
            for message in datagram {
                black_box(self.books.apply(&message).expect("the day is clean"));
            }
        }
        start.elapsed().as_nanos() as f64 / messages.starts.len() as f64
    }
}

fn day(live: u32, rounds: usize) {
    let mut day = Day::new(Settings { instruments: INSTRUMENTS, live: live as usize, step: 1, seed: 7 });
    let mut arms = [
        arm("decode only", Depth::Levels, Work::Decode, live),
        arm("L2", Depth::Levels, Work::Apply, live),
        arm("L2 again", Depth::Levels, Work::Apply, live),
        arm("L2, prefetch", Depth::Levels, Work::Prefetch, live),
        arm("L3", Depth::Orders, Work::Apply, live),
        arm("L3, prefetch", Depth::Orders, Work::Prefetch, live),
    ];
    // Until most of the night's orders are gone, the touch has nothing of a day's.
    let mut before = 0;
    while day.live() < live as usize * 9 / 10 || before < 2 * live as usize {
        let night = Messages::take(&mut day, SLICE * DATAGRAM);
        before += night.starts.len();
        arms.iter_mut().for_each(|arm| _ = arm.run(&night));
    }
    let mut seen = vec![Vec::new(); arms.len()];
    for _ in 0..rounds {
        let (forth, back) = (Messages::take(&mut day, SLICE * DATAGRAM), Messages::take(&mut day, SLICE * DATAGRAM));
        let first: Vec<f64> = arms.iter_mut().map(|arm| arm.run(&forth)).collect();
        for (at, arm) in arms.iter_mut().enumerate().rev() {
            seen[at].push(first[at] + arm.run(&back));
        }
    }
    let books = &arms[1].books;
    println!(
        "{live} live orders: {} orders, {} levels of {INSTRUMENTS} instruments; {} MB (L3 {} MB)",
        books.orders(),
        books.levels(),
        books.bytes() / 1_000_000,
        arms[4].books.bytes() / 1_000_000
    );
    for (arm, times) in arms.iter().zip(&seen) {
        let (ns, [low, high]) = median(times.iter().map(|both| both / 2.0));
        let (ratio, [from, to]) = median(times.iter().zip(&seen[1]).map(|(one, other)| one / other));
        println!("  {:<16} {ns:7.1} ns [{low:.1}, {high:.1}]  against L2 {ratio:.3} [{from:.3}, {to:.3}]", arm.name);
    }
}

fn main() {
    let rounds = rounds(40);
    for live in [20_000, 200_000, 2_000_000] {
        day(live, rounds);
    }
    worst(rounds);
}

/// ns per step: the median of the rounds, the steps of each timed together.
fn report(name: &str, rounds: usize, steps: usize, mut round: impl FnMut()) {
    let (ns, [low, high]) = median((0..rounds).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / steps as f64
    }));
    println!("  {name:<56} {ns:8.1} ns [{low:.1}, {high:.1}]");
}

fn worst(rounds: usize) {
    const LEVELS: u32 = 2_422;
    println!("worst cases, one instrument, ns per message");
    let limits = Limits { instruments: 1, orders: 100_000, levels: 10_000, side_levels: 8_192 };
    let mut books = Books::new(limits, Depth::Orders).expect("there is memory");
    let (locate, buy) = (Locate(1), Some(Side::Buy));
    let price = |level: u32| Price(i64::from(1_000_000 + 100 * level));
    let reference = |number: u32| OrderReference(u64::from(number));
    for level in 1..=LEVELS {
        books.add(locate, reference(level), buy, 100, price(level)).expect("there is room");
    }
    report("add and delete the level farthest from the touch of 2422", rounds, 2_000, || {
        for step in 0..1_000 {
            black_box(books.add(locate, reference(LEVELS + 1 + step), buy, 100, price(0)).expect("there is room"));
            black_box(books.delete(locate, reference(LEVELS + 1 + step)).expect("it is there"));
        }
    });
    report("add and delete a level in the middle of 2422", rounds, 2_000, || {
        for step in 0..1_000 {
            let between = Price(price(LEVELS / 2).0 + 1);
            black_box(books.add(locate, reference(LEVELS + 1 + step), buy, 100, between).expect("there is room"));
            black_box(books.delete(locate, reference(LEVELS + 1 + step)).expect("it is there"));
        }
    });
    report("sweep: the best level executed whole, 2422 times", rounds, LEVELS as usize, || {
        for level in (1..=LEVELS).rev() {
            black_box(books.reduce(locate, reference(level), 100).expect("it is there"));
        }
        for level in 1..=LEVELS {
            books.add(locate, reference(level), buy, 100, price(level)).expect("there is room");
        }
    });
    report("mass cancel of 2422 levels, the worst price first", rounds, 2 * LEVELS as usize, || {
        for level in 1..=LEVELS {
            black_box(books.delete(locate, reference(level)).expect("it is there"));
        }
        for level in (1..=LEVELS).rev() {
            black_box(books.add(locate, reference(level), buy, 100, price(level)).expect("there is room"));
        }
    });
}

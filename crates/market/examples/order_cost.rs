//! The cost of books by order in the layout of MDP 3.0 by the number of live orders of a side: nanoseconds of this thread for each change.
//!
//! `cargo run --release -p sidestep-market --example order_cost`. A step is an add, a change of price or a delete, each of an order chosen
//! at random; prices lie about the best one (a geometric distance, half of the orders within ten levels) or anywhere among a thousand
//! levels.

use sidestep_market::mdp::{Order, OrderBook};
use sidestep_market::units::{OrderReference, Price, Side};
use std::hint::black_box;
use std::time::Instant;

const STEPS: u32 = 1_000_000;

/// A flow of orders that keeps so many of them alive.
struct Flow {
    book: OrderBook,
    live: Vec<Order>,
    random: fastrand::Rng,
    next: u64,
    is_near: bool,
}

impl Flow {
    fn new(orders: u32, is_near: bool) -> Self {
        let book = OrderBook::new(orders + 1).expect("there is memory");
        let mut flow = Self { book, live: Vec::new(), random: fastrand::Rng::with_seed(7), next: 1, is_near };
        (0..orders).for_each(|_| flow.add());
        flow
    }

    fn price(&mut self) -> Price {
        let distance = if self.is_near { -14.4 * self.random.f64().ln() } else { self.random.f64() * 1000.0 };
        Price(-distance as i64 * 250_000_000)
    }

    fn add(&mut self) {
        let order = Order { id: OrderReference(self.next), priority: self.next, price: self.price(), size: 1 };
        self.next += 1;
        self.live.push(order);
        self.book.add(Side::Buy, order).expect("there is room");
    }

    /// Delete and add, or change.
    fn step(&mut self) -> u32 {
        let at = self.random.usize(0..self.live.len());
        if self.random.u8(0..10) == 0 {
            let order = Order { price: self.price(), priority: self.next, ..self.live[at] };
            self.next += 1;
            self.live[at] = order;
            self.book.change(Side::Buy, order).expect("it is there");
            return 1;
        }
        let order = self.live.swap_remove(at);
        self.book.delete(Side::Buy, order.id).expect("it is there");
        self.add();
        2
    }
}

fn main() {
    println!("{:>10} {:>12} {:>12}", "orders", "near, ns", "anywhere, ns");
    for orders in [100, 1_000, 10_000, 50_000, 100_000] {
        let costs = [true, false].map(|is_near| {
            let mut flow = Flow::new(orders, is_near);
            let begin = Instant::now();
            let mut changes = 0;
            while changes < STEPS {
                changes += flow.step();
            }
            let cost = begin.elapsed().as_nanos() / u128::from(changes);
            black_box(flow.book.best(Side::Buy));
            cost
        });
        println!("{orders:>10} {:>12} {:>12}", costs[0], costs[1]);
    }
}

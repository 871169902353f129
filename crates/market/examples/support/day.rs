//! A day of a whole market, generated: what benches and long tests of books are fed with.
//!
//! The mix of messages and the number of instruments are those of Nasdaq (30 January 2017, and of one instrument for the mix): adds 45.5 %, deletes 43.6 %,
//! replaces 7.6 %, executions 2.8 %, cancels 0.5 %. Activity falls with an instrument's rank (Zipf). Most orders are near the best price of
//! their side and are deleted soon; some stay for long; one in fifty is far away. Each side's best price is drawn back to the instrument's
//! own price. Books do not cross. Everything follows from a seed.

use std::collections::BTreeMap;

/// What happens. All numbers are as ITCH has them.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The message's type: `A F E C X D U`.
    pub kind: u8,
    /// The instrument, from 1.
    pub locate: u16,
    /// Adds only.
    pub buy: bool,
    /// Adds and replaces: of the new order; otherwise executed or cancelled.
    pub shares: u32,
    /// Adds and replaces.
    pub price: u32,
    /// The order; of a replace the new one.
    pub reference: u64,
    /// Replaces only: the order that was.
    pub old: u64,
}

/// A generator's settings.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Instruments.
    pub instruments: u16,
    /// Live orders, about.
    pub live: usize,
    /// Steps between references: 1 is dense.
    pub step: u64,
    /// The seed.
    pub seed: u64,
}

#[derive(Clone, Copy)]
struct Order {
    reference: u64,
    shares: u32,
    price: u32,
    buy: bool,
}

struct Instrument {
    orders: Vec<Order>,
    /// The orders of each price: buy, sell.
    sides: [BTreeMap<u32, u32>; 2],
    price: u32,
}

/// The generator: endless.
pub struct Day {
    random: fastrand::Rng,
    settings: Settings,
    instruments: Vec<Instrument>,
    /// The share of all activity of the instruments up to each.
    activity: Vec<f64>,
    live: usize,
    reference: u64,
}

/// A tick: a cent.
const TICK: u32 = 100;
/// The exponent of activity by rank.
const ZIPF: f64 = 0.9;
/// Of a hundred deletes, those of an order of any age.
const OLD_PERCENT: u32 = 10;

impl Day {
    pub fn new(settings: Settings) -> Self {
        let mut random = fastrand::Rng::with_seed(settings.seed);
        let count = usize::from(settings.instruments);
        let mut sum = 0.0;
        let mut activity: Vec<f64> = (1..=count)
            .map(|rank| {
                sum += 1.0 / (rank as f64).powf(ZIPF);
                sum
            })
            .collect();
        activity.iter_mut().for_each(|share| *share /= sum);
        // $5 to $500, evenly by magnitude.
        let instruments = (0..count)
            .map(|_| Instrument {
                orders: Vec::new(),
                sides: [BTreeMap::new(), BTreeMap::new()],
                price: (500.0 * 100_f64.powf(random.f64())) as u32 * TICK,
            })
            .collect();
        Self { random, settings, instruments, activity, live: 0, reference: 1 }
    }

    /// Live orders.
    pub fn live(&self) -> usize {
        self.live
    }

    /// What happens next. Until there are as many orders as wanted, there are adds only: the night's orders.
    pub fn next(&mut self) -> Event {
        if self.live < self.settings.live * 9 / 10 {
            return self.add(true);
        }
        // Deletes are as many as adds less what executions take away.
        let surplus = if self.live > self.settings.live { 15 } else { 0 };
        match self.random.u32(0..1000) {
            mix if mix < 455 - surplus => self.add(false),
            mix if mix < 891 => self.delete(),
            mix if mix < 967 => self.replace(),
            mix if mix < 995 => self.execute(),
            _ => self.cancel(),
        }
    }

    fn instrument(&mut self) -> usize {
        let at = self.random.f64();
        self.activity.partition_point(|share| *share < at).min(self.instruments.len() - 1)
    }

    /// An instrument with orders, and one of them: mostly a young one.
    fn order(&mut self) -> Option<(usize, usize)> {
        for _ in 0..16 {
            let instrument = self.instrument();
            let orders = self.instruments[instrument].orders.len();
            if orders == 0 {
                continue;
            }
            let young = self.random.u32(0..100) >= OLD_PERCENT;
            let age = if young { (-self.random.f64().ln() * 8.0) as usize } else { self.random.usize(0..orders) };
            return Some((instrument, orders - 1 - age.min(orders - 1)));
        }
        None
    }

    /// A price for a new order: by its distance from the best one of its side, in ticks.
    fn price(&mut self, instrument: usize, buy: bool, night: bool) -> u32 {
        let fair = self.instruments[instrument].price;
        let [bids, asks] = &self.instruments[instrument].sides;
        let bid = bids.keys().next_back().copied().unwrap_or(fair - TICK);
        let ask = asks.keys().next().copied().unwrap_or(fair + TICK);
        let (bid, ask) = (bid.min(ask.saturating_sub(TICK)), ask.max(bid + TICK));
        let distance = match self.random.u32(0..100) {
            0..2 => self.random.u32(20..1_000),
            2..8 if !night => u32::MAX,
            8..50 if !night => 0,
            _ => (-self.random.f64().ln() * if night { 40.0 } else { 5.0 }) as u32,
        };
        // Better than the best one: only towards the instrument's own price, and not into the other side.
        let better = distance == u32::MAX;
        let ticks = if better { 0 } else { distance };
        if buy {
            let improved = (better && bid < fair && bid + TICK < ask).then_some(bid + TICK);
            improved.unwrap_or(bid.saturating_sub(ticks * TICK).max(TICK))
        } else {
            let improved = (better && ask > fair && ask - TICK > bid).then_some(ask - TICK);
            improved.unwrap_or(ask + ticks * TICK)
        }
    }

    fn enter(&mut self, instrument: usize, order: Order) {
        let it = &mut self.instruments[instrument];
        it.orders.push(order);
        *it.sides[usize::from(!order.buy)].entry(order.price).or_default() += 1;
        self.live += 1;
    }

    fn leave(&mut self, instrument: usize, at: usize) -> Order {
        let it = &mut self.instruments[instrument];
        // Few are behind a young one. An old one changes places with a young one, which then counts as old.
        let order = if it.orders.len() - at < 64 { it.orders.remove(at) } else { it.orders.swap_remove(at) };
        let side = &mut it.sides[usize::from(!order.buy)];
        let left = side.get_mut(&order.price).expect("its price is there");
        *left -= 1;
        if *left == 0 {
            side.remove(&order.price);
        }
        self.live -= 1;
        order
    }

    fn next_reference(&mut self) -> u64 {
        self.reference += self.settings.step;
        self.reference
    }

    fn add(&mut self, night: bool) -> Event {
        let instrument = self.instrument();
        let buy = self.random.bool();
        let price = self.price(instrument, buy, night);
        let shares = self.random.u32(1..=10) * if self.random.u32(0..4) == 0 { 1 } else { 100 };
        let reference = self.next_reference();
        self.enter(instrument, Order { reference, shares, price, buy });
        let kind = if self.random.u32(0..10) == 0 { b'F' } else { b'A' };
        Event { kind, locate: instrument as u16 + 1, buy, shares, price, reference, old: 0 }
    }

    fn event(instrument: usize, order: Order, kind: u8, shares: u32) -> Event {
        let Order { reference, price, buy, .. } = order;
        Event { kind, locate: instrument as u16 + 1, buy, shares, price, reference, old: 0 }
    }

    fn delete(&mut self) -> Event {
        let Some((instrument, at)) = self.order() else { return self.add(true) };
        let order = self.leave(instrument, at);
        Self::event(instrument, order, b'D', 0)
    }

    fn replace(&mut self) -> Event {
        let Some((instrument, at)) = self.order() else { return self.add(true) };
        let order = self.leave(instrument, at);
        let price = self.price(instrument, order.buy, false);
        let new = Order { reference: self.next_reference(), price, ..order };
        self.enter(instrument, new);
        Event { old: order.reference, ..Self::event(instrument, new, b'U', new.shares) }
    }

    /// The order of a few that is nearest to the other side; two thirds are executed whole.
    fn execute(&mut self) -> Event {
        let Some((instrument, first)) = self.order() else { return self.add(true) };
        let it = &self.instruments[instrument];
        let buy = it.orders[first].buy;
        let rank = |at: &usize| if buy { it.orders[*at].price } else { u32::MAX - it.orders[*at].price };
        let few = first.saturating_sub(16)..(first + 16).min(it.orders.len());
        let at = few.filter(|at| it.orders[*at].buy == buy).max_by_key(rank).unwrap_or(first);
        let shares = it.orders[at].shares;
        let kind = if self.random.u32(0..280) == 0 { b'C' } else { b'E' };
        if shares == 1 || self.random.u32(0..3) != 0 {
            let order = self.leave(instrument, at);
            return Self::event(instrument, order, kind, shares);
        }
        let executed = self.random.u32(1..shares);
        self.instruments[instrument].orders[at].shares -= executed;
        Self::event(instrument, self.instruments[instrument].orders[at], kind, executed)
    }

    fn cancel(&mut self) -> Event {
        let Some((instrument, at)) = self.order() else { return self.add(true) };
        let order = &mut self.instruments[instrument].orders[at];
        if order.shares == 1 {
            let order = self.leave(instrument, at);
            return Self::event(instrument, order, b'D', 0);
        }
        let cancelled = self.random.u32(1..order.shares);
        order.shares -= cancelled;
        Self::event(instrument, *order, b'X', cancelled)
    }
}

impl Event {
    /// Writes the event as an ITCH message; its length.
    pub fn encode(&self, time_ns: u64, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.push(self.kind);
        out.extend(self.locate.to_be_bytes());
        out.extend([0; 2]);
        out.extend(&time_ns.to_be_bytes()[2..]);
        if self.kind == b'U' {
            out.extend(self.old.to_be_bytes());
        }
        out.extend(self.reference.to_be_bytes());
        match self.kind {
            b'A' | b'F' => {
                out.push(if self.buy { b'B' } else { b'S' });
                out.extend(self.shares.to_be_bytes());
                out.extend(format!("S{:<7}", self.locate).as_bytes());
                out.extend(self.price.to_be_bytes());
                out.extend_from_slice(if self.kind == b'F' { b"MPID" } else { b"" });
            }
            b'U' => {
                out.extend(self.shares.to_be_bytes());
                out.extend(self.price.to_be_bytes());
            }
            b'E' | b'C' => {
                out.extend(self.shares.to_be_bytes());
                out.extend([0; 8]);
                if self.kind == b'C' {
                    out.push(b'Y');
                    out.extend(self.price.to_be_bytes());
                }
            }
            b'X' => out.extend(self.shares.to_be_bytes()),
            _ => {}
        }
        out.len() - start
    }
}

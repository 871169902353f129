//! A trader and an exchange over connections that break anywhere: after each one the client resumes its session, sends again what has no
//! answer, and in the end both have the same orders. Replayable by seed.

use fastrand::Rng;
use sidestep_market::ouch::*;
use sidestep_market::soup::{self, Password, Settings, State, UserName};
use sidestep_market::units::{Nanos, Price, Symbol};
use std::collections::BTreeMap;

const SEEDS: u64 = 20_000;
const STEPS: u32 = 120;

/// The exchange: its session's messages, and its orders by number: shares open and executed.
#[derive(Default)]
struct Exchange {
    session: Vec<Vec<u8>>,
    open: BTreeMap<u32, (u32, u32)>,
    highest: u32,
    executed: u64,
    /// Of the connection: bytes that came, bytes to be sent.
    input: Vec<u8>,
    output: Vec<u8>,
    told: Option<usize>,
}

fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u16 + 1).to_be_bytes()[..], &[kind], payload].concat()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

impl Exchange {
    /// A message of the exchange: numbers by their offsets.
    fn tell(&mut self, kind: u8, length: usize, numbers: &[(usize, u32)]) {
        let mut message = vec![0; length];
        message[0] = kind;
        for (at, number) in numbers {
            message[*at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        self.session.push(message);
    }

    fn connection_is_gone(&mut self) {
        self.input.clear();
        self.output.clear();
        self.told = None;
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while self.input.len() > 2 {
            let end = 2 + (usize::from(self.input[0]) << 8 | usize::from(self.input[1]));
            if self.input.len() < end {
                break;
            }
            let packet: Vec<u8> = self.input.drain(..end).collect();
            match packet[2] {
                b'L' => self.login(&packet[3..]),
                b'U' => self.request(&packet[3..]),
                _ => {}
            }
        }
    }

    fn login(&mut self, payload: &[u8]) {
        let wanted: usize = std::str::from_utf8(&payload[26..46]).unwrap().trim().parse().unwrap();
        self.told = Some(wanted - 1);
        self.output.extend(packet(b'A', format!("{:>10}{wanted:>20}", "DAY").as_bytes()));
    }

    fn request(&mut self, message: &[u8]) {
        match message[0] {
            b'O' if u32_at(message, 1) > self.highest => {
                let (number, quantity) = (u32_at(message, 1), u32_at(message, 6));
                self.highest = number;
                self.open.insert(number, (quantity, 0));
                self.tell(b'A', 64, &[(9, number), (14, quantity)]);
            }
            b'U' if u32_at(message, 5) > self.highest && self.open.contains_key(&u32_at(message, 1)) => {
                let (old, number, quantity) = (u32_at(message, 1), u32_at(message, 5), u32_at(message, 9));
                let (outstanding, executed) = self.open.remove(&old).unwrap();
                let left = quantity.saturating_sub(executed);
                if left == 0 {
                    // It cannot be done: the old order is cancelled, and the number is not used.
                    return self.tell(b'C', 18, &[(9, old), (13, outstanding)]);
                }
                self.highest = number;
                self.open.insert(number, (left, executed));
                self.tell(b'U', 68, &[(9, old), (13, number), (18, left)]);
            }
            b'X' if self.open.contains_key(&u32_at(message, 1)) => {
                let number = u32_at(message, 1);
                let (left, _) = self.open.remove(&number).unwrap();
                self.tell(b'C', 18, &[(9, number), (13, left)]);
            }
            _ => {}
        }
    }

    /// Somebody trades against one of the orders.
    fn trade(&mut self, rng: &mut Rng) {
        let Some(number) = self.open.keys().nth(rng.usize(..self.open.len().max(1))).copied() else { return };
        let (left, executed) = self.open[&number];
        let quantity = rng.u32(1..=left);
        self.executed += u64::from(quantity);
        if quantity == left {
            self.open.remove(&number);
        } else {
            self.open.insert(number, (left - quantity, executed + quantity));
        }
        self.tell(b'E', 36, &[(9, number), (13, quantity)]);
    }

    /// The bytes that go out now.
    fn output(&mut self) -> Vec<u8> {
        if let Some(told) = &mut self.told {
            for message in &self.session[*told..] {
                self.output.extend(packet(b'S', message));
            }
            *told = self.session.len();
        }
        std::mem::take(&mut self.output)
    }
}

/// The trader: its session, its account, and what it has sent, to send it again.
struct Trader {
    soup: soup::Client,
    orders: OpenOrders,
    sent: BTreeMap<u32, Vec<u8>>,
    executed: u64,
    is_resuming: bool,
}

impl Trader {
    fn new() -> Self {
        let settings = Settings::new(UserName::default(), Password::default());
        let soup = soup::Client::new(settings).unwrap();
        let orders = OpenOrders::new(Limits { orders_max: 32, ..Limits::default() }).unwrap();
        Self { soup, orders, sent: BTreeMap::new(), executed: 0, is_resuming: false }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let (orders, executed) = (&mut self.orders, &mut self.executed);
        self.soup.receive(bytes, Nanos(0), |event, _| {
            if let soup::Event::Sequenced { sequence, message } = event {
                let change = orders.apply(sequence, &Answer::parse(message).unwrap());
                assert_ne!(change, Change::Repeated, "SoupBinTCP tells each message once");
                if let Change::Executed { quantity, .. } = change {
                    *executed += u64::from(quantity);
                }
            }
        });
        if self.is_resuming && self.soup.state() == State::LoggedIn {
            self.is_resuming = false;
            self.send_again();
        }
    }

    /// Sends what has no answer, from the lowest number on.
    fn send_again(&mut self) {
        let mut after = UserRefNum(0);
        while let Some(order) = self.orders.next_unanswered(after) {
            after = order.user_ref_num;
            if order.stage == Stage::Sent {
                self.soup.send(&self.sent[&after.0], Nanos(0)).unwrap();
            }
            if let Some(Request::Cancel(cancel)) = order.request {
                let mut message = [0; CancelOrder::BYTES];
                cancel.write(&mut message).unwrap();
                self.soup.send(&message, Nanos(0)).unwrap();
            }
        }
    }

    fn request(&mut self, rng: &mut Rng) {
        let mut message = [0; 64];
        let number = self.orders.next_number().unwrap();
        let some = self.orders.iter().map(|order| order.user_ref_num).min_by_key(|number| number.0 * 7 % 13);
        let quantity = rng.u32(1..500);
        let bytes = match (rng.u32(..4), some) {
            (0, Some(user_ref_num)) => {
                let cancel = CancelOrder { user_ref_num, quantity: 0 };
                self.orders.cancel(&cancel, Nanos(0)).ok().and_then(|()| cancel.write(&mut message).ok())
            }
            (1, Some(old)) => {
                let replace = ReplaceOrder::limit(old, number, quantity, Price(2));
                self.orders.replace(&replace, Nanos(0)).ok().and_then(|()| replace.write(&mut message).ok())
            }
            _ => {
                let order = EnterOrder::limit(number, OrderSide::Buy, quantity, Symbol::default(), Price(1));
                self.orders.enter(&order, Nanos(0)).ok().and_then(|()| order.write(&mut message).ok())
            }
        };
        let Some(bytes) = bytes else { return };
        if message[0] != b'X' {
            self.sent.insert(number.0, message[..bytes].to_vec());
        }
        self.soup.send(&message[..bytes], Nanos(0)).unwrap();
    }
}

fn run(seed: u64) {
    let (mut rng, mut trader, mut exchange) = (Rng::with_seed(seed), Trader::new(), Exchange::default());
    for step in 0..=STEPS {
        if trader.soup.state() == State::Disconnected || rng.u32(..12) == 0 || step == STEPS {
            // The connection breaks: part of what was on its way arrives.
            let (up, down) = (trader.soup.output().to_vec(), exchange.output());
            exchange.receive(&up[..rng.usize(..=up.len())]);
            trader.receive(&down[..rng.usize(..=down.len())]);
            exchange.connection_is_gone();
            trader.soup.disconnected();
            trader.soup.connected(Nanos(0));
            trader.is_resuming = true;
        }
        match rng.u32(..4) {
            0 if trader.soup.state() == State::LoggedIn => trader.request(&mut rng),
            1 => exchange.trade(&mut rng),
            2 => {
                let up = trader.soup.output();
                let bytes = rng.usize(..=up.len());
                exchange.receive(&up[..bytes]);
                trader.soup.written(bytes);
            }
            _ => {
                let down = exchange.output();
                for piece in down.chunks(rng.usize(1..40)) {
                    trader.receive(piece);
                }
            }
        }
    }
    // All arrives, and is answered.
    for _ in 0..3 {
        exchange.receive(trader.soup.output());
        trader.soup.written(usize::MAX);
        trader.receive(&exchange.output());
    }
    let ours: BTreeMap<u32, (u32, u32)> =
        trader.orders.iter().map(|order| (order.user_ref_num.0, (order.open, order.executed))).collect();
    assert_eq!(ours, exchange.open, "seed {seed}");
    assert_eq!(
        (trader.executed, trader.soup.next_sequence().0),
        (exchange.executed, exchange.session.len() as u64 + 1)
    );
    let Counters { unknown, untracked, excess, repeated, .. } = trader.orders.counters();
    assert_eq!((unknown, untracked, excess, repeated), (0, 0, 0, 0), "seed {seed}");
}

#[test]
fn both_sides_have_the_same_orders_after_any_breaks() {
    (0..SEEDS).for_each(run);
}

//! The cost of arbitration: ns per delivered message of ITCH over MoldUDP64, decoded, by one line and by two.
//!
//! ```text
//! cargo run --release -p sidestep-market --example arbitration_cost -- [ROUNDS] [MESSAGES]
//! valgrind --tool=callgrind target/release/examples/arbitration_cost 2 20000
//! ```
//!
//! All arms have the same messages (the mix of a day: adds 45 %, deletes 44, replaces 8, executions 3) and the same handler, which reads the
//! fields that a book needs. `plain` parses one line's datagrams and has no arbiter; it stands in the table twice, which is the noise floor.
//! Arms take turns, forwards and backwards (A B C C B A); a ratio is the median over rounds of both passes of an arm against both of `plain`.
//! No clock is read between datagrams, and nothing comes from a network: what is measured is the code.

use sidestep_market::arbiter::{Delivery, Limits, LineKind};
use sidestep_market::feed::{Action, Feed, Handler, Policy};
use sidestep_market::itch::Message;
use sidestep_market::mold64::{Mold64, Packet, PacketWriter, Session};
use sidestep_market::units::{Alpha, LineId, Nanos, Sequence};
use std::hint::black_box;
use std::time::Instant;

const SESSION: Session = Alpha(*b"SESSION001");
const ROUNDS: usize = 101;
const MESSAGES: usize = 20_000;
/// Payload of a large datagram: about 38 messages.
const LARGE: usize = 1400;
/// Payload of a small one.
const SMALL: usize = 500;

/// Reads what a book needs. No arm has it inlined, as it would not have a book's code.
#[inline(never)]
fn decode(bytes: &[u8]) -> u64 {
    match Message::parse(bytes) {
        Ok(Message::AddOrder(add)) => {
            let side = u64::from(add.side().is_some());
            add.order_reference().0 ^ u64::from(add.shares()) ^ add.price().0 as u64 ^ u64::from(add.locate().0) ^ side
        }
        Ok(Message::OrderDelete(delete)) => delete.order_reference().0 ^ u64::from(delete.locate().0),
        Ok(Message::OrderReplace(replace)) => {
            let orders = replace.old_order_reference().0 ^ replace.order_reference().0;
            orders ^ u64::from(replace.shares()) ^ replace.price().0 as u64 ^ u64::from(replace.locate().0)
        }
        Ok(Message::OrderExecuted(executed)) => executed.order_reference().0 ^ u64::from(executed.shares()),
        Ok(_) | Err(_) => 0,
    }
}

#[derive(Default)]
struct Books {
    sum: u64,
    messages: u64,
}

impl Handler<Session> for Books {
    #[inline(always)]
    fn message(&mut self, message: Delivery<'_>) {
        self.sum = self.sum.wrapping_add(decode(message.bytes));
        self.messages += 1;
    }

    fn snapshot(&mut self, _bytes: &[u8]) {}

    fn action(&mut self, _action: Action<Session>) {}
}

/// A message of a day's mix.
fn message(dice: &mut fastrand::Rng) -> Vec<u8> {
    let (kind, bytes) = match dice.u32(..100) {
        0..=44 => (b'A', 36),
        45..=88 => (b'D', 19),
        89..=96 => (b'U', 35),
        _ => (b'E', 31),
    };
    let mut message: Vec<u8> = (0..bytes).map(|_| dice.u8(..)).collect();
    message[0] = kind;
    if kind == b'A' {
        message[19] = if dice.bool() { b'B' } else { b'S' };
    }
    message
}

/// Datagrams of one line, with the number of the message after each.
struct Line {
    datagrams: Vec<(Vec<u8>, u64)>,
}

impl Line {
    fn new(messages: &[Vec<u8>], payload: usize) -> Self {
        let (mut datagrams, mut at) = (Vec::new(), 0);
        while at < messages.len() {
            let mut buffer = vec![0; payload];
            let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(at as u64 + 1)).expect("it has room");
            while at < messages.len() && writer.push(&messages[at]) {
                at += 1;
            }
            datagrams.push((writer.finish().to_vec(), at as u64 + 1));
        }
        Self { datagrams }
    }

    /// Numbers all messages anew, as those that follow.
    fn advance(&mut self, messages: u64) {
        for (datagram, end) in &mut self.datagrams {
            let first = Packet::parse(datagram).expect("ours").first().0 + messages;
            datagram[10..18].copy_from_slice(&first.to_be_bytes());
            *end += messages;
        }
    }
}

/// An arm: which datagrams come in which order, and whether there is an arbiter.
struct Arm {
    name: &'static str,
    lines: Vec<Line>,
    feed: Option<Feed<Mold64>>,
    books: Books,
    now: u64,
}

impl Arm {
    fn new(name: &'static str, messages: &[Vec<u8>], payloads: &[usize], is_arbitrated: bool) -> Self {
        let lines = payloads.iter().map(|payload| Line::new(messages, *payload)).collect();
        let kinds = vec![LineKind::Live; payloads.len()];
        let feed = is_arbitrated.then(|| Feed::new(&kinds, Limits::default(), Policy::default(), Nanos(0)));
        let feed = feed.map(|feed| feed.expect("the rules are good"));
        Self { name, lines, feed, books: Books::default(), now: 0 }
    }

    /// The lines' datagrams as they come: always the one that is less far.
    fn order(&self) -> Vec<(u8, usize)> {
        let mut order: Vec<(u64, u8, usize)> = Vec::new();
        for (line, datagrams) in self.lines.iter().enumerate() {
            let numbered = datagrams.datagrams.iter().enumerate();
            order.extend(numbered.map(|(at, (_, end))| (*end, line as u8, at)));
        }
        order.sort_unstable();
        order.into_iter().map(|(_, line, at)| (line, at)).collect()
    }

    /// All messages once; ns for each.
    fn pass(&mut self, order: &[(u8, usize)], messages: u64) -> f64 {
        let before = self.books.messages;
        let start = Instant::now();
        match &mut self.feed {
            Some(feed) => arbitrated(feed, &self.lines, order, &mut self.now, &mut self.books),
            None => plain(&self.lines, order, &mut self.books),
        }
        let ns = start.elapsed().as_nanos() as f64;
        assert_eq!(self.books.messages - before, messages, "{}: each message is delivered once", self.name);
        self.lines.iter_mut().for_each(|line| line.advance(messages));
        ns / messages as f64
    }
}

#[inline(never)]
fn plain(lines: &[Line], order: &[(u8, usize)], books: &mut Books) {
    for (line, at) in order {
        let packet = Packet::parse(&lines[usize::from(*line)].datagrams[*at].0).expect("ours");
        for bytes in packet.messages() {
            books.sum = books.sum.wrapping_add(decode(bytes));
            books.messages += 1;
        }
    }
}

#[inline(never)]
fn arbitrated(feed: &mut Feed<Mold64>, lines: &[Line], order: &[(u8, usize)], now: &mut u64, books: &mut Books) {
    for (line, at) in order {
        *now += 100;
        let now = Nanos(*now);
        feed.datagram(LineId(*line), now, now, &lines[usize::from(*line)].datagrams[*at].0, books);
    }
}

fn quantile(values: &mut [f64], quantile: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * quantile).round() as usize]
}

fn main() {
    let mut arguments =
        std::env::args().skip(1).map(|text| text.parse::<usize>().expect("ROUNDS and MESSAGES are numbers"));
    let (rounds, count) = (arguments.next().unwrap_or(ROUNDS), arguments.next().unwrap_or(MESSAGES));
    let mut dice = fastrand::Rng::with_seed(7);
    let messages: Vec<Vec<u8>> = (0..count).map(|_| message(&mut dice)).collect();
    let mut arms = [
        Arm::new("plain, one line, no arbiter", &messages, &[LARGE], false),
        Arm::new("plain again (noise floor)", &messages, &[LARGE], false),
        Arm::new("one line, arbitrated", &messages, &[LARGE], true),
        Arm::new("two lines, same framing", &messages, &[LARGE, LARGE], true),
        Arm::new("two lines, 1400 and 500 bytes", &messages, &[LARGE, SMALL], true),
        Arm::new("one line of 500 bytes, no arbiter", &messages, &[SMALL], false),
        Arm::new("two lines of 500 bytes", &messages, &[SMALL, SMALL], true),
    ];
    let orders: Vec<_> = arms.iter().map(Arm::order).collect();
    let mut times = vec![Vec::new(); arms.len()];
    for _ in 0..rounds {
        let forwards: Vec<usize> = (0..arms.len()).collect();
        for at in forwards.iter().chain(forwards.iter().rev()) {
            times[*at].push(arms[*at].pass(&orders[*at], count as u64));
        }
    }
    println!("{count} messages, {rounds} rounds; ns per delivered message, both passes of a round together");
    println!("{:<36} {:>8} {:>8} {:>24}", "", "ns", "ratio", "ratio: p5 to p95");
    for (at, arm) in arms.iter().enumerate() {
        let both = |times: &[f64]| times.chunks(2).map(|pair| pair[0] + pair[1]).collect::<Vec<_>>();
        let mut ratios: Vec<f64> =
            both(&times[at]).iter().zip(both(&times[0])).map(|(own, plain)| own / plain).collect();
        let [low, median, high] = [0.05, 0.5, 0.95].map(|share| quantile(&mut ratios, share));
        let ns = quantile(&mut times[at].clone(), 0.5);
        println!("{:<36} {ns:>8.2} {median:>8.2} {:>24}", arm.name, format!("{low:.2} to {high:.2}"));
    }
    black_box(arms.iter().map(|arm| arm.books.sum).sum::<u64>());
}

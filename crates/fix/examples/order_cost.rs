//! The acceptor's own time for an order: ns from a poll's begin until the acknowledgement and the fill have left.
//!
//! ```text
//! cargo run --release -p sidestep-fix --example order_cost -- FOLDER [ORDERS]
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='order_cost::serve' \
//!     target/release/examples/order_cost FOLDER 2000 page-cache
//! ```
//!
//! The engine, its exchange, its store and the stream (rings in shared memory) are those of `sidestep fix exchange`; the client is on
//! the same thread, so no time of another CPU and none of the kernel is in a sample. FOLDER holds the journals.

use sidestep_fix::Encoder;
use sidestep_fix::Now;
use sidestep_fix::encode::Parties;
use sidestep_fix::engine::{Endpoint, Engine, SessionPlan, SocketOptions, StorePlan};
use sidestep_fix::exchange::{Exchange, anyone};
use sidestep_fix::session::{Role, SessionSettings};
use sidestep_fix::store::journal::Options;
use sidestep_fix::value::Precision;
use sidestep_socket::stream::{self, Io, Options as StreamOptions, Stream, Waiting};
use sidestep_sys::clock::{Choice, Clock};
use std::path::{Path, PathBuf};
use std::time::Duration;

const WARM: u64 = 1_000;
const ORDERS: u64 = 100_000;

/// Receives the order that is there and answers it.
#[inline(never)]
fn serve(engine: &mut Engine<Exchange>) {
    engine.poll();
}

fn client() -> Encoder {
    let (sender, target) = ("BENCH001".to_owned(), "EXCHANGE".to_owned());
    let parties = Parties { begin_string: "FIX.4.4".to_owned(), sender, target, ..Parties::default() };
    Encoder::new(&parties, Precision::Millis).expect("names without control bytes")
}

/// Writes what the encoder holds to the stream.
fn send(io: &mut Io, stream: &mut Stream, encoder: &mut Encoder) {
    let output = encoder.output();
    assert_eq!(stream.write(io, output).expect("the engine listens"), output.len());
    encoder.clear();
}

fn log_on(engine: &mut Engine<Exchange>, io: &mut Io, stream: &mut Stream, encoder: &mut Encoder) {
    let mut logon = encoder.message(b"A");
    logon.unsigned(98, 0).unsigned(108, 30).bool(141, true);
    logon.finish(1, Now::system()).expect("a short message");
    send(io, stream, encoder);
    while !engine.handles().any(|handle| engine.session(handle).is_logged_on()) {
        engine.poll();
    }
    engine.poll();
    assert!(stream.read(io, &mut [0; 512]).is_ok());
}

fn order(encoder: &mut Encoder, number: u64) {
    let now = Now::system();
    let mut id = *b"O000000000";
    let mut rest = number;
    for digit in id[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut order = encoder.message(b"D");
    order.str(1, "ACCOUNT1").bytes(11, &id).char(21, b'1').unsigned(38, 100).char(40, b'1').char(54, b'1');
    order.str(55, "EURUSD").char(59, b'0').timestamp(60, now.utc());
    order.finish(number + 1, now).expect("a short message");
}

fn measure(name: &str, folder: &Path, store: StorePlan, orders: u64) {
    let clock = Clock::calibrate(Choice::Auto);
    let path = folder.join(format!("{name}.socket"));
    let mut engine = Engine::new(Exchange::default());
    let endpoint = Endpoint::parse(&format!("shm:{}", path.display())).expect("an address");
    let acceptor = engine.listen(&endpoint, None, &SocketOptions::default()).expect("it is free");
    let mut plan = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
    plan.store = store;
    engine.add_template(acceptor, plan);
    let timeout = Duration::from_secs(1);
    let options = StreamOptions { waiting: Waiting::Spin, timeout, ..StreamOptions::default() };
    let mut io = Io::default();
    let mut stream = stream::connect(&mut io, &endpoint, &options).expect("it listens");
    let mut encoder = client();
    log_on(&mut engine, &mut io, &mut stream, &mut encoder);
    let (mut samples, mut answer) = (Vec::with_capacity(orders as usize), [0; 2048]);
    for number in 1..=WARM + orders {
        order(&mut encoder, number);
        send(&mut io, &mut stream, &mut encoder);
        let begin = clock.start();
        serve(&mut engine);
        let end = clock.stop();
        assert!(stream.read(&mut io, &mut answer).is_ok(), "both reports have left");
        if number > WARM {
            samples.push(clock.ns(end - begin));
        }
    }
    samples.sort_unstable();
    let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize];
    println!("{name:<12} p10 {:>6}   p50 {:>6}   p90 {:>6}   p99 {:>6} ns", at(0.1), at(0.5), at(0.9), at(0.99));
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let orders = arguments.next().and_then(|orders| orders.parse().ok()).unwrap_or(ORDERS);
    let only = arguments.next();
    let journal = StorePlan::Journal { folder: folder.join("journal"), options: Options::default() };
    for (name, store) in [("none", StorePlan::Memory), ("page-cache", journal)] {
        if only.as_deref().is_none_or(|only| only == name) {
            measure(name, &folder, store, orders);
        }
    }
}

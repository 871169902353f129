//! The cost of publishing and of reading, on one thread and with a reader on another:
//! `cargo run --release -p sidestep-market --example publish_speed`.
//!
//! Each figure is the best of 300 short runs, so that other programs on the machine do not count.

use sidestep_market::capture::{Capture, LinkType, Writer, datagram};
use sidestep_market::event::{Event, Flags, Origin};
use sidestep_market::itch::Message;
use sidestep_market::publish::{Change, Channel, Interest, Level, Publisher, State, Subscriber, Tops, Update};
use sidestep_market::units::{LineId, Locate, Nanos, Price, Sequence};
use sidestep_ring::{Waking, broadcast, seqlock};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const MESSAGES: u64 = 20_000;
const DATAGRAMS: u64 = 2000;
const INSTRUMENTS: u64 = 8000;
const RUNS: usize = 300;

fn best(name: &str, count: u64, mut run: impl FnMut()) {
    let runs = (0..RUNS).map(|_| {
        let begin = Instant::now();
        run();
        begin.elapsed().as_secs_f64() * 1e9 / count as f64
    });
    println!("{name:<68} {:>8.1} ns", runs.fold(f64::INFINITY, f64::min));
}

fn origin(number: u64) -> Origin {
    let (sequence, arrived) = (Sequence(number), Nanos(number));
    Origin { sequence, time_ns: number, arrived, line: LineId(0), flags: Flags::NONE }
}

fn locate(number: u64) -> Locate {
    // Neither in order nor random: the multiplicative hash of the number.
    Locate(1 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u16 % (INSTRUMENTS as u16 - 1))
}

fn add(number: u64) -> [u8; 36] {
    let mut add = [b' '; 36];
    add[0] = b'A';
    add[1..3].copy_from_slice(&locate(number).0.to_be_bytes());
    add[11..19].copy_from_slice(&number.to_be_bytes());
    add[19] = b'B';
    add
}

fn main() {
    let (events, reader) = broadcast::pair(1 << 22, Waking::Never).expect("memory");
    let (tops, array) = seqlock::pair(INSTRUMENTS as u32).expect("memory");
    let (instruments, _names) = seqlock::pair(INSTRUMENTS as u32).expect("memory");
    let mut publisher = Publisher::new(events, tops, instruments, Channel::default()).expect("they are new");

    let bytes: Vec<[u8; 36]> = (0..1000).map(add).collect();
    best("an ITCH add as an event's bytes", MESSAGES, || {
        for number in 0..MESSAGES {
            let message = Message::parse(&bytes[number as usize % 1000]).expect("it is one");
            let events = origin(number).itch(&message);
            black_box(events.iter().map(Event::encode).last());
        }
    });
    let mut publish = |is_changed: bool, from: u64| {
        for number in from..from + MESSAGES {
            let message = Message::parse(&bytes[number as usize % 1000]).expect("it is one");
            let (origin, bid) = (origin(number), Some(Level { price: Price(number as i64), quantity: 1, orders: 1 }));
            let change = Change { locate: locate(number), bid, offer: None, state: State::Live };
            publisher.message(&origin, &origin.itch(&message), is_changed.then_some(&change)).expect("it is ours");
        }
    };
    best("published, no change of the best prices", MESSAGES, || publish(false, 0));
    let mut from = 0;
    best("published, the best bid of one of 8,000 instruments changes", MESSAGES, || {
        from += MESSAGES;
        publish(true, from);
    });

    let tops = Tops::new(array.clone());
    best("best bid and offer from the array, random instrument", MESSAGES, || {
        (0..MESSAGES).for_each(|number| {
            let _ = black_box(tops.top(locate(number)));
        });
    });
    best("best bid and offer from the array, the same instrument", MESSAGES, || {
        (0..MESSAGES).for_each(|_| {
            let _ = black_box(tops.top(Locate(7)));
        });
    });
    best("a subscriber takes the state of all, per instrument", INSTRUMENTS, || {
        let mut subscriber = Subscriber::new(reader.clone(), array.clone(), Interest::all());
        while !matches!(subscriber.try_next(), Ok(Some(Update::Synchronised(_)))) {}
    });

    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let mut subscriber = Subscriber::new(reader.clone(), array.clone(), [Locate(7)].into_iter().collect());
        let is_over = &is_over;
        let reading = threads.spawn(move || {
            let mut events = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                events += u64::from(matches!(subscriber.try_next(), Ok(Some(Update::Event(_)))));
            }
            (events, subscriber.lost().messages, subscriber.number())
        });
        best("published with a change, a subscriber of one instrument beside it", MESSAGES, || {
            from += MESSAGES;
            publish(true, from);
        });
        is_over.store(true, Ordering::Relaxed);
        let (events, lost, number) = reading.join().expect("it ends");
        println!("  of {number} events it took {events}, and lost {lost} of all instruments");
    });

    let mut writer = Writer::new(Vec::with_capacity(4 << 20), "speed").expect("memory");
    let line = writer.interface("A", LinkType::RAW).expect("memory");
    let (source, group) = ("10.0.0.1:1".parse().expect("an address"), "233.0.0.1:2".parse().expect("an address"));
    let payload = [7; 1400];
    for number in 0..DATAGRAMS {
        writer.datagram(line, number, source, group, &payload).expect("memory");
    }
    best("a datagram of 1,400 bytes written as pcapng", DATAGRAMS, || {
        let mut writer = Writer::new(std::io::sink(), "speed").expect("a sink");
        let line = writer.interface("A", LinkType::RAW).expect("a sink");
        for number in 0..DATAGRAMS {
            writer.datagram(line, number, source, group, &payload).expect("a sink");
        }
    });
    let file = writer.finish().expect("memory");
    best("a datagram of 1,400 bytes found in pcapng", DATAGRAMS, || {
        let mut capture = Capture::new(&file[..]).expect("it is one");
        while let Ok(Some(packet)) = capture.try_next() {
            black_box(datagram(&packet).expect("it is one"));
        }
    });
}

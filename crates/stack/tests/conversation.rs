//! Two of our stacks with each other.

mod tcp_support;

use sidestep_stack::tcp::{Config, Counter, Error, Event, Readiness, Shutdown, State};
use tcp_support::{CLIENT, Pair, SERVER, Weather, address, pattern};

fn configs() -> [Config; 2] {
    [Config::default(), Config::latency()]
}

#[test]
fn open_talk_close() {
    for config in configs() {
        let mut pair = Pair::new(&config, 1);
        let (client, server) = pair.established();
        assert_eq!(pair.hosts[CLIENT].send(pair.now, client, b"hello"), Ok(5));
        pair.run(1_000_000);
        assert_eq!(pair.hosts[SERVER].read(pair.now, server).unwrap(), b"hello");
        assert_eq!(pair.hosts[SERVER].read(pair.now, server), Err(Error::WouldBlock));
        pair.hosts[SERVER].send(pair.now, server, b"world").unwrap();
        pair.run(1_000_000);
        assert_eq!(pair.hosts[CLIENT].read(pair.now, client).unwrap(), b"world");

        let now = pair.now;
        pair.hosts[CLIENT].with(now, |tcp, mut sink| tcp.shutdown(now, client, Shutdown::Write, &mut sink)).unwrap();
        assert_eq!(pair.hosts[CLIENT].send(pair.now, client, b"x"), Err(Error::BrokenPipe));
        pair.run(1_000_000);
        assert_eq!(pair.hosts[CLIENT].state(client), Some(State::FinWait2));
        assert_eq!(pair.hosts[SERVER].state(server), Some(State::CloseWait));
        assert_eq!(pair.hosts[SERVER].read(pair.now, server), Ok(vec![]));
        pair.hosts[SERVER].send(pair.now, server, b"half").unwrap();
        pair.hosts[SERVER].close(pair.now, server);
        pair.run(1_000_000);
        assert_eq!(pair.hosts[CLIENT].read(pair.now, client).unwrap(), b"half");
        assert_eq!(pair.hosts[CLIENT].read(pair.now, client), Ok(vec![]));
        assert_eq!(pair.hosts[CLIENT].state(client), Some(State::TimeWait));
        assert_eq!(pair.hosts[SERVER].tcp.connections(), (0, 0));
        pair.hosts[CLIENT].close(pair.now, client);
        assert_eq!(pair.hosts[CLIENT].tcp.connections(), (1, 1));
        pair.run(61_000_000_000);
        assert_eq!(pair.hosts[CLIENT].tcp.connections(), (0, 0));
    }
}

/// Sends `total` bytes each way at once through `weather` and compares each byte.
fn transfer(config: &Config, weather: Weather, seed: u64, total: usize) -> Pair {
    let mut pair = Pair::new(config, seed);
    let (client, server) = pair.established();
    let ids = [client, server];
    for host in &mut pair.hosts {
        host.wire.weather = weather;
    }
    let (mut sent, mut received, mut finished) = ([0; 2], [0; 2], [false; 2]);
    let mut random = fastrand::Rng::with_seed(seed);
    let end = pair.now.after_ns(3_600_000_000_000);
    let mut closed = [false; 2];
    while !(finished[0] && finished[1]) {
        let now = pair.now;
        for side in [CLIENT, SERVER] {
            let host = &mut pair.hosts[side];
            while sent[side] < total {
                let count = random.usize(1..5000).min(total - sent[side]);
                let bytes: Vec<u8> = (sent[side]..sent[side] + count).map(pattern).collect();
                match host.send(now, ids[side], &bytes) {
                    Ok(count) => sent[side] += count,
                    Err(Error::WouldBlock) => break,
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            if sent[side] == total && !closed[side] {
                host.with(now, |tcp, mut sink| tcp.shutdown(now, ids[side], Shutdown::Write, &mut sink)).unwrap();
                closed[side] = true;
            }
            loop {
                let mut bytes = std::mem::take(&mut host.lent);
                let read = host.read(now, ids[side]);
                match &read {
                    Ok(more) => bytes.extend(more),
                    Err(Error::WouldBlock) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
                let at = received[side];
                assert!(
                    bytes.iter().enumerate().all(|(index, byte)| *byte == pattern(at + index)),
                    "seed {seed}: wrong bytes after {at}"
                );
                received[side] += bytes.len();
                match read {
                    Ok(more) if more.is_empty() => {
                        finished[side] = true;
                        break;
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        if !(finished[0] && finished[1]) {
            assert!(pair.step(end), "seed {seed}: nothing happens any more: {received:?} of {total}");
        }
    }
    assert_eq!(received, [total; 2], "seed {seed}");
    pair
}

#[test]
fn a_megabyte_each_way_without_loss() {
    for config in configs() {
        let pair = transfer(&config, Weather::default(), 7, 1 << 20);
        for host in &pair.hosts {
            assert_eq!(host.tcp.counters().value(Counter::Retransmitted), 0);
            for (counter, value) in host.tcp.counters().iter() {
                assert!(!counter.should_be_zero() || value == 0, "{} is {value}", counter.name());
            }
        }
    }
}

/// How many seeds: so many, or SIDESTEP_SEEDS.
fn seeds(usually: u64) -> u64 {
    std::env::var("SIDESTEP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

#[test]
fn bad_weather_changes_no_byte() {
    for seed in 0..seeds(60) {
        let jitter_ns = [0, 10_000, 100_000, 3_000_000][seed as usize / 2 % 4];
        let weather = Weather { loss: 5, duplication: 3, corruption: 2, jitter_ns, refusal: 3 };
        let base = configs()[seed as usize % 2].clone();
        let config = Config { sack: seed % 3 != 0, timestamps: seed % 5 != 0, ..base };
        transfer(&config, weather, seed, 100_000);
    }
}

#[test]
fn small_buffers_and_much_loss() {
    for seed in 0..seeds(20) {
        let weather = Weather { loss: 20, jitter_ns: 30_000, ..Weather::default() };
        let config = Config {
            send_buffer_bytes: 4096,
            receive_buffer_bytes: 4096,
            receive_window_initial_bytes: 4096,
            ..Config::latency()
        };
        transfer(&config, weather, seed, 30_000);
    }
}

#[test]
fn data_is_lent_in_the_frame() {
    let mut pair = Pair::new(&Config::latency(), 3);
    let (client, server) = pair.established();
    pair.hosts[SERVER].takes = 4;
    pair.hosts[CLIENT].send(pair.now, client, b"abcdefgh").unwrap();
    pair.run(100_000);
    assert_eq!(pair.hosts[SERVER].lent, b"abcd");
    pair.hosts[CLIENT].send(pair.now, client, b"ijkl").unwrap();
    pair.run(100_000);
    assert_eq!(pair.hosts[SERVER].lent, b"abcd", "what is older waits: nothing newer is lent");
    assert_eq!(pair.hosts[SERVER].read(pair.now, server).unwrap(), b"efghijkl");
    pair.hosts[CLIENT].send(pair.now, client, b"mnop").unwrap();
    pair.run(100_000);
    assert_eq!(pair.hosts[SERVER].lent, b"abcdmnop");
}

#[test]
fn the_ack_rides_on_the_answer() {
    let mut pair = Pair::new(&Config::latency(), 3);
    let (client, server) = pair.established();
    let sent = pair.hosts[SERVER].wire.sent;
    pair.hosts[CLIENT].send(pair.now, client, b"ping").unwrap();
    pair.now = pair.now.after_ns(50_000);
    let (from, to) = pair.hosts.split_at_mut(1);
    // Received, answered, polled: one segment.
    let now = pair.now;
    let (addresses, bytes) = from[0].wire.segments_raw().remove(0);
    from[0].wire.clear();
    to[0].receive(now, &addresses, &bytes);
    to[0].send(now, server, b"pong").unwrap();
    to[0].poll(now);
    assert_eq!(to[0].wire.sent, sent + 1);
    // Without an answer the poll sends the ACK.
    pair.run(1_000_000);
    assert_eq!(pair.hosts[CLIENT].read(pair.now, client).unwrap(), b"pong");
    assert_eq!(pair.hosts[SERVER].wire.sent, sent + 1);
}

#[test]
fn events_tell_each_change_once() {
    let mut pair = Pair::new(&Config::default(), 3);
    let listener = pair.listen(80);
    let client = pair.connect(40_000, 80);
    pair.run(1_000_000);
    assert_eq!(pair.hosts[CLIENT].tcp.next_event(), Some(Event::Connection(client)));
    assert!(pair.hosts[CLIENT].tcp.readiness(client).has(Readiness::WRITABLE));
    assert_eq!(pair.hosts[SERVER].tcp.next_event(), Some(Event::Listener(listener)));
    let server = pair.hosts[SERVER].tcp.accept(listener).unwrap();
    assert_eq!(pair.hosts[SERVER].tcp.next_event(), None);
    for _ in 0..2 {
        pair.hosts[CLIENT].send(pair.now, client, b"a").unwrap();
        pair.run(500_000_000);
    }
    assert_eq!(pair.hosts[SERVER].tcp.next_event(), Some(Event::Connection(server)));
    assert_eq!(pair.hosts[SERVER].tcp.next_event(), None);
    pair.hosts[CLIENT].send(pair.now, client, b"a").unwrap();
    pair.run(500_000_000);
    assert_eq!(pair.hosts[SERVER].tcp.next_event(), Some(Event::Connection(server)), "more has come");
}

#[test]
fn simultaneous_open_and_close() {
    let mut pair = Pair::new(&Config::default(), 5);
    let now = pair.now;
    let ids = [CLIENT, SERVER].map(|side| {
        let options = pair.hosts[side].tcp.config().options();
        let (local, remote) = (address(side, 7), address(1 - side, 7));
        pair.hosts[side].with(now, |tcp, mut sink| tcp.connect(now, local, remote, None, options, &mut sink)).unwrap()
    });
    pair.run(1_000_000);
    for side in [CLIENT, SERVER] {
        assert_eq!(pair.hosts[side].state(ids[side]), Some(State::Established));
    }
    let now = pair.now;
    for side in [CLIENT, SERVER] {
        pair.hosts[side].with(now, |tcp, mut sink| tcp.shutdown(now, ids[side], Shutdown::Write, &mut sink)).unwrap();
    }
    pair.run(1_000_000);
    for side in [CLIENT, SERVER] {
        assert_eq!(pair.hosts[side].state(ids[side]), Some(State::TimeWait));
        assert_eq!(pair.hosts[side].tcp.counters().value(Counter::ResetsOut), 0);
    }
}

/// The same over IPv6; its headers are 20 bytes longer.
#[test]
fn over_ipv6() {
    let mut pair = Pair::new(&Config::latency(), 9);
    let (here, there) = ("[2001:db8::1]:40000".parse().unwrap(), "[2001:db8::2]:80".parse().unwrap());
    let (now, options) = (pair.now, pair.hosts[CLIENT].tcp.config().options());
    let listener = pair.hosts[SERVER].tcp.listen("[::]:80".parse().unwrap(), 1, options).unwrap();
    let connect = pair.hosts[CLIENT].with(now, |tcp, mut sink| {
        assert_eq!(tcp.connect(now, here, address(SERVER, 80), None, options, &mut sink), Err(Error::InvalidAddress));
        tcp.connect(now, here, there, None, options, &mut sink)
    });
    let client = connect.unwrap();
    pair.run(1_000_000);
    let server = pair.hosts[SERVER].tcp.accept(listener).unwrap();
    assert_eq!(pair.hosts[CLIENT].tcp.facts(client).unwrap().segment_bytes, 1440);
    let bytes: Vec<u8> = (0..50_000).map(pattern).collect();
    assert_eq!(pair.hosts[CLIENT].send(pair.now, client, &bytes), Ok(50_000));
    pair.run(10_000_000);
    assert_eq!(pair.hosts[SERVER].read(pair.now, server).unwrap(), bytes);
}

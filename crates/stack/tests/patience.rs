//! Long waits and small windows, in virtual time: closed windows for minutes, windows that open by a byte, keep-alive from both
//! sides, both ends at once; over IPv4 and IPv6.

mod tcp_support;

use sidestep_stack::tcp::{Config, ConnectionId, Counter, Error, KeepAlive, State};
use sidestep_wire::tcp::{Flags, Options};
use std::net::SocketAddr;
use tcp_support::peer::{MS, Play, SECOND};
use tcp_support::{CLIENT, Host, Pair, SERVER, pattern};

fn profiles() -> [Config; 2] {
    [Config::default(), Config::latency()]
}

fn at(host: usize, port: u16, is_v6: bool) -> SocketAddr {
    match is_v6 {
        true => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1 + host as u16], port).into(),
        false => tcp_support::address(host, port),
    }
}

/// A connection between the hosts, over either family.
fn established(pair: &mut Pair, is_v6: bool) -> (ConnectionId, ConnectionId) {
    let options = pair.hosts[SERVER].tcp.config().options();
    let listener = pair.hosts[SERVER].tcp.listen(at(SERVER, 80, is_v6), 8, options).unwrap();
    let client = connect(pair, CLIENT, 4000, 80, is_v6);
    pair.run(MS);
    (client, pair.hosts[SERVER].tcp.accept(listener).unwrap())
}

fn connect(pair: &mut Pair, from: usize, from_port: u16, port: u16, is_v6: bool) -> ConnectionId {
    let (now, host) = (pair.now, &mut pair.hosts[from]);
    let options = host.tcp.config().options();
    let (local, remote) = (at(from, from_port, is_v6), at(1 - from, port, is_v6));
    host.with(now, |tcp, mut sink| tcp.connect(now, local, remote, None, options, &mut sink)).unwrap()
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(pattern).collect()
}

/// Reads until `count` bytes have come, `most` at a time, and compares them.
fn read_all(pair: &mut Pair, host: usize, id: ConnectionId, count: usize, most: usize) {
    let (mut got, end) = (Vec::new(), pair.now.after_ns(600 * SECOND));
    let mut buffer = vec![0; most];
    while got.len() < count && pair.now < end {
        let now = pair.now;
        match pair.hosts[host].with(now, |tcp, mut sink| tcp.read(now, id, &mut buffer, &mut sink)) {
            Ok(count) => got.extend_from_slice(&buffer[..count]),
            Err(Error::WouldBlock) => {}
            Err(error) => panic!("{error} after {} bytes", got.len()),
        }
        pair.run(100_000);
    }
    assert!(got == bytes(count), "{} of {count} bytes came", got.len());
}

/// The application does not read for ten minutes: nothing is lost, and no connection is given up.
#[test]
fn a_window_that_is_closed_for_minutes_opens_again() {
    for (config, is_v6) in profiles().into_iter().flat_map(|config| [(config.clone(), false), (config, true)]) {
        let mut pair = Pair::new(&Config { receive_buffer_bytes: 20_000, ..config }, 3);
        let (client, server) = established(&mut pair, is_v6);
        let now = pair.now;
        assert_eq!(pair.hosts[CLIENT].send(now, client, &bytes(100_000)), Ok(100_000));
        pair.run(600 * SECOND);
        assert_eq!(pair.hosts[CLIENT].state(client), Some(State::Established));
        assert!(pair.hosts[CLIENT].tcp.counters().value(Counter::WindowProbes) > 5);
        read_all(&mut pair, SERVER, server, 100_000, 70_000);
    }
}

/// The same, and the update that opens it is lost: the next probe finds it.
#[test]
fn a_window_update_that_is_lost_is_found_by_a_probe() {
    for config in profiles() {
        let mut pair = Pair::new(&Config { receive_buffer_bytes: 20_000, ..config }, 4);
        let (client, server) = established(&mut pair, true);
        let now = pair.now;
        assert_eq!(pair.hosts[CLIENT].send(now, client, &bytes(50_000)), Ok(50_000));
        pair.run(30 * SECOND);
        pair.hosts[SERVER].wire.weather.loss = 100;
        let now = pair.now;
        let first = pair.hosts[SERVER].read(now, server).unwrap();
        pair.run(MS);
        pair.hosts[SERVER].wire.weather.loss = 0;
        let (mut got, end) = (first, pair.now.after_ns(130 * SECOND));
        while got.len() < 50_000 && pair.now < end {
            pair.run(10 * MS);
            let now = pair.now;
            got.extend(pair.hosts[SERVER].read(now, server).unwrap_or_default());
        }
        assert!(got == bytes(50_000), "{} bytes", got.len());
    }
}

/// RFC 9293 section 3.8.6.2.2: a reader that takes a byte at a time does not open the window by a byte.
#[test]
fn a_reader_of_single_bytes_makes_no_silly_window() {
    for is_v6 in [false, true] {
        let mut pair = Pair::new(&Config { receive_buffer_bytes: 4096, ..Config::latency() }, 5);
        let (client, server) = established(&mut pair, is_v6);
        let now = pair.now;
        assert_eq!(pair.hosts[CLIENT].send(now, client, &bytes(20_000)), Ok(20_000));
        let before = pair.hosts[CLIENT].wire.sent;
        read_all(&mut pair, SERVER, server, 20_000, 1);
        let segments = pair.hosts[CLIENT].wire.sent - before;
        assert!(segments < 100, "{segments} segments for 20000 bytes");
    }
}

/// RFC 9293 section 3.8.6.2.1: nor does a peer that opens its window byte by byte get a segment for each. What the override timeout
/// sends is all that the window takes.
#[test]
fn a_peer_that_opens_its_window_by_a_byte_gets_no_silly_segments() {
    for config in profiles() {
        let mut play = Play::accepted(Config { nodelay: true, ..config }, Options::NONE);
        play.send(&[7; 20_000]);
        let sent = play.seen().last().map(|seen| seen.seq + seen.payload.len() as u32).unwrap();
        // All that was sent is acknowledged; the window is closed, then opens by one byte per ACK.
        let mut segments = 0;
        for window in 0..900 {
            play.window = window;
            play.say(1, sent, Flags::ACK, b"");
            segments += play.seen().len();
        }
        assert_eq!(segments, 0, "half a window, or a segment, is worth one");
        play.window = 1000;
        play.say(1, sent, Flags::ACK, b"");
        assert_eq!(play.ranges(), [(sent, 1000)]);
    }
}

/// Both sides ask, both are answered, for hours; then one of them is gone without a word, and is found.
#[test]
fn keep_alive_from_both_sides() {
    for is_v6 in [false, true] {
        let mut pair = Pair::new(&Config::latency(), 6);
        let (client, server) = established(&mut pair, is_v6);
        pair.run(4 * 3600 * SECOND);
        for (host, id) in [(CLIENT, client), (SERVER, server)] {
            assert_eq!(pair.hosts[host].state(id), Some(State::Established));
            assert!(pair.hosts[host].tcp.counters().value(Counter::KeepAlives) > 0);
        }
        // It begins anew, and knows nothing: its answer to a probe is a RST.
        pair.hosts[SERVER] = Host::new(Config::latency(), 99, 50_000);
        pair.run(61 * SECOND);
        let now = pair.now;
        assert_eq!(pair.hosts[CLIENT].read(now, client), Err(Error::Reset));
    }
}

/// A peer that is silent is asked, and not given up before one that owes an ACK would be.
#[test]
fn an_outage_does_not_end_what_is_idle() {
    let mut pair = Pair::new(&Config::latency(), 7);
    let (client, server) = established(&mut pair, false);
    pair.hosts.iter_mut().for_each(|host| host.wire.weather.loss = 100);
    pair.run(800 * SECOND);
    pair.hosts.iter_mut().for_each(|host| host.wire.weather.loss = 0);
    let now = pair.now;
    assert_eq!(pair.hosts[CLIENT].send(now, client, &bytes(10)), Ok(10));
    read_all(&mut pair, SERVER, server, 10, 100);
    pair.hosts.iter_mut().for_each(|host| host.wire.weather.loss = 100);
    pair.run(1000 * SECOND);
    let now = pair.now;
    assert_eq!(pair.hosts[CLIENT].read(now, client), Err(Error::TimedOut));
}

/// An interval of the program's own still counts by itself.
#[test]
fn keep_alive_by_the_programs_numbers() {
    let mut play = Play::accepted(Config::latency(), Options::NONE);
    let mut options = play.host.tcp.options(play.id()).unwrap();
    options.keepalive = Some(KeepAlive { idle_ns: SECOND, interval_ns: SECOND, probes_max: 2 });
    play.call(|tcp, now, id, out| tcp.set_options(now, id, options, out)).unwrap();
    play.pass(4 * SECOND);
    assert_eq!(play.facts().state, State::Closed);
    let last = play.seen().pop().unwrap();
    assert!(last.flags.has(Flags::RST));
}

/// RFC 9293 section 3.5 figure 7, section 3.6 figure 13
#[test]
fn both_at_the_same_time_from_the_first_to_the_last() {
    for (config, is_v6) in profiles().into_iter().flat_map(|config| [(config.clone(), false), (config, true)]) {
        let mut pair = Pair::new(&config, 8);
        let ids = [CLIENT, SERVER].map(|host| connect(&mut pair, host, 7000, 7000, is_v6));
        pair.run(SECOND);
        let now = pair.now;
        for host in [CLIENT, SERVER] {
            assert_eq!(pair.hosts[host].state(ids[host]), Some(State::Established));
            assert_eq!(pair.hosts[host].send(now, ids[host], &bytes(5000)), Ok(5000));
            pair.hosts[host]
                .with(now, |tcp, mut sink| {
                    tcp.shutdown(now, ids[host], sidestep_stack::tcp::Shutdown::Write, &mut sink)
                })
                .unwrap();
        }
        pair.run(SECOND);
        for host in [CLIENT, SERVER] {
            read_all(&mut pair, host, ids[host], 5000, 10_000);
            assert_eq!(pair.hosts[host].state(ids[host]), Some(State::TimeWait));
            let now = pair.now;
            pair.hosts[host].close(now, ids[host]);
        }
        pair.run(61 * SECOND);
        assert!(pair.hosts.iter().all(|host| host.tcp.connections() == (0, 0) && host.tcp.orphans() == (0, 0)));
    }
}

/// RFC 9293 section 3.10.7.4: the peer looks at an ACK within its window only. A receiver short of memory takes back what it has offered
/// (Linux 6.6), and both ends wait for ever where neither hears of the other's window.
#[test]
fn an_acknowledgment_stays_within_a_window_that_was_taken_back() {
    for window in [0, 500] {
        let mut play = Play::accepted(Config::default(), Options::NONE);
        play.window = 3000;
        play.say(1, 1, Flags::ACK, b"");
        play.send(&[7; 3000]);
        assert!(play.ranges().len() > 1);
        play.window = window;
        play.say(1, 1, Flags::ACK, b"data");
        play.pass(40 * MS);
        let acknowledgments: Vec<_> = play.seen().into_iter().filter(|seen| seen.payload.is_empty()).collect();
        assert_eq!(acknowledgments.last().map(|seen| (seen.seq, seen.ack)), Some((1 + u32::from(window), 5)));
    }
}

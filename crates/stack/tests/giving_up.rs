//! The time for which a connection is kept without an answer, and the end of orphans. RFC 9293 section 3.8.3, RFC 6069,
//! Linux tcp_retries2, tcp_orphan_retries, tcp_max_orphans, tcp_mem.

mod tcp_support;

use sidestep_stack::tcp::{Config, Counter, Error, State};
use sidestep_wire::tcp::{Flags, Options};
use tcp_support::peer::{MS, Play, SECOND};
use tcp_support::{CLIENT, Pair, SERVER};

const LOST: u8 = 100;

fn profiles() -> [Config; 2] {
    [Config::default(), Config::latency()]
}

/// The peer acknowledges what fits its window, and answers every probe with a closed one, for ever.
fn answer_with_closed_window(play: &mut Play, for_ns: u64) {
    let end = play.now.after_ns(for_ns);
    play.window = 0;
    while play.now < end && play.host.tcp.connections() != (0, 0) {
        let seen = play.seen();
        if seen.iter().any(|seen| seen.flags.has(Flags::RST)) {
            return;
        }
        if !seen.is_empty() {
            play.say(1, 1001, Flags::ACK, b"");
        }
        let next = play.host.tcp.next_poll().map_or(SECOND, |at| at.since_ns(play.now));
        play.pass(next.clamp(1, SECOND));
    }
}

/// Linux tcp_orphan_retries: eight retransmissions from 200 ms on are 102.2 s, however often the peer answers.
#[test]
fn an_orphan_at_a_closed_window_ends() {
    for config in profiles() {
        let mut play = Play::accepted(config, Options::NONE);
        play.window = 1000;
        play.say(1, 1, Flags::ACK, b"");
        play.send(&[7; 5000]);
        play.seen();
        let begun = play.now;
        play.close();
        play.window = 0;
        play.say(1, 1001, Flags::ACK, b"");
        answer_with_closed_window(&mut play, 3600 * SECOND);
        assert_eq!(play.host.tcp.connections(), (0, 0), "after {} s", play.now.since_ns(begun) / SECOND);
        let after_ns = play.now.since_ns(begun);
        assert!((102 * SECOND..104 * SECOND).contains(&after_ns), "{} ms", after_ns / MS);
        assert_eq!(play.count(Counter::AbortedByTimeout), 1);
    }
}

/// The same connection as long as it is held: RFC 9293 section 3.8.6.1 wants it probed for ever.
#[test]
fn a_held_connection_at_a_closed_window_stays() {
    for config in profiles() {
        let mut play = Play::accepted(config, Options::NONE);
        play.window = 1000;
        play.say(1, 1, Flags::ACK, b"");
        play.send(&[7; 5000]);
        play.seen();
        play.window = 0;
        play.say(1, 1001, Flags::ACK, b"");
        answer_with_closed_window(&mut play, 3600 * SECOND);
        assert_eq!(play.facts().state, State::Established);
        play.window = 60_000;
        play.seen();
        play.say(1, 1001, Flags::ACK, b"");
        assert_eq!(play.ranges()[..2], [(1001, 1), (1002, 1000)], "the probe was lost");
    }
}

/// What was handed over before close survives an outage as long as Linux would let it: the limit is a time, not a number of
/// retransmissions that a low timeout uses up in seconds.
#[test]
fn close_and_an_outage_lose_nothing() {
    for config in profiles() {
        // Linux's own last attempts are after 51 s and 102 s, when it gives up.
        let longest_ns = if config.rto_max_us > 2_000_000 { 50 * SECOND } else { 100 * SECOND };
        for outage_ns in [2400 * MS, 30 * SECOND, longest_ns] {
            let mut pair = Pair::new(&config, 5);
            let (client, server) = pair.established();
            pair.hosts[CLIENT].wire.weather.loss = LOST;
            let now = pair.now;
            assert_eq!(pair.hosts[CLIENT].send(now, client, &[3; 100_000]), Ok(100_000));
            pair.hosts[CLIENT].close(now, client);
            pair.run(outage_ns);
            pair.hosts[CLIENT].wire.weather.loss = 0;
            let (mut got, end) = (0, pair.now.after_ns(130 * SECOND));
            while got < 100_000 && pair.now < end {
                pair.run(10 * MS);
                let now = pair.now;
                got += pair.hosts[SERVER].read(now, server).map_or(0, |bytes| bytes.len());
            }
            assert_eq!(got, 100_000, "after an outage of {} ms", outage_ns / MS);
        }
    }
}

/// The peer of a connection that is given up gets a RST (Linux tcp_out_of_resources), with a number that it accepts at once also where its window is
/// closed (Linux tcp_acceptable_seq); and the loss is counted.
#[test]
fn who_is_given_up_is_told() {
    let mut play = Play::accepted(Config::latency(), Options::NONE);
    play.send(&[7; 700]);
    play.close();
    let begun = play.now;
    play.pass(300 * SECOND);
    let last = play.seen().pop().unwrap();
    assert_eq!((last.flags, last.seq), (Flags::RST | Flags::ACK, 702));
    assert_eq!(play.host.tcp.connections(), (0, 0));
    // Nor is a held one given up in silence, after tcp_retries2: 924.6 s.
    let mut play = Play::accepted(Config::latency(), Options::NONE);
    play.window = 0;
    play.say(1, 1, Flags::ACK, b"");
    play.send(&[7; 700]);
    play.pass(924 * SECOND);
    assert_eq!(play.facts().state, State::Established);
    play.pass(10 * SECOND);
    let last = play.seen().pop().unwrap();
    assert_eq!((last.flags, last.seq), (Flags::RST | Flags::ACK, 1), "what its window still takes");
    assert_eq!(play.host.tcp.take_error(play.id()), Ok(Some(Error::TimedOut)));
    assert!(play.now.since_ns(begun) > 0);
}

/// The low timeout of the latency profile must not make an outage longer than Linux would: what waits is sent again within two
/// seconds of the outage's end.
#[test]
fn an_outage_ends_when_it_ends() {
    for outage_ns in [3 * SECOND, 21 * SECOND, 60 * SECOND, 500 * SECOND] {
        let mut pair = Pair::new(&Config::latency(), 6);
        let (client, server) = pair.established();
        pair.hosts.iter_mut().for_each(|host| host.wire.weather.loss = LOST);
        let now = pair.now;
        for (host, id) in [(CLIENT, client), (SERVER, server)] {
            assert_eq!(pair.hosts[host].send(now, id, &[3; 1000]), Ok(1000));
        }
        pair.run(outage_ns);
        pair.hosts.iter_mut().for_each(|host| host.wire.weather.loss = 0);
        pair.run(2 * SECOND + MS);
        let now = pair.now;
        for (host, id) in [(CLIENT, client), (SERVER, server)] {
            let got = pair.hosts[host].read(now, id).map_or(0, |bytes| bytes.len());
            assert_eq!(got, 1000, "host {host} after an outage of {} s", outage_ns / SECOND);
        }
    }
}

/// A segment from the peer after a silence shows that the outage is over: segments backed off for minutes are sent at once.
#[test]
fn a_peer_that_shows_life_is_sent_to_at_once() {
    let mut play = Play::accepted(Config::default(), Options::NONE);
    play.send(&[7; 700]);
    play.pass(120 * SECOND);
    play.seen();
    play.say(1, 1, Flags::ACK | Flags::PSH, b"back");
    play.pass(MS);
    let again: Vec<_> = play.seen().into_iter().filter(|seen| !seen.payload.is_empty()).collect();
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!((again[0].seq, again[0].payload.len()), (1, 700));
    // From here on as at first: 200 ms, not minutes.
    play.pass(199 * MS);
    let resent = |play: &mut Play| play.seen().iter().filter(|seen| !seen.payload.is_empty()).count();
    assert_eq!(resent(&mut play), 0);
    play.pass(300 * MS);
    assert_eq!(resent(&mut play), 1);
    // A peer that talks on without acknowledging is no news: there is no second retransmission per segment of its.
    for number in 0..50 {
        play.say(5 + number, 1, Flags::ACK | Flags::PSH, b"x");
        play.pass(MS);
    }
    assert_eq!(resent(&mut play), 0);
}

/// What the peer sends again because our ACK was lost shows life, too.
#[test]
fn a_duplicate_of_the_peers_shows_life() {
    let mut play = Play::accepted(Config::default(), Options::NONE);
    play.say(1, 1, Flags::ACK | Flags::PSH, b"ask");
    play.send(&[7; 700]);
    play.pass(120 * SECOND);
    play.seen();
    play.say(1, 1, Flags::ACK | Flags::PSH, b"ask");
    play.pass(MS);
    let again = play.seen().into_iter().filter(|seen| seen.payload.len() == 700).count();
    assert_eq!(again, 1);
}

/// A thousand strangers that connect, let something be sent to them, and never open their windows.
fn strangers(config: Config, count: u16, bytes: usize) -> Play {
    let mut play = Play::new(config);
    play.listen(4096);
    for number in 0..count {
        play.port = 5000 + number;
        play.window = 1000;
        play.raw(0, 0, Flags::SYN, Options { maximum_segment_size: Some(1000), ..Options::NONE }, b"");
        play.seen();
        play.say(1, 1, Flags::ACK, b"");
        play.accept();
        play.send(&vec![7; bytes]);
        play.close();
        play.window = 0;
        play.say(1, 1001, Flags::ACK, b"");
        play.seen();
        let (orphans, held) = play.host.tcp.orphans();
        let config = play.host.tcp.config();
        assert!(orphans <= config.orphans_max && held <= u64::from(config.orphan_bytes_max), "{orphans} {held}");
    }
    play
}

/// Linux tcp_mem: the memory of all orphans is bounded; the oldest are reset and counted.
#[test]
fn a_thousand_strangers_do_not_fill_the_memory() {
    const COUNT: u64 = 1000;
    let config = Config { orphan_bytes_max: 8 << 20, send_buffer_initial_bytes: 200_000, ..Config::latency() };
    let mut play = strangers(config, COUNT as u16, 200_000);
    let (orphans, held) = play.host.tcp.orphans();
    let dropped = play.count(Counter::OrphansDropped);
    assert_eq!(dropped + u64::from(orphans), COUNT);
    assert!((20..50).contains(&orphans) && held > 4 << 20, "{orphans} hold {held} bytes");
    assert_eq!((play.count(Counter::LostStreams), play.count(Counter::LostBytes)), (dropped, dropped * 199_000));
    assert_eq!(play.host.tcp.connections().0, orphans);
    // Whatever they answer, in two minutes nothing is left.
    for _ in 0..120 {
        for number in 0..COUNT as u16 {
            play.port = 5000 + number;
            play.say(1, 1001, Flags::ACK, b"");
        }
        play.pass(SECOND);
        play.host.wire.clear();
    }
    assert_eq!((play.host.tcp.connections(), play.host.tcp.orphans()), ((0, 0), (0, 0)));
    assert_eq!(play.count(Counter::LostStreams), COUNT);
}

/// Linux tcp_max_orphans
#[test]
fn closed_connections_are_bounded_in_number() {
    let config = Config { orphans_max: 10, ..Config::default() };
    let mut play = strangers(config, 100, 2000);
    assert_eq!(play.host.tcp.orphans().0, 10);
    assert_eq!(play.count(Counter::OrphansDropped), 90);
    // The oldest have gone, and whoever is left gets what there is for it.
    let (before, now) = (play.host.tcp.connections(), play.now);
    play.port = 5000 + 99;
    play.window = 60_000;
    play.say(1, 1001, Flags::ACK, b"");
    play.pass(MS);
    play.say(1, 2002, Flags::ACK, b"");
    assert_eq!(before.0, play.host.tcp.connections().0, "in FIN-WAIT-2");
    assert_eq!(play.host.tcp.orphans().0, 9, "with nothing that could be lost");
    play.host.with(now, |tcp, mut sink| tcp.drop_orphans(now, &mut sink));
    assert_eq!((play.host.tcp.orphans(), play.host.tcp.connections().0), ((0, 0), 1));
    assert_eq!(play.count(Counter::LostStreams), 99);
}

/// A connection that closes in order, and is answered, delays no other and loses nothing.
#[test]
fn orphans_that_end_in_order_are_not_counted_as_lost() {
    let mut pair = Pair::new(&Config { orphans_max: 4, ..Config::latency() }, 9);
    let listener = pair.listen(80);
    for number in 0..200 {
        let client = pair.connect(40_000 + number, 80);
        pair.run(MS);
        let server = pair.hosts[SERVER].tcp.accept(listener).unwrap();
        let now = pair.now;
        pair.hosts[CLIENT].send(now, client, &[1; 3000]).unwrap();
        pair.hosts[CLIENT].close(now, client);
        pair.run(MS);
        let now = pair.now;
        assert_eq!(pair.hosts[SERVER].read(now, server).unwrap().len(), 3000);
        pair.hosts[SERVER].close(now, server);
        pair.run(MS);
    }
    for host in &pair.hosts {
        let count = |counter| host.tcp.counters().value(counter);
        assert_eq!((count(Counter::OrphansDropped), count(Counter::LostStreams), host.tcp.orphans()), (0, 0, (0, 0)));
    }
}

/// The link is up again: what is backed off for a minute is sent at once, and what is not waits as it would.
#[test]
fn a_link_that_comes_up_ends_the_backoff() {
    let mut play = Play::accepted(Config::default(), Options::NONE);
    play.send(&[7; 700]);
    play.pass(60 * SECOND);
    play.seen();
    let now = play.now;
    play.host.with(now, |tcp, mut sink| tcp.hasten(now, &mut sink));
    play.pass(MS);
    assert_eq!(play.ranges(), [(1, 700)]);
    play.say(1, 701, Flags::ACK, b"");
    play.send(&[7; 10]);
    play.seen();
    let now = play.now;
    play.host.with(now, |tcp, mut sink| tcp.hasten(now, &mut sink));
    play.pass(MS);
    play.nothing();
}

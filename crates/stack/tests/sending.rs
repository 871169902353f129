//! Sending: loss recovery, probes, windows, Nagle. RFC 5681, 6298, 6582, 6675, 8985, 9293 section 3.8.

mod tcp_support;

use sidestep_stack::tcp::{Config, Congestion, Counter, Error, Event, Readiness, State};
use sidestep_wire::tcp::{Flags, Options, Timestamps};
use tcp_support::peer::{MS, Play, SECOND, Seen, sacking};

/// Small, without options, without Nagle; a round trip of 10 ms has been measured.
fn config() -> Config {
    Config { nodelay: true, congestion: Congestion::Reno, ..Config::default() }
}

/// A connection that has measured a round trip of 10 ms with one segment of 100 bytes, and no more in flight.
fn measured(config: Config, options: Options) -> Play {
    let mut play = Play::accepted(config, options);
    for number in 0..20 {
        play.send(&[0; 5]);
        play.pass(10 * MS);
        play.say(1, 1 + 5 * (number + 1), Flags::ACK, b"");
    }
    play.seen();
    play
}

/// RFC 6298 (5.1) to (5.6): the first unacknowledged segment, doubled waits, then one segment per ACK again.
#[test]
fn the_retransmission_timer() {
    let mut play = measured(Config { tail_probe: false, ..config() }, Options::NONE);
    play.send(&[1; 3000]);
    assert_eq!(play.ranges(), [(101, 1000), (1101, 1000), (2101, 1000)]);
    play.pass(200 * MS - 1);
    play.nothing();
    play.pass(1);
    assert_eq!(play.ranges(), [(101, 1000)], "RFC 5681: one segment");
    play.pass(400 * MS);
    assert_eq!(play.ranges(), [(101, 1000)]);
    assert_eq!(play.facts().congestion_window, 1000);
    play.say(1, 1101, Flags::ACK, b"");
    assert_eq!(play.ranges(), [(1101, 1000), (2101, 1000)], "slow start");
    play.say(1, 3101, Flags::ACK, b"");
    assert!(!play.facts().is_recovering);
    assert_eq!(play.facts().timeouts, 2);
}

/// RFC 9293 section 3.8.3: after so many tries the connection is given up, and the peer gets a RST.
#[test]
fn a_peer_that_is_gone() {
    let mut play = Play::accepted(Config { retries_max: 3, ..config() }, Options::NONE);
    play.send(b"x");
    play.pass(60 * SECOND);
    let seen = play.seen();
    assert_eq!(seen.iter().filter(|seen| seen.payload == b"x").count(), 4);
    assert_eq!((seen.len(), seen[4].flags), (5, Flags::RST | Flags::ACK));
    assert_eq!(play.facts().state, State::Closed);
    assert!(play.host.tcp.readiness(play.id()).has(Readiness::ERROR | Readiness::READABLE | Readiness::WRITABLE));
    let id = play.id();
    assert_eq!(std::iter::from_fn(|| play.host.tcp.next_event()).collect::<Vec<_>>(), [Event::Connection(id)]);
    assert_eq!(play.call(|tcp, now, id, out| tcp.read(now, id, &mut [0], out)), Err(Error::TimedOut));
    assert_eq!(play.call(|tcp, now, id, out| tcp.read(now, id, &mut [0], out)), Ok(0), "told once");
}

/// RFC 5482
#[test]
fn the_users_timeout() {
    let mut play = measured(Config { user_timeout_ms: 1000, ..config() }, Options::NONE);
    play.send(b"x");
    play.pass(SECOND - MS);
    assert_eq!(play.facts().state, State::Established);
    play.pass(MS);
    assert_eq!(play.facts().state, State::Closed);
}

/// RFC 5681 section 3.2, RFC 6582: three duplicate ACKs, the missing segment, then one hole per partial ACK.
#[test]
fn fast_retransmission_without_sack() {
    let mut play = measured(config(), Options::NONE);
    play.send(&[1; 6000]);
    assert_eq!(play.ranges().len(), 6);
    play.say(1, 101, Flags::ACK, b"");
    play.say(1, 101, Flags::ACK, b"");
    play.nothing();
    play.say(1, 101, Flags::ACK, b"");
    assert_eq!(play.ranges(), [(101, 1000)]);
    assert_eq!(play.facts().slow_start_threshold, 3000);
    // The fourth is missing, too.
    play.say(1, 3101, Flags::ACK, b"");
    assert_eq!(play.ranges()[0], (3101, 1000), "RFC 6582: a partial ACK shows the next hole");
    play.say(1, 6101, Flags::ACK, b"");
    assert!(!play.facts().is_recovering);
    assert_eq!(play.facts().timeouts, 0);
    assert_eq!(play.count(Counter::FastRecoveries), 1);
}

/// RFC 5681 section 2: an ACK with data or another window is no duplicate.
#[test]
fn what_is_no_duplicate_ack() {
    let mut play = measured(config(), Options::NONE);
    play.send(&[1; 3000]);
    play.seen();
    for number in 0..3 {
        play.window -= 1;
        play.say(1, 101, Flags::ACK, b"");
        play.say(1 + number, 101, Flags::ACK, b"x");
    }
    assert!(play.seen().iter().all(|seen| seen.payload.is_empty()));
    assert_eq!(play.count(Counter::FastRecoveries), 0);
}

/// RFC 6675, RFC 8985: three sacked segments, and only what is missing is sent again.
#[test]
fn fast_retransmission_with_sack() {
    let mut play = measured(config(), sacking());
    play.send(&[1; 8000]);
    play.seen();
    play.pass(10 * MS);
    play.sack(1, 101, &[(1101, 2101)]);
    play.sack(1, 101, &[(1101, 3101)]);
    play.nothing();
    play.sack(1, 101, &[(1101, 4101)]);
    assert_eq!(play.ranges(), [(101, 1000)]);
    // The sixth is missing, too.
    play.sack(1, 101, &[(6101, 8101), (1101, 5101)]);
    assert_eq!(play.ranges(), [(5101, 1000)]);
    play.pass(10 * MS);
    play.say(1, 8101, Flags::ACK, b"");
    play.nothing();
    assert!(!play.facts().is_recovering);
}

/// RFC 3042: duplicate ACKs let new segments out, so that there are enough of them.
#[test]
fn limited_transmit() {
    let mut play = measured(Config { initial_window_segments: 2, ..config() }, sacking());
    let window = play.facts().congestion_window;
    let full: Vec<u8> = vec![1; window as usize + 2000];
    play.send(&full);
    let sent = play.ranges().len() as u32;
    play.pass(10 * MS);
    play.sack(1, 101, &[(1101, 2101)]);
    play.sack(1, 101, &[(1101, 3101)]);
    let more = play.ranges();
    assert!(!more.is_empty() && more[0].0 >= 101 + (sent - 1) * 1000, "{more:?}");
}

/// RFC 8985 section 6.2 step 5: with reordering seen, the hole has a quarter of a round trip to fill itself.
#[test]
fn reordering_is_waited_out() {
    let mut play = measured(config(), sacking());
    play.send(&[1; 3000]);
    play.seen();
    play.pass(10 * MS);
    play.sack(1, 101, &[(1101, 2101)]);
    play.pass(2 * MS);
    play.nothing();
    play.pass(MS);
    assert_eq!(play.ranges(), [(101, 1000)], "after a quarter of 10 ms");
    // It was only late: the duplicate is reported, and the window comes back (RFC 2883).
    let before = play.facts().slow_start_threshold;
    play.say(1, 2101, Flags::ACK, b"");
    play.sack(1, 2101, &[(101, 1101)]);
    assert_eq!(play.count(Counter::SpuriousRecoveries), 1);
    assert!(play.facts().slow_start_threshold > before);
}

/// RFC 8985 section 7: two round trips after the last segment of a flight it is sent again.
#[test]
fn a_lost_tail_is_probed() {
    let mut play = measured(config(), sacking());
    play.send(&[1; 3000]);
    play.seen();
    play.pass(21 * MS);
    assert_eq!(play.ranges(), [(2101, 1000)]);
    assert_eq!(play.count(Counter::TailProbes), 1);
    // The whole flight was lost but the probe: its SACK starts the recovery.
    play.pass(10 * MS);
    play.sack(1, 101, &[(2101, 3101)]);
    play.pass(3 * MS);
    assert_eq!(play.ranges()[0], (101, 1000));
    assert_eq!(play.facts().timeouts, 0);
}

/// RFC 8985 section 7.3: a new segment is the better probe; section 7.4.2: the loss that a probe repairs is paid for.
#[test]
fn probes_with_new_data_and_their_price() {
    let mut play = measured(Config { nodelay: false, ..config() }, sacking());
    play.send(&[1; 10]);
    play.send(&[2; 10]);
    assert_eq!(play.ranges(), [(101, 10)], "Nagle holds the second");
    play.pass(221 * MS);
    assert_eq!(play.ranges(), [(111, 10)]);

    let mut play = measured(config(), sacking());
    play.send(&[1; 2000]);
    play.seen();
    let window = play.facts().congestion_window;
    play.pass(21 * MS);
    assert_eq!(play.ranges(), [(1101, 1000)]);
    play.send(&[1; 10]);
    play.seen();
    play.pass(10 * MS);
    play.say(1, 2111, Flags::ACK, b"");
    assert!(play.facts().congestion_window < window, "no duplicate was reported: the probe has repaired a loss");
}

/// RFC 2018 section 8: what was sacked and is not acknowledged after a timeout was thrown away.
#[test]
fn a_peer_that_reneges() {
    let mut play = measured(Config { tail_probe: false, ..config() }, sacking());
    play.send(&[1; 2000]);
    play.seen();
    play.pass(10 * MS);
    play.sack(1, 101, &[(1101, 2101)]);
    play.say(1, 1101, Flags::ACK, b"");
    play.seen();
    play.pass(SECOND);
    assert_eq!(play.ranges()[0], (1101, 1000), "sacked, but never acknowledged");
}

/// SACK blocks for what was never sent, or backward, change nothing.
#[test]
fn nonsense_in_sack_blocks() {
    let mut play = measured(config(), sacking());
    play.send(&[1; 3000]);
    play.seen();
    play.sack(1, 101, &[(5000, 6000), (2101, 1101), (3101, 3101)]);
    play.sack(1, 101, &[(1101, 1_000_000)]);
    assert_eq!((play.facts().sacked_segments, play.facts().in_flight), (0, 3000));
    play.nothing();
}

/// RFC 9293 section 3.8.6.1: a closed window is probed with a byte, with doubled waits, for ever.
#[test]
fn a_closed_window_is_probed() {
    let mut play = measured(config(), Options::NONE);
    play.window = 0;
    play.say(1, 101, Flags::ACK, b"");
    play.send(&[7; 3000]);
    play.nothing();
    play.pass(200 * MS);
    assert_eq!(play.ranges(), [(101, 1)]);
    for _ in 0..10 {
        play.say(1, 101, Flags::ACK, b"");
        play.pass(120 * SECOND);
        assert!(play.ranges().iter().all(|range| *range == (101, 1)));
    }
    assert_eq!(play.facts().state, State::Established, "a peer that answers is alive");
    assert_eq!(play.facts().congestion_window, 10_000, "a closed window is no congestion");
    play.window = 60_000;
    play.say(1, 101, Flags::ACK, b"");
    let ranges = play.ranges();
    assert_eq!(ranges[..3], [(101, 1), (102, 1000), (1102, 1000)], "at once, not when the timer comes");
}

/// The probe's byte may be taken.
#[test]
fn a_probe_that_is_taken() {
    let mut play = measured(config(), Options::NONE);
    play.window = 0;
    play.say(1, 101, Flags::ACK, b"");
    play.send(&[7; 10]);
    play.pass(200 * MS);
    assert_eq!(play.ranges(), [(101, 1)]);
    play.window = 1000;
    play.say(1, 102, Flags::ACK, b"");
    assert_eq!(play.ranges(), [(102, 9)]);
}

/// A FIN waits for the window, too, and is its own probe.
#[test]
fn a_finish_into_a_closed_window() {
    let mut play = measured(config(), Options::NONE);
    play.window = 0;
    play.say(1, 101, Flags::ACK, b"");
    play.close();
    play.nothing();
    play.pass(200 * MS);
    let probe: Seen = play.only();
    assert!(probe.flags.has(Flags::FIN));
}

/// RFC 9293 section 3.8.6.2.1: a window that is too small for a segment is not used, until the override timeout.
#[test]
fn silly_windows_are_not_used() {
    let mut play = measured(config(), Options::NONE);
    play.window = 300;
    play.say(1, 101, Flags::ACK, b"");
    play.send(&[7; 3000]);
    play.nothing();
    play.pass(200 * MS);
    assert_eq!(play.ranges(), [(101, 300)], "the override timeout");
}

/// RFC 9293 section 3.8.6: a peer that takes back a part of its window is not sent beyond it.
#[test]
fn a_window_that_shrinks() {
    let mut play = measured(Config { tail_probe: false, ..config() }, Options::NONE);
    play.window = 2000;
    play.say(1, 101, Flags::ACK, b"");
    play.send(&[7; 5000]);
    assert_eq!(play.ranges().len(), 2);
    play.window = 1000;
    play.say(1, 101, Flags::ACK, b"");
    play.nothing();
    play.say(1, 1101, Flags::ACK, b"");
    play.nothing();
    play.window = 0;
    play.say(1, 1101, Flags::ACK, b"");
    play.pass(200 * MS);
    assert_eq!(play.ranges(), [(1101, 1)], "what is beyond a closed window is probed for");
    play.window = 5000;
    play.say(1, 1101, Flags::ACK, b"");
    assert_eq!(play.ranges()[0], (1101, 1000));
}

/// RFC 9293 section 3.7.4; TCP_CORK; TCP_NODELAY set later lets go.
#[test]
fn nagle_and_cork() {
    let mut play = measured(Config { nodelay: false, ..config() }, Options::NONE);
    play.send(b"a");
    play.send(b"b");
    assert_eq!(play.ranges(), [(101, 1)]);
    let mut options = play.host.tcp.options(play.id()).unwrap();
    options.nodelay = true;
    play.call(|tcp, now, id, out| tcp.set_options(now, id, options, out)).unwrap();
    assert_eq!(play.ranges(), [(102, 1)]);
    options.cork = true;
    play.call(|tcp, now, id, out| tcp.set_options(now, id, options, out)).unwrap();
    play.send(&[1; 1500]);
    assert_eq!(play.ranges(), [(103, 1000)]);
    play.say(1, 1103, Flags::ACK, b"");
    play.pass(200 * MS - 1);
    play.nothing();
    play.pass(1);
    assert_eq!(play.ranges(), [(1103, 500)]);
}

/// RFC 5681 section 4.1: after silence the initial window, unless the profile says otherwise.
#[test]
fn silence_forgets_the_window_or_not() {
    for (restarts, segments) in [(true, 10), (false, 20)] {
        let mut play = measured(Config { slow_start_after_idle: restarts, ..config() }, Options::NONE);
        play.send(&[1; 10_000]);
        play.seen();
        for number in 1..=10 {
            play.say(1, 101 + number * 1000, Flags::ACK, b"");
        }
        assert_eq!(play.facts().congestion_window, 20_000);
        play.pass(SECOND);
        play.send(&[1; 40_000]);
        assert_eq!(play.ranges().len(), segments);
    }
}

/// RFC 1191 section 6.4, RFC 5927: cut and sent again at once, if it is about something under way; never below the limit.
#[test]
fn the_path_takes_less() {
    let mut play = measured(config(), Options::NONE);
    play.send(&[1; 2000]);
    play.seen();
    let (flow, iss, window) = (play.facts().flow, play.host_iss(), play.facts().congestion_window);
    let told = play.call(|tcp, now, _, out| tcp.packet_too_big(now, &flow, iss + 9_999, 700, out));
    assert!(!told);
    play.nothing();
    assert!(play.call(|tcp, now, _, out| tcp.packet_too_big(now, &flow, iss + 101, 700, out)));
    assert_eq!(play.ranges(), [(101, 660), (761, 340), (1101, 660), (1761, 340)]);
    assert_eq!(play.facts().congestion_window, window, "no congestion");
    play.call(|tcp, now, _, out| tcp.packet_too_big(now, &flow, iss + 101, 68, out));
    assert_eq!(play.facts().path_mtu, 552);
}

/// RFC 5961 section 5: ACKs of what was never sent, or far too old, are challenged and not used.
#[test]
fn bogus_acks_change_nothing() {
    let mut play = measured(config(), Options::NONE);
    play.send(&[1; 1000]);
    play.seen();
    for _ in 0..1000 {
        play.say(1, 5000, Flags::ACK, b"");
        play.say(1, 101_u32.wrapping_sub(70_000), Flags::ACK, b"");
    }
    assert_eq!(play.seen().len(), 10, "so many challenges per second");
    assert_eq!(play.count(Counter::AcksBad), 2000);
    assert_eq!(play.facts().in_flight, 1000);
    play.say(1, 1101, Flags::ACK, b"");
    assert_eq!(play.facts().in_flight, 0);
}

/// RFC 9293 section 3.8.4
#[test]
fn keep_alive() {
    let keepalive = Config { keepalive: true, keepalive_idle_ms: 1000, keepalive_interval_ms: 100, ..config() };
    let mut play = Play::accepted(Config { keepalive_probes_max: 3, ..keepalive.clone() }, Options::NONE);
    play.pass(1000 * MS);
    let probe = play.only();
    assert_eq!((probe.seq, probe.flags, probe.payload.len()), (0, Flags::ACK, 0), "SND.NXT - 1");
    play.say(1, 1, Flags::ACK, b"");
    play.pass(1000 * MS - 1);
    play.nothing();
    play.pass(201 * MS);
    assert_eq!(play.seen().len(), 3);
    play.pass(100 * MS);
    assert!(play.only().flags.has(Flags::RST));
    assert_eq!(play.facts().state, State::Closed);
    assert_eq!(play.host.tcp.take_error(play.id()), Ok(Some(Error::TimedOut)));
}

/// A sink without room loses nothing and reorders nothing.
#[test]
fn a_sink_without_room() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.host.wire.weather.refusal = 100;
    play.send(&[1; 1500]);
    play.pass(MS);
    play.nothing();
    play.host.wire.weather.refusal = 0;
    play.poll();
    assert_eq!(play.ranges(), [(1, 1000), (1001, 500)]);
    assert_eq!(play.facts().retransmitted, 0);
}

/// A link that refuses for ever, as one does whose neighbour never answers: the connection ends as if all had been lost.
#[test]
fn a_sink_that_never_has_room() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.host.wire.weather.refusal = 100;
    play.send(&[1; 1500]);
    let refused = Config { syn_retries_max: 2, ..config() };
    let mut early = Play::new(refused);
    early.host.wire.weather.refusal = 100;
    early.connect();
    for (play, seconds) in [(&mut play, 3600), (&mut early, 60)] {
        for _ in 0..seconds {
            play.now = play.now.after_ns(SECOND);
            play.poll();
        }
        assert_eq!(play.facts().state, State::Closed);
        assert_eq!(play.call(|tcp, _, id, _| tcp.take_error(id)), Ok(Some(Error::TimedOut)));
        assert_eq!(play.count(Counter::AbortedByTimeout), 1);
        assert_eq!(play.count(Counter::Retransmitted), 0);
        play.nothing();
    }
}

/// And once it has room again, what waited has its timer from then on.
#[test]
fn a_sink_that_has_room_late() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.host.wire.weather.refusal = 100;
    play.send(b"x");
    for _ in 0..30 {
        play.now = play.now.after_ns(100 * MS);
        play.poll();
    }
    play.host.wire.weather.refusal = 0;
    play.poll();
    assert_eq!(play.ranges(), [(1, 1)]);
    play.pass(190 * MS);
    play.nothing();
    play.pass(30 * MS);
    assert_eq!(play.ranges(), [(1, 1)], "the timeout of a first sending, not backed off");
    assert!(play.facts().slow_start_threshold < 1 << 20, "and the first of this segment");
    play.say(1, 2, Flags::ACK, b"");
    play.pass(10 * SECOND);
    play.nothing();
}

/// The same of a SYN, which waits for its neighbour's address most often.
#[test]
fn a_syn_that_waited_is_not_late_as_well() {
    let mut play = Play::new(config());
    play.host.wire.weather.refusal = 100;
    play.connect();
    for _ in 0..50 {
        play.now = play.now.after_ns(100 * MS);
        play.poll();
    }
    play.host.wire.weather.refusal = 0;
    play.poll();
    assert_eq!(play.only().flags, Flags::SYN);
    play.pass(SECOND - MS);
    play.nothing();
    play.pass(2 * MS);
    assert_eq!(play.only().flags, Flags::SYN, "a second later, as every first retransmission");
}

/// RFC 7323 section 3: timestamps on all segments; RFC 6298: with Karn's algorithm a retransmission is not measured.
#[test]
fn round_trips_are_measured_on_what_was_sent_once() {
    let timestamps = Some(Timestamps { value: 1, echo: 0 });
    let mut play = measured(config(), Options { timestamps, ..Options::NONE });
    let before = play.facts().rtt_ns;
    assert!(before.is_some_and(|rtt| rtt.abs_diff(10 * MS) < MS), "{before:?}");
    play.send(b"x");
    assert!(play.only().options.timestamps.is_some());
    play.pass(300 * MS);
    assert!(!play.seen().is_empty());
    play.say(1, 102, Flags::ACK, b"");
    assert_eq!(play.facts().rtt_ns, before);
}

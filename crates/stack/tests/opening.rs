//! Beginnings: handshakes, their options, floods of SYNs. RFC 9293 section 3.5 and 3.10.7, RFC 7323, RFC 4987.

mod tcp_support;

use sidestep_stack::tcp::{Config, Counter, Error, Flow, Readiness, State, Undelivered};
use sidestep_wire::tcp::{Flags, Options, Timestamps};
use tcp_support::address;
use tcp_support::peer::{MS, Play, SECOND, sacking};

const SYN_ACK: Flags = Flags(0x12);

fn config() -> Config {
    Config::default()
}

fn all_options() -> Options {
    let timestamps = Some(Timestamps { value: 7, echo: 0 });
    Options {
        maximum_segment_size: Some(1300),
        window_scale: Some(3),
        sack_permitted: true,
        timestamps,
        ..Options::NONE
    }
}

/// RFC 7323 section 1.3, RFC 2018 section 2: only what the SYN offers is answered.
#[test]
fn an_answer_offers_what_was_offered() {
    let mut play = Play::new(config());
    play.listen(1);
    play.syn(all_options());
    let answer = play.only();
    assert_eq!((answer.flags, answer.ack), (SYN_ACK, 1));
    assert_eq!(answer.options.maximum_segment_size, Some(1460));
    assert_eq!((answer.options.window_scale, answer.options.sack_permitted), (Some(7), true));
    assert_eq!(answer.options.timestamps.map(|timestamps| timestamps.echo), Some(7));

    let mut play = Play::new(config());
    play.listen(1);
    play.syn(Options::NONE);
    let answer = play.only();
    let mss_only = Options { maximum_segment_size: Some(1460), ..Options::NONE };
    assert_eq!(answer.options, mss_only);
}

/// RFC 9293 MUST-15: a peer that names no segment size gets 536 bytes; RFC 6691: options come out of that.
#[test]
fn segment_sizes() {
    let mut play = Play::accepted(config(), Options { maximum_segment_size: Some(900), ..sacking() });
    play.send(&[1; 2000]);
    assert_eq!(play.ranges(), [(1, 900), (901, 900), (1801, 200)]);
    let mut play = Play::new(config());
    play.listen(1);
    play.syn(Options::NONE);
    play.seen();
    play.say(1, 1, Flags::ACK, b"");
    play.accept();
    play.send(&[1; 600]);
    assert_eq!(play.ranges(), [(1, 536), (537, 64)]);
    let mut play = Play::accepted(config(), all_options());
    play.send(&[1; 1300]);
    assert_eq!(play.ranges(), [(1, 1288), (1289, 12)], "12 bytes are the timestamps'");
}

/// RFC 9293 section 3.5 figure 6, RFC 7323 section 2.2: windows are shifted from the third segment on.
#[test]
fn connecting() {
    let mut play = Play::new(config());
    play.connect();
    let syn = play.only();
    assert_eq!((syn.flags, syn.ack), (Flags::SYN, 0));
    assert!(syn.options.sack_permitted && syn.options.timestamps.is_some() && syn.options.window_scale == Some(7));
    assert_eq!(play.call(|tcp, now, id, out| tcp.send(now, id, b"x", out)), Err(Error::WouldBlock));
    play.window = 100;
    play.raw(0, 1, SYN_ACK, all_options(), b"");
    let ack = play.only();
    assert_eq!((ack.flags, ack.seq, ack.ack), (Flags::ACK, 1, 1));
    assert_eq!(play.facts().send_window, 100, "not shifted on a SYN");
    assert!(play.host.tcp.readiness(play.id()).has(Readiness::WRITABLE));
    play.clock = Some(8);
    play.say(1, 1, Flags::ACK, b"");
    assert_eq!(play.facts().send_window, 800);
}

/// RFC 9293 section 3.10.7.3; RFC 5961 section 3.2
#[test]
fn only_the_answer_to_our_syn_counts() {
    let mut play = Play::new(config());
    play.connect();
    play.seen();
    play.say(0, 0, SYN_ACK, b"");
    let reset = play.only();
    assert_eq!((reset.flags, reset.seq), (Flags::RST, 0), "<SEQ=SEG.ACK><CTL=RST>");
    play.say(0, 2, Flags::RST | Flags::ACK, b"");
    play.say(0, 0, Flags::RST, b"");
    play.nothing();
    assert_eq!(play.facts().state, State::SynSent);
    play.say(0, 1, Flags::RST | Flags::ACK, b"");
    assert_eq!(play.facts().state, State::Closed);
    assert_eq!(play.host.tcp.take_error(play.id()), Ok(Some(Error::Refused)));
}

/// RFC 9293 section 3.5 figure 7
#[test]
fn both_open_at_the_same_time() {
    let mut play = Play::new(config());
    play.connect();
    play.seen();
    let scaling = Options { window_scale: Some(3), ..Options::NONE };
    play.syn(scaling);
    let answer = play.only();
    assert_eq!((answer.flags, answer.seq, answer.ack), (SYN_ACK, 0, 1));
    assert_eq!(play.facts().state, State::SynReceived);
    play.window = 800;
    play.raw(0, 1, SYN_ACK, scaling, b"");
    assert_eq!(play.facts().state, State::Established);
    assert_eq!(play.facts().send_window, 800, "RFC 7323 section 2.2: not shifted on a SYN");
}

/// RFC 6298 section 5: SYNs are sent again with doubled waits; then the attempt is given up.
#[test]
fn a_silent_peer_is_given_up() {
    let mut play = Play::new(Config { syn_retries_max: 3, ..config() });
    play.connect();
    play.pass(SECOND - 1);
    assert_eq!(play.seen().len(), 1);
    for wait in [1, 2 * SECOND, 4 * SECOND] {
        play.pass(wait);
        assert_eq!(play.only().flags, Flags::SYN);
    }
    play.pass(8 * SECOND);
    play.nothing();
    assert_eq!(play.host.tcp.take_error(play.id()), Ok(Some(Error::TimedOut)));
}

/// RFC 9293 section 3.10.7.1: <SEQ=0><ACK=SEG.SEQ+SEG.LEN> without ACK, <SEQ=SEG.ACK> with; a RST is not answered.
#[test]
fn what_belongs_to_nobody_is_reset() {
    let mut play = Play::new(config());
    play.syn(Options::NONE);
    let reset = play.only();
    assert_eq!((reset.flags, reset.ack), (Flags::RST | Flags::ACK, 1));
    play.say(5, 77, Flags::ACK, b"abc");
    assert_eq!(play.only().flags, Flags::RST);
    play.say(5, 77, Flags::RST, b"");
    play.nothing();
    let mut play = Play::new(Config { reset_unknown: false, ..config() });
    play.syn(Options::NONE);
    play.nothing();
}

/// A SYN-ACK that was lost is sent again when the SYN is; and by the timer, so often and no more.
#[test]
fn half_open_connections_end() {
    let mut play = Play::new(Config { syn_ack_retries_max: 2, ..config() });
    play.listen(1);
    play.syn(Options::NONE);
    play.syn(Options::NONE);
    assert_eq!(play.seen().len(), 2);
    play.pass(60 * SECOND);
    assert_eq!(play.seen().len(), 2);
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// RFC 9293 section 3.10.7.4, fifth check of SYN-RECEIVED
#[test]
fn a_wrong_last_ack_is_reset() {
    let mut play = Play::new(config());
    play.listen(1);
    play.syn(Options::NONE);
    play.seen();
    play.say(1, 2, Flags::ACK, b"");
    let reset = play.only();
    assert_eq!((reset.flags, reset.seq), (Flags::RST, 2));
    play.say(1, 1, Flags::ACK, b"");
    assert_eq!(play.host.tcp.backlog(play.listener.unwrap()), Ok(1));
}

/// Data with the last ACK of the handshake is not lost.
#[test]
fn the_last_ack_may_carry_data() {
    let mut play = Play::new(config());
    play.listen(1);
    play.syn(sacking());
    play.seen();
    play.say(1, 1, Flags::ACK | Flags::FIN, b"hello");
    play.accept();
    assert_eq!(play.read(), b"hello");
    assert_eq!(play.read(), b"", "and the end");
}

/// The accept queue is bounded: a SYN finds no place, the last ACK of one that was half open is not taken until there is.
#[test]
fn the_backlog_is_a_limit() {
    let mut play = Play::new(config());
    play.listen(1);
    for port in [5001, 5002] {
        play.port = port;
        play.syn(Options::NONE);
    }
    play.host.wire.clear();
    // Both numbers are needed to finish both handshakes: connect them one after the other.
    play.port = 5003;
    play.syn(Options::NONE);
    play.seen();
    play.say(1, 1, Flags::ACK, b"");
    play.port = 5004;
    play.syn(Options::NONE);
    play.nothing();
    assert_eq!(play.count(Counter::AcceptQueueFull), 1);
    play.accept();
    play.syn(Options::NONE);
    assert_eq!(play.only().flags, SYN_ACK);
}

/// RFC 4987: a flood is answered by cookies; the connections that were there do not suffer; memory is bounded.
#[test]
fn a_flood_of_syns() {
    let mut play = Play::new(Config { syn_queue_max: 16, ..config() });
    play.listen(64);
    for port in 1000..2000 {
        play.port = port;
        play.syn(all_options());
    }
    play.host.wire.clear();
    assert_eq!(play.host.tcp.connections(), (16, 0));
    assert_eq!(play.count(Counter::CookiesSent), 984);
    play.port = 3000;
    play.syn(all_options());
    let cookie = play.only();
    assert_eq!((cookie.flags, cookie.ack), (SYN_ACK, 1));
    let echo = cookie.options.timestamps.expect("the peer has them").value;
    assert_eq!((cookie.options.window_scale, cookie.options.sack_permitted), (Some(7), true));
    let timestamps = Some(Timestamps { value: 9, echo });
    // A forged one is reset.
    play.raw(1, 2, Flags::ACK, Options { timestamps, ..Options::NONE }, b"");
    assert_eq!(play.only().flags, Flags::RST);
    play.raw(1, 1, Flags::ACK, Options { timestamps, ..Options::NONE }, b"hello");
    play.accept();
    assert_eq!(play.read(), b"hello");
    let facts = play.facts();
    assert_eq!((facts.window_shifts, facts.sack, facts.timestamps), ((3, 7), true, true));
    assert_eq!(facts.segment_bytes, 1220, "rounded down to what a cookie can name");
    play.clock = Some(10);
    play.send(b"world");
    assert_eq!(play.seen().last().unwrap().payload, b"world");
}

#[test]
fn without_cookies_a_flood_is_dropped() {
    let mut play = Play::new(Config { syn_queue_max: 2, syn_cookies: false, ..config() });
    play.listen(64);
    for port in 1000..1010 {
        play.port = port;
        play.syn(Options::NONE);
    }
    assert_eq!(play.seen().len(), 2);
    assert_eq!(play.count(Counter::SynQueueFull), 8);
    play.port = 1000;
    play.say(9, 9, Flags::ACK, b"");
}

/// A connection beyond `connections_max` is refused before anything is changed.
#[test]
fn connections_are_bounded() {
    let mut play = Play::new(Config { connections_max: 1, ..config() });
    play.connect();
    let again = play.call(|tcp, now, _, out| {
        let options = tcp.config().options();
        tcp.connect(now, address(0, 81), address(1, 9), None, options, out)
    });
    assert_eq!(again, Err(Error::TooManyConnections));
    play.listen(1);
    play.port = 6000;
    play.seen();
    play.syn(Options::NONE);
    play.nothing();
    assert_eq!(play.count(Counter::ConnectionsFull), 1);
}

/// Whatever ICMP says of a SYN that is under way ends the attempt, by the errno of Linux (tcp_v4_err, icmp_err_convert).
#[test]
fn icmp_while_connecting() {
    for (why, error) in [
        (Undelivered::Network, Error::NetworkUnreachable),
        (Undelivered::Host, Error::Unreachable),
        (Undelivered::HopLimit, Error::Unreachable),
        (Undelivered::Protocol, Error::ProtocolUnreachable),
        (Undelivered::Port, Error::Refused),
        (Undelivered::Prohibited, Error::Unreachable),
    ] {
        let mut play = Play::new(config());
        play.connect();
        play.seen();
        let (flow, iss) = (play.facts().flow, play.host_iss());
        play.call(|tcp, now, _, out| {
            assert!(!tcp.unreachable(now, &flow, iss + 5, why, out), "not under way");
            assert!(tcp.unreachable(now, &flow, iss, why, out));
        });
        assert_eq!(play.count(Counter::IcmpIgnored), 1);
        assert_eq!(play.host.tcp.take_error(play.id()), Ok(Some(error)));
        assert_eq!(play.facts().state, State::Closed);
    }
}

/// The same of IPv6 (tcp_v6_err, icmpv6_err_convert): a filter and an absent host give different errors.
#[test]
fn icmp_while_connecting_over_ipv6() {
    for (why, error) in [
        (Undelivered::Network, Error::NetworkUnreachable),
        (Undelivered::Host, Error::Unreachable),
        (Undelivered::Port, Error::Refused),
        (Undelivered::Prohibited, Error::Prohibited),
    ] {
        let mut play = Play::new(config());
        let (now, options) = (play.now, config().options());
        let (local, remote) = ("[2001:db8::1]:80".parse().unwrap(), "[2001:db8::2]:9".parse().unwrap());
        let made = play.host.with(now, |tcp, mut sink| tcp.connect(now, local, remote, None, options, &mut sink));
        play.id = Some(made.unwrap());
        play.seen();
        let (flow, iss) = (play.facts().flow, play.host_iss());
        assert!(play.call(|tcp, now, _, out| tcp.unreachable(now, &flow, iss, why, out)));
        assert_eq!(play.host.tcp.take_error(play.id()), Ok(Some(error)));
    }
}

/// A connection that a peer has begun is forgotten when the way to it does not lead on (Linux tcp_req_err).
#[test]
fn icmp_while_being_connected_to() {
    for (why, left) in [(Undelivered::Host, 0), (Undelivered::Network, 0), (Undelivered::Port, 1)] {
        let mut play = Play::new(config());
        play.listen(1);
        play.syn(Options::NONE);
        play.seen();
        let (ours, theirs) = (address(0, 80), address(1, play.port));
        let (now, iss) = (play.now, play.host_iss());
        let flow = Flow::new(ours, theirs).unwrap();
        assert!(play.host.with(now, |tcp, mut sink| tcp.unreachable(now, &flow, iss, why, &mut sink)));
        assert_eq!(play.host.tcp.connections().0, left, "{why:?}");
        play.nothing();
    }
}

/// RFC 5482: the attempt, too, is limited by the user's timeout.
#[test]
fn the_users_timeout_limits_the_attempt() {
    let mut play = Play::new(Config { user_timeout_ms: 1500, ..config() });
    play.connect();
    play.pass(1499 * MS);
    assert_eq!(play.facts().state, State::SynSent);
    play.pass(MS);
    assert_eq!(play.host.tcp.take_error(play.id()), Ok(Some(Error::TimedOut)));
}

/// A listener that holds answers nothing: neither a SYN nor what may be another TCP's connection. Once it answers, each SYN that waits has
/// its answer, the newer of two.
#[test]
fn a_listener_that_holds_answers_later() {
    let mut play = Play::new(config());
    play.listen(4);
    let listener = play.listener.unwrap();
    play.host.tcp.hold(listener).unwrap();
    play.syn(Options::NONE);
    play.syn(all_options());
    play.say(1, 1, Flags::ACK, b"of a connection of the kernel");
    play.say(1, 0, Flags::RST, b"");
    play.nothing();
    assert_eq!((play.host.tcp.connections().0, play.count(Counter::ResetsOut)), (0, 0));
    let now = play.now;
    play.host.with(now, |tcp, mut sink| tcp.answer(now, listener, &mut sink)).unwrap();
    let answer = play.only();
    assert_eq!((answer.flags, answer.ack, answer.options.window_scale), (SYN_ACK, 1, Some(7)));
    play.say(1, 1, Flags::ACK, b"");
    play.accept();
    play.port += 1;
    play.syn(Options::NONE);
    assert_eq!(play.only().flags, SYN_ACK, "at once from now on");
}

/// SYNs that a listener holds when it ends are as if they were lost; its connections go on while it holds.
#[test]
fn a_listener_that_ends_while_it_holds_resets_no_peer_that_it_never_answered() {
    let mut play = Play::new(config());
    play.listen(4);
    let listener = play.listener.unwrap();
    play.syn(Options::NONE);
    play.seen();
    play.say(1, 1, Flags::ACK, b"");
    play.accept();
    play.host.tcp.hold(listener).unwrap();
    play.say(1, 1, Flags::ACK | Flags::PSH, b"data");
    assert_eq!(play.read(), b"data");
    play.poll();
    play.seen();
    play.port += 1;
    play.syn(Options::NONE);
    let now = play.now;
    play.host.with(now, |tcp, mut sink| tcp.close_listener(now, listener, &mut sink)).unwrap();
    play.nothing();
    assert_eq!(play.host.tcp.hold(listener), Err(Error::NotFound));
}

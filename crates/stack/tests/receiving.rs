//! Receiving: acceptability, ACK policy, windows, SACK, timestamps, forged segments. RFC 9293, 2018, 2883, 5961, 7323.

mod tcp_support;

use sidestep_stack::tcp::{Config, Counter, Error, Shutdown, State};
use sidestep_wire::tcp::{Flags, Options, SackBlock, SequenceNumber, Timestamps};
use tcp_support::peer::{MS, Play, SECOND, THEIR_ISS, sacking};

const DATA: Flags = Flags(0x18);

fn config() -> Config {
    Config::default()
}

fn stamped(value: u32) -> Options {
    Options { timestamps: Some(Timestamps { value, echo: 0 }), ..Options::NONE }
}

/// Relative SACK blocks of a segment.
fn blocks(options: &Options) -> Vec<(u32, u32)> {
    let relative = |number: SequenceNumber| number.since(SequenceNumber(THEIR_ISS));
    options.sack.as_slice().iter().map(|SackBlock { start, end }| (relative(*start), relative(*end))).collect()
}

/// RFC 9293 section 3.8.6.3: delayed, at most every second full segment, at most 0.5 s (ours: 40 ms).
#[test]
fn delayed_acks() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.say(1, 1, DATA, &[1; 1000]);
    play.pass(40 * MS - 1);
    play.nothing();
    play.pass(1);
    assert_eq!(play.only().ack, 1001);
    play.say(1001, 1, DATA, &[1; 1000]);
    play.nothing();
    play.say(2001, 1, DATA, &[1; 1000]);
    assert_eq!(play.only().ack, 3001, "the second full segment");
    play.say(3001, 1, DATA, &[1; 10]);
    play.send(b"x");
    assert_eq!(play.only().ack, 3011, "it rides on data");
    play.pass(SECOND);
    assert!(play.seen().iter().all(|seen| !seen.payload.is_empty()), "only retransmissions");
}

/// `quickack`: in the next poll, or in the one behind the burst.
#[test]
fn quick_acks_leave_with_the_poll() {
    let mut play = Play::accepted(Config { burst_gap_us: 0, ..Config::latency() }, Options::NONE);
    play.say(1, 1, DATA, b"x");
    play.nothing();
    play.poll();
    assert_eq!(play.only().ack, 2);
    play.poll();
    play.nothing();
}

/// The latency profile: polls between the segments of a message send no ACK; an answer takes it along, and without one it leaves when the
/// burst is over.
#[test]
fn an_ack_waits_for_the_end_of_the_burst() {
    const GAP: u64 = MS / 250;
    let mut play = Play::accepted(Config::latency(), Options::NONE);
    for number in 0..3 {
        play.say(1 + 1000 * number, 1, DATA, &[1; 1000]);
        play.poll();
        play.nothing();
        play.pass(GAP - 1);
        play.nothing();
    }
    play.send(b"answer");
    assert_eq!(play.only().ack, 3001);
    play.say(3001, 7, DATA, &[1; 10]);
    play.pass(GAP - 1);
    play.nothing();
    play.pass(1);
    assert_eq!(play.only().ack, 3011);
    // A burst that does not end: at every sixteenth full segment.
    for number in 0..16 {
        play.nothing();
        play.say(3011 + 1000 * number, 7, DATA, &[1; 1000]);
    }
    assert_eq!(play.only().ack, 19_011);
}

/// A burst is acknowledged once, in the poll behind it, and at every so manyth full segment.
#[test]
fn a_burst_is_acknowledged_in_the_poll() {
    let mut play = Play::accepted(Config { ack_segments_max: 4, ..config() }, Options::NONE);
    (0..3).for_each(|number| play.say(1 + 1000 * number, 1, DATA, &[1; 1000]));
    play.nothing();
    play.poll();
    assert_eq!(play.only().ack, 3001);
    (3..7).for_each(|number| play.say(1 + 1000 * number, 1, DATA, &[1; 1000]));
    assert_eq!(play.only().ack, 7001, "the fourth");
    play.poll();
    play.nothing();
    (7..9).for_each(|number| play.say(1 + 1000 * number, 1, DATA, &[1; 1000]));
    play.say(9001, 1, Flags::FIN | DATA, b"");
    assert_eq!(play.only().ack, 9002, "the end is acknowledged at once");
}

/// RFC 5681 section 4.2: out of order at once, and at once when the hole is filled. RFC 2018 section 4: the latest first.
#[test]
fn holes_are_told() {
    let mut play = Play::accepted(config(), sacking());
    play.say(101, 1, DATA, &[1; 100]);
    let told = play.only();
    assert_eq!((told.ack, blocks(&told.options)), (1, vec![(101, 201)]));
    play.say(301, 1, DATA, &[1; 100]);
    assert_eq!(blocks(&play.only().options), [(301, 401), (101, 201)]);
    play.say(1, 1, DATA, &[1; 100]);
    let told = play.only();
    assert_eq!((told.ack, blocks(&told.options)), (201, vec![(301, 401)]));
    play.say(201, 1, DATA, &[1; 100]);
    let told = play.only();
    assert_eq!((told.ack, blocks(&told.options)), (401, vec![]));
    assert_eq!(play.read().len(), 400);
}

/// RFC 2883 section 4: a duplicate is reported once, in the first block; partial ones, too.
#[test]
fn duplicates_are_reported() {
    let mut play = Play::accepted(config(), sacking());
    play.say(1, 1, DATA, &[1; 100]);
    play.say(1, 1, DATA, &[1; 100]);
    let told = play.only();
    assert_eq!((told.ack, blocks(&told.options)), (101, vec![(1, 101)]));
    play.say(51, 1, DATA, &[1; 100]);
    let told = play.only();
    assert_eq!((told.ack, blocks(&told.options)), (151, vec![(51, 101)]));
    play.say(201, 1, DATA, &[1; 10]);
    assert_eq!(blocks(&play.only().options), [(201, 211)]);
    play.say(201, 1, DATA, &[1; 10]);
    assert_eq!(blocks(&play.only().options), [(201, 211), (201, 211)]);
    assert_eq!(play.read().len(), 150);
}

/// The number of holes is bounded, and what finds no place comes again.
#[test]
fn too_many_holes() {
    let mut play = Play::accepted(Config { out_of_order_ranges_max: 4, ..config() }, sacking());
    for hole in 0..1000 {
        play.say(11 + hole * 20, 1, DATA, &[1; 10]);
    }
    assert_eq!(play.count(Counter::OutOfOrderDropped), 996);
    assert_eq!(play.facts().out_of_order, 40);
}

/// RFC 9293 section 3.10.7.4: cut to the window; beyond it nothing is taken, and the answer carries RCV.NXT.
#[test]
fn the_window_is_a_limit() {
    let small = Config { receive_buffer_bytes: 4096, receive_window_initial_bytes: 4096, ..config() };
    let mut play = Play::accepted(small, Options::NONE);
    for number in 0..4 {
        play.say(1 + number * 1000, 1, DATA, &[1; 1000]);
    }
    let told = play.seen().pop().unwrap();
    assert_eq!((told.ack, told.window), (4001, 96));
    play.say(4001, 1, DATA | Flags::FIN, &[2; 1000]);
    let told = play.only();
    assert_eq!((told.ack, told.window), (4097, 0), "the FIN did not fit");
    assert_eq!(play.facts().state, State::Established);
    play.say(4097, 1, DATA, &[3; 10]);
    assert_eq!(play.only().ack, 4097, "a probe is answered");
    play.say(9000, 1, DATA, &[3; 10]);
    assert_eq!(play.only().ack, 4097);
    // An ACK from the closed window's edge counts (the special allowance of the first check).
    play.send(b"x");
    play.seen();
    play.say(4097, 2, Flags::ACK, b"");
    assert_eq!(play.facts().in_flight, 0);
    // The application reads: the peer gets a window update (RFC 9293 section 3.8.6.2.2).
    assert_eq!(play.read().len(), 4096);
    let told = play.only();
    assert_eq!((told.ack, told.window), (4097, 4096));
}

/// RFC 9293 section 3.8.6.2.2: small reads cause no window update.
#[test]
fn no_silly_windows_are_given() {
    let small = Config { receive_buffer_bytes: 4096, receive_window_initial_bytes: 4096, ..config() };
    let mut play = Play::accepted(small, Options::NONE);
    play.say(1, 1, DATA, &[1; 4096]);
    play.seen();
    for _ in 0..9 {
        play.call(|tcp, now, id, out| tcp.consume(now, id, 100, out)).unwrap();
        play.nothing();
    }
    play.say(4097, 1, DATA, b"x");
    assert_eq!(play.only().window, 0);
    play.call(|tcp, now, id, out| tcp.consume(now, id, 2000, out)).unwrap();
    assert_eq!(play.only().window, 2900);
}

/// RFC 5961 section 3.2: exactly at RCV.NXT it counts, in the window it is challenged, outside it is nothing.
#[test]
fn resets() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.say(100, 0, Flags::RST, b"");
    let challenge = play.only();
    assert_eq!((challenge.flags, challenge.ack), (Flags::ACK, 1));
    play.say(u32::MAX, 0, Flags::RST, b"");
    play.say(1_000_000, 0, Flags::RST, b"");
    play.nothing();
    assert_eq!(play.facts().state, State::Established);
    play.say(1, 0, Flags::RST, b"");
    assert_eq!(play.facts().state, State::Closed);
    assert_eq!(play.call(|tcp, now, id, out| tcp.read(now, id, &mut [0], out)), Err(Error::Reset));
}

/// RFC 5961 section 4.2: a SYN is challenged, whatever its number. Section 7: so often per second.
#[test]
fn syns_and_floods_of_resets() {
    let mut play = Play::accepted(config(), Options::NONE);
    for number in 0..500 {
        play.say(number * 977, 1, Flags::SYN, b"");
        play.say(2 + number % 1000, 0, Flags::RST, b"");
    }
    assert_eq!(play.seen().len(), 10);
    assert_eq!(play.facts().state, State::Established);
    play.say(1, 1, DATA, b"still here");
    assert_eq!(play.read(), b"still here");
}

/// What was received before the RST can be read.
#[test]
fn a_reset_loses_nothing_that_came_before() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.say(1, 1, DATA, b"last words");
    play.say(11, 0, Flags::RST, b"");
    assert_eq!(play.read(), b"last words");
    assert_eq!(play.call(|tcp, now, id, out| tcp.read(now, id, &mut [0], out)), Err(Error::Reset));
}

/// RFC 7323 section 5: old clocks are dropped and answered; a RST is believed without, and, as by Linux, anything else.
#[test]
fn paws() {
    let mut play = Play::accepted(config(), stamped(100));
    play.raw(1, 1, DATA, stamped(99), b"old");
    let answer = play.only();
    assert_eq!((answer.ack, answer.options.timestamps.unwrap().echo), (1, 100));
    assert_eq!(play.count(Counter::Paws), 1);
    play.raw(1, 1, DATA, Options::NONE, b"b");
    assert_eq!((play.read(), play.count(Counter::TimestampMissing)), (b"b".to_vec(), 1));
    play.pass(50 * MS);
    play.seen();
    play.raw(2, 1, DATA, stamped(101), b"ew");
    assert_eq!(play.read(), b"ew");
    play.send(b"x");
    assert_eq!(play.only().options.timestamps.unwrap().echo, 101);
    // RFC 7323 section 5.5: after 24 days without a segment the clock says nothing.
    play.now = play.now.after_ns(25 * 24 * 3600 * SECOND);
    play.raw(4, 1, DATA, stamped(50), b"late");
    assert_eq!(play.read(), b"late");
    play.raw(8, 0, Flags::RST, Options::NONE, b"");
    assert_eq!(play.facts().state, State::Closed);
}

/// RFC 7323 section 4.3: the echo is the clock of the segment that the ACK is for, not of one beyond a hole.
#[test]
fn which_clock_is_echoed() {
    let mut play = Play::accepted(config(), Options { sack_permitted: true, ..stamped(100) });
    play.raw(11, 1, DATA, stamped(102), b"b");
    assert_eq!(play.only().options.timestamps.unwrap().echo, 100);
    play.raw(1, 1, DATA, stamped(101), &[b'a'; 10]);
    assert_eq!(play.only().options.timestamps.unwrap().echo, 101);
}

/// RFC 6093: in line, counted.
#[test]
fn urgent_data_stays_in_line() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.say(1, 1, DATA | Flags::URG, b"abc");
    assert_eq!(play.read(), b"abc");
    assert_eq!(play.count(Counter::UrgentIgnored), 1);
}

/// RFC 9293 section 3.10.7.4, fifth check: without ACK nothing is taken.
#[test]
fn a_segment_without_ack_is_dropped() {
    let mut play = Play::accepted(config(), Options::NONE);
    play.say(1, 0, Flags::PSH, b"abc");
    play.nothing();
    assert_eq!(play.facts().readable, 0);
}

/// A damaged segment is nothing.
#[test]
fn checksums_are_verified() {
    let mut play = Play::accepted(config(), Options::NONE);
    let flow = play.facts().flow;
    let mut bytes = [0; 23];
    let addresses = flow.addresses.reversed();
    let header = sidestep_wire::tcp::Segment {
        source_port: flow.remote_port,
        destination_port: flow.local_port,
        sequence: SequenceNumber(THEIR_ISS + 1),
        acknowledgement: play.host_iss() + 1,
        flags: DATA,
        ..Default::default()
    };
    sidestep_wire::tcp::build(&header, &addresses, 3, &mut bytes).unwrap();
    bytes[21] ^= 1;
    play.host.receive(play.now, &addresses, &bytes);
    assert_eq!((play.count(Counter::ChecksumBad), play.facts().readable), (1, 0));
    bytes[21] ^= 1;
    play.host.receive(play.now, &addresses, &bytes);
    assert_eq!(play.facts().readable, 3);
}

/// Reads give what still comes, and do not wait, as with Linux.
#[test]
fn reading_that_was_shut_down() {
    let mut play = Play::accepted(config(), sacking());
    play.call(|tcp, now, id, out| tcp.shutdown(now, id, Shutdown::Read, out)).unwrap();
    play.say(6, 1, DATA, b"second");
    play.say(1, 1, DATA, b"first");
    assert_eq!(play.seen().last().unwrap().ack, 12);
    assert_eq!(play.read(), b"firstsecond");
    assert_eq!(play.read(), b"", "reads give the end");
}

/// RFC 7323 section 2: a large buffer is offered in shifted windows, growing with what is read.
#[test]
fn the_window_grows() {
    let mut play = Play::accepted(config(), Options { window_scale: Some(0), ..Options::NONE });
    let before = play.facts().receive_window;
    let mut at = 1;
    for _ in 0..200 {
        for _ in 0..40 {
            play.say(at, 1, DATA, &[1; 1400]);
            at += 1400;
            play.read();
        }
        play.pass(MS);
    }
    assert!(play.facts().receive_window >= 2 * before, "{}", play.facts().receive_window);
    let window = play.seen().last().unwrap().window;
    assert!(u32::from(window) << 7 >= 2 * before, "and the header tells it");
}

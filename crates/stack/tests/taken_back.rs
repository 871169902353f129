//! Recoveries that were a mistake and are taken back: by an ACK's echo (Eifel, RFC 3522, RFC 4015) and by reports of duplicates (RFC 2883).

mod tcp_support;

use sidestep_stack::tcp::{Config, Congestion, Counter};
use sidestep_wire::tcp::{Flags, Options, SackBlock, Timestamps};
use tcp_support::peer::{MS, Play};

/// Five segments in flight, of which the first was believed to be lost and sent again after 11 ms; the clocks of both times, and the
/// threshold before.
fn sent_again() -> (Play, [u32; 2], u32) {
    let timestamps = Some(Timestamps { value: 7, echo: 0 });
    let config = Config { nodelay: true, congestion: Congestion::Reno, ..Config::default() };
    let mut play = Play::accepted(config, Options { sack_permitted: true, timestamps, ..Options::NONE });
    let before = play.facts().slow_start_threshold;
    play.send(&[1; 5000]);
    let first = play.seen();
    play.pass(11 * MS);
    let clock = |seen: &tcp_support::peer::Seen| seen.options.timestamps.unwrap().value;
    let [start, end] = [first[1].seq, first[4].seq];
    let ours = play.host_iss();
    let mut options = echo(clock(&first[0]));
    options.sack.push(SackBlock { start: ours + start, end: ours + end });
    play.raw(1, 1, Flags::ACK, options, b"");
    let again = play.seen();
    assert_eq!((again[0].seq, play.facts().is_recovering), (1, true), "three segments behind it have arrived");
    (play, [clock(&first[0]), clock(&again[0])], before)
}

fn echo(echo: u32) -> Options {
    Options { timestamps: Some(Timestamps { value: 8, echo }), ..Options::NONE }
}

#[test]
fn an_echo_of_the_first_transmission_takes_it_back() {
    let (mut play, [first, _], before) = sent_again();
    play.pass(MS);
    play.raw(1, 1001, Flags::ACK, echo(first), b"");
    let facts = play.facts();
    assert_eq!(play.count(Counter::SpuriousRecoveries), 1);
    assert_eq!((facts.is_recovering, facts.slow_start_threshold), (false, before));
}

#[test]
fn an_echo_of_the_second_does_not() {
    for which in [true, false] {
        let (mut play, [_, second], before) = sent_again();
        play.pass(10 * MS);
        // An echo of 0 is none (RFC 7323 section 3.2).
        play.raw(1, 1001, Flags::ACK, echo(if which { second } else { 0 }), b"");
        assert_eq!(play.count(Counter::SpuriousRecoveries), 0);
        assert!(play.facts().slow_start_threshold < before);
    }
}

/// An ACK of `ack` that reports `blocks` beside the echo.
fn reports(play: &mut Play, ack: u32, clock: u32, blocks: &[(i32, i32)]) {
    let ours = play.host_iss();
    let mut options = echo(clock);
    for (start, end) in blocks {
        options.sack.push(SackBlock { start: ours + *start as u32, end: ours + *end as u32 });
    }
    play.raw(1, ack, Flags::ACK, options, b"");
}

/// RFC 2883 section 4, RFC 3708 section 2
#[test]
fn a_report_of_the_duplicate_takes_it_back() {
    let (mut play, [_, second], before) = sent_again();
    play.pass(10 * MS);
    reports(&mut play, 5001, second, &[(1, 1001)]);
    assert_eq!(play.count(Counter::SpuriousRecoveries), 1);
    assert_eq!(play.facts().slow_start_threshold, before);
}

/// undo_marker of Linux: what the peer got before the recovery, cannot have got at all, or got twice though it was sent once, was not sent
/// again by it.
#[test]
fn a_report_of_what_was_not_sent_again_does_not() {
    let before_it: &[(i32, i32)] = &[(-999, 1)];
    let never_sent: &[(i32, i32)] = &[(6001, 7001), (6001, 8001)];
    // The network has doubled what was sent once (TCPCB_RETRANS of Linux).
    let doubled: &[(i32, i32)] = &[(3001, 4001), (1001, 4001)];
    for blocks in [before_it, never_sent, doubled] {
        let (mut play, [_, second], before) = sent_again();
        play.pass(10 * MS);
        reports(&mut play, 1, second, blocks);
        assert_eq!(play.count(Counter::SpuriousRecoveries), 0, "{blocks:?}");
        assert!(play.facts().is_recovering && play.facts().slow_start_threshold < before, "{blocks:?}");
    }
}

/// RFC 8985 section 6.2 step 4: once segments were seen to be late, three behind them prove nothing.
#[test]
fn a_mistake_makes_patient() {
    let (mut play, [first, _], _) = sent_again();
    play.pass(MS);
    play.raw(1, 4001, Flags::ACK, echo(first), b"");
    play.raw(1, 5001, Flags::ACK, echo(first), b"");
    play.seen();
    play.send(&[1; 5000]);
    let sent = play.seen();
    play.pass(10 * MS);
    let ours = play.host_iss();
    let mut options = echo(first);
    options.sack.push(SackBlock { start: ours + sent[1].seq, end: ours + sent[4].seq });
    play.raw(1, 5001, Flags::ACK, options, b"");
    assert!(!play.facts().is_recovering, "the hole is waited for");
    assert_eq!(play.count(Counter::FastRecoveries), 1);
}

//! Ends: FIN, RST, TIME-WAIT, linger. RFC 9293 sections 3.6 and 3.10.4, RFC 6191, RFC 1337, RFC 2525.

mod tcp_support;

use sidestep_stack::tcp::{Config, Counter, Error, Readiness, Shutdown, State};
use sidestep_wire::tcp::{Flags, Options};
use tcp_support::peer::{MS, Play, SECOND};

const FIN: Flags = Flags(0x11);
const DATA: Flags = Flags(0x18);

fn accepted() -> Play {
    Play::accepted(Config::default(), Options::NONE)
}

fn shutdown(play: &mut Play, how: Shutdown) {
    play.call(|tcp, now, id, out| tcp.shutdown(now, id, how, out)).unwrap();
}

/// RFC 9293 section 3.6 figure 12, our side first.
#[test]
fn our_side_first() {
    let mut play = accepted();
    shutdown(&mut play, Shutdown::Write);
    let finish = play.only();
    assert_eq!((finish.flags, finish.seq), (FIN, 1));
    assert_eq!(play.facts().state, State::FinWait1);
    play.say(1, 2, Flags::ACK, b"");
    assert_eq!(play.facts().state, State::FinWait2);
    play.say(1, 2, DATA, b"more");
    assert_eq!(play.read(), b"more");
    play.say(5, 2, FIN, b"");
    let last = play.only();
    assert_eq!((last.flags, last.seq, last.ack), (Flags::ACK, 2, 6), "an ACK behind our FIN carries none");
    assert_eq!(play.facts().state, State::TimeWait);
    assert!(play.host.tcp.readiness(play.id()).has(Readiness::HANGUP | Readiness::PEER_CLOSED));
    play.pass(60 * SECOND);
    assert_eq!(play.facts().state, State::Closed);
    play.close();
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// The peer first; data goes on in the other direction.
#[test]
fn the_peer_first() {
    let mut play = accepted();
    play.say(1, 1, FIN, b"bye");
    assert_eq!(play.only().ack, 5);
    assert_eq!(play.facts().state, State::CloseWait);
    assert_eq!(play.read(), b"bye");
    assert_eq!(play.read(), b"");
    play.send(b"half");
    assert_eq!(play.only().payload, b"half");
    play.close();
    let finish = play.only();
    assert_eq!((finish.flags, finish.seq, finish.ack), (FIN, 5, 5));
    play.say(5, 6, Flags::ACK, b"");
    assert_eq!(play.host.tcp.connections(), (0, 0));
    assert_eq!(play.host.tcp.state(play.id()), Err(Error::NotFound));
}

/// RFC 9293 section 3.6 figure 13
#[test]
fn both_at_the_same_time() {
    let mut play = accepted();
    shutdown(&mut play, Shutdown::Write);
    play.seen();
    play.say(1, 1, FIN, b"");
    assert_eq!(play.only().ack, 2);
    assert_eq!(play.facts().state, State::Closing);
    play.say(2, 2, Flags::ACK, b"");
    assert_eq!(play.facts().state, State::TimeWait);
}

/// FIN and the ACK of ours in one segment.
#[test]
fn fin_wait_1_to_time_wait_at_once() {
    let mut play = accepted();
    shutdown(&mut play, Shutdown::Both);
    play.seen();
    play.say(1, 2, FIN, b"");
    assert_eq!(play.facts().state, State::TimeWait);
}

/// What was handed over leaves before the FIN, and a lost FIN is sent again.
#[test]
fn the_finish_comes_last_and_comes_again() {
    let mut play = accepted();
    play.send(&[1; 1500]);
    play.close();
    let seen = play.seen();
    let finishes: Vec<_> = seen.iter().map(|seen| seen.flags.has(Flags::FIN)).collect();
    assert_eq!(finishes, [false, false, true]);
    play.say(1, 1501, Flags::ACK, b"");
    play.pass(SECOND);
    let again = &play.seen()[0];
    assert_eq!((again.seq, again.payload.len(), again.flags.has(Flags::FIN)), (1501, 0, true));
}

/// A FIN beyond a hole counts when the hole is filled.
#[test]
fn a_finish_out_of_order() {
    let mut play = accepted();
    play.say(4, 1, FIN, b"def");
    assert_eq!((play.only().ack, play.facts().state), (1, State::Established));
    play.say(1, 1, DATA, b"abc");
    assert_eq!((play.only().ack, play.facts().state), (8, State::CloseWait));
    assert_eq!(play.read(), b"abcdef");
}

/// The peer's FIN comes again because our ACK was lost.
#[test]
fn a_repeated_finish_is_acknowledged_again() {
    let mut play = accepted();
    play.say(1, 1, FIN, b"");
    play.seen();
    play.say(1, 1, FIN, b"");
    assert_eq!(play.only().ack, 2);
}

/// RFC 9293 section 3.6.1, RFC 2525 section 2.17: unread data means RST.
#[test]
fn closing_with_unread_data_resets() {
    let mut play = accepted();
    play.say(1, 1, DATA, b"unread");
    play.close();
    let reset = play.only();
    assert_eq!((reset.flags, reset.seq, reset.ack), (Flags::RST | Flags::ACK, 1, 7));
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// RFC 9293 section 3.6.1: data that comes after close means RST, too.
#[test]
fn data_after_close_resets() {
    let mut play = accepted();
    play.close();
    play.say(1, 2, Flags::ACK, b"");
    play.seen();
    play.say(1, 2, DATA, b"nobody reads this");
    let reset = play.only();
    assert_eq!((reset.flags, reset.seq), (Flags::RST, 2));
    assert_eq!(play.count(Counter::DataAfterClose), 1);
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// RFC 9293 section 3.10.5; SO_LINGER with zero seconds
#[test]
fn aborting() {
    let mut play = accepted();
    play.send(b"lost");
    play.seen();
    play.call(|tcp, now, id, out| tcp.abort(now, id, out)).unwrap();
    assert_eq!(play.only().flags, Flags::RST | Flags::ACK);
    let mut play = accepted();
    let mut options = play.host.tcp.options(play.id()).unwrap();
    options.abort_on_close = true;
    play.call(|tcp, now, id, out| tcp.set_options(now, id, options, out)).unwrap();
    play.close();
    assert_eq!(play.only().flags, Flags::RST | Flags::ACK);
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// An orphan does not wait for the peer's FIN for ever; a connection with a handle does.
#[test]
fn fin_wait_2_is_limited_for_orphans() {
    let mut play = accepted();
    shutdown(&mut play, Shutdown::Write);
    play.say(1, 2, Flags::ACK, b"");
    play.pass(600 * SECOND);
    assert_eq!(play.facts().state, State::FinWait2);
    play.close();
    play.pass(60 * SECOND - 1);
    assert_eq!(play.host.tcp.connections(), (1, 0));
    play.pass(1);
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// An orphan whose peer is silent is given up earlier than a connection with a handle; the peer gets a RST.
#[test]
fn orphans_are_given_up() {
    let mut play = Play::accepted(Config { orphan_retries_max: 2, ..Config::default() }, Options::NONE);
    play.close();
    play.pass(60 * SECOND);
    let flags: Vec<_> = play.seen().iter().map(|seen| seen.flags).collect();
    assert_eq!(flags, [FIN, FIN, FIN, Flags::RST | Flags::ACK]);
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// Through a complete close to TIME-WAIT without a holder.
fn time_wait(config: Config) -> Play {
    let mut play = Play::accepted(config, Options::NONE);
    play.close();
    play.say(1, 2, FIN, b"");
    play.seen();
    play
}

/// RFC 9293 section 3.10.7.4: a FIN that comes again restarts the wait. RFC 1337: a RST does not end it.
#[test]
fn time_wait_waits() {
    let mut play = time_wait(Config::default());
    assert_eq!(play.host.tcp.connections(), (1, 1));
    play.pass(50 * SECOND);
    play.say(1, 2, FIN, b"");
    assert_eq!(play.only().ack, 2);
    play.say(2, 0, Flags::RST, b"");
    play.pass(59 * SECOND);
    assert_eq!(play.host.tcp.connections(), (1, 1));
    play.pass(SECOND);
    assert_eq!(play.host.tcp.connections(), (0, 0));
}

/// RFC 6191, RFC 9293 section 3.10.7.4: a later SYN begins anew, with a number beyond the old ones; an earlier does not.
#[test]
fn time_wait_may_begin_anew() {
    let mut play = time_wait(Config::default());
    play.say(1, 0, Flags::SYN, b"");
    assert_eq!(play.only().flags, Flags::ACK, "an old number: only an answer");
    let old = play.host_iss();
    play.raw(500, 0, Flags::SYN, Options::NONE, b"");
    let answer = play.only();
    assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, 501));
    assert!(play.host_iss().is_after(old + 65_535));
    play.say(501, 1, Flags::ACK, b"");
    play.accept();
    assert_eq!(play.facts().state, State::Established);
    assert_eq!(play.count(Counter::TimeWaitReused), 1);
}

/// The same while the application still holds the old connection: it keeps what it has to read.
#[test]
fn time_wait_that_is_held_may_begin_anew() {
    let mut play = accepted();
    shutdown(&mut play, Shutdown::Write);
    play.say(1, 2, FIN, b"old");
    play.seen();
    let old = play.id();
    assert_eq!(play.facts().state, State::TimeWait);
    play.raw(500, 0, Flags::SYN, Options::NONE, b"");
    assert_eq!(play.only().flags, Flags::SYN | Flags::ACK);
    play.say(501, 1, DATA, b"new");
    play.accept();
    assert_eq!(play.read(), b"new");
    play.id = Some(old);
    assert_eq!(play.read(), b"old");
    assert_eq!(play.read(), b"");
}

/// TIME-WAIT places are bounded.
#[test]
fn too_many_wait() {
    let play = time_wait(Config { time_wait_max: 0, ..Config::default() });
    assert_eq!(play.host.tcp.connections(), (0, 0));
    assert_eq!(play.count(Counter::TimeWaitFull), 1);
}

/// Handles of what is over are wrong, also when the place is used again.
#[test]
fn old_handles_stay_wrong() {
    let mut play = accepted();
    let old = play.id();
    play.call(|tcp, now, id, out| tcp.abort(now, id, out)).unwrap();
    play.syn(Options::NONE);
    play.seen();
    play.say(1, 1, Flags::ACK, b"");
    play.accept();
    assert_eq!(play.id().index(), old.index());
    play.id = Some(old);
    for result in [
        play.call(|tcp, now, id, out| tcp.send(now, id, b"x", out).map(drop)),
        play.call(|tcp, now, id, out| tcp.read(now, id, &mut [0], out).map(drop)),
        play.call(|tcp, now, id, out| tcp.close(now, id, out)),
        play.call(|tcp, now, id, out| tcp.shutdown(now, id, Shutdown::Both, out)),
        play.call(|tcp, _, id, _| tcp.facts(id).map(drop)),
    ] {
        assert_eq!(result, Err(Error::NotFound));
    }
}

/// A listener that closes aborts the connections that were not accepted.
#[test]
fn a_listener_closes() {
    let mut play = Play::new(Config::default());
    play.listen(4);
    play.syn(Options::NONE);
    play.seen();
    play.say(1, 1, Flags::ACK, b"");
    let (now, listener) = (play.now, play.listener.unwrap());
    play.host.with(now, |tcp, mut sink| tcp.close_listener(now, listener, &mut sink)).unwrap();
    assert_eq!(play.only().flags, Flags::RST | Flags::ACK);
    assert_eq!(play.host.tcp.connections(), (0, 0));
    assert_eq!(play.host.tcp.accept(listener), Err(Error::NotFound));
    play.syn(Options::NONE);
    assert!(play.only().flags.has(Flags::RST));
    play.pass(MS);
}

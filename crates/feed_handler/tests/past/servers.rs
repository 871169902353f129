//! A re-request server, which is killed while an answer is under way: a relay in another process before the venue's own.

use crate::process::Process;
use crate::venue::Venue;
use crate::{Desk, levels, options};
use sidestep_feed_handler::{Line, Options, SnapshotServer};
use sidestep_market::feed::State;
use std::net::{SocketAddr, UdpSocket};

/// Answers that the relay lets through before it holds one back: part of a gap is filled by then.
const ANSWERS: usize = 2;

/// What the other process does: it passes requests and answers on, so many of them, then it says that it has one, and does no more.
pub(crate) fn relay(words: &str) {
    let mut words = words.split(' ');
    let server: SocketAddr = words.next().unwrap().parse().unwrap();
    let at: SocketAddr = words.next().unwrap().parse().unwrap();
    let answers: usize = words.next().unwrap().parse().unwrap();
    let (here, there) = (UdpSocket::bind(at).unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    println!("relay at {}", here.local_addr().unwrap());
    let mut buffer = [0; 2048];
    for number in 0.. {
        let (length, client) = here.recv_from(&mut buffer).unwrap();
        there.send_to(&buffer[..length], server).unwrap();
        let (length, _) = there.recv_from(&mut buffer).unwrap();
        if number == answers {
            println!("relay holds {length} bytes");
            std::thread::park();
        }
        here.send_to(&buffer[..length], client).unwrap();
    }
}

/// A feed that misses some hundred messages on both lines, and asks a relay for them first.
struct Gap {
    venue: Venue,
    desk: Desk,
    relay: Process,
    relay_at: SocketAddr,
}

impl Gap {
    fn new(change: impl FnOnce(&mut Options, &Venue)) -> Self {
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let lines = [free(), free()].map(|place| Line::new("lo", place));
        let mut venue = Venue::open(&lines, "127.0.0.1");
        let mut relay = start(&venue, "127.0.0.1:0", ANSWERS);
        let relay_at = relay.line("relay at ").parse().unwrap();
        let mut options = Options { lines: lines.to_vec(), rerequest: vec![relay_at], ..options(["lo"; 2]) };
        options.line.accelerate = false;
        change(&mut options, &venue);
        let mut desk = Desk::open(&options);
        desk.trade(&mut venue, 100);
        assert_eq!((desk.state(), desk.seen.skipped), (State::Live, 0));
        Self { venue, desk, relay, relay_at }
    }

    /// Opens the gap; the relay is killed with an answer in its hands.
    fn kill_in_the_middle(&mut self) {
        let Self { venue, desk, relay, .. } = self;
        venue.is_mute = [true; 2];
        desk.trade_on(venue, 60);
        venue.is_mute = [false; 2];
        let before = desk.seen.messages;
        desk.trade_on(venue, 1);
        desk.until(venue, "the relay", |_| relay.has_said("relay holds"));
        assert!(desk.seen.messages > before, "a part has come");
        assert_ne!(desk.state(), State::Live);
        relay.kill();
    }
}

fn start(venue: &Venue, at: &str, answers: usize) -> Process {
    Process::start(None, "relay", &format!("{} {at} {answers}", venue.rerequest_at()), None)
}

#[test]
fn the_other_server_has_what_the_killed_one_had_promised() {
    let mut gap = Gap::new(|options, venue| options.rerequest.push(venue.rerequest_at()));
    gap.kill_in_the_middle();
    let Gap { mut venue, mut desk, .. } = gap;
    desk.until(&mut venue, "the rest", |desk| desk.state() == State::Live);
    desk.trade(&mut venue, 20);
    let counters = desk.ends_like(&mut venue);
    assert!(counters.requests_failed > 0 && counters.filled_by_request > 0, "{counters:?}");
    assert_eq!((counters.given_up, counters.snapshots), (0, 0));
}

#[test]
fn a_server_that_is_started_again_goes_on_where_the_killed_one_was() {
    // Nothing is given up before the other process runs.
    let mut gap = Gap::new(|options, _| options.channel.policy.request_tries = 100_000);
    gap.kill_in_the_middle();
    let Gap { mut venue, mut desk, relay_at, .. } = gap;
    let mut again = start(&venue, &relay_at.to_string(), usize::MAX);
    desk.until(&mut venue, "the start", |_| again.has_said("relay at "));
    desk.until(&mut venue, "the rest", |desk| desk.state() == State::Live);
    let counters = desk.ends_like(&mut venue);
    assert!(counters.requests_failed > 0 && counters.filled_by_request > 0, "{counters:?}");
}

#[test]
fn a_snapshot_takes_the_place_of_what_the_killed_server_had() {
    let mut gap = Gap::new(|options, venue| {
        options.snapshot = Some(SnapshotServer::at(venue.glimpse_at().into()));
    });
    gap.kill_in_the_middle();
    let Gap { mut venue, mut desk, .. } = gap;
    desk.until(&mut venue, "the snapshot", |desk| desk.state() == State::Live);
    desk.trade(&mut venue, 20);
    desk.follow_to_the_end(&mut venue);
    let counters = desk.handler.channel().feed().counters();
    assert_eq!((counters.ended_by_snapshot, venue.snapshots), (1, 1), "{counters:?}");
    assert!(counters.requests_failed > 0 && desk.seen.skipped > 0, "{counters:?}");
    assert_eq!(levels(&desk.handler), venue.levels());
    assert!(desk.handler.channel().books().all().all(|book| book.suspect().is_none()));
}

#[test]
fn without_another_source_the_loss_is_told_and_counted() {
    let mut gap = Gap::new(|_, _| {});
    gap.kill_in_the_middle();
    let Gap { mut venue, mut desk, .. } = gap;
    desk.until(&mut venue, "the loss", |desk| desk.seen.skipped > 0);
    let counters = desk.handler.channel().feed().counters().clone();
    assert!(matches!(desk.state(), State::Stale { .. }), "{:?}", desk.state());
    assert!(counters.requests_failed > 0 && counters.given_up == 1, "{counters:?}");
    assert_eq!(counters.skipped, desk.seen.skipped);
    assert!(desk.handler.channel().books().all().all(|book| book.suspect().is_some()));
    // It goes on all the same: what can be known is known.
    desk.follow_to_the_end(&mut venue);
    assert_eq!(desk.handler.channel().feed().next().0, venue.next());
}

//! Who could trade on a wrong book without seeing it: what a channel tells its program, and readers of what it publishes.

use sidestep_feed_handler::{Application, Channel, ChannelOptions, Publication, Update, line_kinds};
use sidestep_market::arbiter;
use sidestep_market::book::{self, Books, Refusal};
use sidestep_market::feed::{Join, Policy};
use sidestep_market::mold64::{PacketWriter, Session};
use sidestep_market::publish::{Interest, State, Subscriber};
use sidestep_market::units::{Alpha, LineId, Locate, Nanos, Sequence};

const SESSION: Session = Alpha(*b"DAY1      ");
const A: LineId = LineId(0);
const B: LineId = LineId(1);

fn add(locate: u8, order: u8) -> Vec<u8> {
    let mut bytes = vec![0; 36];
    (bytes[0], bytes[2], bytes[18], bytes[19], bytes[23]) = (b'A', locate, order, b'B', 100);
    bytes[24..32].copy_from_slice(b"AAPL    ");
    bytes[35] = 7;
    bytes
}

fn delete(locate: u8, order: u8) -> Vec<u8> {
    let mut bytes = vec![0; 19];
    (bytes[0], bytes[2], bytes[18]) = (b'D', locate, order);
    bytes
}

#[derive(Default)]
struct Seen {
    live: Vec<bool>,
    unreadable: Vec<u64>,
}

impl Application for Seen {
    fn message(&mut self, update: &Update<'_>) {
        self.live.push(update.is_live);
    }

    fn unreadable(&mut self, sequence: Sequence, _: &[u8], books: &Books) {
        assert!(books.all().all(|book| book.suspect().is_some()));
        self.unreadable.push(sequence.0);
    }
}

struct Bench {
    channel: Channel,
    seen: Seen,
    subscriber: Subscriber,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ChannelOptions {
            policy,
            held: arbiter::Limits::default(),
            books: book::Limits { instruments: 4, orders: 100, levels: 100, side_levels: 10 },
            ..ChannelOptions::default()
        };
        let mut channel = Channel::new(&line_kinds(2), &options, Nanos(0)).unwrap();
        let publication = Publication::within(folder.path());
        channel.publish(&publication).unwrap();
        let (subscriber, _) = publication.subscribe(Interest::all()).unwrap();
        Self { channel, seen: Seen::default(), subscriber, _folder: folder }
    }

    fn packet(&mut self, line: LineId, first: u64, messages: &[Vec<u8>]) {
        let mut buffer = [0; 1400];
        let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(first)).unwrap();
        assert!(messages.iter().all(|message| writer.push(message)));
        self.channel.datagram(line, Nanos(1), Nanos(1), writer.finish(), &mut self.seen);
    }

    /// The states of two instruments: by the array alone, and as the channel's program sees them.
    fn states(&self) -> [(State, bool); 2] {
        let tops = self.subscriber.tops();
        [1, 2].map(Locate).map(|locate| (tops.top(locate).unwrap().state, self.channel.live_book(locate).is_some()))
    }
}

const LIVE: (State, bool) = (State::Live, true);
const STALE: (State, bool) = (State::Stale, false);

#[test]
fn after_a_message_that_cannot_be_read_nothing_is_live_until_a_snapshot() {
    let mut bench = Bench::new(Policy { has_snapshot: true, ..Policy::default() });
    bench.packet(A, 1, &[add(1, 1), add(2, 2)]);
    assert_eq!(bench.states(), [LIVE; 2]);
    bench.packet(A, 3, &[b"A too short".to_vec()]);
    assert_eq!((bench.states(), &bench.seen.unreadable), ([STALE; 2], &vec![3]));
    bench.packet(A, 4, &[add(1, 3)]);
    assert_eq!(bench.states(), [STALE; 2]);
    // The snapshot is for the program to ask for.
    let Bench { channel, seen, .. } = &mut bench;
    assert!(channel.take_snapshot(Nanos(2), seen));
    let attempt = channel.snapshot().unwrap();
    for message in [add(1, 1), add(2, 2), add(1, 3)] {
        channel.snapshot_message(attempt, Nanos(2), &message, seen).unwrap();
    }
    channel.snapshot_done(attempt, Nanos(2), Sequence(5), seen).unwrap();
    assert_eq!(bench.states(), [LIVE; 2]);
    assert_eq!(bench.seen.live[3..], [false; 3], "messages of a snapshot are none of a live feed");
}

#[test]
fn books_that_were_joined_in_the_middle_of_a_session_are_suspect() {
    let mut bench = Bench::new(Policy { join: Join::FirstSeen, ..Policy::default() });
    bench.packet(A, 5, &[add(1, 9), add(2, 10)]);
    assert_eq!(bench.states(), [STALE; 2]);
    let mut from_the_beginning = Bench::new(Policy { join: Join::FirstSeen, ..Policy::default() });
    from_the_beginning.packet(A, 1, &[add(1, 9), add(2, 10)]);
    assert_eq!(from_the_beginning.states(), [LIVE; 2]);
}

#[test]
fn an_order_of_another_instrument_makes_both_stale_for_every_reader() {
    let mut bench = Bench::new(Policy::default());
    bench.packet(A, 1, &[add(1, 1), add(2, 2)]);
    bench.packet(A, 3, &[delete(2, 1)]);
    assert_eq!(bench.states(), [STALE; 2]);
    assert_eq!(bench.channel.books().refused(Refusal::OtherInstrument), 1);
}

#[test]
fn what_was_held_back_is_not_told_as_live() {
    let mut bench = Bench::new(Policy::default());
    bench.packet(A, 1, &[add(1, 1)]);
    bench.packet(A, 3, &[add(1, 3)]);
    assert_eq!(bench.states()[0], STALE);
    bench.packet(B, 2, &[add(1, 2)]);
    bench.packet(B, 4, &[add(1, 4)]);
    // The first one joins; 2 and 3 come when more is known to exist.
    assert_eq!(bench.seen.live, [false, false, false, true]);
    assert_eq!(bench.states()[0], LIVE);
}

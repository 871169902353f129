use super::*;
use LineKind::{Live, Recovery};

const A: LineId = LineId(0);
const B: LineId = LineId(1);
const ANSWERS: LineId = LineId(2);

struct Bench {
    arbiter: Arbiter,
    delivered: Vec<(u64, u8, u64)>,
}

impl Bench {
    fn new() -> Self {
        let limits = Limits { held_messages: 8, held_bytes: HELD_BYTES_MIN };
        let arbiter = Arbiter::new(&[Live, Live, Recovery], limits, Sequence(1)).unwrap();
        Self { arbiter, delivered: Vec::new() }
    }

    /// Messages whose bytes are their number.
    fn datagram(&mut self, line: LineId, at: u64, range: Range<u64>) -> Placed {
        let messages: Vec<[u8; 8]> = range.clone().map(u64::to_be_bytes).collect();
        let delivered = &mut self.delivered;
        let mut deliver = |message: Delivery<'_>| {
            assert_eq!(message.bytes, message.sequence.0.to_be_bytes());
            delivered.push((message.sequence.0, message.origin.line.0, message.arrived.0));
        };
        let messages = messages.iter().map(|message| &message[..]);
        self.arbiter.datagram(line, Nanos(at), Sequence(range.start), messages, &mut deliver)
    }

    fn sequences(&self) -> Vec<u64> {
        self.delivered.iter().map(|(sequence, ..)| *sequence).collect()
    }
}

#[test]
fn the_first_copy_is_delivered_whatever_the_framing() {
    let mut bench = Bench::new();
    assert_eq!(bench.datagram(A, 1, 1..4), Placed::Delivered);
    assert_eq!(bench.datagram(B, 2, 1..3), Placed::Duplicate);
    assert_eq!(bench.datagram(B, 3, 3..6), Placed::Delivered, "3 is old, 4 and 5 are new");
    assert_eq!(bench.datagram(A, 4, 4..7), Placed::Delivered);
    assert_eq!(bench.delivered, [(1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 1, 3), (5, 1, 3), (6, 0, 4)]);
    let [a, b] = [A, B].map(|line| bench.arbiter.line(line).unwrap().clone());
    assert_eq!((a.first, a.duplicates, b.first, b.duplicates), (4, 2, 2, 3));
    assert_eq!((a.packets, a.messages, a.lost, b.lost), (2, 6, 0, 0));
}

#[test]
fn a_message_that_was_held_keeps_its_arrival_and_its_line() {
    let mut bench = Bench::new();
    assert_eq!(bench.datagram(B, 5, 2..4), Placed::Held);
    assert_eq!(bench.datagram(A, 9, 1..3), Placed::Delivered);
    assert_eq!(bench.delivered, [(1, 0, 9), (2, 1, 5), (3, 1, 5)]);
    assert_eq!(bench.arbiter.held(), (0, 2));
}

#[test]
fn what_is_missing_is_told_gap_by_gap() {
    let mut bench = Bench::new();
    bench.datagram(A, 1, 3..4);
    bench.datagram(A, 1, 6..7);
    assert_eq!(bench.arbiter.missing(100), Some((Sequence(1), 2)));
    assert_eq!(bench.arbiter.missing(1), Some((Sequence(1), 1)));
    assert_eq!(bench.arbiter.continuous_from(), Sequence(6));
    assert_eq!(bench.datagram(ANSWERS, 1, 1..3), Placed::Delivered);
    assert_eq!(bench.arbiter.missing(100), Some((Sequence(4), 2)));
    assert_eq!(bench.arbiter.give_up(Sequence(u64::MAX)), Some((Sequence(4), 2)));
    bench.arbiter.drain(&mut |message| assert_eq!(message.sequence.0, 6));
    assert_eq!(bench.arbiter.missing(100), None);
    bench.datagram(B, 2, 4..6);
    assert_eq!(bench.arbiter.line(B).unwrap().late, 2);
    assert_eq!(bench.sequences(), [1, 2, 3]);
}

#[test]
fn a_heartbeat_shows_that_the_last_messages_are_missing() {
    let mut bench = Bench::new();
    bench.datagram(A, 1, 1..2);
    assert_eq!(bench.arbiter.heartbeat(A, Nanos(2), Sequence(2)), Placed::Duplicate);
    assert_eq!(bench.arbiter.heartbeat(A, Nanos(3), Sequence(4)), Placed::Held);
    assert_eq!(bench.arbiter.missing(100), Some((Sequence(2), 2)));
    assert_eq!(bench.arbiter.line(A).unwrap().lost, 2);
}

#[test]
fn one_datagram_far_ahead_changes_nothing_and_two_that_agree_do() {
    let mut bench = Bench::new();
    assert_eq!(bench.datagram(A, 1, 1 << 60..(1 << 60) + 2), Placed::Implausible);
    assert_eq!(bench.arbiter.highest(), Sequence(1));
    assert_eq!(bench.datagram(A, 1, 1..2), Placed::Delivered);
    assert_eq!(bench.datagram(A, 1, 1 << 60..(1 << 60) + 2), Placed::Implausible, "a message came in between");
    assert_eq!(bench.datagram(B, 1, 1 << 60..(1 << 60) + 2), Placed::Overflow);
    assert_eq!(bench.arbiter.highest(), Sequence((1 << 60) + 2));
    let a = bench.arbiter.line(A).unwrap();
    assert_eq!((a.implausible, a.lost), (2, 0));
}

#[test]
fn a_full_buffer_refuses_what_comes_last() {
    let mut bench = Bench::new();
    assert_eq!(bench.datagram(A, 1, 2..9), Placed::Held, "1 to 8 can be told apart");
    assert_eq!(bench.datagram(A, 1, 9..10), Placed::Implausible);
    assert_eq!(bench.datagram(B, 1, 8..10), Placed::Overflow);
    assert_eq!(bench.datagram(B, 1, 1..2), Placed::Delivered);
    assert_eq!(bench.sequences(), (1..9).collect::<Vec<_>>());
    assert_eq!(bench.arbiter.missing(9), Some((Sequence(9), 1)));
    assert_eq!(bench.arbiter.line(B).unwrap().overflowed, 1);
}

#[test]
fn a_snapshot_drops_what_is_before_it_and_goes_on_behind() {
    let mut bench = Bench::new();
    bench.arbiter.collect();
    for first in 1..21 {
        assert_eq!(bench.datagram(A, first, first..first + 1), Placed::Held);
    }
    assert_eq!((bench.arbiter.held().0, bench.arbiter.continuous_from()), (8, Sequence(13)));
    bench.arbiter.resume(Sequence(15));
    let mut delivered = Vec::new();
    bench.arbiter.drain(&mut |message| delivered.push((message.sequence.0, message.arrived.0)));
    assert_eq!(delivered, (15..21).map(|sequence| (sequence, sequence)).collect::<Vec<_>>());
    assert_eq!((bench.arbiter.next(), bench.arbiter.highest()), (Sequence(21), Sequence(21)));
}

#[test]
fn sequences_end_below_the_greatest_number() {
    let mut bench = Bench::new();
    bench.arbiter.restart(Sequence(u64::MAX - 2));
    assert_eq!(bench.datagram(A, 1, u64::MAX - 1..u64::MAX), Placed::Held);
    assert_eq!(bench.datagram(A, 1, u64::MAX - 2..u64::MAX - 1), Placed::Delivered);
    assert_eq!(bench.arbiter.next(), Sequence(u64::MAX));
    let one = [&b""[..]];
    let placed = bench.arbiter.datagram(A, Nanos(1), Sequence(u64::MAX), one.into_iter(), &mut |_| unreachable!());
    assert_eq!(placed, Placed::Implausible);
    assert_eq!(bench.arbiter.missing(100), None);
}

#[test]
fn the_lag_of_a_line_is_counted_from_the_first_copy() {
    let mut bench = Bench::new();
    for first in (1..100).step_by(3) {
        bench.datagram(A, 1000 * first, first..first + 3);
    }
    for first in (1..100).step_by(9) {
        bench.datagram(B, 1000 * first + 50, first..first + 9);
    }
    let lag = &bench.arbiter.line(B).unwrap().lag;
    assert_eq!(lag.count(), 3, "32, 64, 96");
    assert_eq!(bench.arbiter.line(A).unwrap().lag.count(), 0);
}

#[test]
fn a_line_that_does_not_exist_is_told() {
    let mut bench = Bench::new();
    assert_eq!(bench.datagram(LineId(3), 1, 1..2), Placed::NoSuchLine);
    assert_eq!(bench.arbiter.heartbeat(LineId(255), Nanos(1), Sequence(5)), Placed::NoSuchLine);
    assert_eq!(bench.arbiter.next(), Sequence(1));
}

#[test]
fn limits_out_of_range_are_refused_with_a_next_step() {
    let limits = Limits::default();
    let wrong = [
        Arbiter::new(&[], limits, Sequence(1)),
        Arbiter::new(&[Live; 257], limits, Sequence(1)),
        Arbiter::new(&[Live], Limits { held_messages: 0, ..limits }, Sequence(1)),
        Arbiter::new(&[Live], Limits { held_bytes: 100, ..limits }, Sequence(1)),
    ];
    for problem in wrong {
        assert!(!problem.unwrap_err().next_step().is_empty());
    }
}

use super::*;
use crate::arbiter::{Delivery, HELD_BYTES_MIN};
use crate::mold64::{Mold64, PacketWriter, Session};
use crate::units::Alpha;
use LineKind::{Live, Recovery};

pub(super) const A: LineId = LineId(0);
pub(super) const B: LineId = LineId(1);
pub(super) const ANSWERS: LineId = LineId(2);
pub(super) const ONE: Session = Alpha(*b"SESSION001");
pub(super) const TWO: Session = Alpha(*b"SESSION002");
pub(super) const MS: u64 = 1_000_000;

#[derive(Debug, PartialEq)]
pub(super) enum Told {
    Message(u64),
    Snapshot,
    Do(Action<Session>),
}

#[derive(Default)]
pub(super) struct Log(Vec<Told>);

impl Handler<Session> for Log {
    fn message(&mut self, message: Delivery<'_>) {
        assert_eq!(message.bytes, message.sequence.0.to_be_bytes());
        self.0.push(Told::Message(message.sequence.0));
    }

    fn snapshot(&mut self, _bytes: &[u8]) {
        self.0.push(Told::Snapshot);
    }

    fn action(&mut self, action: Action<Session>) {
        self.0.push(Told::Do(action));
    }
}

pub(super) struct Bench {
    pub(super) feed: Feed<Mold64>,
    pub(super) log: Log,
    pub(super) now: u64,
}

impl Bench {
    pub(super) fn new(policy: Policy) -> Self {
        let limits = Limits { held_messages: 16, held_bytes: HELD_BYTES_MIN };
        let feed = Feed::new(&[Live, Live, Recovery], limits, policy, Nanos(0)).unwrap();
        Self { feed, log: Log::default(), now: 0 }
    }

    /// A live feed that has delivered message 1.
    pub(super) fn live(policy: Policy) -> Self {
        let mut bench = Self::new(policy);
        bench.data(A, 1..2);
        let joined = Action::SessionAdopted { session: ONE, next: Sequence(1) };
        assert_eq!(bench.told(), [Told::Do(joined), Told::Message(1), Told::Do(Action::State(State::Live))]);
        bench
    }

    pub(super) fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.log.0)
    }

    pub(super) fn packet(&mut self, line: LineId, session: Session, range: std::ops::Range<u64>) {
        let mut buffer = [0; 1400];
        let mut writer = PacketWriter::new(&mut buffer, session, Sequence(range.start)).unwrap();
        range.for_each(|sequence| assert!(writer.push(&sequence.to_be_bytes())));
        self.feed.datagram(line, Nanos(self.now), Nanos(self.now), writer.finish(), &mut self.log);
    }

    pub(super) fn data(&mut self, line: LineId, range: std::ops::Range<u64>) {
        self.packet(line, ONE, range);
    }

    pub(super) fn end(&mut self, line: LineId, next: u64) {
        let mut buffer = [0; 20];
        let packet = PacketWriter::new(&mut buffer, ONE, Sequence(next)).unwrap().end_of_session();
        self.feed.datagram(line, Nanos(self.now), Nanos(self.now), packet, &mut self.log);
    }

    pub(super) fn heartbeat(&mut self, line: LineId, next: u64) {
        self.packet(line, ONE, next..next);
    }

    pub(super) fn wait(&mut self, ns: u64) {
        self.now += ns;
        self.feed.poll(Nanos(self.now), &mut self.log);
    }

    pub(super) fn since(&self, ms: u64, why: Why) -> Told {
        Told::Do(Action::State(State::Stale { since: Nanos(ms * MS), why }))
    }
}

pub(super) fn request(server: u8, first: u64, count: u32) -> Told {
    Told::Do(Action::Request { server, session: ONE, first: Sequence(first), count })
}

pub(super) fn recovering(ms: u64) -> Told {
    Told::Do(Action::State(State::Recovering { since: Nanos(ms * MS) }))
}

pub(super) fn skipped(first: u64, count: u64) -> Told {
    Told::Do(Action::Skipped { first: Sequence(first), count })
}

pub(super) const LIVE: Told = Told::Do(Action::State(State::Live));

pub(super) fn with_servers() -> Policy {
    Policy { servers: 2, request_tries: 3, ..Policy::default() }
}

pub(super) fn with_snapshot() -> Policy {
    Policy { has_snapshot: true, ..Policy::default() }
}

#[test]
fn another_line_fills_a_gap_before_anybody_is_asked() {
    let mut bench = Bench::live(with_servers());
    bench.data(A, 3..4);
    bench.wait(MS - 1);
    assert_eq!(bench.told(), [recovering(0)]);
    bench.data(B, 2..3);
    assert_eq!(bench.told(), [Told::Message(2), Told::Message(3), LIVE]);
    bench.wait(100 * MS);
    assert_eq!(bench.told(), []);
    let counters = bench.feed.counters();
    assert_eq!((counters.gaps, counters.filled_by_line, counters.requests), (1, 1, 0));
    assert_eq!(counters.gap_duration.max_ns(), MS - 1);
}

#[test]
fn the_rest_of_a_partial_answer_is_asked_for_at_once() {
    let mut bench = Bench::live(with_servers());
    bench.data(A, 6..7);
    bench.wait(MS);
    assert_eq!(bench.told(), [recovering(0), request(0, 2, 4)]);
    bench.data(ANSWERS, 2..4);
    assert_eq!(bench.told(), [Told::Message(2), Told::Message(3), request(0, 4, 2)]);
    bench.data(ANSWERS, 4..6);
    assert_eq!(bench.told(), [Told::Message(4), Told::Message(5), Told::Message(6), LIVE]);
    assert_eq!(bench.feed.counters().filled_by_request, 1);
}

#[test]
fn the_rest_is_waited_for_where_an_answer_comes_in_several_datagrams() {
    let mut bench = Bench::live(Policy { rest_wait_ns: 5 * MS, ..with_servers() });
    bench.data(A, 6..7);
    bench.wait(MS);
    bench.told();
    bench.data(ANSWERS, 2..4);
    bench.wait(5 * MS - 1);
    assert_eq!(bench.told(), [Told::Message(2), Told::Message(3)]);
    bench.wait(1);
    assert_eq!(bench.told(), [request(0, 4, 2)]);
}

#[test]
fn more_is_asked_for_at_once_when_a_line_has_brought_what_was_asked_for() {
    let mut bench = Bench::live(Policy { request_count_max: 2, ..with_servers() });
    bench.data(A, 8..9);
    bench.wait(MS);
    assert_eq!(bench.told(), [recovering(0), request(0, 2, 2)]);
    bench.data(B, 2..4);
    assert_eq!(bench.told(), [Told::Message(2), Told::Message(3), request(0, 4, 2)]);
}

#[test]
fn servers_are_asked_in_turn_and_then_the_gap_is_skipped_and_told() {
    let mut bench = Bench::live(with_servers());
    bench.data(A, 3..4);
    (0..3).for_each(|_| bench.wait(20 * MS));
    assert_eq!(bench.told(), [recovering(0), request(0, 2, 1), request(1, 2, 1), request(0, 2, 1)]);
    bench.wait(20 * MS);
    assert_eq!(bench.told(), [bench.since(80, Why::Gap), skipped(2, 1), Told::Message(3)]);
    bench.data(A, 4..5);
    assert_eq!(bench.told(), [Told::Message(4)], "it goes on, and stays stale");
    bench.data(B, 2..3);
    assert_eq!((bench.told(), bench.feed.line(B).unwrap().late), (vec![], 1));
    bench.feed.accept_loss(Nanos(bench.now), &mut bench.log);
    assert_eq!(bench.told(), [LIVE]);
}

#[test]
fn a_server_that_refuses_is_left_at_once() {
    let mut bench = Bench::live(with_servers());
    bench.data(A, 3..4);
    bench.wait(MS);
    bench.told();
    bench.feed.request_refused(1, Nanos(bench.now), &mut bench.log);
    assert_eq!(bench.told(), [], "nobody asked it");
    bench.feed.request_refused(0, Nanos(bench.now), &mut bench.log);
    assert_eq!(bench.told(), [request(1, 2, 1)]);
}

#[test]
fn a_heartbeat_finds_the_loss_of_the_last_message() {
    let mut bench = Bench::live(with_servers());
    bench.data(B, 3..3);
    assert_eq!(bench.told(), [recovering(0)]);
    bench.wait(MS);
    assert_eq!(bench.told(), [request(0, 2, 1)]);
    bench.data(ANSWERS, 2..3);
    assert_eq!(bench.told(), [Told::Message(2), LIVE]);
}

#[test]
fn a_heartbeat_among_answers_tells_nothing() {
    let mut bench = Bench::live(with_servers());
    bench.data(ANSWERS, 5..5);
    assert_eq!((bench.told(), bench.feed.state()), (vec![], State::Live));
}

#[test]
fn every_gap_has_its_own_time_to_wait() {
    let mut bench = Bench::live(with_servers());
    bench.data(A, 3..4);
    bench.now = MS / 2;
    bench.data(A, 5..6);
    bench.data(B, 2..3);
    bench.told();
    assert_eq!(bench.feed.next_poll(), Nanos(MS / 2 + MS));
    bench.wait(MS);
    assert_eq!(bench.told(), [request(0, 4, 1)]);
    assert_eq!(bench.feed.counters().gaps, 2);
}

#[test]
fn a_snapshot_drops_what_is_older_and_applies_what_is_newer() {
    let mut bench = Bench::live(with_snapshot());
    bench.data(A, 4..6);
    bench.wait(MS);
    let open = Told::Do(Action::OpenSnapshot { attempt: 1, session: ONE, from: Sequence(4) });
    assert_eq!(bench.told(), [recovering(0), bench.since(1, Why::Gap), open]);
    bench.data(A, 6..8);
    bench.data(B, 2..4);
    assert_eq!(bench.told(), [], "what comes by a line is held until the snapshot is complete");
    bench.feed.snapshot_message(1, Nanos(bench.now), b"add", &mut bench.log).unwrap();
    bench.feed.snapshot_done(1, Nanos(bench.now), Sequence(6), &mut bench.log).unwrap();
    assert_eq!(bench.told(), [Told::Snapshot, skipped(2, 4), Told::Message(6), Told::Message(7), LIVE]);
    let late = bench.feed.snapshot_message(1, Nanos(bench.now), b"add", &mut bench.log);
    assert_eq!(late, Err(Refused::NotOpen));
}

#[test]
fn a_snapshot_that_cannot_be_used_is_got_again_after_a_pause() {
    let mut bench = Bench::live(with_snapshot());
    bench.data(A, 4..6);
    bench.wait(MS);
    bench.told();
    let old = bench.feed.snapshot_done(1, Nanos(bench.now), Sequence(1), &mut bench.log);
    assert_eq!((old, bench.told()), (Err(Refused::TooOld), vec![Told::Do(Action::CloseSnapshot { attempt: 1 })]));
    bench.wait(1000 * MS - 1);
    assert_eq!(bench.told(), []);
    bench.wait(1);
    let open = |attempt| Told::Do(Action::OpenSnapshot { attempt, session: ONE, from: Sequence(4) });
    assert_eq!(bench.told(), [open(2)]);
    let new = bench.feed.snapshot_done(2, Nanos(bench.now), Sequence(1 << 40), &mut bench.log);
    assert_eq!(new, Err(Refused::TooNew));
    bench.wait(1000 * MS);
    bench.feed.snapshot_failed(3, Nanos(bench.now), &mut bench.log);
    bench.wait(1000 * MS);
    bench.told();
    bench.wait(5000 * MS);
    let told = bench.told();
    assert!(told.contains(&Told::Do(Action::CloseSnapshot { attempt: 4 })) && told.contains(&open(5)), "{told:?}");
    assert_eq!(bench.feed.counters().snapshots_failed, 4);
}

#[test]
fn a_hole_behind_a_snapshot_is_a_gap_like_any_other() {
    let mut bench = Bench::live(Policy { servers: 1, request_span_max: 2, ..with_snapshot() });
    bench.data(A, 6..7);
    bench.wait(MS);
    bench.told();
    bench.feed.snapshot_done(1, Nanos(bench.now), Sequence(5), &mut bench.log).unwrap();
    assert_eq!(bench.told(), [skipped(2, 3), recovering(0)], "6 came at 0 ms");
    bench.wait(0);
    assert_eq!(bench.told(), [request(0, 5, 1)]);
}

#[test]
fn a_snapshot_that_took_longer_than_can_be_held_leaves_the_feed_recovering() {
    let mut bench = Bench::live(with_snapshot());
    bench.data(A, 4..6);
    bench.wait(MS);
    // 30 messages come during the snapshot, 16 can be held: 20 to 35 are.
    (6..36).for_each(|sequence| bench.data(A, sequence..sequence + 1));
    bench.told();
    bench.feed.snapshot_done(1, Nanos(bench.now), Sequence(4), &mut bench.log).unwrap();
    assert_eq!(bench.told(), [skipped(2, 2), recovering(1)], "4 to 35 were brought, and are not in the books");
    assert_eq!(bench.feed.counters().snapshots_outrun, 1);
    // What is missing is got by the next snapshot, as there is no server.
    bench.wait(1000 * MS);
    let open = |from| Told::Do(Action::OpenSnapshot { attempt: 2, session: ONE, from: Sequence(from) });
    assert_eq!(bench.told(), [bench.since(1001, Why::Gap), open(36)]);
    bench.feed.snapshot_done(2, Nanos(bench.now), Sequence(36), &mut bench.log).unwrap();
    assert_eq!(bench.told(), [skipped(4, 32), LIVE]);
}

#[test]
fn a_snapshot_is_taken_for_a_caller_whose_books_are_wrong() {
    let mut bench = Bench::live(with_snapshot());
    assert!(bench.feed.take_snapshot(Nanos(bench.now), &mut bench.log));
    let open = Told::Do(Action::OpenSnapshot { attempt: 1, session: ONE, from: Sequence(2) });
    assert_eq!(bench.told(), [bench.since(0, Why::Gap), open]);
    assert!(!bench.feed.take_snapshot(Nanos(bench.now), &mut bench.log), "one is under way");
    bench.data(A, 2..4);
    bench.feed.snapshot_done(1, Nanos(bench.now), Sequence(3), &mut bench.log).unwrap();
    assert_eq!(bench.told(), [skipped(2, 1), Told::Message(3), LIVE]);
    let mut none = Bench::live(Policy::default());
    assert!(!none.feed.take_snapshot(Nanos(0), &mut none.log), "there is no source");
}

#[test]
fn more_than_can_be_held_leads_to_a_snapshot() {
    let mut bench = Bench::live(Policy { servers: 1, ..with_snapshot() });
    bench.data(A, 3..17);
    bench.told();
    bench.data(A, 17..19);
    assert_eq!(bench.told(), [], "one datagram may be damaged");
    bench.data(B, 17..19);
    let open = Told::Do(Action::OpenSnapshot { attempt: 1, session: ONE, from: Sequence(19) });
    assert_eq!(bench.told(), [bench.since(0, Why::Overflow), open]);
    assert_eq!(bench.feed.counters().overflows, 1);
}

#[test]
fn without_snapshots_a_long_gap_is_asked_for_piece_by_piece() {
    let mut bench = Bench::live(Policy { request_count_max: 10, ..with_servers() });
    bench.data(A, 100..101);
    bench.data(A, 101..102);
    bench.wait(MS);
    assert_eq!(bench.told(), [recovering(0), request(0, 2, 10)]);
    for first in (2..102).step_by(10) {
        bench.data(ANSWERS, first..first + 10);
    }
    let told = bench.told();
    assert_eq!(told.iter().filter(|one| matches!(one, Told::Message(_))).count(), 100);
    assert_eq!(told.last(), Some(&LIVE));
}

#[test]
fn without_any_source_an_overflow_is_skipped_at_once() {
    let mut bench = Bench::live(Policy::default());
    bench.data(A, 100..101);
    bench.data(A, 101..102);
    assert_eq!(bench.told(), [bench.since(0, Why::Gap), skipped(2, 100)]);
    bench.data(A, 102..103);
    assert_eq!(bench.told(), [Told::Message(102)]);
}

#[test]
fn a_join_late_in_the_day_takes_a_snapshot() {
    let mut bench = Bench::new(with_snapshot());
    bench.data(A, 5000..5002);
    let joined = Told::Do(Action::SessionAdopted { session: ONE, next: Sequence(1) });
    assert_eq!(bench.told(), [joined], "one datagram may be damaged");
    assert_eq!(bench.feed.state(), State::Stale { since: Nanos(0), why: Why::NotJoined });
    bench.data(B, 5000..5002);
    bench.data(A, 5002..5004);
    let open = Told::Do(Action::OpenSnapshot { attempt: 1, session: ONE, from: Sequence(5002) });
    assert_eq!(bench.told(), [bench.since(0, Why::Overflow), open]);
    bench.feed.snapshot_done(1, Nanos(0), Sequence(5002), &mut bench.log).unwrap();
    assert_eq!(bench.told(), [skipped(1, 5001), Told::Message(5002), Told::Message(5003), LIVE]);
}

#[test]
fn a_join_at_the_first_message_seen_misses_nothing() {
    let mut bench = Bench::new(Policy { join: Join::FirstSeen, ..Policy::default() });
    bench.data(A, 5000..5001);
    let joined = Told::Do(Action::SessionAdopted { session: ONE, next: Sequence(5000) });
    assert_eq!(bench.told(), [joined, Told::Message(5000), LIVE]);
}

#[test]
fn a_join_at_a_checkpoint_misses_what_came_before_its_first_datagram() {
    let mut bench =
        Bench::new(Policy { join: Join::At(Sequence(5000)), adoption: Adoption::AtOnce, ..Policy::default() });
    bench.data(A, 5002..5003);
    let joined = |session, next| Told::Do(Action::SessionAdopted { session, next: Sequence(next) });
    assert_eq!(bench.told(), [joined(ONE, 5000), recovering(0)]);
    bench.data(B, 4999..5002);
    assert_eq!(bench.told(), [Told::Message(5000), Told::Message(5001), Told::Message(5002), LIVE]);
    bench.packet(A, TWO, 1..2);
    assert!(bench.told().contains(&joined(TWO, 1)), "the checkpoint was one of the first session");
}

#[test]
fn silence_of_a_line_and_of_all_is_told_and_taken_back() {
    let mut bench = Bench::live(Policy::default());
    bench.now = 3000 * MS;
    bench.data(A, 2..2);
    bench.wait(500 * MS);
    assert_eq!(bench.told(), [Told::Do(Action::LineSilent { line: B })]);
    assert_eq!(bench.feed.next_poll(), Nanos(6500 * MS));
    bench.wait(3000 * MS);
    assert_eq!(bench.told(), [Told::Do(Action::LineSilent { line: A }), bench.since(6500, Why::Silence)]);
    bench.data(B, 2..3);
    assert_eq!(bench.told(), [Told::Message(2), Told::Do(Action::LineBack { line: B }), LIVE]);
    bench.data(B, 3..4);
    assert_eq!(bench.told(), [Told::Message(3)]);
    bench.wait(3500 * MS);
    assert_eq!(bench.told(), [Told::Do(Action::LineSilent { line: B }), bench.since(10_000, Why::Silence)]);
}

#[test]
fn a_sender_that_begins_anew_under_the_same_session_does_not_leave_the_feed_live() {
    let mut bench = Bench::live(Policy::default());
    bench.data(A, 2..10);
    bench.told();
    for number in 1..=6 {
        bench.wait(500 * MS);
        [A, B].iter().for_each(|line| bench.data(*line, number..number + 1));
        bench.heartbeat(B, number + 1);
    }
    assert_eq!(bench.told(), [], "until now it may be a line that lies behind");
    bench.wait(500 * MS);
    assert_eq!(bench.told(), [bench.since(3500, Why::Silence)]);
    bench.data(A, 7..8);
    bench.wait(MS);
    assert_eq!(bench.told(), [], "older numbers change nothing, and no line is silent");
    // A copy of the newest message is enough to show that the feed goes on.
    bench.data(B, 9..10);
    assert_eq!(bench.told(), [LIVE]);
    bench.data(A, 10..11);
    assert_eq!(bench.told(), [Told::Message(10)]);
}

#[test]
fn a_twin_may_be_silent_and_may_be_the_only_one_that_is_heard() {
    let limits = Limits { held_messages: 16, held_bytes: HELD_BYTES_MIN };
    let feed = Feed::new(&[Live, LineKind::Twin], limits, Policy::default(), Nanos(0)).unwrap();
    let mut bench = Bench { feed, log: Log::default(), now: 0 };
    bench.data(A, 1..2);
    bench.now = 3000 * MS;
    bench.data(A, 2..3);
    bench.told();
    bench.wait(3000 * MS);
    bench.data(B, 3..4);
    bench.wait(500 * MS);
    assert_eq!(bench.told(), [Told::Message(3), Told::Do(Action::LineSilent { line: A })]);
    bench.wait(3000 * MS);
    assert_eq!(bench.told(), [bench.since(9500, Why::Silence)]);
    bench.data(B, 4..5);
    assert_eq!(bench.told(), [Told::Message(4), LIVE]);
    assert_eq!(bench.feed.line(B).unwrap().lost, 0);
}

#[test]
fn garbage_and_unknown_lines_are_counted_and_change_nothing() {
    let mut bench = Bench::live(Policy::default());
    bench.feed.datagram(A, Nanos(0), Nanos(0), b"garbage", &mut bench.log);
    bench.feed.datagram(A, Nanos(0), Nanos(0), b"SESSION001\0\0\0\0\0\0\0\x02\0\x01\0\x09short", &mut bench.log);
    bench.data(LineId(7), 2..3);
    bench.packet(LineId(7), TWO, 2..3);
    assert_eq!(bench.told(), []);
    assert_eq!((bench.feed.line(A).unwrap().malformed, bench.feed.counters().no_such_line), (2, 2));
    assert_eq!(bench.feed.next(), Sequence(2));
}

#[test]
fn rules_that_make_no_feed_are_refused() {
    let limits = Limits::default();
    let zero = Policy { request_tries: 0, ..Policy::default() };
    for problem in [
        Feed::<Mold64>::new(&[Recovery], limits, Policy::default(), Nanos(0)),
        Feed::new(&[Live], limits, zero, Nanos(0)),
    ] {
        assert!(!problem.unwrap_err().next_step().is_empty());
    }
}

//! A feed allocates nothing after its construction: not for what comes in order, early, twice, late or broken, not for requests, snapshots and
//! another session.

#[path = "feed_simulator/dice.rs"]
#[allow(dead_code)]
mod dice;

use dice::Dice;
use sidestep_market::arbiter::{Delivery, HELD_BYTES_MIN, Limits, LineKind};
use sidestep_market::feed::{Action, Adoption, Feed, Handler, Policy};
use sidestep_market::mold64::{Mold64, PacketWriter, Request, Session};
use sidestep_market::units::{Alpha, LineId, Nanos, Sequence};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is the system allocator's; counting touches a thread-local integer without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Default)]
struct Counts {
    messages: u64,
    requested: Option<Request>,
    attempt: Option<u32>,
}

impl Handler<Session> for Counts {
    fn message(&mut self, _message: Delivery<'_>) {
        self.messages += 1;
    }

    fn snapshot(&mut self, _bytes: &[u8]) {}

    fn action(&mut self, action: Action<Session>) {
        match action {
            Action::Request { session, first, count, .. } => {
                self.requested = Some(Request { session, first, count: count as u16 });
            }
            Action::OpenSnapshot { attempt, .. } => self.attempt = Some(attempt),
            _ => {}
        }
    }
}

fn send(
    feed: &mut Feed<Mold64>,
    counts: &mut Counts,
    now: u64,
    line: u8,
    session: Session,
    range: std::ops::Range<u64>,
) {
    let mut buffer = [0; 1400];
    let mut writer = PacketWriter::new(&mut buffer, session, Sequence(range.start)).expect("it has room");
    range.for_each(|_| assert!(writer.push(b"a message of thirty-six bytes, as A.")));
    feed.datagram(LineId(line), Nanos(now), Nanos(now), writer.finish(), counts);
}

#[test]
fn a_day_with_losses_snapshots_and_another_session_allocates_nothing() {
    let policy = Policy {
        servers: 2,
        has_snapshot: true,
        snapshot_retry_ns: 1,
        adoption: Adoption::AtOnce,
        ..Policy::default()
    };
    let limits = Limits { held_messages: 256, held_bytes: HELD_BYTES_MIN };
    let lines = [LineKind::Live, LineKind::Live, LineKind::Recovery];
    let mut feed = Feed::<Mold64>::new(&lines, limits, policy, Nanos(0)).expect("the rules are good");
    let (mut counts, mut dice, mut now) = (Counts::default(), Dice::Seed(1), 0);
    ALLOCATIONS.set(0);
    for session in [Alpha(*b"SESSION001"), Alpha(*b"SESSION002")] {
        let (mut next, mut last) = (1, 1..1);
        for _ in 0..20_000 {
            now += dice.below(300_000);
            let count = 1 + dice.below(20);
            // The second line is one datagram behind.
            for (line, range) in [(0, next..next + count), (1, last.clone())] {
                if !dice.chance(10) {
                    send(&mut feed, &mut counts, now, line, session, range);
                }
            }
            (last, next) = (next..next + count, next + count);
            feed.poll(Nanos(now), &mut counts);
            if let Some(request) = counts.requested.take().filter(|_| dice.chance(70)) {
                assert!(Request::parse(&request.write()).is_ok());
                let end = request.first.0 + u64::from(request.count.min(20));
                send(&mut feed, &mut counts, now, 2, request.session, request.first.0..end);
            }
            if let Some(attempt) = counts.attempt.take() {
                feed.snapshot_message(attempt, Nanos(now), b"an order", &mut counts).expect("it is open");
                feed.snapshot_done(attempt, Nanos(now), Sequence(next), &mut counts).expect("it is new enough");
            }
            feed.datagram(LineId(0), Nanos(now), Nanos(now), b"broken", &mut counts);
        }
    }
    assert_eq!(ALLOCATIONS.get(), 0);
    let counters = feed.counters();
    let seen = [counters.filled_by_line, counters.filled_by_request, counters.ended_by_snapshot, counters.skipped];
    assert!(seen.iter().all(|count| *count > 0) && counts.messages > 100_000, "{counters:?}");
}

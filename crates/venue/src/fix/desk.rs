//! The orders of FIX sessions: requests are done in the books, and what comes of them is written as reports.

use super::report::{Event, Report};
use super::request::{Cancel, Id, New, Request, book_side};
use crate::core::Core;
use crate::itch::ANONYMOUS;
use crate::matching::{Answer, CancelReason, Enter, Handle, Refused, Replacement, TimeInForce};
use crate::service::Time;
use std::collections::{HashMap, VecDeque};

/// Live orders of all sessions.
pub const LIVE_MAX: usize = 200_000;

/// Reports that wait for one session: for a client that reads slowly, or is away. More are dropped and counted.
pub const WAITING_MAX: usize = 16_384;

/// Reports that wait for all sessions, some 200 bytes each: 200 MB. Beyond, a session has `WAITING_SHARE` of its own.
pub const WAITING_ALL_MAX: usize = 1024 * 1024;

/// Reports that may wait for a session in any case, so that made-up names do not take away those of others.
const WAITING_SHARE: usize = 100;

/// The kind of owner that orders of FIX have in [`Enter::owner`]; the number of the order stands below.
const OWNER: u64 = 1 << 63;

/// A live order.
#[derive(Debug, Clone)]
struct Live {
    session: usize,
    handle: Option<Handle>,
    id: Id,
    original: Option<Id>,
    new: New,
    executed: u32,
    left: u32,
    value: u64,
}

/// Orders and reports of all sessions.
#[derive(Debug, Default)]
pub(super) struct Desk {
    orders: HashMap<u64, Live>,
    /// The number of an order by its session and ClOrdID (11).
    by_id: HashMap<(usize, Id), u64>,
    next_order: u64,
    next_report: u64,
    /// For each session what it has to hear.
    waiting: Vec<VecDeque<Report>>,
    /// The number of all of them.
    waiting_all: usize,
    pub(super) dropped: u64,
}

impl Desk {
    pub(super) fn owns(owner: u64) -> bool {
        owner & OWNER != 0
    }

    pub(super) fn live(&self) -> usize {
        self.orders.len()
    }

    /// Does a request of a session. Answers come by [`Self::hear`].
    pub(super) fn handle(&mut self, time: Time, utc_ns: i64, session: usize, request: Request, core: &mut Core) {
        match request {
            Request::New(new) => self.enter(time, utc_ns, session, new, core),
            Request::Cancel(cancel) => self.cancel(time, utc_ns, session, cancel, core),
            Request::Replace { cancel, quantity, price } => {
                self.replace(time, utc_ns, session, cancel, (quantity, price), core);
            }
            Request::CancelAll => self.cancel_all(time, session, core),
        }
    }

    fn enter(&mut self, time: Time, utc_ns: i64, session: usize, new: New, core: &mut Core) {
        let key = (session, new.id.clone());
        if self.by_id.contains_key(&key) {
            return self.reject(utc_ns, session, &new, 6, "an order of this ClOrdID is live");
        }
        if self.orders.len() >= LIVE_MAX {
            return self.reject(utc_ns, session, &new, 3, "the venue has no room for another order");
        }
        let locate = core.locate(new.symbol).unwrap_or(0);
        let Some(side) = book_side(new.side) else { return };
        let number = self.next_order;
        self.next_order += 1;
        let time_in_force = if new.is_immediate { TimeInForce::Immediate } else { TimeInForce::Day };
        let New { quantity: shares, price, is_displayed, .. } = new;
        let (owner, attribution) = (OWNER | number, ANONYMOUS);
        let order = Enter { owner, locate, side, shares, price, time_in_force, is_displayed, attribution };
        let id = new.id.clone();
        let live = Live { session, handle: None, id, original: None, left: shares, new, executed: 0, value: 0 };
        self.orders.insert(number, live);
        self.by_id.insert(key.clone(), number);
        if let Err(refused) = core.enter(time.day_ns, &order) {
            self.by_id.remove(&key);
            if let Some(live) = self.orders.remove(&number) {
                self.reject(utc_ns, session, &live.new, reject_reason(refused), &refused.to_string());
            }
        }
    }

    /// The order that a request is about.
    fn find(&self, session: usize, id: &Id) -> Option<(u64, &Live, Handle)> {
        let number = *self.by_id.get(&(session, id.clone()))?;
        let live = self.orders.get(&number)?;
        Some((number, live, live.handle?))
    }

    fn cancel(&mut self, time: Time, utc_ns: i64, session: usize, cancel: Cancel, core: &mut Core) {
        let Some((number, _, handle)) = self.find(session, &cancel.original) else {
            return self.reject_cancel(utc_ns, session, cancel, b'1', (1, "no such order is live"));
        };
        if let Some(live) = self.orders.get_mut(&number) {
            self.by_id.remove(&(session, live.id.clone()));
            (live.original, live.id) = (Some(cancel.original), cancel.id);
        }
        let _ = core.cancel(time.day_ns, handle, 0, CancelReason::User);
    }

    fn replace(
        &mut self,
        time: Time,
        utc_ns: i64,
        session: usize,
        cancel: Cancel,
        (quantity, price): (u32, u32),
        core: &mut Core,
    ) {
        let Some((number, live, handle)) = self.find(session, &cancel.original) else {
            return self.reject_cancel(utc_ns, session, cancel, b'2', (1, "no such order is live"));
        };
        let is_taken = cancel.id != cancel.original && self.by_id.contains_key(&(session, cancel.id.clone()));
        if is_taken {
            return self.reject_cancel(utc_ns, session, cancel, b'2', (6, "an order of this ClOrdID is live"));
        }
        // OrderQty (38) counts what was executed.
        let shares = quantity.saturating_sub(live.executed);
        if shares == 0 {
            return self.reject_cancel(utc_ns, session, cancel, b'2', (0, "so many shares are executed already"));
        }
        let new = Replacement { owner: OWNER | number, shares, price, is_displayed: live.new.is_displayed };
        if let Err(refused) = core.replace(time.day_ns, handle, &new) {
            let text = refused.to_string();
            return self.reject_cancel(utc_ns, session, cancel, b'2', (2, &text));
        }
        if let Some(live) = self.orders.get_mut(&number) {
            self.by_id.remove(&(session, live.id.clone()));
            self.by_id.insert((session, cancel.id.clone()), number);
            (live.original, live.id) = (Some(cancel.original), cancel.id);
            (live.new.quantity, live.new.price) = (quantity, price);
        }
    }

    fn cancel_all(&mut self, time: Time, session: usize, core: &mut Core) {
        let mut theirs: Vec<(u64, Handle)> = self
            .orders
            .iter()
            .filter(|(_, live)| live.session == session)
            .filter_map(|(number, live)| Some((*number, live.handle?)))
            .collect();
        // A map has no order of its own, and what happens is to be the same each time.
        theirs.sort_unstable_by_key(|(number, _)| *number);
        for (_, handle) in theirs {
            let _ = core.cancel(time.day_ns, handle, 0, CancelReason::Supervisory);
        }
    }

    /// Writes what happened to an order.
    pub(super) fn hear(&mut self, utc_ns: i64, owner: u64, answer: &Answer) {
        let number = owner & !OWNER;
        let Some(live) = self.orders.get_mut(&number) else { return };
        let event = match *answer {
            Answer::Accepted { handle } => {
                live.handle = Some(handle);
                Event::New
            }
            Answer::Replaced { handle, shares, .. } => {
                (live.handle, live.left) = (Some(handle), shares);
                Event::Replaced
            }
            Answer::Executed(execution) => {
                live.executed += execution.shares;
                live.left = execution.left;
                live.value += u64::from(execution.shares) * u64::from(execution.price);
                Event::Trade { shares: execution.shares, price: execution.price }
            }
            Answer::Cancelled { left, .. } => {
                live.left = left;
                Event::Cancelled
            }
        };
        let report = report(live, event);
        let session = live.session;
        if live.left == 0 {
            let key = (session, live.id.clone());
            // A cancel may have the name of another live order, which keeps it.
            if self.by_id.get(&key) == Some(&number) {
                self.by_id.remove(&key);
            }
            self.orders.remove(&number);
        }
        self.say(utc_ns, session, report);
    }

    fn reject(&mut self, utc_ns: i64, session: usize, new: &New, reason: u64, text: &str) {
        let id = new.id.clone();
        let live = Live { session, handle: None, id, original: None, new: new.clone(), executed: 0, left: 0, value: 0 };
        self.say(utc_ns, session, report(&live, Event::Rejected(reason, text.to_owned())));
    }

    fn reject_cancel(&mut self, utc_ns: i64, session: usize, cancel: Cancel, to: u8, (reason, text): (u64, &str)) {
        let event = Event::CancelRejected(to, reason, text.to_owned());
        let rejected = match self.find(session, &cancel.original) {
            Some((_, live, _)) => Report { id: cancel.id, original: Some(cancel.original), ..report(live, event) },
            None => unknown(cancel, event),
        };
        self.say(utc_ns, session, rejected);
    }

    /// The first report that waits for a session.
    pub(super) fn next_report(&self, session: usize) -> Option<&Report> {
        self.waiting.get(session)?.front()
    }

    /// That report is sent, or cannot be.
    pub(super) fn report_done(&mut self, session: usize) {
        let done = self.waiting.get_mut(session).and_then(VecDeque::pop_front);
        self.waiting_all -= usize::from(done.is_some());
    }

    /// Nothing waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting_all == 0
    }

    fn say(&mut self, utc_ns: i64, session: usize, report: Report) {
        if self.waiting.len() <= session {
            self.waiting.resize_with(session + 1, VecDeque::new);
        }
        let own = self.waiting[session].len();
        let is_full = own >= WAITING_SHARE && self.waiting_all >= WAITING_ALL_MAX;
        if own >= WAITING_MAX || is_full {
            self.dropped += 1;
            return;
        }
        self.waiting_all += 1;
        self.next_report += 1;
        self.waiting[session].push_back(Report { number: self.next_report, utc_ns, ..report });
    }
}

fn report(live: &Live, event: Event) -> Report {
    Report {
        event,
        reference: live.handle.map_or(0, |handle| handle.reference),
        id: live.id.clone(),
        original: live.original.clone(),
        side: live.new.side,
        symbol: live.new.symbol,
        quantity: live.new.quantity,
        price: live.new.price,
        executed: live.executed,
        left: live.left,
        value: live.value,
        number: 0,
        utc_ns: 0,
    }
}

/// The rejected cancel of an order that is not there.
fn unknown(cancel: Cancel, event: Event) -> Report {
    let Cancel { id, original } = cancel;
    let symbol = crate::units::Symbol(*b"        ");
    let (side, quantity, price, executed, left, value) = (b'1', 0, 0, 0, 0, 0);
    let original = Some(original);
    Report {
        event,
        reference: 0,
        id,
        original,
        side,
        symbol,
        quantity,
        price,
        executed,
        left,
        value,
        number: 0,
        utc_ns: 0,
    }
}

/// OrdRejReason (103).
fn reject_reason(refused: Refused) -> u64 {
    match refused {
        Refused::Symbol => 1,
        Refused::Halted => 2,
        Refused::Full => 3,
        // 13, incorrect quantity, came with FIX 4.4; 0 is the broker's own reason, which Text (58) tells.
        Refused::Quantity | Refused::Price | Refused::Gone => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{Limits, Matching};
    use crate::units::Symbol;

    const NOW: Time = Time { mono_ns: 1, day_ns: 2 };

    struct Lab {
        desk: Desk,
        core: Core,
    }

    impl Lab {
        fn new() -> Self {
            let matching = Matching::new([Symbol(*b"MSFT    ")], Limits { orders: 100, levels: 10 });
            Self { desk: Desk::default(), core: Core::new(matching, 100) }
        }

        /// Does a request, and returns what the session hears: ClOrdID, the event, and shares left.
        fn ask(&mut self, session: usize, request: Request) -> Vec<(String, Event, u32)> {
            self.desk.handle(NOW, 3, session, request, &mut self.core);
            let mut answers = Vec::new();
            self.core.take_answers_of(Desk::owns, &mut answers);
            answers.iter().for_each(|(owner, answer)| self.desk.hear(3, *owner, answer));
            self.heard(session)
        }

        fn heard(&mut self, session: usize) -> Vec<(String, Event, u32)> {
            let told = std::iter::from_fn(|| {
                let report = self.desk.next_report(session)?.clone();
                self.desk.report_done(session);
                Some(report)
            });
            told.map(|told| (String::from_utf8_lossy(&told.id).into_owned(), told.event, told.left)).collect()
        }
    }

    fn order(id: &str, side: u8, quantity: u32, price: u32) -> Request {
        let (id, symbol) = (id.as_bytes().into(), Symbol(*b"MSFT    "));
        Request::New(New { id, side, symbol, quantity, price, is_immediate: false, is_displayed: true })
    }

    fn cancel(id: &str, original: &str) -> Cancel {
        Cancel { id: id.as_bytes().into(), original: original.as_bytes().into() }
    }

    #[test]
    fn both_sides_of_a_trade_hear_of_it() {
        let mut lab = Lab::new();
        assert_eq!(lab.ask(0, order("a", b'2', 100, 50_000)), [("a".into(), Event::New, 100)]);
        let trade = Event::Trade { shares: 60, price: 50_000 };
        assert_eq!(
            lab.ask(1, order("a", b'1', 60, 60_000)),
            [("a".into(), Event::New, 60), ("a".into(), trade.clone(), 0)]
        );
        assert_eq!(lab.heard(0), [("a".into(), trade, 40)]);
        assert_eq!((lab.desk.live(), lab.core.matching.live()), (1, 1));
    }

    #[test]
    fn a_replaced_order_answers_to_its_new_name_alone() {
        let mut lab = Lab::new();
        lab.ask(0, order("a", b'1', 100, 50_000));
        let replace =
            |id, original, quantity| Request::Replace { cancel: cancel(id, original), quantity, price: 50_100 };
        assert_eq!(lab.ask(0, replace("b", "a", 150)), [("b".into(), Event::Replaced, 150)]);
        let gone = Event::CancelRejected(b'1', 1, "no such order is live".to_owned());
        assert_eq!(lab.ask(0, Request::Cancel(cancel("c", "a"))), [("c".into(), gone, 0)]);
        assert_eq!(lab.ask(0, Request::Cancel(cancel("d", "b"))), [("d".into(), Event::Cancelled, 0)]);
        assert_eq!((lab.desk.live(), lab.desk.by_id.len(), lab.core.matching.live()), (0, 0, 0));
        lab.ask(0, order("x", b'1', 100, 50_000));
        lab.ask(0, order("y", b'1', 100, 50_000));
        lab.ask(0, Request::Cancel(cancel("y", "x")));
        assert_eq!(
            lab.ask(0, Request::Cancel(cancel("z", "y"))),
            [("z".into(), Event::Cancelled, 0)],
            "y kept its name"
        );
    }

    #[test]
    fn what_cannot_be_done_is_rejected_and_leaves_nothing() {
        let mut lab = Lab::new();
        lab.ask(0, order("a", b'1', 100, 50_000));
        for (request, reason) in [
            (order("a", b'1', 100, 50_000), 6),
            (order("b", b'1', 0, 50_000), 0),
            (order("b", b'1', 100, 50_001), 0),
            (Request::New(New { symbol: Symbol(*b"NONE    "), ..new() }), 1),
        ] {
            let told = lab.ask(0, request);
            assert!(matches!(&told[..], [(_, Event::Rejected(found, _), 0)] if *found == reason), "{told:?}");
        }
        let replace = Request::Replace { cancel: cancel("b", "a"), quantity: 10, price: 0 };
        assert!(matches!(&lab.ask(0, replace)[..], [(_, Event::CancelRejected(b'2', 2, _), 100)]));
        assert_eq!((lab.desk.live(), lab.desk.by_id.len()), (1, 1));
    }

    fn new() -> New {
        let Request::New(new) = order("b", b'1', 100, 50_000) else { unreachable!("it is one") };
        new
    }

    #[test]
    fn a_session_that_is_gone_loses_its_orders_and_no_others() {
        let mut lab = Lab::new();
        lab.ask(0, order("a", b'1', 100, 50_000));
        lab.ask(1, order("a", b'1', 100, 50_000));
        assert_eq!(lab.ask(0, Request::CancelAll), [("a".into(), Event::Cancelled, 0)]);
        assert_eq!((lab.desk.live(), lab.heard(1)), (1, Vec::new()));
    }

    #[test]
    fn reports_that_nobody_reads_are_bounded() {
        let mut lab = Lab::new();
        for _ in 0..WAITING_MAX + 5 {
            lab.desk.handle(NOW, 3, 0, order("a", b'1', 0, 1), &mut lab.core);
        }
        assert_eq!((lab.desk.waiting[0].len(), lab.desk.dropped), (WAITING_MAX, 5));
        lab.heard(0);
        assert!(lab.desk.is_quiet());
        let names = WAITING_ALL_MAX / WAITING_MAX + 10;
        for number in 0..names * WAITING_MAX {
            lab.desk.handle(NOW, 3, number % names, order("a", b'1', 0, 1), &mut lab.core);
        }
        assert_eq!(lab.desk.waiting_all, WAITING_ALL_MAX);
        (0..1_000).for_each(|_| lab.desk.handle(NOW, 3, names, order("a", b'1', 0, 1), &mut lab.core));
        assert_eq!(lab.desk.waiting[names].len(), WAITING_SHARE, "a name that comes later has its share");
    }
}

use super::*;
use crate::ouch::{Answer, PRICE_MAX};

const SECOND: u64 = 1_000_000_000;

/// An account, and the exchange's messages to it.
struct Port {
    orders: OpenOrders,
    sequence: u64,
}

fn port(orders_max: usize) -> Port {
    let limits = Limits { orders_max, ..Limits::default() };
    Port { orders: OpenOrders::new(limits).unwrap(), sequence: 0 }
}

fn enter(number: u32, quantity: u32) -> EnterOrder<'static> {
    EnterOrder::limit(UserRefNum(number), OrderSide::Buy, quantity, Symbol::new("ACME").unwrap(), Price(10_000))
}

fn replacement(old: u32, number: u32, quantity: u32) -> ReplaceOrder<'static> {
    ReplaceOrder::limit(UserRefNum(old), UserRefNum(number), quantity, PRICE_MAX)
}

fn cancel(number: u32) -> CancelOrder {
    CancelOrder { user_ref_num: UserRefNum(number), quantity: 0 }
}

/// A message: the fields by their offsets, zeros between them.
fn message(kind: u8, bytes: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut message = vec![0; bytes];
    message[0] = kind;
    for (at, field) in fields {
        message[*at..at + field.len()].copy_from_slice(field);
    }
    message
}

fn accepted(number: u32, quantity: u32, state: u8) -> Vec<u8> {
    let reference = 1000 + u64::from(number);
    message(
        b'A',
        64,
        &[
            (9, &number.to_be_bytes()),
            (13, b"B"),
            (14, &quantity.to_be_bytes()),
            (18, b"ACME    "),
            (26, &10_000_u64.to_be_bytes()),
            (36, &reference.to_be_bytes()),
            (47, &[state]),
        ],
    )
}

fn replaced(old: u32, number: u32, outstanding: u32) -> Vec<u8> {
    let fields: &[(usize, &[u8])] = &[
        (9, &old.to_be_bytes()),
        (13, &number.to_be_bytes()),
        (17, b"B"),
        (18, &outstanding.to_be_bytes()),
        (22, b"ACME    "),
        (30, &20_000_u64.to_be_bytes()),
        (51, b"L"),
    ];
    message(b'U', 68, fields)
}

fn executed(number: u32, quantity: u32) -> Vec<u8> {
    message(b'E', 36, &[(9, &number.to_be_bytes()), (13, &quantity.to_be_bytes()), (26, &77_u64.to_be_bytes())])
}

fn cancelled(number: u32, quantity: u32) -> Vec<u8> {
    message(b'C', 18, &[(9, &number.to_be_bytes()), (13, &quantity.to_be_bytes()), (17, b"U")])
}

fn about(kind: u8, bytes: usize, number: u32) -> Vec<u8> {
    message(kind, bytes, &[(9, &number.to_be_bytes())])
}

impl Port {
    fn apply(&mut self, message: &[u8]) -> Change {
        self.sequence += 1;
        self.orders.apply(Sequence(self.sequence), &Answer::parse(message).unwrap())
    }

    /// Stage, executed, cancelled, open.
    fn shares(&self, number: u32) -> (Stage, u32, u32, u32) {
        let order = self.orders.find(UserRefNum(number)).expect("it is kept");
        (order.stage, order.executed, order.cancelled, order.open)
    }

    fn entered(&mut self, number: u32, quantity: u32) {
        self.orders.enter(&enter(number, quantity), Nanos(0)).unwrap();
        self.apply(&accepted(number, quantity, b'L'));
    }

    fn overdue(&self, now: u64) -> Vec<u32> {
        let mut numbers: Vec<_> = self.orders.overdue(Nanos(now)).map(|order| order.user_ref_num.0).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[test]
fn an_order_goes_from_sent_to_live_to_filled() {
    let mut port = port(4);
    assert_eq!(port.orders.next_number(), Some(UserRefNum(1)));
    port.orders.enter(&enter(1, 100), Nanos(0)).unwrap();
    assert_eq!(port.shares(1), (Stage::Sent, 0, 0, 0));
    port.apply(&accepted(1, 100, b'L'));
    assert_eq!(port.shares(1), (Stage::Live, 0, 0, 100));
    assert_eq!(port.orders.find(UserRefNum(1)).unwrap().order_reference, OrderReference(1001));
    port.apply(&executed(1, 30));
    assert_eq!(port.shares(1), (Stage::Live, 30, 0, 70));
    let Change::Executed { order, quantity, match_number, .. } = port.apply(&executed(1, 70)) else { panic!() };
    assert_eq!((order.stage, order.executed, quantity, match_number), (Stage::Closed, 100, 70, 77));
    assert!(port.orders.is_empty() && port.orders.find(UserRefNum(1)).is_none());
    assert_eq!(port.orders.counters(), Counters::default());
}

#[test]
fn an_order_that_is_dead_on_arrival_is_closed() {
    let mut port = port(4);
    port.orders.enter(&enter(1, 100), Nanos(0)).unwrap();
    let Change::Accepted(order) = port.apply(&accepted(1, 100, b'D')) else { panic!() };
    assert_eq!((order.stage, order.cancelled, order.open, port.orders.len()), (Stage::Closed, 100, 0, 0));
}

#[test]
fn numbers_rise_over_everything_that_happened() {
    let mut port = port(4);
    port.orders.enter(&enter(7, 1), Nanos(0)).unwrap();
    let used = Err(Refused::NumberUsed { next: Some(UserRefNum(8)) });
    assert_eq!(port.orders.enter(&enter(7, 1), Nanos(0)), used);
    assert_eq!(port.orders.enter(&enter(3, 1), Nanos(0)), used);
    port.apply(&about(b'Q', 13, 20));
    assert_eq!(port.orders.next_number(), Some(UserRefNum(20)));
    port.apply(&about(b'Q', 13, 5));
    assert_eq!(port.orders.next_number(), Some(UserRefNum(20)), "it never falls");
    port.orders.enter(&enter(u32::MAX, 1), Nanos(0)).unwrap();
    assert_eq!(port.orders.next_number(), None);
    assert_eq!(port.orders.enter(&enter(u32::MAX, 1), Nanos(0)), Err(Refused::NumberUsed { next: None }));
}

#[test]
fn a_full_account_refuses_an_order_before_it_is_sent() {
    let mut port = port(2);
    port.entered(1, 10);
    port.entered(2, 10);
    assert_eq!(port.orders.enter(&enter(3, 10), Nanos(0)), Err(Refused::Full));
    assert_eq!(port.orders.replace(&replacement(1, 3, 10), Nanos(0)), Err(Refused::Full));
    assert_eq!(port.orders.find(UserRefNum(1)).unwrap().request, None, "nothing of the replacement is left");
    port.apply(&cancelled(1, 10));
    assert_eq!(port.orders.enter(&enter(3, 10), Nanos(0)), Ok(()), "the number is still free");
}

#[test]
fn a_cancel_that_comes_too_late_needs_no_answer() {
    let mut port = port(4);
    port.entered(1, 10);
    port.orders.cancel(&cancel(1), Nanos(0)).unwrap();
    assert_eq!(port.overdue(SECOND), [1]);
    let Change::Executed { order, .. } = port.apply(&executed(1, 10)) else { panic!() };
    assert_eq!((order.stage, order.request), (Stage::Closed, Some(Request::Cancel(cancel(1)))));
    assert!(port.overdue(u64::MAX).is_empty());
    assert_eq!(port.orders.cancel(&cancel(1), Nanos(0)), Err(Refused::Unknown(UserRefNum(1))));
}

#[test]
fn a_cancel_without_an_answer_is_overdue_until_it_is_given_up() {
    let mut port = port(4);
    port.entered(1, 10);
    port.orders.cancel(&cancel(1), Nanos(5)).unwrap();
    assert!(port.overdue(SECOND + 4).is_empty());
    assert_eq!(port.overdue(SECOND + 5), [1]);
    port.orders.cancel(&cancel(1), Nanos(SECOND + 5)).unwrap();
    assert!(port.overdue(SECOND + 5).is_empty(), "it was sent again");
    assert!(port.orders.give_up(UserRefNum(1)) && !port.orders.give_up(UserRefNum(1)));
    assert!(port.overdue(u64::MAX).is_empty());
    assert_eq!(port.shares(1), (Stage::Live, 0, 0, 10));
}

#[test]
fn a_cancel_is_answered_in_part_put_off_or_rejected() {
    let mut port = port(4);
    port.entered(1, 10);
    let in_part = CancelOrder { user_ref_num: UserRefNum(1), quantity: 6 };
    port.orders.cancel(&in_part, Nanos(0)).unwrap();
    port.apply(&cancelled(1, 4));
    assert_eq!((port.shares(1), port.overdue(u64::MAX).len()), ((Stage::Live, 0, 4, 6), 0));
    port.orders.cancel(&cancel(1), Nanos(0)).unwrap();
    assert!(matches!(port.apply(&about(b'P', 13, 1)), Change::CancelPending(_)));
    assert!(port.overdue(u64::MAX).is_empty(), "it has an answer");
    assert!(matches!(port.apply(&about(b'I', 13, 1)), Change::CancelRejected(order) if order.request.is_none()));
    let self_match = message(b'D', 32, &[(9, &1_u32.to_be_bytes()), (13, &6_u32.to_be_bytes())]);
    assert!(matches!(port.apply(&self_match), Change::Cancelled { order, .. } if order.stage == Stage::Closed));
}

#[test]
fn a_replacement_takes_over_the_shares_of_the_chain() {
    let mut port = port(4);
    port.entered(1, 100);
    port.apply(&executed(1, 30));
    port.orders.replace(&replacement(1, 2, 150), Nanos(0)).unwrap();
    assert_eq!(port.orders.cancel(&cancel(1), Nanos(0)), Err(Refused::Replaced(UserRefNum(2))));
    // Executed while the replacement was on its way.
    port.apply(&executed(1, 20));
    let Change::Replaced { old, order } = port.apply(&replaced(1, 2, 100)) else { panic!() };
    assert_eq!((old, order.quantity, order.price), (UserRefNum(1), 150, Price(20_000)));
    assert_eq!((port.shares(2), port.orders.len()), ((Stage::Live, 50, 0, 100), 1));
    // Of 150, 50 are executed: not more than 100 are open, whatever is told.
    port.orders.replace(&replacement(2, 3, 120), Nanos(0)).unwrap();
    port.apply(&replaced(2, 3, 120));
    assert_eq!(port.shares(3), (Stage::Live, 50, 0, 70));
}

#[test]
fn replacements_of_an_order_that_closes_are_void() {
    let mut port = port(8);
    port.entered(1, 100);
    port.orders.replace(&replacement(1, 2, 100), Nanos(0)).unwrap();
    port.orders.replace(&replacement(2, 3, 100), Nanos(0)).unwrap();
    let Change::Executed { order, .. } = port.apply(&executed(1, 100)) else { panic!() };
    assert_eq!(order.request, Some(Request::Replace(UserRefNum(2))));
    assert_eq!((port.orders.len(), port.orders.counters().void_replacements), (0, 2));
}

#[test]
fn a_rejected_replacement_leaves_the_old_order_as_it_was() {
    let mut port = port(8);
    port.entered(1, 100);
    port.orders.replace(&replacement(1, 2, 100), Nanos(0)).unwrap();
    let reject = message(b'J', 29, &[(9, &2_u32.to_be_bytes()), (13, &[0, 21])]);
    assert!(matches!(port.apply(&reject), Change::Rejected { reason: 21, order } if order.user_ref_num.0 == 2));
    assert_eq!((port.shares(1), port.orders.len()), ((Stage::Live, 0, 0, 100), 1));
    port.orders.cancel(&cancel(1), Nanos(0)).unwrap();
    assert_eq!(port.apply(&reject), Change::Unknown(UserRefNum(2)));
}

#[test]
fn an_order_can_be_cancelled_before_it_is_accepted() {
    let mut port = port(8);
    port.orders.enter(&enter(1, 100), Nanos(0)).unwrap();
    port.orders.cancel(&cancel(1), Nanos(10)).unwrap();
    port.apply(&accepted(1, 100, b'L'));
    assert_eq!(port.overdue(SECOND + 10), [1], "the cancel has no answer yet");
    assert!(matches!(port.apply(&cancelled(1, 100)), Change::Cancelled { order, .. } if order.stage == Stage::Closed));
}

#[test]
fn answers_that_come_again_change_nothing() {
    let mut port = port(8);
    port.entered(1, 100);
    port.apply(&executed(1, 30));
    let answer = executed(1, 30);
    for sequence in [1, 2] {
        assert_eq!(port.orders.apply(Sequence(sequence), &Answer::parse(&answer).unwrap()), Change::Repeated);
    }
    assert_eq!((port.shares(1), port.orders.applied()), ((Stage::Live, 30, 0, 70), Sequence(2)));
}

#[test]
fn the_whole_session_told_to_a_new_account_makes_the_same_orders() {
    let mut first = port(8);
    let session = [
        accepted(1, 100, b'L'),
        accepted(2, 50, b'L'),
        executed(1, 30),
        replaced(1, 3, 70),
        executed(3, 5),
        accepted(4, 10, b'D'),
        cancelled(2, 20),
        accepted(5, 1, b'L'),
        executed(5, 1),
    ];
    for number in [1, 2] {
        first.orders.enter(&enter(number, if number == 1 { 100 } else { 50 }), Nanos(0)).unwrap();
    }
    first.orders.replace(&replacement(1, 3, 100), Nanos(0)).unwrap();
    first.orders.enter(&enter(4, 10), Nanos(0)).unwrap();
    first.orders.enter(&enter(5, 1), Nanos(0)).unwrap();
    let mut second = port(8);
    for answer in &session {
        first.apply(answer);
        second.apply(answer);
    }
    let sorted = |port: &Port| {
        let mut orders: Vec<Order> = port.orders.iter().copied().collect();
        orders.sort_by_key(|order| order.user_ref_num);
        orders
    };
    assert_eq!(sorted(&first), sorted(&second));
    assert_eq!((first.orders.len(), second.orders.next_number()), (2, Some(UserRefNum(6))));
}

#[test]
fn what_is_not_answered_is_told_in_the_order_of_the_numbers() {
    let mut port = port(64);
    (1..=40).for_each(|number| port.orders.enter(&enter(number, 1), Nanos(0)).unwrap());
    (1..=40).filter(|number| number % 3 == 0).for_each(|number| _ = port.apply(&accepted(number, 1, b'L')));
    port.orders.cancel(&cancel(9), Nanos(0)).unwrap();
    let (mut after, mut told) = (UserRefNum(0), Vec::new());
    while let Some(order) = port.orders.next_unanswered(after) {
        after = order.user_ref_num;
        told.push(after.0);
    }
    let expected: Vec<u32> = (1..=40).filter(|number| number % 3 != 0 || *number == 9).collect();
    assert_eq!(told, expected);
}

#[test]
fn an_order_that_was_given_up_is_known_again_if_it_comes() {
    let mut port = port(8);
    port.orders.enter(&enter(1, 100), Nanos(0)).unwrap();
    port.orders.replace(&replacement(1, 2, 100), Nanos(0)).unwrap();
    assert!(port.orders.give_up(UserRefNum(1)));
    assert!(port.orders.is_empty(), "its replacement cannot come without it");
    port.apply(&accepted(1, 100, b'L'));
    assert_eq!(port.shares(1), (Stage::Live, 0, 0, 100));
}

#[test]
fn modifications_and_updates_are_taken_over() {
    let mut port = port(8);
    port.entered(1, 100);
    port.apply(&executed(1, 10));
    port.orders
        .modify(&ModifyOrder { user_ref_num: UserRefNum(1), side: OrderSide::Sell, quantity: 80 }, Nanos(0))
        .unwrap();
    port.apply(&message(b'M', 18, &[(9, &1_u32.to_be_bytes()), (13, b"S"), (14, &80_u32.to_be_bytes())]));
    let order = *port.orders.find(UserRefNum(1)).unwrap();
    assert_eq!((order.side, order.request, port.shares(1)), (Some(OrderSide::Sell), None, (Stage::Live, 10, 10, 80)));
    let fields: &[(usize, &[u8])] =
        &[(9, &1_u32.to_be_bytes()), (13, &5_u64.to_be_bytes()), (22, &6_u64.to_be_bytes())];
    port.apply(&message(b'T', 30, fields));
    let order = port.orders.find(UserRefNum(1)).unwrap();
    assert_eq!((order.price, order.order_reference), (Price(5), OrderReference(6)));
    assert!(matches!(port.apply(&about(b'R', 16, 1)), Change::Updated(_)));
    let broken = message(b'B', 36, &[(9, &1_u32.to_be_bytes()), (13, &77_u64.to_be_bytes())]);
    assert_eq!(port.apply(&broken), Change::Broken { user_ref_num: UserRefNum(1), match_number: 77 });
    assert_eq!(port.apply(&message(b'S', 10, &[(9, b"E")])), Change::Nothing);
}

#[test]
fn answers_that_contradict_the_account_are_counted_and_harm_nothing() {
    let mut port = port(1);
    port.entered(1, 10);
    assert_eq!(port.apply(&accepted(1, 99, b'L')), Change::Unknown(UserRefNum(1)), "it is live already");
    assert_eq!(port.apply(&replaced(1, 1, 5)), Change::Unknown(UserRefNum(1)), "by itself");
    assert!(matches!(port.apply(&accepted(2, 5, b'L')), Change::Accepted(_)));
    assert_eq!(port.apply(&executed(2, 5)), Change::Unknown(UserRefNum(2)));
    let Change::Executed { order, .. } = port.apply(&executed(1, u32::MAX)) else { panic!() };
    assert_eq!((order.stage, order.executed, order.open), (Stage::Closed, u32::MAX, 0), "no execution is lost");
    let Counters { unknown, untracked, excess, .. } = port.orders.counters();
    assert_eq!((unknown, untracked, excess), (3, 1, 1));
}

#[test]
fn a_new_session_begins_with_nothing() {
    let mut port = port(4);
    port.entered(1, 10);
    port.orders.new_session();
    assert!(port.orders.is_empty() && port.orders.applied() == Sequence(0));
    assert_eq!(port.orders.next_number(), Some(UserRefNum(1)));
}

#[test]
fn limits_that_cannot_work_are_refused_and_memory_is_as_told() {
    for limits in [
        Limits { orders_max: 0, ..Limits::default() },
        Limits { orders_max: ORDERS_MAX + 1, ..Limits::default() },
        Limits { answer_ns: 0, ..Limits::default() },
    ] {
        assert!(!OpenOrders::new(limits).unwrap_err().next_step().is_empty());
    }
    assert!(
        size_of::<Option<Order>>() * 2 * Limits::default().orders_max < 1_000_000,
        "{}",
        size_of::<Option<Order>>()
    );
    assert!(size_of::<Option<Order>>() * 2 * ORDERS_MAX < 230_000_000);
}

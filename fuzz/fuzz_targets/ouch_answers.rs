//! An exchange that answers anything: shares add up, the account is bounded, and numbers never fall.

#![no_main]

use sidestep_market::ouch::{
    Answer, CancelOrder, Change, EnterOrder, Limits, OpenOrders, Order, OrderSide, ReplaceOrder, Request, Stage,
    UserRefNum,
};
use sidestep_market::units::{Nanos, Price, Sequence, Symbol};

const ORDERS_MAX: usize = 8;

/// One step: a request, or the message of these bytes.
fn step(orders: &mut OpenOrders, sequence: &mut u64, kind: u8, old: UserRefNum, message: &[u8]) {
    let now = Nanos(*sequence);
    let Some(number) = orders.next_number() else { return };
    match kind {
        0 => drop(orders.enter(&EnterOrder::limit(number, OrderSide::Sell, 100, Symbol::default(), Price(1)), now)),
        1 => drop(orders.replace(&ReplaceOrder::limit(old, number, 100, Price(1)), now)),
        2 => drop(orders.cancel(&CancelOrder { user_ref_num: old, quantity: 0 }, now)),
        3 => drop(orders.give_up(old)),
        _ => {
            let Ok(answer) = Answer::parse(message) else { return };
            *sequence += 1;
            if let Change::Executed { order, .. } | Change::Cancelled { order, .. } =
                orders.apply(Sequence(*sequence), &answer)
            {
                assert_eq!(order.stage == Stage::Closed, order.open == 0);
            }
            let before: Vec<Order> = orders.iter().copied().collect();
            assert_eq!(orders.apply(Sequence(*sequence), &answer), Change::Repeated);
            assert!(orders.iter().eq(&before));
        }
    }
}

fn check(orders: &OpenOrders) {
    assert!(orders.len() <= ORDERS_MAX);
    for order in orders.iter() {
        assert_eq!(orders.find(order.user_ref_num), Some(order));
        assert!(orders.next_number().is_none_or(|next| order.user_ref_num < next));
        match order.stage {
            Stage::Sent => assert!(order.due.is_some() && order.open == 0),
            Stage::Live => {
                let sum = u64::from(order.executed) + u64::from(order.cancelled) + u64::from(order.open);
                assert!(
                    sum == u64::from(order.quantity) || order.executed > order.quantity || sum >= u64::from(u32::MAX),
                    "{order:?}"
                );
            }
            Stage::Closed => panic!("{order:?}"),
        }
        // Who waits to be replaced has a replacement that waits for it.
        if let Some(Request::Replace(by)) = order.request {
            let by = orders.find(by).expect("it is sent");
            assert!(by.stage == Stage::Sent && by.replaces == Some(order.user_ref_num));
        }
    }
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut orders = OpenOrders::new(Limits { orders_max: ORDERS_MAX, ..Limits::default() }).unwrap();
    let (mut sequence, mut rest) = (0, input);
    while let [kind, old, length, behind @ ..] = rest {
        let (message, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let next = orders.next_number();
        step(&mut orders, &mut sequence, kind % 16, UserRefNum(u32::from(*old)), message);
        assert!(next <= orders.next_number() || orders.next_number().is_none());
        check(&orders);
    }
});

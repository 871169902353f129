//! sidestep: the views of `market::mdp::schema`.

use crate::sum::Sum;
use sidestep_market::mdp::schema::{BookUpdate, Message, OrderUpdate};
use sidestep_market::sbe::Malformed;

/// The sum of all fields; nothing if it is no such message.
pub fn decode(bytes: &[u8]) -> Option<u64> {
    match Message::decode(bytes).ok()? {
        Message::BookUpdate(update) => by_price(&update).ok(),
        Message::OrderUpdate(update) => by_order(&update).ok(),
        _ => None,
    }
}

fn by_price(update: &BookUpdate<'_>) -> Result<u64, Malformed> {
    let mut sum = Sum::default();
    sum.add(update.transact_time());
    sum.add(u64::from(update.match_event().0));
    let levels = update.levels()?;
    for level in levels {
        sum.optional(level.price().mantissa().map(|price| price as u64));
        sum.optional(level.size().map(|size| size as u64));
        sum.add(level.security_id() as u64);
        sum.add(u64::from(level.rpt_seq()));
        sum.optional(level.orders().map(|orders| orders as u64));
        sum.add(u64::from(level.level()));
        sum.add(u64::from(level.action().0));
        sum.add(u64::from(level.entry_type().0));
    }
    for order in levels.after().orders()? {
        sum.add(order.order_id());
        sum.optional(order.priority());
        sum.optional(order.size().map(|size| size as u64));
        sum.optional(order.reference().map(u64::from));
        sum.add(u64::from(order.action().0));
    }
    Ok(sum.value())
}

fn by_order(update: &OrderUpdate<'_>) -> Result<u64, Malformed> {
    let mut sum = Sum::default();
    sum.add(update.transact_time());
    sum.add(u64::from(update.match_event().0));
    for order in update.orders()? {
        sum.optional(order.order_id());
        sum.optional(order.priority());
        sum.optional(order.price().mantissa().map(|price| price as u64));
        sum.optional(order.size().map(|size| size as u64));
        sum.add(order.security_id() as u64);
        sum.add(u64::from(order.action().0));
        sum.add(u64::from(order.entry_type().0));
    }
    Ok(sum.value())
}

//! sbe_gen: the code that it generates of the same schema. Entries are read by the structure in the bytes, which is the cheapest way
//! that it has.

use crate::sum::Sum;

#[allow(clippy::all, clippy::pedantic, unused, dead_code, mismatched_lifetime_syntaxes)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/sbe_gen/all.rs"));
}

use generated::{MessageHeader, book_update, order_update};

/// The sum of all fields; nothing if it is no such message.
pub fn decode(bytes: &[u8]) -> Option<u64> {
    let (header, body) = MessageHeader::parse_prefix(bytes)?;
    match header.template_id.get() {
        46 => by_price(header, body),
        47 => by_order(header, body),
        _ => None,
    }
}

fn by_price(header: &MessageHeader, body: &[u8]) -> Option<u64> {
    let (update, rest) = book_update::parse_with_header(body, header)?;
    let mut sum = Sum::default();
    sum.add(update.transact_time()?.get());
    sum.add(u64::from(update.match_event()?.0));
    let mut levels = book_update::parse_levels(rest)?.iter();
    for level in &mut levels {
        let level = &*level.body;
        sum.optional(level.price.mantissa_opt().map(|price| price as u64));
        sum.optional(level.size_opt().map(|size| size as u64));
        sum.add(level.security_id.get() as u64);
        sum.add(u64::from(level.rpt_seq.get()));
        sum.optional(level.orders_opt().map(|orders| orders as u64));
        sum.add(u64::from(level.level));
        sum.add(u64::from(level.action.0));
        sum.add(u64::from(level.entry_type.0));
    }
    for order in book_update::parse_orders(levels.remainder())?.iter() {
        let order = &*order.body;
        sum.add(order.order_id.get());
        sum.optional(order.priority_opt());
        sum.optional(order.size_opt().map(|size| size as u64));
        sum.optional(order.reference_opt().map(u64::from));
        sum.add(u64::from(order.action.0));
    }
    Some(sum.value())
}

fn by_order(header: &MessageHeader, body: &[u8]) -> Option<u64> {
    let (update, rest) = order_update::parse_with_header(body, header)?;
    let mut sum = Sum::default();
    sum.add(update.transact_time()?.get());
    sum.add(u64::from(update.match_event()?.0));
    for order in order_update::parse_orders(rest)?.iter() {
        let order = &*order.body;
        sum.optional(order.order_id_opt());
        sum.optional(order.priority_opt());
        sum.optional(order.price.mantissa_opt().map(|price| price as u64));
        sum.optional(order.size_opt().map(|size| size as u64));
        sum.add(order.security_id.get() as u64);
        sum.add(u64::from(order.action.0));
        sum.add(u64::from(order.entry_type.0));
    }
    Some(sum.value())
}

//! Packets and messages, written by the generated encoders.

use sidestep_market::mdp::schema::types::{Action, EntryType, MatchEvent};
use sidestep_market::mdp::schema::{BookUpdateEncoder, ChannelResetEncoder};
use sidestep_market::sbe::Unwritable;

/// A packet around messages, each with its SBE header.
pub(crate) fn packet(sequence: u32, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = sequence.to_le_bytes().to_vec();
    bytes.extend(1_700_000_000_000_000_000u64.to_le_bytes());
    for message in messages {
        bytes.extend((message.len() as u16 + 2).to_le_bytes());
        bytes.extend(message);
    }
    bytes
}

pub(crate) fn encoded(write: impl FnOnce(&mut [u8]) -> Result<usize, Unwritable>) -> Vec<u8> {
    let mut buffer = [0; 1400];
    let length = write(&mut buffer).expect("there is room");
    buffer[..length].to_vec()
}

pub(crate) fn reset(event: MatchEvent) -> Vec<u8> {
    encoded(|buffer| {
        let mut message = ChannelResetEncoder::new(buffer)?;
        message.fields().transact_time(9).match_event(event);
        let mut channels = message.channels()?;
        channels.entry()?.channel(310);
        Ok(channels.end())
    })
}

/// One level, and perhaps an order at it.
pub(crate) fn update(
    security: i32,
    rpt_seq: u32,
    level: (Action, EntryType, u8, i64),
    order: Option<(u64, Action)>,
    event: MatchEvent,
) -> Vec<u8> {
    encoded(|buffer| {
        let mut message = BookUpdateEncoder::new(buffer)?;
        message.fields().transact_time(5).match_event(event);
        let mut levels = message.levels()?;
        let mut entry = levels.entry()?;
        entry.size(Some(7)).security_id(security).rpt_seq(rpt_seq).orders(Some(1)).level(level.2);
        entry.action(level.0).entry_type(level.1).price().mantissa(Some(level.3));
        let mut orders = levels.end().orders()?;
        if let Some((id, action)) = order {
            orders.entry()?.order_id(id).priority(Some(id)).size(Some(7)).reference(Some(1)).action(action);
        }
        Ok(orders.end())
    })
}

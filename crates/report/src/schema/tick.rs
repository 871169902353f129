//! Detail of the rows of `tick`.

use super::Distribution;
use serde::{Deserialize, Serialize};

/// What a feed and its trader were asked to do, and what became of it.
///
/// The row itself counts from when the datagram of a tick was due at the exchange, its `rate.from_actual_send` from just before that datagram was
/// handed over to the exchange's path, and [`from_handed_over`](Self::from_handed_over) from just after its last byte was. All end when the first
/// byte of the order was seen at the exchange. Where the sender's call carries a frame to the receiver, as over a veth, the last one leaves
/// out most of the way of the tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TickDetail {
    /// Work of the trader between a tick and its order: `reflex`, `decode`, `book`.
    pub work: String,
    /// Form of its orders: `fix`, `ouch`, `raw`.
    pub order: String,
    /// Lines of the feed.
    pub lines: u32,
    /// Factor by which the feed was played faster.
    pub speed: u32,
    /// Datagrams of line A that were left out, per cent.
    pub gap_on_a: f64,
    /// Course of the rate: `steady`, `open`, `sparse`.
    pub profile: String,
    /// Messages per second of the steady profile at single speed.
    pub rate: u64,
    /// Messages for each tick that asks for an order.
    pub trigger_every: u64,
    /// Place of such a tick in its datagram: `first`, `last`, `any`.
    pub trigger_at: String,
    /// Messages of a datagram of line A.
    pub messages_per_packet: u32,
    /// Instruments.
    pub symbols: u32,
    /// Seed of the messages.
    pub seed: u64,
    /// Ticks that count as samples if they are answered: those of the first moments of a slice do not.
    pub counted: u64,
    /// Ticks that were answered by the right order, those of the first moments of slices, too.
    pub answered: u64,
    /// Ticks that were not answered.
    pub missed: u64,
    /// Of the right orders, those that came more than 10 ms after their tick.
    pub late: u64,
    /// Datagrams of line A that were left out.
    pub left_out: u64,
    /// Messages that the trader's arbiter delivered, in sequence; 0 where it had none.
    pub delivered: u64,
    /// Of these, messages that one line lacked and another one had.
    pub recovered: u64,
    /// Messages that no line brought.
    pub never: u64,
    /// Datagrams that the trader's host dropped, as far as it tells.
    pub dropped: u64,
    /// The lines.
    pub line: Vec<LineDetail>,
    /// From just after the last byte of the tick's datagram was handed over.
    pub from_handed_over: Distribution,
}

/// A line of a feed, as the trader saw it. Counts are messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LineDetail {
    /// `A`, `B`.
    pub name: String,
    /// That came.
    pub received: u64,
    /// That came by this line first.
    pub first: u64,
    /// That another line had brought before.
    pub duplicates: u64,
    /// That this line did not bring.
    pub lost: u64,
}

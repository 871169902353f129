//! What is shown of a feed: one moment of it, and the rates between two.

use serde::Serialize;
use std::collections::HashMap;

/// A feed at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Snapshot {
    /// CLOCK_MONOTONIC, ns: for rates.
    #[serde(skip)]
    pub(super) at_ns: u64,
    /// The session of the feed; empty before the first packet.
    pub(super) session: String,
    /// `waiting`, `live`, `recovering`, `stale` or `ended`.
    pub(super) state: &'static str,
    /// Why it is not live, or is, with books that are not the exchange's.
    pub(super) reason: String,
    /// Books that are not the exchange's, whatever the feed's state.
    pub(super) incomplete_books: usize,
    /// The time for which it has been in this state, ns.
    pub(super) since_ns: u64,
    /// The sequence number of the next message.
    pub(super) next_sequence: u64,
    /// Messages delivered.
    pub(super) messages: u64,
    /// Messages delivered a second.
    pub(super) messages_per_s: f64,
    /// The time since the last message, ns; none before the first.
    pub(super) last_message_ns: Option<u64>,
    pub(super) gaps: Gaps,
    pub(super) lines: Vec<LineRow>,
    /// Messages that the books refused, by reason; only those that occurred.
    pub(super) refused: Vec<Refused>,
    pub(super) instruments: Vec<Instrument>,
    /// The book of the instrument that was asked for.
    pub(super) book: Option<BookView>,
}

/// Gaps: messages that came on no line in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Gaps {
    pub(super) opened: u64,
    pub(super) by_line: u64,
    pub(super) by_request: u64,
    pub(super) by_snapshot: u64,
    /// Messages that were never delivered.
    pub(super) lost_messages: u64,
    /// Messages in whose place a snapshot came.
    pub(super) replaced_messages: u64,
    /// Messages that are held back behind a gap now.
    pub(super) held: u64,
    pub(super) requests: u64,
    pub(super) longest_ns: u64,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct LineRow {
    pub(super) name: String,
    /// As it was named: interface, group, sources. Empty of a path that was not named.
    pub(super) place: String,
    /// `accelerated`, or the reason why the kernel carries it.
    pub(super) path: String,
    pub(super) packets: u64,
    pub(super) packets_per_s: f64,
    pub(super) messages: u64,
    /// Messages that came by this line before any other.
    pub(super) first: u64,
    pub(super) duplicate: u64,
    pub(super) out_of_order: u64,
    /// Messages that did not come by this line.
    pub(super) lost: u64,
    /// Packets that are none of the protocol, or of numbers that cannot be.
    pub(super) malformed: u64,
    /// Packets of the line that this host has dropped, as they were not fetched in time.
    pub(super) dropped: u64,
    /// Frames of all lines of its interface that found no room in the rings.
    pub(super) dropped_by_interface: u64,
    /// The time by which messages of this line come behind the first line's: median and 99th percentile, ns.
    pub(super) skew_p50_ns: Option<u64>,
    pub(super) skew_p99_ns: Option<u64>,
    /// The time since its last packet, ns.
    pub(super) last_packet_ns: Option<u64>,
}

/// Messages that the books refused for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) count: u64,
}

/// An instrument: prices as text, with their decimals; empty where there is no order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Instrument {
    pub(super) locate: u16,
    pub(super) symbol: String,
    /// Messages about it.
    pub(super) messages: u64,
    pub(super) messages_per_s: f64,
    pub(super) bid: String,
    pub(super) bid_shares: u64,
    pub(super) offer: String,
    pub(super) offer_shares: u64,
    /// Executed shares.
    pub(super) executed_shares: u64,
    /// The price of the last execution.
    pub(super) last: String,
}

/// The levels of a book, best first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct BookView {
    pub(super) locate: u16,
    pub(super) symbol: String,
    pub(super) bids: Vec<LevelView>,
    pub(super) offers: Vec<LevelView>,
}

/// A price level.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct LevelView {
    pub(super) price: String,
    pub(super) shares: u64,
    pub(super) orders: u64,
    /// Shares of its orders in the order of their priority, if they were asked for: at most [`QUEUE_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) queue: Vec<u64>,
}

/// Orders of a level that are shown: more than a line has room for.
pub(super) const QUEUE_MAX: usize = 32;

impl Snapshot {
    /// Sets the rates since an earlier moment.
    pub(super) fn set_rates(&mut self, before: &Self) {
        let seconds = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        self.messages_per_s = rate(self.messages, before.messages);
        for line in &mut self.lines {
            let earlier = before.lines.iter().find(|one| one.name == line.name).map_or(0, |one| one.packets);
            line.packets_per_s = rate(line.packets, earlier);
        }
        let earlier: HashMap<u16, u64> = before.instruments.iter().map(|one| (one.locate, one.messages)).collect();
        for one in &mut self.instruments {
            one.messages_per_s = rate(one.messages, earlier.get(&one.locate).copied().unwrap_or(0));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn instrument(locate: u16, symbol: &str, messages: u64) -> Instrument {
        Instrument {
            locate,
            symbol: symbol.to_owned(),
            messages,
            bid: "99.9900".to_owned(),
            bid_shares: 300,
            offer: "100.0100".to_owned(),
            offer_shares: 200,
            last: "100.0000".to_owned(),
            ..Instrument::default()
        }
    }

    pub(in super::super) fn snapshot(second: u64) -> Snapshot {
        let line = |name: &str, factor: u64| LineRow {
            name: name.to_owned(),
            place: "eth1:239.192.0.1:26400".to_owned(),
            path: "accelerated".to_owned(),
            packets: second * factor,
            messages: second * factor * 20,
            first: second * factor * 12,
            duplicate: second * factor * 8,
            skew_p50_ns: Some(1_200),
            skew_p99_ns: Some(45_000),
            last_packet_ns: Some(90_000),
            ..LineRow::default()
        };
        let level =
            |price: &str, shares| LevelView { price: price.to_owned(), shares, orders: 2, queue: vec![shares - 1, 1] };
        Snapshot {
            at_ns: second * 1_000_000_000,
            session: "20261129AA".to_owned(),
            state: "live",
            next_sequence: 1 + second * 20_000,
            messages: second * 20_000,
            last_message_ns: Some(80_000),
            gaps: Gaps { opened: 3, by_line: 2, by_request: 1, longest_ns: 12_000_000, ..Gaps::default() },
            lines: vec![line("A", 1_000), line("B", 900)],
            instruments: vec![
                instrument(1, "AAPL", second * 50),
                instrument(2, "MSFT", second * 70),
                instrument(3, "CVLT", second * 10),
            ],
            book: Some(BookView {
                locate: 2,
                symbol: "MSFT".to_owned(),
                bids: vec![level("99.9900", 300), level("99.9800", 1_200)],
                offers: vec![level("100.0100", 200)],
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_moments() {
        let (before, mut now) = (snapshot(10), snapshot(12));
        now.set_rates(&before);
        assert_eq!((now.messages_per_s, now.lines[1].packets_per_s), (20_000.0, 900.0));
        assert_eq!(now.instruments[0].messages_per_s, 50.0);
        let mut same = snapshot(12);
        same.set_rates(&snapshot(12));
        assert_eq!(same.messages_per_s, 0.0, "no time has passed");
    }
}

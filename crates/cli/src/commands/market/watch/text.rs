//! The same as text: one screen, for `--once` and for outputs that are no terminal.

use super::model::{BookView, Gaps, Instrument, LevelView, LineRow, Snapshot};
use crate::commands::figures::{count, time};
use std::fmt::Write;

/// Instruments of one screen of text.
const INSTRUMENTS: usize = 20;

/// The first line: state, session, rate.
pub(super) fn head(now: &Snapshot) -> String {
    let mut text = now.state.to_uppercase();
    if now.state == "live" && !now.reason.is_empty() {
        let _ = write!(text, ", {}", now.reason);
    } else if !now.reason.is_empty() {
        let _ = write!(text, " for {}: {}", time(now.since_ns), now.reason);
    }
    let session = if now.session.is_empty() { "none yet" } else { &now.session };
    let _ = write!(text, "  session {session}  next {}  {} msg/s", now.next_sequence, count(now.messages_per_s));
    let last = now.last_message_ns.map_or_else(|| "none yet".to_owned(), |ns| format!("{} ago", time(ns)));
    let _ = write!(text, "  last message {last}");
    text
}

/// Gaps, in one line.
pub(super) fn gaps(gaps: &Gaps) -> String {
    let Gaps { opened, by_line, by_request, by_snapshot, lost_messages, replaced_messages, held, requests, longest_ns } =
        gaps;
    if *opened == 0 {
        return "gaps 0".to_owned();
    }
    format!(
        "gaps {opened}: filled by another line {by_line}, by re-request {by_request} ({requests} requests), by snapshot {by_snapshot} ({replaced_messages} messages); \
         messages lost {lost_messages}, held {held}; longest {}",
        time(*longest_ns)
    )
}

/// What the books refused, in one line; empty if they refused nothing.
pub(super) fn refused(now: &Snapshot) -> String {
    let list: Vec<String> = now.refused.iter().map(|one| format!("{} {}", one.reason, one.count)).collect();
    if list.is_empty() { String::new() } else { format!("refused by the books: {}", list.join(", ")) }
}

/// The columns of lines: title and width.
pub(super) const LINE_COLUMNS: [(&str, u16); 12] = [
    ("LINE", 9),
    ("PKT/S", 6),
    ("MSG", 6),
    ("FIRST", 6),
    ("DUP", 6),
    ("OOO", 5),
    ("LOST", 5),
    ("BAD", 5),
    ("DROP", 5),
    ("SKEW50", 7),
    ("SKEW99", 7),
    ("AGE", 7),
];

/// The cells of a line; its path follows them.
pub(super) fn line_cells(line: &LineRow) -> [String; 12] {
    let maybe = |ns: Option<u64>| ns.map(time).unwrap_or_default();
    [
        line.name.clone(),
        count(line.packets_per_s),
        count(line.messages as f64),
        count(line.first as f64),
        count(line.duplicate as f64),
        count(line.out_of_order as f64),
        count(line.lost as f64),
        count(line.malformed as f64),
        count((line.dropped + line.dropped_by_interface) as f64),
        maybe(line.skew_p50_ns),
        maybe(line.skew_p99_ns),
        maybe(line.last_packet_ns),
    ]
}

/// Where a line comes from, and by which path.
pub(super) fn path_cell(line: &LineRow) -> String {
    if line.place.is_empty() { line.path.clone() } else { format!("{} {}", line.place, line.path) }
}

/// The columns of instruments.
pub(super) const INSTRUMENT_COLUMNS: [(&str, u16); 8] =
    [("SYMBOL", 8), ("MSG/S", 6), ("SIZE", 6), ("BID", 12), ("OFFER", 12), ("SIZE", 6), ("LAST", 12), ("EXEC", 6)];

/// The cells of an instrument.
pub(super) fn instrument_cells(one: &Instrument) -> [String; 8] {
    let size = |price: &str, shares: u64| if price.is_empty() { String::new() } else { count(shares as f64) };
    [
        one.symbol.clone(),
        count(one.messages_per_s),
        size(&one.bid, one.bid_shares),
        one.bid.clone(),
        one.offer.clone(),
        size(&one.offer, one.offer_shares),
        one.last.clone(),
        count(one.executed_shares as f64),
    ]
}

/// One line of a book: a level of either side.
pub(super) fn level_line(bid: Option<&LevelView>, offer: Option<&LevelView>) -> String {
    let of = |level: Option<&LevelView>| {
        level.map_or_else(Default::default, |one| [one.orders.to_string(), one.shares.to_string(), one.price.clone()])
    };
    let ([bid_orders, bid_shares, bid], [orders, shares, offer]) = (of(bid), of(offer));
    format!("{bid_orders:>5} {bid_shares:>9} {bid:>12} | {offer:<12} {shares:<9} {orders:<5}").trim_end().to_owned()
}

/// The title of the columns of a book.
pub(super) const BOOK_TITLE: &str = "  ORD    SHARES          BID | OFFER        SHARES    ORD";

/// Everything as text.
pub(super) fn screen(now: &Snapshot) -> String {
    let mut text = format!("{}\n{}\n", head(now), gaps(&now.gaps));
    let refused = refused(now);
    if !refused.is_empty() {
        let _ = writeln!(text, "{refused}");
    }
    text.push('\n');
    table(&mut text, &LINE_COLUMNS, " PATH", now.lines.iter().map(|line| (line_cells(line), path_cell(line))));
    text.push('\n');
    let mut by_messages: Vec<&Instrument> = now.instruments.iter().collect();
    by_messages.sort_by(|one, other| {
        let rate = other.messages_per_s.total_cmp(&one.messages_per_s);
        rate.then(other.messages.cmp(&one.messages)).then(one.locate.cmp(&other.locate))
    });
    let rows = by_messages.iter().take(INSTRUMENTS).map(|one| (instrument_cells(one), String::new()));
    table(&mut text, &INSTRUMENT_COLUMNS, "", rows);
    let left = by_messages.len().saturating_sub(INSTRUMENTS);
    if left > 0 {
        let _ = writeln!(text, "and {left} more; --json has all");
    }
    if let Some(book) = &now.book {
        text.push('\n');
        book_text(&mut text, book);
    }
    text
}

fn table<const COLUMNS: usize>(
    text: &mut String,
    columns: &[(&str, u16); COLUMNS],
    end: &str,
    rows: impl Iterator<Item = ([String; COLUMNS], String)>,
) {
    let line = |cells: [&str; COLUMNS], end: &str| {
        let cells = cells.iter().zip(columns).enumerate();
        let padded = cells.map(|(place, (cell, (_, width)))| {
            let width = usize::from(*width);
            if place == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}{end}\n", padded.collect::<Vec<_>>().join(" ")).trim_end().to_owned() + "\n"
    };
    text.push_str(&line(columns.map(|(title, _)| title), end));
    for (cells, end) in rows {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let end = if end.is_empty() { end } else { format!(" {end}") };
        text.push_str(&line(cells.try_into().expect("one for each column"), &end));
    }
}

fn book_text(text: &mut String, book: &BookView) {
    let _ = writeln!(text, "{} (locate {})\n{BOOK_TITLE}", book.symbol, book.locate);
    for place in 0..book.bids.len().max(book.offers.len()) {
        let _ = writeln!(text, "{}", level_line(book.bids.get(place), book.offers.get(place)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Refused;
    use super::super::model::tests::snapshot;
    use super::*;

    #[test]
    fn one_screen_has_state_lines_instruments_and_a_book() {
        let mut now = snapshot(2);
        now.set_rates(&snapshot(1));
        let text = screen(&now);
        assert!(
            text.starts_with("LIVE  session 20261129AA  next 40001  20k msg/s  last message 80.0us ago\n"),
            "{text}"
        );
        assert!(text.contains("gaps 3: filled by another line 2, by re-request 1"), "{text}");
        assert!(text.contains("\nA           1000"), "{text}");
        assert!(text.contains(" eth1:239.192.0.1:26400 accelerated\n"), "{text}");
        assert!(text.contains("\nMSFT         70    300      99.9900     100.0100    200"), "{text}");
        assert!(
            text.ends_with("    2       300      99.9900 | 100.0100     200       2\n    2      1200      99.9800 |\n"),
            "{text}"
        );
    }

    #[test]
    fn a_feed_that_is_not_live_says_why_and_what_was_refused() {
        let refusal = Refused { reason: "unknown order".into(), count: 4 };
        let reason = "messages 10 to 12 were lost".to_owned();
        let now =
            Snapshot { state: "stale", reason, since_ns: 2_000_000_000, refused: vec![refusal], ..Snapshot::default() };
        let text = screen(&now);
        assert!(text.starts_with("STALE for 2.0s: messages 10 to 12 were lost  session none yet"), "{text}");
        assert!(text.contains("gaps 0\nrefused by the books: unknown order 4\n"), "{text}");
    }
}

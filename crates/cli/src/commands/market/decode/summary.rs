//! Counts: types of messages, and what each group and session had.

use serde_json::{Value as Json, json};
use sidestep_market::itch::Message;
use sidestep_market::mold64::Session;
use sidestep_market::units::Sequence;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Streams that are counted one by one: more groups than a channel list has on one line.
const STREAMS_MAX: usize = 1024;

/// The messages of one group and session, as they came.
#[derive(Clone, Debug)]
struct Stream {
    group: SocketAddr,
    session: Session,
    datagrams: u64,
    messages: u64,
    heartbeats: u64,
    first: u64,
    next: u64,
    gaps: u64,
    missing: u64,
    again: u64,
    has_ended: bool,
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Summary {
    types: BTreeMap<u8, (&'static str, u64)>,
    streams: Vec<Stream>,
    /// Datagrams of streams that found no place.
    uncounted: u64,
}

impl Summary {
    /// Counts a datagram: its first number, the messages in it, or the end of the session.
    pub(super) fn datagram(
        &mut self,
        group: SocketAddr,
        session: Session,
        first: Sequence,
        messages: u64,
        is_end: bool,
    ) {
        let place = self.streams.iter().position(|stream| stream.group == group && stream.session == session);
        let place = place.or_else(|| self.add(group, session, first));
        let Some(stream) = place.map(|place| &mut self.streams[place]) else {
            self.uncounted += 1;
            return;
        };
        stream.datagrams += 1;
        stream.messages += messages;
        stream.heartbeats += u64::from(messages == 0 && !is_end);
        stream.has_ended |= is_end;
        let end = first.0.saturating_add(messages);
        if first.0 > stream.next {
            stream.gaps += 1;
            stream.missing += first.0 - stream.next;
        } else {
            stream.again += end.min(stream.next) - first.0.min(end);
        }
        stream.next = stream.next.max(end);
    }

    fn add(&mut self, group: SocketAddr, session: Session, first: Sequence) -> Option<usize> {
        (self.streams.len() < STREAMS_MAX).then(|| {
            self.streams.push(Stream {
                group,
                session,
                datagrams: 0,
                messages: 0,
                heartbeats: 0,
                first: first.0,
                next: first.0,
                gaps: 0,
                missing: 0,
                again: 0,
                has_ended: false,
            });
            self.streams.len() - 1
        })
    }

    /// Counts a message.
    pub(super) fn message(&mut self, message: &Message<'_>) {
        self.types.entry(message.kind()).or_insert((message.name(), 0)).1 += 1;
    }

    pub(super) fn text(&self) -> String {
        let all: u64 = self.types.values().map(|(_, count)| count).sum();
        let mut text = format!("{:<4} {:<25} {:>12} {:>7}\n", "TYPE", "NAME", "COUNT", "SHARE");
        let mut types: Vec<_> = self.types.iter().collect();
        types.sort_by_key(|(kind, (_, count))| (std::cmp::Reverse(*count), **kind));
        for (kind, (name, count)) in types {
            let share = *count as f64 * 100.0 / all as f64;
            let _ = writeln!(text, "{:<4} {name:<25} {count:>12} {share:>6.2}%", kind.escape_ascii().to_string());
        }
        let _ = writeln!(text, "{:<4} {:<25} {all:>12}", "", "all");
        if !self.streams.is_empty() {
            let _ = writeln!(
                text,
                "\n{:<24} {:<10} {:>10} {:>12} {:>12} {:>12} {:>6} {:>9} {:>9}",
                "GROUP", "SESSION", "DATAGRAMS", "MESSAGES", "FIRST", "NEXT", "GAPS", "MISSING", "AGAIN"
            );
        }
        for one in &self.streams {
            let _ = writeln!(
                text,
                "{:<24} {:<10} {:>10} {:>12} {:>12} {:>12} {:>6} {:>9} {:>9}{}",
                one.group.to_string(),
                one.session.as_str(),
                one.datagrams,
                one.messages,
                one.first,
                one.next,
                one.gaps,
                one.missing,
                one.again,
                if one.has_ended { " ended" } else { "" }
            );
        }
        if self.uncounted > 0 {
            let _ = writeln!(text, "{} datagrams of further groups and sessions", self.uncounted);
        }
        text
    }

    pub(super) fn json(&self) -> Json {
        let types = self.types.iter().map(
            |(kind, (name, count))| json!({ "type": kind.escape_ascii().to_string(), "name": name, "count": count }),
        );
        let streams = self.streams.iter().map(|one| {
            json!({
                "group": one.group.to_string(), "session": one.session.as_str(), "datagrams": one.datagrams,
                "messages": one.messages, "heartbeats": one.heartbeats, "first": one.first, "next": one.next,
                "gaps": one.gaps, "missing": one.missing, "again": one.again, "ended": one.has_ended,
            })
        });
        json!({ "types": types.collect::<Vec<_>>(), "streams": streams.collect::<Vec<_>>(), "uncounted": self.uncounted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_market::units::Alpha;

    #[test]
    fn gaps_and_repetitions_are_of_one_group_and_session() {
        let mut summary = Summary::default();
        let (a, b) = ("239.1.1.1:1".parse().unwrap(), "239.1.1.2:1".parse().unwrap());
        let mut count = |group, session: &[u8; 10], first, messages| {
            summary.datagram(group, Alpha(*session), Sequence(first), messages, false);
        };
        count(a, b"DAY1      ", 1, 3);
        count(a, b"DAY1      ", 6, 2);
        count(a, b"DAY1      ", 2, 3);
        count(b, b"DAY1      ", 1, 3);
        count(a, b"DAY2      ", 1, 1);
        count(a, b"DAY1      ", 8, 0);
        summary.datagram(a, Alpha(*b"DAY1      "), Sequence(u64::MAX), 0, true);
        let json = summary.json();
        let first = &json["streams"][0];
        assert_eq!((&first["gaps"], &first["messages"], &first["heartbeats"]), (&json!(2), &json!(8), &json!(1)));
        assert_eq!((&first["again"], &first["ended"]), (&json!(3), &json!(true)));
        assert_eq!(json["streams"].as_array().unwrap().len(), 3);
        assert!(summary.text().contains("DAY2"));
    }

    #[test]
    fn types_are_counted_by_their_letter() {
        let mut summary = Summary::default();
        for bytes in [&[b'S'; 12][..], &[b'S'; 12], b"~"] {
            summary.message(&Message::parse(bytes).unwrap());
        }
        let text = summary.text();
        assert!(text.contains("S    SystemEvent                          2  66.67%\n~    Unknown"), "{text}");
    }
}

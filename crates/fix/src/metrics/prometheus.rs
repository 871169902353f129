//! Prometheus' text format (version 0.0.4), one block per name, one line per session.

use super::Metrics;
use crate::session::Counters;
use sidestep_metrics::text::label;
use std::fmt::Write;

/// Upper bounds of the histogram's buckets, ns.
const BUCKETS_NS: [u64; 17] = [
    500,
    1_000,
    2_000,
    3_000,
    5_000,
    7_500,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// One session at a moment.
#[derive(Debug)]
pub struct Snapshot<'a> {
    /// Its name.
    pub session: String,
    /// True if messages can be exchanged.
    pub logged_on: bool,
    /// The next number that we send.
    pub next_outbound: u64,
    /// The next number that we expect.
    pub next_inbound: u64,
    /// The counters of the session.
    pub counters: Counters,
    /// The metrics of its connection.
    pub metrics: &'a Metrics,
}

type Read = fn(&Snapshot<'_>) -> u64;

/// Name, help, whether it only rises, and where it is read.
const SERIES: &[(&str, &str, bool, Read)] = &[
    ("logged_on", "1 while messages can be exchanged", false, |s| u64::from(s.logged_on)),
    ("accelerated", "1 while the connection goes past the kernel", false, |s| u64::from(s.metrics.accelerated)),
    ("next_outbound_seq", "MsgSeqNum of the next message sent", false, |s| s.next_outbound),
    ("next_inbound_seq", "MsgSeqNum expected next", false, |s| s.next_inbound),
    ("connections_total", "Connections taken up", true, |s| s.metrics.connections),
    ("logons_total", "Times the session was logged on", true, |s| s.counters.logons),
    ("messages_sent_total", "Messages sent, also again", true, |s| s.counters.sent),
    ("messages_received_total", "Well-formed messages received", true, |s| s.counters.received),
    ("messages_delivered_total", "Application messages delivered", true, |s| s.counters.delivered),
    ("messages_resent_total", "Messages sent again", true, |s| s.counters.resent),
    ("gap_fills_sent_total", "SequenceResets with GapFillFlag sent", true, |s| s.counters.gap_fills_sent),
    ("resend_requests_received_total", "ResendRequests received", true, |s| s.counters.resend_requests),
    ("resend_requests_sent_total", "ResendRequests sent", true, |s| s.counters.resend_requests_sent),
    ("garbled_total", "Garbled messages ignored", true, |s| s.counters.garbled),
    ("duplicates_total", "Messages that had come before", true, |s| s.counters.duplicates),
    ("rejects_sent_total", "Rejects sent", true, |s| s.counters.rejects),
    ("business_rejects_sent_total", "BusinessMessageRejects sent", true, |s| s.counters.business_rejects),
    ("throttled_total", "Application messages beyond the throttle", true, |s| s.counters.throttled),
    ("sends_refused_total", "Sends refused because too many bytes waited", true, |s| s.counters.full),
    ("messages_held_total", "Messages that waited in the store for room in the output", true, |s| s.counters.held),
    ("gave_way_total", "Times a side read on although its output was full and stood still", true, |s| {
        s.counters.gave_way
    }),
    ("heartbeats_sent_total", "Heartbeats sent", true, |s| s.counters.heartbeats_sent),
    ("test_requests_sent_total", "TestRequests sent", true, |s| s.counters.test_requests_sent),
    ("resets_total", "Times both sequence numbers became 1", true, |s| s.counters.resets),
    ("bytes_received_total", "Bytes received", true, |s| s.metrics.bytes_in),
    ("bytes_sent_total", "Bytes sent", true, |s| s.metrics.bytes_out),
    ("writes_total", "Writes to the connection", true, |s| s.metrics.writes),
];

/// Connections of an engine that are no session's.
#[derive(Debug)]
pub struct Strangers {
    /// They have not yet logged on.
    pub pending: usize,
    /// They were closed: why, and how many.
    pub refused: [(&'static str, u64); 8],
}

/// The same for Prometheus.
pub(crate) fn render_strangers(strangers: &Strangers) -> String {
    let (pending, refused) = ("sidestep_fix_connections_pending", "sidestep_fix_connections_refused_total");
    let mut text = format!("# HELP {pending} Connections that have not yet logged on\n# TYPE {pending} gauge\n");
    let _ = writeln!(text, "{pending} {}", strangers.pending);
    let _ =
        writeln!(text, "# HELP {refused} Connections closed that did not become a session's\n# TYPE {refused} counter");
    for (reason, count) in strangers.refused {
        let _ = writeln!(text, "{refused}{{reason=\"{reason}\"}} {count}");
    }
    text
}

/// All sessions as Prometheus reads them.
pub fn render(sessions: &[Snapshot<'_>]) -> String {
    let mut text = String::new();
    for (name, help, rises, read) in SERIES {
        let kind = if *rises { "counter" } else { "gauge" };
        let _ = writeln!(text, "# HELP sidestep_fix_{name} {help}\n# TYPE sidestep_fix_{name} {kind}");
        for session in sessions {
            let _ = writeln!(text, "sidestep_fix_{name}{{session=\"{}\"}} {}", label(&session.session), read(session));
        }
    }
    let name = "sidestep_fix_turnaround_seconds";
    let _ = writeln!(text, "# HELP {name} From a read until all that it caused has left\n# TYPE {name} histogram");
    for session in sessions {
        turnaround(&mut text, name, session);
    }
    text
}

fn turnaround(text: &mut String, name: &str, session: &Snapshot<'_>) {
    let histogram = session.metrics.turnaround_ns();
    let label = label(&session.session);
    for bound in BUCKETS_NS {
        let count = histogram.count_between(0, bound);
        let seconds = bound as f64 / 1e9;
        let _ = writeln!(text, "{name}_bucket{{session=\"{label}\",le=\"{seconds}\"}} {count}");
    }
    let sum = histogram.mean() * histogram.len() as f64 / 1e9;
    let _ = writeln!(text, "{name}_bucket{{session=\"{label}\",le=\"+Inf\"}} {}", histogram.len());
    let _ = writeln!(text, "{name}_sum{{session=\"{label}\"}} {sum}");
    let _ = writeln!(text, "{name}_count{{session=\"{label}\"}} {}", histogram.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_help_type_and_a_line_per_session() {
        let metrics = Metrics::default();
        let snapshot = |name: &str| Snapshot {
            session: name.to_owned(),
            logged_on: true,
            next_outbound: 7,
            next_inbound: 9,
            counters: Counters { sent: 3, ..Counters::default() },
            metrics: &metrics,
        };
        let text = render(&[snapshot("FIX.4.4:A->B"), snapshot("FIX.4.2:X->\"Y\"")]);
        assert!(text.contains("sidestep_fix_messages_sent_total{session=\"FIX.4.4:A->B\"} 3\n"));
        assert!(text.contains("session=\"FIX.4.2:X->\\\"Y\\\"\""));
        assert_eq!(text.matches("# TYPE").count(), SERIES.len() + 1);
        assert!(text.contains("turnaround_seconds_bucket{session=\"FIX.4.4:A->B\",le=\"+Inf\"} 0\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
        }
    }
}

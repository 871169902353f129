//! Words for the values of the schema. An unknown value is shown unchanged.

use crate::number;
use crate::schema::Row;

/// A scenario as a heading.
pub(crate) fn scenario(scenario: &str) -> String {
    match scenario {
        "rr" => "Request and response",
        "sizes" => "Latency by message size",
        "rates" => "Latency and loss by message rate",
        "open-loop" => "Response time by load",
        "ring" => "Messages through memory",
        "ring-source" => "Events of the kernel",
        "connect" => "Connections in sequence",
        "fix" => "FIX acceptors",
        "tick" => "Tick to trade",
        other => other,
    }
    .into()
}

/// The heading of the steps.
pub(crate) const STEPS: &str = "Steps that helped here, and steps that did not";

/// The heading of the throughput.
pub(crate) const STREAMS: &str = "Throughput";

/// A transport.
pub(crate) fn transport(transport: &str) -> &str {
    match transport {
        "tcp" => "TCP",
        "udp" => "UDP",
        "multicast" => "UDP multicast",
        "uds" => "Unix socket",
        "tls" => "TLS",
        "shm" => "Shared memory",
        "memory" => "Memory",
        "timer" => "Timer of a BPF program",
        "xdp" => "Datagrams at XDP",
        "module" => "Timer of the module",
        other => other,
    }
}

/// Returns the name of a measure. Half a round trip is never called one-way.
pub(crate) fn measure(measure: &str) -> &str {
    match measure {
        "rtt" => "round trip",
        "half_rtt" => "half-RTT",
        "one_way" => "one way",
        "per_message" => "time per message at full speed",
        "rtt_fill" => "order to ack and fill",
        "rtt_ack" => "order to ack",
        "rtt_heartbeat" => "test request to heartbeat",
        "tick_to_trade" => "tick to trade",
        "per_connection" => "connect, one message and its answer, close",
        other => other,
    }
}

/// Returns the direction of a stream, if both are measured.
pub(crate) fn direction(scenario: &str) -> &'static str {
    match scenario {
        "bulk" => ", to the peer",
        "bulk-back" => ", from the peer",
        _ => "",
    }
}

/// Returns the pace of round trips; empty for a closed loop.
pub(crate) fn pace(per_second: Option<f64>) -> String {
    match per_second {
        Some(rate) if rate > 0.0 => format!(", one due every {}", number::time(1e9 / rate)),
        _ => String::new(),
    }
}

/// What a reader of a closed loop has to know; none where no row is one.
pub(crate) fn closed_loop(rows: &[&Row]) -> Option<String> {
    let is_closed = |row: &&Row| row.loop_kind.as_deref() == Some("closed");
    rows.iter().any(is_closed).then(|| {
        "closed loop: a message is sent after the answer to the one before it; a stall delays messages that are then not counted \
         (coordinated omission)"
            .into()
    })
}

/// Returns the number of sessions; empty for one or none.
pub(crate) fn sessions(sessions: Option<u32>) -> String {
    match sessions {
        Some(count) if count > 1 => format!(", {count} sessions"),
        _ => String::new(),
    }
}

/// Returns the description of a place.
pub(crate) fn place(place: &str) -> &str {
    match place {
        "lab" => "two network namespaces of one machine, joined by veth",
        "loopback" => "the loopback interface of one machine",
        "loopback and lab" => "the loopback interface of one machine, and a veth between two of its namespaces",
        "remote" => "two machines",
        "memory" => "the memory of one machine",
        other => other,
    }
}

/// `one`, or the number with the plural.
pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("one {one}") } else { format!("{n} {many}") }
}

/// `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

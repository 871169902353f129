//! The flags of `sidestep ring`.

use clap::{Args, Subcommand, ValueEnum};
use sidestep_socket::ring_flow::Protocol;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Subcommand)]
pub(crate) enum Ring {
    /// Show the counters and the state of both sides
    Stat(RingStat),
    /// Print messages as they arrive, until the ring is closed; or packets of a flow
    Tail(RingTail),
}

#[derive(Debug, Args)]
pub(crate) struct RingStat {
    /// The ring's file, the module's device (/dev/sidestep-ring), or a pinned BPF map
    pub(crate) file: PathBuf,
    /// The ring's number in a BPF map, which has one for each receive queue
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) ring: u32,
    /// Write JSON; `-` for standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

const TAIL_AFTER_HELP: &str = "\
Packets have the time of reception in seconds since 1970, their sender, and their destination. Where
no ring can carry the flow, groups and ports are read from a kernel socket, and standard error has
the reason. `sidestep control` must run for rings. Packets of one receive queue are in their order;
those of different queues are not in that of their times.";

#[derive(Debug, Args)]
#[command(
    after_help = TAIL_AFTER_HELP,
    override_usage = "sidestep ring tail [OPTIONS] <FILE>\n       sidestep ring tail [OPTIONS] --flow <ADDRESS:PORT> --interface <IF>"
)]
pub(crate) struct RingTail {
    /// The ring's file, the module's device (/dev/sidestep-ring), or a pinned BPF map
    /// (or --flow with --interface)
    #[arg(required_unless_present = "flow", conflicts_with = "flow")]
    pub(crate) file: Option<PathBuf>,
    /// The ring's number in a BPF map, which has one for each receive queue
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "flow")]
    pub(crate) ring: u32,
    /// The message to begin with
    #[arg(long, value_enum, default_value_t = RingStart::Newest, conflicts_with = "flow")]
    pub(crate) from: RingStart,
    #[command(flatten)]
    pub(crate) flow: FlowFlags,
    /// Exit after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Print one line per message; unprintable bytes as \xNN
    #[arg(long)]
    pub(crate) lines: bool,
    /// Print the bytes of the messages only
    #[arg(long, conflicts_with = "lines")]
    pub(crate) raw: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RingStart {
    /// The oldest message that is still there: up to half the ring back
    Oldest,
    /// The next message to arrive
    Newest,
}

/// The packets to be read.
#[derive(Debug, Args)]
pub(crate) struct FlowFlags {
    /// Print packets that come to a multicast group, a port of this host, or tcp:ADDRESS:PORT (what this host sends is not
    /// seen); udp: may stand before
    #[arg(long, value_name = "ADDRESS:PORT", requires = "interface")]
    pub(crate) flow: Option<FlowTarget>,
    /// The interface that the packets come by
    #[arg(long, value_name = "NAME", requires = "flow")]
    pub(crate) interface: Option<String>,
    /// Receive the group from this sender only
    #[arg(long, value_name = "ADDRESS", requires = "flow", conflicts_with_all = ["tap", "peer"])]
    pub(crate) source: Option<IpAddr>,
    /// Only packets of this other end; a tap
    #[arg(long, value_name = "ADDRESS:PORT", requires = "flow")]
    pub(crate) peer: Option<SocketAddr>,
    /// Take the packets out of the kernel's way while nobody else on this host receives them. That is looked at every second: a
    /// socket that comes later may miss them so long. Sockets of this network namespace count, containers behind NAT, macvlan or
    /// ipvlan do not
    #[arg(long, requires = "flow")]
    pub(crate) drop: bool,
    /// Without a socket and a membership: for root, and for groups that `sidestep control --allow-tap-gid` names. TCP is always tapped
    #[arg(long, requires = "flow")]
    pub(crate) tap: bool,
    /// Share the rings of other readers of this user that give this name: one copy of each packet for all of them
    #[arg(long, value_name = "NAME", requires = "flow", default_value = "", hide_default_value = true)]
    pub(crate) feed: String,
}

/// A protocol, an address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowTarget {
    pub(crate) protocol: Protocol,
    pub(crate) local: SocketAddr,
}

impl FromStr for FlowTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (protocol, rest) = match text.split_once(':') {
            Some(("tcp", rest)) => (Protocol::Tcp, rest),
            Some(("udp", rest)) => (Protocol::Udp, rest),
            _ => (Protocol::Udp, text),
        };
        let wrong = |_| format!("{rest:?} is not an address and a port, like 239.1.1.1:5000 or [ff02::1:3]:5000");
        let local: SocketAddr = rest.parse().map_err(wrong)?;
        if local.port() == 0 {
            return Err("port 0 is not valid".into());
        }
        if protocol == Protocol::Tcp && local.ip().is_multicast() {
            return Err("TCP has no groups".into());
        }
        Ok(Self { protocol, local })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_or_refused() {
        let target = |text: &str| text.parse::<FlowTarget>();
        let of = |protocol, local: &str| Ok(FlowTarget { protocol, local: local.parse().unwrap() });
        assert_eq!(target("239.1.1.1:5000"), of(Protocol::Udp, "239.1.1.1:5000"));
        assert_eq!(target("udp:[ff02::1:3]:5000"), of(Protocol::Udp, "[ff02::1:3]:5000"));
        assert_eq!(target("tcp:192.0.2.1:80"), of(Protocol::Tcp, "192.0.2.1:80"));
        for wrong in ["", "tcp:", "239.1.1.1", "239.1.1.1:0", "tcp:239.1.1.1:80", "sctp:192.0.2.1:80", "[::1]"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}

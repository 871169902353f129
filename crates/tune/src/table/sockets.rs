//! TCP and UDP: kernel defaults that delay packets.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::{Interface, Scope};

const ROW_HERE: Check = Check { group: Group::Sockets, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "tcp-autocorking",
        title: "small writes held back",
        read: Read::Setting("proc:sys/net/ipv4/tcp_autocorking"),
        why: "A small write waits while an earlier packet of the connection is in a queue of this host.",
        source: "Linux networking/ip-sysctl (default 1)",
        effect: Effect::Units,
        how: "sysctl net.ipv4.tcp_autocorking=0; programs set TCP_NODELAY besides",
        harm: "more small packets from programs that write piecemeal",
        ..ROW_HERE
    },
    Check {
        id: "tcp-slow-start-idle",
        title: "slow start after a pause",
        read: Read::Setting("proc:sys/net/ipv4/tcp_slow_start_after_idle"),
        why: "After a retransmission timeout without traffic the window is small again: the next burst takes more round trips.",
        source: "Linux networking/ip-sysctl (default 1); RFC 5681 section 4.1",
        effect: Effect::Tens,
        how: "sysctl net.ipv4.tcp_slow_start_after_idle=0",
        harm: "a burst into a path that has become slower may lose packets",
        ..ROW_HERE
    },
    Check {
        id: "tcp-low-latency",
        title: "a setting without effect",
        read: Read::Setting("proc:sys/net/ipv4/tcp_low_latency"),
        absent: "the kernel no longer has it",
        why: "Old guides set it; since Linux 4.14 it has no effect. A value of 1 shows that such a guide was followed.",
        source: "Linux networking/ip-sysctl",
        effect: Effect::Indirect,
        set: Set::Never,
        how: "remove it from sysctl.d, and check the other settings of that guide",
        ..ROW_HERE
    },
    Check {
        id: "tcp-fast-open",
        title: "data in the first packet",
        read: Read::Setting("proc:sys/net/ipv4/tcp_fastopen"),
        why: "Saves a round trip at each new connection, if both ends ask for it.",
        source: "tuned network-latency (3); RFC 7413",
        effect: Effect::Indirect,
        how: "sysctl net.ipv4.tcp_fastopen=3",
        harm: "some middleboxes drop such packets; the kernel then retries without data",
        ..ROW_HERE
    },
    Check {
        id: "udp-receive-buffer-max",
        title: "largest receive buffer, in bytes",
        read: Read::Setting("proc:sys/net/core/rmem_max"),
        absent: "this is a network namespace of its own",
        why: "A burst of market data that does not fit is lost. A program cannot ask for more than this.",
        source: "Linux admin-guide/sysctl/net; socket(7)",
        effect: Effect::Stalls,
        how: "sysctl net.core.rmem_max=16777216",
        harm: "programs may take more memory",
        ..ROW_HERE
    },
    Check {
        id: "udp-buffer-errors",
        title: "datagrams lost in full buffers, since boot",
        read: Read::Derived("RcvbufErrors of Udp in /proc/net/snmp", buffer_errors),
        why: "The program was late, or its buffer was small: the feed has a gap.",
        source: "udp(7), net/ipv4/proc.c",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "a larger SO_RCVBUF, and udp-receive-buffer-max; find the program that was late",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "ip-early-demux",
        title: "sockets looked up before routes",
        read: Read::Setting("proc:sys/net/ipv4/ip_early_demux"),
        why: "A packet of a known socket needs no route lookup.",
        source: "Linux networking/ip-sysctl (default 1)",
        effect: Effect::Fractions,
        how: "sysctl net.ipv4.ip_early_demux=1",
        harm: "a router loses a little throughput",
        ..ROW_HERE
    },
    Check {
        id: "udp-early-demux",
        title: "the same for connected UDP sockets",
        read: Read::Setting("proc:sys/net/ipv4/udp_early_demux"),
        why: "It applies to connected sockets and multicast: connect() your UDP sockets.",
        source: "Linux networking/ip-sysctl (default 1)",
        effect: Effect::Fractions,
        how: "sysctl net.ipv4.udp_early_demux=1",
        harm: "a router loses a little throughput",
        ..ROW_HERE
    },
    Check {
        id: "igmp-memberships",
        title: "multicast groups of a socket",
        read: Read::Setting("proc:sys/net/ipv4/igmp_max_memberships"),
        why: "The next group is refused (ENOBUFS), and its feed is missing. The default is 20.",
        source: "Linux networking/ip-sysctl",
        effect: Effect::Indirect,
        how: "sysctl net.ipv4.igmp_max_memberships=1024",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "ip-reverse-path",
        title: "packets dropped by their source",
        read: Read::Derived("rp_filter of /proc/sys/net/ipv4/conf/{all,IF}: the greater one counts", reverse_path),
        why: "In strict mode (1) multicast from a source that is routed another way is dropped silently. The kernel takes the \
              greater value of all and of the interface: 0 in one of them does not switch it off, and 2 in one of them is enough.",
        source: "Linux networking/ip-sysctl (rp_filter: the max value from conf/{all,interface} is used)",
        effect: Effect::Indirect,
        how: "sysctl net.ipv4.conf.all.rp_filter=2",
        harm: "forged source addresses are checked less strictly",
        ..ROW_HERE
    },
    Check {
        id: "net-conntrack",
        title: "connections tracked",
        read: Read::Setting("proc:sys/net/netfilter/nf_conntrack_count"),
        absent: "connection tracking is not loaded",
        why: "Every packet is looked up in a table first, and a firewall may follow.",
        source: "Linux networking/nf_conntrack-sysctl; our reading",
        effect: Effect::Units,
        set: Set::Service,
        how: "a raw-table notrack rule for hot flows, or no stateful rules on that host",
        harm: "stateful firewall rules no longer apply to those flows",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "net-qdisc",
        title: "queueing discipline of new interfaces",
        read: Read::Setting("proc:sys/net/core/default_qdisc"),
        absent: "this is a network namespace of its own",
        why: "Each packet to send passes it: pfifo_fast and noqueue are short, fq and fq_codel do more. Interfaces with many \
              queues have one per queue.",
        source: "Linux admin-guide/sysctl/net",
        effect: Effect::Fractions,
        set: Set::Never,
        how: "tc qdisc replace dev IF root pfifo_fast, and measure",
        ..ROW_HERE
    },
    Check {
        id: "clock-sync",
        title: "clock synchronisation",
        read: Read::Derived("processes chronyd, ntpd, ptp4l, phc2sys, systemd-timesyncd", clock),
        why: "Times that are compared between hosts need it; round trips do not. A fact for comparing hosts.",
        source: "Linux ptp/ptp",
        effect: Effect::Indirect,
        set: Set::Never,
        how: "ptp4l and phc2sys where the switch speaks PTP, else chronyd",
        ..ROW_HERE
    },
];

/// Returns the value in force for each interface, at the location that decides it.
fn reverse_path(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let read = |subject: &str, name: &str| {
        scope.reading(subject, Location::of(&format!("proc:sys/net/ipv4/conf/{name}/rp_filter")), Form::Text)
    };
    let mode = |reading: &Reading| reading.value.as_ref().ok().and_then(|value| value.parse::<u32>().ok());
    let of = |interface: &Interface| {
        let (all, own) = (read(&interface.name, "all"), read(&interface.name, &interface.name));
        if mode(&own) > mode(&all) { own } else { all }
    };
    let readings: Vec<Reading> = scope.interfaces.iter().map(of).collect();
    Ok(if readings.is_empty() { vec![read("", "all")] } else { readings })
}

fn buffer_errors(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let own = scope.text("proc:thread-self/net/snmp");
    let table = if own.is_empty() { scope.text("proc:net/snmp") } else { own };
    let mut lines = table.lines().filter(|line| line.starts_with("Udp:"));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let mut values = names.zip(lines.next().unwrap_or_default().split_whitespace());
    let count = values.find(|(name, _)| *name == "RcvbufErrors").map(|(_, value)| Reading::of("", value));
    Ok(count.into_iter().collect())
}

fn clock(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    // comm is cut at 15 characters.
    let known = ["chronyd", "ntpd", "ptp4l", "phc2sys", "systemd-timesyn"];
    let running: Vec<&str> = known.into_iter().filter(|name| scope.task(name).is_some()).collect();
    Ok(vec![Reading::of("", if running.is_empty() { "nobody".to_owned() } else { running.join(", ") })])
}

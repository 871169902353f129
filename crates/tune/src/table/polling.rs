//! Busy polling: a receive polls for packets instead of waiting for an interrupt.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::reading::Reading;
use crate::scope::Scope;

const ROW_HERE: Check = Check {
    group: Group::Polling,
    absent: "the kernel is built without CONFIG_NET_RX_BUSY_POLL, or this is a network namespace of its own",
    harm: "a thread that waits burns its CPU for so long",
    ..ROW
};

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "busy-read",
        title: "polling by a blocking read, in us",
        read: Read::Setting("proc:sys/net/core/busy_read"),
        why: "The default of SO_BUSY_POLL for new sockets: recv polls the NIC's queue for this time before it sleeps. \
              Programs can set it for themselves, which spares the rest of the host.",
        source: "Linux admin-guide/sysctl/net; tuned network-latency (50); AWS ENA best practices (70)",
        effect: Effect::Tens,
        how: "sysctl net.core.busy_read=50, or SO_BUSY_POLL per socket",
        ..ROW_HERE
    },
    Check {
        id: "busy-poll",
        title: "polling by poll and select, in us",
        read: Read::Setting("proc:sys/net/core/busy_poll"),
        why: "poll, select and epoll poll the queues of sockets with SO_BUSY_POLL for this time before they sleep.",
        source: "Linux admin-guide/sysctl/net; tuned network-latency (50)",
        effect: Effect::Tens,
        how: "sysctl net.core.busy_poll=50",
        ..ROW_HERE
    },
    Check {
        id: "busy-pair",
        title: "busy_poll has sockets to poll",
        read: Read::Derived("net.core.busy_poll and net.core.busy_read together", pair),
        why: "busy_poll polls only sockets with SO_BUSY_POLL: with busy_read 0 there are none, unless programs set it.",
        source: "Linux admin-guide/sysctl/net",
        effect: Effect::Indirect,
        set: Set::Service,
        how: "set both, or let the program set SO_BUSY_POLL",
        ..ROW_HERE
    },
    Check {
        id: "busy-budget",
        title: "packets of one turn of the softirq",
        read: Read::Setting("proc:sys/net/core/netdev_budget"),
        absent: "this is a network namespace of its own",
        why: "A larger budget lets bursts through before ksoftirqd has to be scheduled. A fact for comparing hosts.",
        source: "Linux admin-guide/sysctl/net",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "sysctl net.core.netdev_budget=600, where nic-squeezed counts",
        risk: Risk::Low,
        ..ROW_HERE
    },
    Check {
        id: "net-timestamp-prequeue",
        title: "receive timestamps before queueing",
        read: Read::Setting("proc:sys/net/core/netdev_tstamp_prequeue"),
        absent: "this is a network namespace of its own",
        why: "With 0 a software timestamp is taken after the packet was steered to another CPU, and hides that time.",
        source: "Linux admin-guide/sysctl/net",
        effect: Effect::Indirect,
        how: "sysctl net.core.netdev_tstamp_prequeue=1",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "net-bpf-jit",
        title: "BPF programs compiled",
        read: Read::Setting("proc:sys/net/core/bpf_jit_enable"),
        absent: "the kernel has no BPF compiler, or this is a network namespace of its own",
        why: "An interpreted XDP program takes many times as long for each packet.",
        source: "Linux admin-guide/sysctl/net",
        effect: Effect::Units,
        how: "sysctl net.core.bpf_jit_enable=1",
        harm: "none known",
        ..ROW_HERE
    },
];

fn pair(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let number = |name: &str| -> Option<u64> { scope.text(&format!("proc:sys/net/core/{name}")).parse().ok() };
    let reading = number("busy_poll").zip(number("busy_read")).map(|(poll, read)| {
        let word = if poll > 0 && read == 0 { "alone" } else { "consistent" };
        Reading::of("", word).shown(format!("busy_poll {poll}, busy_read {read}"))
    });
    Ok(reading.into_iter().collect())
}

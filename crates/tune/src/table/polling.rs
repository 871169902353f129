//! Busy polling: a receive polls for packets instead of waiting for an interrupt.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
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
        why: "poll and select poll the queues of sockets with SO_BUSY_POLL for this time before they sleep; epoll polls the queue \
              that its sockets last received by, with or without SO_BUSY_POLL. A program can ask for itself: busy-epoll.",
        source: "Linux admin-guide/sysctl/net; net/core/sock.c, fs/eventpoll.c (ep_set_busy_poll_napi_id); tuned network-latency (50)",
        effect: Effect::Tens,
        how: "sysctl net.core.busy_poll=50",
        ..ROW_HERE
    },
    Check {
        id: "busy-pair",
        title: "calls that poll by default",
        read: Read::Derived("net.core.busy_poll and net.core.busy_read together", pair),
        why: "busy_read makes blocking reads poll. busy_poll makes epoll poll, and with busy_read or SO_BUSY_POLL also poll and select. \
              A fact: which of them a program uses decides what it needs.",
        source: "Linux admin-guide/sysctl/net; networking/napi (epoll based busy polling)",
        effect: Effect::Indirect,
        set: Set::Never,
        how: "set what the program's calls need: busy-read, busy-poll",
        ..ROW_HERE
    },
    Check {
        id: "busy-epoll",
        title: "busy polling chosen by each epoll instance",
        read: Read::Derived("the request EPIOCGPARAMS to an epoll instance", epoll),
        absent: "the kernel is built without CONFIG_NET_RX_BUSY_POLL",
        why: "By EPIOCSPARAMS (Linux 6.9) a program sets time, budget and prefer_busy_poll of its own epoll instance, without \
              SO_BUSY_POLL and without polling by all other programs of the host. Before, net.core.busy_poll is the only way.",
        source: "Linux networking/napi (epoll based busy polling); ioctl_eventpoll(2)",
        effect: Effect::Units,
        set: Set::Never,
        how: "a kernel of 6.9 or later; ioctl(epfd, EPIOCSPARAMS, ...) in the program",
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
        let word = match (poll > 0, read > 0) {
            (false, false) => "none",
            (false, true) => "reads",
            (true, false) => "epoll",
            (true, true) => "reads, poll, select, epoll",
        };
        Reading::of("", word).shown(format!("{word}: busy_poll {poll}, busy_read {read}"))
    });
    Ok(reading.into_iter().collect())
}

fn epoll(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let reading = scope.reading("", Location::of("probe:epoll-parameters"), Form::Text);
    Ok(vec![match reading.value.as_deref() {
        Ok("known") => Reading::of("", "by instance"),
        Ok("unknown") => Reading::of("", "host-wide only"),
        _ => reading,
    }])
}

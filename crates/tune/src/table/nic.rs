//! The network interface: settings that ethtool can change.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};

const NO_COALESCING: &str = "the driver does not offer it";
const CPU_LOAD: &str = "more interrupts: a CPU of its own is needed under load";

const ROW_HERE: Check = Check { group: Group::Nic, absent: NO_COALESCING, harm: CPU_LOAD, risk: Risk::Medium, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "nic-adaptive-rx",
        title: "adaptive moderation of receive interrupts",
        read: Read::Setting("ethtool:{interface}/coalesce/adaptive-rx"),
        why: "The driver changes the waiting time by the load: the same packet waits now 0 and now 100 us.",
        source: "Intel ice in Linux device_drivers; AWS ENA best practices; Solarflare user guide",
        effect: Effect::Tens,
        how: "ethtool -C IF adaptive-rx off",
        ..ROW_HERE
    },
    Check {
        id: "nic-adaptive-tx",
        title: "adaptive moderation of transmit interrupts",
        read: Read::Setting("ethtool:{interface}/coalesce/adaptive-tx"),
        why: "As with receiving; it decides when buffers of what was sent are freed.",
        source: "Intel ice in Linux device_drivers; AWS ENA best practices",
        effect: Effect::Units,
        how: "ethtool -C IF adaptive-tx off",
        ..ROW_HERE
    },
    Check {
        id: "nic-rx-usecs",
        title: "time that a receive interrupt may be late, in us",
        read: Read::Setting("ethtool:{interface}/coalesce/rx-usecs"),
        why: "The NIC waits so long for more packets, or keeps interrupts so far apart, which depends on the NIC: measure it.",
        source: "Linux networking/ethtool-netlink; AWS ENA best practices; Solarflare user guide",
        effect: Effect::Tens,
        how: "ethtool -C IF rx-usecs 0",
        ..ROW_HERE
    },
    Check {
        id: "nic-rx-frames",
        title: "packets that a receive interrupt may wait for",
        read: Read::Setting("ethtool:{interface}/coalesce/rx-frames"),
        why: "With rx-usecs 0 most drivers ignore it; with none, more than one packet is waited for.",
        source: "Linux networking/ethtool-netlink",
        effect: Effect::Tens,
        how: "ethtool -C IF rx-frames 1",
        ..ROW_HERE
    },
    Check {
        id: "nic-tx-usecs",
        title: "time that a transmit interrupt may be late, in us",
        read: Read::Setting("ethtool:{interface}/coalesce/tx-usecs"),
        why: "Buffers and socket memory of what was sent come back so much later (ENA: 64 us by default).",
        source: "AWS ENA best practices",
        effect: Effect::Units,
        how: "ethtool -C IF tx-usecs 0",
        ..ROW_HERE
    },
    Check {
        id: "nic-tx-frames",
        title: "packets that a transmit interrupt may wait for",
        read: Read::Setting("ethtool:{interface}/coalesce/tx-frames"),
        why: "A single order is one packet: what waits for a second one waits for the timer.",
        source: "Linux networking/ethtool-netlink",
        effect: Effect::Units,
        how: "ethtool -C IF tx-frames 1",
        ..ROW_HERE
    },
    Check {
        id: "nic-cqe-rx",
        title: "receive timer that begins anew with each packet",
        read: Read::Setting("ethtool:{interface}/coalesce/cqe-mode-rx"),
        why: "In CQE mode the timer is reset by every completion, so that a steady flow delays its own interrupt.",
        source: "Linux networking/ethtool-netlink (use-cqe-mode-rx)",
        effect: Effect::Units,
        how: "ethtool -C IF cqe-mode-rx off",
        ..ROW_HERE
    },
    Check {
        id: "nic-cqe-tx",
        title: "transmit timer that begins anew with each packet",
        read: Read::Setting("ethtool:{interface}/coalesce/cqe-mode-tx"),
        why: "As with receiving.",
        source: "Linux networking/ethtool-netlink (use-cqe-mode-tx)",
        effect: Effect::Fractions,
        how: "ethtool -C IF cqe-mode-tx off",
        ..ROW_HERE
    },
    Check {
        id: "nic-rx-usecs-high",
        title: "time between interrupts at least, in us",
        read: Read::Setting("ethtool:{interface}/coalesce/rx-usecs-high"),
        why: "ice and i40e hold interrupts of all queues at least so far apart. A fact for comparing hosts.",
        source: "Intel ice in Linux device_drivers",
        effect: Effect::Units,
        set: Set::Never,
        how: "ethtool -C IF rx-usecs-high 0, and measure",
        ..ROW_HERE
    },
    Check {
        id: "nic-lro",
        title: "large receive offload",
        read: Read::Setting("ethtool:{interface}/features/rx-lro"),
        absent: "the driver has no LRO, or it is off for good",
        why: "The NIC holds packets back to merge them.",
        source: "Linux networking/segmentation-offloads",
        effect: Effect::Units,
        how: "ethtool -K IF lro off",
        risk: Risk::Low,
        harm: "less throughput per CPU",
        ..ROW_HERE
    },
    Check {
        id: "nic-gro-hw",
        title: "receive merging by the NIC",
        read: Read::Setting("ethtool:{interface}/features/rx-gro-hw"),
        absent: "the driver has no hardware GRO, or it is off for good",
        why: "The NIC holds packets back to merge them.",
        source: "Linux networking/netdev-features",
        effect: Effect::Units,
        how: "ethtool -K IF rx-gro-hw off",
        risk: Risk::Low,
        harm: "less throughput per CPU",
        ..ROW_HERE
    },
    Check {
        id: "nic-gro",
        title: "receive merging by the kernel",
        read: Read::Setting("ethtool:{interface}/features/rx-gro"),
        absent: "the driver has no GRO",
        why: "Merging ends with the batch of packets, so it delays little and saves work on streams: measure both.",
        source: "Linux networking/segmentation-offloads",
        effect: Effect::Fractions,
        set: Set::Never,
        how: "ethtool -K IF gro off, and measure",
        risk: Risk::Low,
        ..ROW_HERE
    },
    Check {
        id: "nic-channels",
        title: "queues",
        read: Read::Setting("ethtool:{interface}/channels/combined"),
        why: "With few queues it is known which one a flow comes on, and no interrupt strays. A fact to decide on.",
        source: "tuned realtime (channels=combined N)",
        effect: Effect::Units,
        set: Set::Never,
        how: "ethtool -L IF combined N (the link is gone for a moment)",
        ..ROW_HERE
    },
    Check {
        id: "nic-ring-rx",
        title: "receive ring",
        read: Read::Setting("ethtool:{interface}/rings/rx"),
        why: "Long enough for a burst, short enough for the cache: larger only where packets are dropped (see nic-drops).",
        source: "AWS ENA best practices",
        effect: Effect::Fractions,
        set: Set::Never,
        how: "ethtool -G IF rx N (packets are lost meanwhile)",
        ..ROW_HERE
    },
    Check {
        id: "nic-ring-tx",
        title: "transmit ring",
        read: Read::Setting("ethtool:{interface}/rings/tx"),
        why: "As with receiving: a fact for comparing hosts.",
        source: "AWS ENA best practices",
        effect: Effect::Fractions,
        set: Set::Never,
        how: "ethtool -G IF tx N (packets are lost meanwhile)",
        ..ROW_HERE
    },
    Check {
        id: "nic-tx-push",
        title: "descriptors pushed to the NIC",
        read: Read::Setting("ethtool:{interface}/rings/tx-push"),
        why: "The CPU writes the descriptor into the NIC itself: a read over PCIe less for each packet sent. The kernel reports off also \
              where the driver cannot do it, so that off is no fault. A fact.",
        source: "Linux networking/ethtool-netlink (tx-push); net/ethtool/rings.c (ETHTOOL_RING_USE_TX_PUSH)",
        effect: Effect::Units,
        set: Set::Never,
        how: "ethtool -G IF tx-push on, and measure; it sets all rings up anew (no traffic for up to seconds), and is refused where the \
              driver cannot do it",
        ..ROW_HERE
    },
    Check {
        id: "nic-pause-rx",
        title: "pause frames obeyed",
        read: Read::Setting("ethtool:{interface}/pause/rx"),
        why: "A switch that is full can stop the NIC from sending. Off means loss instead of waiting: decide, and measure.",
        source: "IEEE 802.3 annex 31B; Linux networking/ethtool-netlink",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "ethtool -A IF rx off",
        ..ROW_HERE
    },
    Check {
        id: "nic-pause-tx",
        title: "pause frames sent",
        read: Read::Setting("ethtool:{interface}/pause/tx"),
        why: "A host that is slow can stop its switch port, and with it other flows. Decide, and measure.",
        source: "IEEE 802.3 annex 31B; Linux networking/ethtool-netlink",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "ethtool -A IF tx off",
        ..ROW_HERE
    },
    Check {
        id: "nic-eee",
        title: "energy-efficient Ethernet",
        read: Read::Setting("ethtool:{interface}/eee/enabled"),
        absent: "the link has none",
        why: "An idle link sleeps, and takes microseconds (16.5 us at 1 Gbit/s) to wake for the first packet.",
        source: "IEEE 802.3az",
        effect: Effect::Tens,
        how: "ethtool --set-eee IF eee off",
        harm: "more power; the link may be gone for a moment",
        ..ROW_HERE
    },
    Check {
        id: "nic-cqe-compress",
        title: "completions compressed (mlx5)",
        read: Read::Setting("ethtool:{interface}/private/rx_cqe_compress"),
        absent: "the driver has no such flag",
        why: "Compression saves PCIe bandwidth and delivers completions in batches.",
        source: "NVIDIA mlx5 in Linux device_drivers; our reading",
        effect: Effect::Fractions,
        how: "ethtool --set-priv-flags IF rx_cqe_compress off",
        harm: "less throughput of small packets; the rings are set up anew",
        ..ROW_HERE
    },
];

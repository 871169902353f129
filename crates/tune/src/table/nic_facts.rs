//! The network interface: facts and counters.

use super::ROW;
use crate::check::{Check, Effect, Group, Hosts, Read, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::{Interface, Scope};

const ROW_HERE: Check = Check { group: Group::Nic, set: Set::Never, effect: Effect::Indirect, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "nic-numa-node",
        title: "hot CPUs near the NIC",
        read: Read::Derived("numa_node and local_cpulist of the device; distance between nodes", near),
        absent: "the device or the kernel knows no nodes",
        why: "From a remote node every packet crosses the link between sockets, more than once.",
        source: "Waskiewicz, Anatomy of Networking in HFT; Linux ABI stable/sysfs-devices-node",
        effect: Effect::Units,
        set: Set::Firmware,
        how: "choose hot CPUs from the device's local_cpulist, or move the card to another slot",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "nic-memory-node",
        title: "memory left on the NIC's node, in percent",
        read: Read::Derived("MemFree and MemTotal of the node's meminfo", memory_near),
        absent: "the device or the kernel knows no nodes",
        why: "When the node has no memory left, packets and program use remote memory.",
        source: "Linux admin-guide/mm/numa_memory_policy",
        effect: Effect::Units,
        how: "bind the program there (sidestep tune run), and others elsewhere",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "nic-pcie-width",
        title: "lanes of the PCIe link",
        read: Read::Derived("current_link_width and max_link_width of the device", width),
        hosts: Hosts::Metal,
        absent: "no PCIe device",
        why: "With fewer lanes than the card has, it is in the wrong slot, or not seated well.",
        source: "Linux ABI testing/sysfs-bus-pci",
        effect: Effect::Units,
        set: Set::Firmware,
        how: "seat the card again; look up which slots have all lanes",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "nic-pcie-speed",
        title: "speed of the PCIe link",
        read: Read::Derived("current_link_speed and max_link_speed of the device", speed),
        hosts: Hosts::Metal,
        absent: "no PCIe device",
        why: "A link that trained at a lower speed takes longer for each packet.",
        source: "Linux ABI testing/sysfs-bus-pci",
        effect: Effect::Units,
        set: Set::Firmware,
        how: "check the slot, and its speed in the firmware",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "nic-timestamps",
        title: "hardware timestamps",
        read: Read::Derived("ethtool -T: hardware-transmit, hardware-receive", timestamps),
        absent: "the driver does not report it",
        why: "Only they separate time on the wire from time in the host.",
        source: "Linux networking/timestamping",
        how: "choose a NIC that has them",
        ..ROW_HERE
    },
    Check {
        id: "nic-rss",
        title: "queues that the RSS table spreads over",
        read: Read::Setting("ethtool:{interface}/rss/queues"),
        absent: "one queue, or a driver without RSS table",
        why: "The hash of a flow chooses its queue, and so its CPU, unless the table or a filter decides.",
        source: "Linux networking/scaling",
        effect: Effect::Units,
        how: "ethtool -X IF equal N, or ethtool -N IF flow-type udp4 dst-port P action QUEUE",
        ..ROW_HERE
    },
    Check {
        id: "nic-steering",
        title: "filters that send flows to queues",
        read: Read::Setting("ethtool:{interface}/features/rx-ntuple-filter"),
        absent: "the driver has no such filters",
        why: "With them a hot flow can be sent to the hot queue.",
        source: "Linux networking/scaling (accelerated RFS)",
        effect: Effect::Units,
        how: "ethtool -K IF ntuple on, and ethtool -N for each flow",
        ..ROW_HERE
    },
    Check {
        id: "nic-drops",
        title: "packets dropped because the ring was full, since boot",
        read: Read::Derived("rx_missed_errors and rx_fifo_errors of /sys/class/net/IF/statistics", drops),
        why: "Latency of a run with loss means little: the ring was full, or nothing took packets out.",
        source: "Linux networking/statistics",
        effect: Effect::Stalls,
        how: "a larger ring (ethtool -G IF rx N), or a CPU that polls it",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "nic-backlog-drops",
        title: "packets dropped by the kernel's backlog, since boot",
        read: Read::Derived("second column of /proc/net/softnet_stat", backlog_drops),
        why: "Other work held the CPU, or packets were steered to a busy one.",
        source: "Linux networking/scaling; net/core/net-procfs.c",
        effect: Effect::Stalls,
        how: "sysctl net.core.netdev_max_backlog, and see nic-rps",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "nic-squeezed",
        title: "polls that used up their budget, per million packets",
        read: Read::Derived("third column of /proc/net/softnet_stat against the first", squeezed),
        why: "The rest of the packets waited for ksoftirqd, that is, for the scheduler.",
        source: "Linux admin-guide/sysctl/net (netdev_budget)",
        effect: Effect::Stalls,
        how: "sysctl net.core.netdev_budget and netdev_budget_usecs, or fewer queues on that CPU",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "nic-driver",
        title: "driver",
        read: Read::Derived("DRIVER of /sys/class/net/IF/device/uevent", driver),
        absent: "the interface has no hardware driver",
        why: "Drivers treat the same settings differently: see the notes.",
        source: "profiles/tune/drivers.toml",
        how: "sidestep tune check prints the notes for this driver",
        ..ROW_HERE
    },
];

fn device(interface: &Interface, file: &str) -> String {
    format!("sys:class/net/{}/device/{file}", interface.name)
}

/// Returns the node of the interface's device; -1 stands for none.
fn node(scope: &Scope<'_>, interface: &Interface) -> Option<u32> {
    scope.text(&device(interface, "numa_node")).parse().ok()
}

fn near(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.needs_hot()?;
    scope.each_interface(|interface| {
        let node = node(scope, interface)?;
        let local = CpuSet::list(&scope.text(&device(interface, "local_cpulist")))?;
        let is_near = local.covers(&scope.cpus.hot);
        let far = scope.cpus.hot.without(&local);
        let shown = match is_near {
            true => format!("node {node}, as the hot CPUs"),
            false => {
                format!("node {node}, CPUs {local}; hot CPUs {far} are elsewhere ({})", distance(scope, node, &far))
            }
        };
        Some(Reading::of(&interface.name, if is_near { "near" } else { "far" }).shown(shown))
    })
}

/// Returns the greatest distance from a node to the nodes of these CPUs; 10 is local.
fn distance(scope: &Scope<'_>, node: u32, cpus: &CpuSet) -> String {
    let row = scope.text(&format!("sys:devices/system/node/node{node}/distance"));
    let distances: Vec<u32> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let holds = |name: &&String| {
        let list = CpuSet::list(&scope.text(&format!("sys:devices/system/node/{name}/cpulist"))).unwrap_or_default();
        list.touches(cpus)
    };
    let far = scope.nodes.iter().filter(holds).filter_map(|name| name.strip_prefix("node")?.parse::<usize>().ok());
    let greatest = far.filter_map(|index| distances.get(index)).max();
    greatest.map_or_else(|| "distance unknown".into(), |distance| format!("distance {distance}, local is 10"))
}

fn memory_near(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.each_interface(|interface| {
        let node = node(scope, interface)?;
        let info = scope.text(&format!("sys:devices/system/node/node{node}/meminfo"));
        let field = |name: &str| -> Option<u128> {
            let line = info.lines().find_map(|line| line.split_once(name))?.1;
            line.split_whitespace().next()?.parse().ok()
        };
        let (free, total) = (field("MemFree:")?, field("MemTotal:")?);
        let percent = free * 100 / total.max(1);
        let shown = format!("{} MiB of {} MiB free on node {node}", free / 1024, total / 1024);
        Some(Reading::of(&interface.name, percent.to_string()).shown(shown))
    })
}

/// A virtual function has no link of its own, and reads 0 (SR-IOV 1.1, 3.5.8): that of its physical function counts.
fn link(scope: &Scope<'_>, what: &str) -> Result<Vec<Reading>, String> {
    scope.each_interface(|interface| {
        let is_virtual = scope.host.resolve(&Location::of(&device(interface, "physfn"))).is_some();
        let folder = if is_virtual { "physfn/" } else { "" };
        let now = scope.text(&device(interface, &format!("{folder}current_link_{what}")));
        let most = scope.text(&device(interface, &format!("{folder}max_link_{what}")));
        let word = if now == most { "full" } else { "reduced" };
        (!now.is_empty() && !most.is_empty())
            .then(|| Reading::of(&interface.name, word).shown(format!("{now} of {most}")))
    })
}

fn width(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    link(scope, "width")
}

fn speed(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    link(scope, "speed")
}

fn timestamps(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.each_interface(|interface| {
        let kinds = scope.host.list(&Location::of(&format!("ethtool:{}/timestamps", interface.name)));
        let has = |kind: &str| kinds.iter().any(|known| known == kind);
        let word = match (has("hardware-transmit"), has("hardware-receive")) {
            (true, true) => "both ways",
            (false, true) => "received only",
            (true, false) => "sent only",
            _ => "none",
        };
        (!kinds.is_empty()).then(|| Reading::of(&interface.name, word))
    })
}

fn drops(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.each_interface(|interface| {
        let count = |name: &str| -> Option<u64> {
            scope.text(&format!("sys:class/net/{}/statistics/{name}", interface.name)).parse().ok()
        };
        let lost = count("rx_missed_errors")?.saturating_add(count("rx_fifo_errors").unwrap_or_default());
        Some(Reading::of(&interface.name, lost.to_string()))
    })
}

/// Returns columns of softnet_stat, summed over all CPUs.
fn softnet(scope: &Scope<'_>, column: usize) -> Option<u64> {
    let table = scope.text("proc:thread-self/net/softnet_stat");
    let table = if table.is_empty() { scope.text("proc:net/softnet_stat") } else { table };
    let values = table.lines().filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok());
    (!table.is_empty()).then(|| values.fold(0, u64::saturating_add))
}

fn backlog_drops(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    Ok(softnet(scope, 1).map(|count| Reading::of("", count.to_string())).into_iter().collect())
}

fn squeezed(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let counts = softnet(scope, 2).zip(softnet(scope, 0));
    let reading = counts.map(|(squeezed, packets)| {
        let ppm = u128::from(squeezed) * 1_000_000 / u128::from(packets.max(1));
        Reading::of("", ppm.to_string()).shown(format!("{squeezed} times in {packets} packets"))
    });
    Ok(reading.into_iter().collect())
}

fn driver(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let known = |interface: &Interface| (!interface.driver.is_empty()).then(|| interface.driver.clone());
    let mut readings =
        scope.each_interface(|interface| known(interface).map(|driver| Reading::of(&interface.name, driver)))?;
    for reading in &mut readings {
        let version = scope.text(&format!("sys:class/net/{}/device/driver/module/version", reading.subject));
        let name = reading.value.as_ref().map_or("", String::as_str).to_owned();
        reading.shown = (!version.is_empty()).then(|| format!("{name} {version}"));
        reading.value = Ok(Form::Text.normalise(&name));
    }
    Ok(readings)
}

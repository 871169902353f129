//! Flows that follow their thread (RFS), moderation of single queues, and the NIC's clock.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::{Interface, Scope};

const ROW_HERE: Check = Check { group: Group::Polling, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "nic-rfs",
        title: "flows that follow their thread",
        read: Read::Derived(
            "net.core.rps_sock_flow_entries; rps_flow_cnt of each queue and ethtool -k ntuple of each interface",
            flows,
        ),
        absent: "the kernel is built without RPS, or this is a network namespace of its own",
        why: "In software every receive call writes to a table, and packets change CPU as with nic-rps. Accelerated (aRFS) the NIC itself \
              sends a flow to its thread's queue: that needs the same table, rps_flow_cnt of every queue and ntuple filters.",
        source: "Linux networking/scaling (RFS, accelerated RFS); drivers with ndo_rx_flow_steer",
        effect: Effect::Units,
        set: Set::Service,
        how: "sysctl net.core.rps_sock_flow_entries=0; for aRFS 32768, ethtool -K IF ntuple on, and 4096 to rps_flow_cnt of each queue",
        harm: "one CPU does all the work of a queue",
        ..ROW_HERE
    },
    Check {
        id: "nic-queue-usecs",
        title: "time that a receive interrupt of one queue may be late, in us",
        read: Read::Setting("ethtool:{interface}/queues/rx-usecs-*"),
        absent: "the driver has one moderation for all queues (nic-rx-usecs)",
        why: "Some drivers (ice, i40e, iavf, virtio_net, mlx5 since Linux 6.10) moderate each queue by itself: the hot queue may differ from \
              what ethtool -c says.",
        source: "ethtool(8), --per-queue; linux/ethtool.h (ETHTOOL_PERQUEUE)",
        effect: Effect::Tens,
        set: Set::Service,
        how: "ethtool --per-queue IF queue_mask MASK --coalesce rx-usecs 0",
        risk: Risk::Medium,
        harm: "more interrupts: a CPU of its own is needed under load",
        ..ROW_HERE
    },
    Check {
        id: "nic-phc",
        title: "clock of the NIC",
        read: Read::Derived("ethtool -T: PTP hardware clock", clock),
        absent: "the driver does not report it",
        why: "Hardware timestamps count by it, and ptp4l and phc2sys set the host's clock by it. AWS's ENA has one that is off until it is \
              enabled.",
        source: "Linux ptp/ptp, networking/device_drivers/ethernet/amazon/ena (PHC)",
        effect: Effect::Indirect,
        set: Set::Service,
        how: "ENA: devlink dev param set pci/BDF name enable_phc value true cmode driverinit, then devlink dev reload pci/BDF; others: \
              choose a NIC that has one",
        risk: Risk::Medium,
        harm: "the reload takes the interface down for a moment",
        group: Group::Nic,
        ..ROW
    },
];

/// Drivers that have ndo_rx_flow_steer, by the kernel's names.
const STEERING: [&str; 8] = ["mlx5_core", "mlx4_core", "bnxt_en", "sfc", "hns3", "qede", "ice", "enic"];

/// Returns whether the tables and filters are set by which the NIC of an interface steers flows to their threads.
fn is_accelerated(scope: &Scope<'_>, interface: &Interface) -> bool {
    let name = &interface.name;
    let counts = scope.expand(&format!("sys:class/net/{name}/queues/rx-*/rps_flow_cnt"), Form::Text);
    let counts: Vec<Reading> = counts.unwrap_or_default();
    let has_table = |one: &Reading| one.value.as_deref().is_ok_and(|count| count.parse::<u64>().is_ok_and(|n| n > 0));
    scope.text(&format!("ethtool:{name}/features/rx-ntuple-filter")) == "on"
        && !counts.is_empty()
        && counts.iter().all(has_table)
}

fn flows(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let Ok(entries) = scope.text("proc:sys/net/core/rps_sock_flow_entries").parse::<u64>() else {
        return Ok(Vec::new());
    };
    if entries == 0 {
        return Ok(vec![Reading::of("", "off")]);
    }
    let of = |interface: &Interface| {
        let is_known = STEERING.contains(&interface.driver.as_str());
        let (word, means) = match (is_accelerated(scope, interface), is_known) {
            (true, true) => ("accelerated", "by the NIC"),
            (true, false) => ("unknown", "set up for the NIC, but its driver is not known to steer flows by itself"),
            (false, _) => ("software", "no ntuple filters, or a queue without rps_flow_cnt"),
        };
        Some(Reading::of(&interface.name, word).shown(format!("{word}, {entries} entries, {means}")))
    };
    let readings = scope.each_interface(of).unwrap_or_default();
    Ok(if readings.is_empty() { vec![Reading::of("", "software")] } else { readings })
}

fn clock(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.each_interface(|interface| {
        let group = Location::of(&format!("ethtool:{}/timestamps", interface.name));
        if scope.host.list(&group).is_empty() {
            return None;
        }
        let index: Option<u32> = scope.text(&format!("{group}/phc-index")).parse().ok();
        Some(Reading::of(&interface.name, index.map_or("none".to_owned(), |index| format!("ptp{index}"))))
    })
}

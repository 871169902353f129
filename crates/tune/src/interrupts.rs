//! The interrupts of a network interface.

use crate::host::Host;
use crate::location::Location;
use std::collections::{BTreeMap, BTreeSet};

/// The most vectors of one device (MSI-X).
const VECTORS_MAX: usize = 2048;

/// Returns the location of an interrupt's CPUs.
pub fn affinity_of(irq: u32) -> Location {
    Location::of(&format!("proc:irq/{irq}/smp_affinity_list"))
}

/// Returns the numbers of the interface's vectors: those of its device, or, for a device behind a bus (virtio), those that
/// carry the device's name and a queue's in `interrupts`, the text of /proc/interrupts.
pub fn of_interface(host: &dyn Host, interface: &str, interrupts: &str) -> BTreeSet<u32> {
    vectors(host, interface, &table(interrupts))
}

/// Returns the same for a text that was parsed already.
pub(crate) fn vectors(host: &dyn Host, interface: &str, table: &Table<'_>) -> BTreeSet<u32> {
    let Ok(device) = Location::parse(&format!("sys:class/net/{interface}/device")) else { return BTreeSet::new() };
    let own = host.list(&device.join("msi_irqs"));
    let mut found: BTreeSet<u32> = own.iter().filter_map(|name| name.parse().ok()).take(VECTORS_MAX).collect();
    if found.is_empty() {
        let behind = host.resolve(&device);
        let name = behind.as_ref().and_then(|location| location.path().rsplit('/').next()).unwrap_or(interface);
        let prefix = format!("{name}-");
        let is_ours = |row: &&Row<'_>| row.action.starts_with(&prefix) && !row.action.ends_with("-config");
        found.extend(table.values().filter(is_ours).map(|row| row.irq).take(VECTORS_MAX));
    }
    found
}

/// A row of /proc/interrupts that belongs to a device.
pub(crate) struct Row<'a> {
    pub(crate) irq: u32,
    /// The number of interrupts on all CPUs.
    pub(crate) count: u64,
    /// The action name: the last word.
    pub(crate) action: &'a str,
}

/// The rows of devices in /proc/interrupts, by their numbers.
pub(crate) type Table<'a> = BTreeMap<u32, Row<'a>>;

/// Parses the text of /proc/interrupts.
pub(crate) fn table(interrupts: &str) -> Table<'_> {
    rows(interrupts).map(|row| (row.irq, row)).collect()
}

fn rows(interrupts: &str) -> impl Iterator<Item = Row<'_>> {
    interrupts.lines().skip(1).filter_map(|line| {
        let (irq, rest) = line.split_once(':')?;
        let irq = irq.trim().parse().ok()?;
        let counts = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let action = rest.split_whitespace().last().unwrap_or_default();
        Some(Row { irq, count: counts.fold(0, u64::saturating_add), action })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU1\n 38:          0      18184  PCI-MSIX-0000:00:03.0   1-edge      \
                         virtio2-input.0\nLOC:    2974179    3023978   Local timer interrupts\n 40: 0 0 x y\n";

    #[test]
    fn rows_of_devices_are_read() {
        let all: Vec<_> = rows(TABLE).map(|row| (row.irq, row.count, row.action)).collect();
        assert_eq!(all, [(38, 18184, "virtio2-input.0"), (40, 0, "y")]);
        assert_eq!(rows("").count() + rows("\n:\n::::\nx").count(), 0);
    }
}

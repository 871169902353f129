//! The way of a packet between the NIC and memory: IOMMU and PCI Express.

use super::ROW;
use crate::check::{Check, Effect, Group, Hosts, Read, Risk, Set};

const ROW_HERE: Check = Check {
    group: Group::Nic,
    hosts: Hosts::Metal,
    set: Set::Firmware,
    effect: Effect::Fractions,
    absent: "no PCI Express device",
    ..ROW
};

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "nic-iommu",
        title: "translation of the NIC's addresses",
        read: Read::Setting("sys:class/net/{interface}/device/iommu_group/type"),
        hosts: Hosts::All,
        absent: "no IOMMU translates for this device; a hypervisor may",
        why: "DMA: each packet's memory is mapped and unmapped, and the IOMMU's cache flushed (DMA-FQ: in batches). identity: nothing of \
              that. AF_XDP maps its memory once.",
        source: "Linux ABI testing/sysfs-kernel-iommu_groups; admin-guide/kernel-parameters (iommu.passthrough=, iommu=pt)",
        effect: Effect::Units,
        set: Set::Boot("iommu=pt"),
        how: "boot with iommu=pt (iommu.passthrough=1)",
        risk: Risk::Medium,
        harm: "a faulty or hostile device can write to all memory",
        ..ROW_HERE
    },
    Check {
        id: "pcie-payload",
        title: "largest payload of a PCI Express packet, in bytes",
        read: Read::Setting("pcie:{interface}/max-payload"),
        why: "A frame larger than that takes several packets over the link, each with a header. The least of all devices on the way \
              decides: a card that can do 512 at 128 has a bridge or a firmware that holds it back.",
        source: "PCI Express Base Specification 5.0, 7.5.3.4; Linux admin-guide/kernel-parameters (pci=pcie_bus_perf)",
        how: "set the maximum payload in the firmware, or boot with pci=pcie_bus_perf",
        harm: "a device that cannot do it stops working",
        risk: Risk::Medium,
        ..ROW_HERE
    },
    Check {
        id: "pcie-read-request",
        title: "largest read that the NIC asks for, in bytes",
        read: Read::Setting("pcie:{interface}/max-read-request"),
        why: "The NIC fetches a frame to send by reads of at most so much: with less than a frame it takes several.",
        source: "PCI Express Base Specification 5.0, 7.5.3.4",
        how: "set the maximum read request in the firmware, or by setpci -s BDF CAP_EXP+8.w (bits 14:12)",
        harm: "large reads of one device delay those of others",
        ..ROW_HERE
    },
    Check {
        id: "pcie-relaxed-ordering",
        title: "relaxed ordering of the NIC's writes",
        read: Read::Setting("pcie:{interface}/relaxed-ordering"),
        why: "With it, writes of payload need not wait for each other. Some root ports are slower with it, and the kernel then switches it \
              off. A fact: measure both.",
        source: "PCI Express Base Specification 5.0, 2.4; Linux drivers/pci/quirks.c (quirk_relaxedordering_disable)",
        set: Set::Never,
        how: "set relaxed ordering in the firmware or by the driver's option, and measure",
        ..ROW_HERE
    },
];

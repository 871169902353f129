//! The kernel's command line, as far as it explains latencies. The other words name disks, hosts and keys: a result is sent about.

use crate::schema::{Document, Host};
use sidestep_sys::boot::{arguments_of_init, parameters};

/// Parameters that are shown (Documentation/admin-guide/kernel-parameters.rst, Linux 6.18). One that ends in `*` stands for all that
/// begin so.
const SHOWN: &[&str] = &[
    // CPUs left alone.
    "isolcpus",
    "nohz",
    "nohz_full",
    "irqaffinity",
    "managed_irq",
    "kthread_cpus",
    "rcu_nocb*",
    "rcutree.*",
    "rcupdate.*",
    "workqueue.*",
    "skew_tick",
    "maxcpus",
    "nr_cpus",
    "nosmt",
    "smt_enabled",
    // Idle states and frequencies.
    "idle",
    "nohlt",
    "cpuidle*",
    "processor.*",
    "intel_idle.*",
    "haltpoll*",
    "cpuidle_haltpoll*",
    "intel_pstate",
    "amd_pstate*",
    "cpufreq.*",
    "pcie_aspm*",
    // Mitigations.
    "mitigations",
    "nospectre_v1",
    "nospectre_v2",
    "spectre_*",
    "spec_*",
    "pti",
    "nopti",
    "kpti",
    "l1tf",
    "mds",
    "tsx*",
    "taa",
    "mmio_stale_data",
    "retbleed",
    "srbds",
    "gather_data_sampling",
    "reg_file_data_sampling",
    "indirect_target_selection",
    "tsa",
    "vmscape",
    // Clocks, interrupts, watchdogs.
    "tsc",
    "clocksource",
    "hpet",
    "nohpet",
    "highres",
    "threadirqs",
    "preempt",
    "nowatchdog",
    "nmi_watchdog",
    "nosoftlockup",
    "watchdog_thresh",
    "softlockup_panic",
    "lapic*",
    "x2apic*",
    "split_lock_detect",
    "mce",
    "edac_*",
    "audit",
    // Memory.
    "hugepages*",
    "hugepagesz",
    "default_hugepagesz",
    "transparent_hugepage*",
    "thp_*",
    "numa",
    "numa_balancing",
    "init_on_alloc",
    "init_on_free",
    "page_poison",
    "slub_debug",
    "slab_debug",
    "debug_pagealloc",
    "psi",
    "cgroup_disable",
    // Devices.
    "iommu*",
    "intel_iommu",
    "amd_iommu",
    "pci",
    "swiotlb",
];

/// Returns the parameters that are shown, and how many words are left out: parameters with all that is within their quotes, and arguments
/// of init.
pub fn shown(cmdline: &str) -> (String, u32) {
    let (shown, left_out): (Vec<_>, Vec<_>) = parameters(cmdline).partition(|one| is_shown(&one.name));
    let texts: Vec<&str> = shown.iter().map(|one| one.text).collect();
    (texts.join(" "), (left_out.len() + arguments_of_init(cmdline)) as u32)
}

/// Leaves the other words out of both hosts of a document.
pub fn redact(document: &mut Document) {
    redact_host(&mut document.host);
    document.peer.iter_mut().for_each(redact_host);
}

/// Leaves the other words out.
pub fn redact_host(host: &mut Host) {
    let (words, left_out) = shown(&host.cmdline);
    // A peer may have left words out before.
    (host.cmdline, host.cmdline_left_out) = (words, host.cmdline_left_out.saturating_add(left_out));
}

fn is_shown(name: &str) -> bool {
    SHOWN.iter().any(|shown| shown.strip_suffix('*').map_or(name == *shown, |start| name.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_explain_latencies_are_shown_and_the_others_counted() {
        let words = "BOOT_IMAGE=/vmlinuz root=UUID=1 isolcpus=2-3 nohz_full=2-3 rcu-nocbs=2-3 idle=poll ip=192.0.2.1::: secret.key=x quiet";
        let (shown, left_out) = shown(words);
        assert_eq!((shown.as_str(), left_out), ("isolcpus=2-3 nohz_full=2-3 rcu-nocbs=2-3 idle=poll", 5));
    }

    #[test]
    fn what_is_within_quotes_or_inits_is_no_parameter() {
        assert_eq!(shown("foo=\"bar pci=SECRET tsc=SECRET baz\" quiet"), (String::new(), 2));
        assert_eq!(shown("password=\"idle tsc=SECRET\" idle=poll"), ("idle=poll".into(), 1));
        assert_eq!(shown("quiet -- tsc=SECRET pci=SECRET"), (String::new(), 3));
        assert_eq!(shown("pci=\"nomsi x\" \"tsc=reliable\""), ("pci=\"nomsi x\" \"tsc=reliable\"".into(), 0));
    }

    #[test]
    fn a_name_that_only_begins_like_one_is_left_out() {
        assert_eq!(shown("idlewild=1 tscx pcie_aspm.policy=performance"), ("pcie_aspm.policy=performance".into(), 2));
        assert_eq!(shown(""), (String::new(), 0));
    }

    #[test]
    fn both_hosts_are_redacted_and_counts_add_up() {
        let host = Host { cmdline: "root=/dev/sda tsc=reliable".into(), cmdline_left_out: 3, ..Host::default() };
        let mut document = Document { host: host.clone(), peer: Some(host), ..Document::default() };
        redact(&mut document);
        for host in [Some(&document.host), document.peer.as_ref()].into_iter().flatten() {
            assert_eq!((host.cmdline.as_str(), host.cmdline_left_out), ("tsc=reliable", 4));
        }
    }
}

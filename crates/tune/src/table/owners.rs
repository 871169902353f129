//! Programs and files that change settings, and may overwrite ours later.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::Reading;
use crate::scope::Scope;
use std::collections::BTreeMap;

const ROW_HERE: Check = Check { group: Group::Owners, set: Set::Service, effect: Effect::Indirect, ..ROW };

/// The most files of a sysctl folder that are read; a distribution has about ten.
const FILES_MAX: usize = 256;

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "owner-irqbalance",
        title: "irqbalance keeps off the hot CPUs",
        read: Read::Derived(
            "process irqbalance; banned CPUs in /etc/default/irqbalance, /etc/sysconfig/irqbalance",
            irqbalance,
        ),
        why: "It moves interrupts every ten seconds, also those that were placed by hand, unless their CPUs are banned. By itself \
              it leaves isolated and nohz_full CPUs alone.",
        source: "irqbalance(1); AWS ENA best practices (ban CPUs, do not stop it)",
        effect: Effect::Tens,
        how: "IRQBALANCE_BANNED_CPULIST=HOT in /etc/default/irqbalance, then restart it",
        harm: "the other CPUs take more interrupts",
        ..ROW_HERE
    },
    Check {
        id: "owner-tuned",
        title: "tuned",
        read: Read::Derived("process tuned; /etc/tuned/active_profile", tuned),
        why: "It sets governor, sysctls and huge pages by its profile, and sets them back when it stops.",
        source: "tuned.conf(5)",
        how: "choose its profile network-latency or cpu-partitioning, or stop it: systemctl disable --now tuned",
        harm: "the settings of its profile are reverted",
        ..ROW_HERE
    },
    Check {
        id: "owner-network-manager",
        title: "NetworkManager",
        read: Read::Derived("process NetworkManager", network_manager),
        why: "When it activates a connection it applies that connection's ethtool settings.",
        source: "nm-settings(5), section ethtool",
        how: "put the settings into the connection: nmcli connection modify NAME ethtool.coalesce-rx-usecs 0",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "owner-sysctl-files",
        title: "sysctl files that set checked values",
        read: Read::Derived("/etc/sysctl.conf, /etc/sysctl.d, /run/sysctl.d, /usr/lib/sysctl.d", sysctl_files),
        why: "Their values are written again at boot, and when a package is installed.",
        source: "sysctl.d(5)",
        how: "put the wanted values into a file of /etc/sysctl.d that sorts last",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "owner-power-daemon",
        title: "daemons that change frequencies",
        read: Read::Derived("processes power-profiles-daemon, thermald, cpufreqd, tlp", power),
        why: "They change the governor and its hints with power and heat.",
        source: "power-profiles-daemon(1), thermald(8)",
        effect: Effect::Units,
        how: "stop them: systemctl disable --now power-profiles-daemon",
        harm: "only the firmware then limits heat",
        ..ROW_HERE
    },
    Check {
        id: "owner-numa-daemon",
        title: "daemons that move memory",
        read: Read::Derived("processes numad, ksmtuned", numa),
        why: "They move processes between nodes, or switch page merging on.",
        source: "numad(8)",
        effect: Effect::Stalls,
        how: "stop them: systemctl disable --now numad ksmtuned",
        harm: "unbound programs may use remote memory",
        ..ROW_HERE
    },
];

fn running(scope: &Scope<'_>, names: &[&str]) -> Vec<Reading> {
    let found: Vec<&str> = names.iter().copied().filter(|name| scope.task(name).is_some()).collect();
    vec![Reading::of("", if found.is_empty() { "absent".to_owned() } else { found.join(", ") })]
}

fn irqbalance(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if scope.task("irqbalance").is_none() {
        return Ok(vec![Reading::of("", "absent")]);
    }
    let banned = ["default", "sysconfig"].map(|folder| banned(&scope.text(&format!("etc:{folder}/irqbalance"))));
    let isolated = ["isolated", "nohz_full"]
        .map(|file| CpuSet::list(&scope.text(&format!("sys:devices/system/cpu/{file}"))).unwrap_or_default());
    let left_alone = banned.iter().chain(&isolated).fold(CpuSet::default(), |all, set| all.with(set));
    let keeps_off = !scope.cpus.hot.is_empty() && left_alone.covers(&scope.cpus.hot);
    let word = if keeps_off { "keeps off" } else { "moves" };
    let shown = match left_alone.is_empty() {
        true => "runs, no CPU is banned".to_owned(),
        false => format!("runs, leaves CPUs {left_alone} alone"),
    };
    Ok(vec![Reading::of("", word).shown(shown)])
}

/// Returns the CPUs that irqbalance's configuration bans, as a list or as the older mask.
fn banned(text: &str) -> CpuSet {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        lines.next_back().map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
    };
    let list = value("IRQBALANCE_BANNED_CPULIST").and_then(|list| CpuSet::list(&list));
    list.or_else(|| CpuSet::mask(&value("IRQBALANCE_BANNED_CPUS")?)).unwrap_or_default()
}

fn tuned(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if scope.task("tuned").is_none() {
        return Ok(vec![Reading::of("", "absent")]);
    }
    let profile = scope.text("etc:tuned/active_profile");
    let profile = profile.lines().next().unwrap_or_default().trim();
    Ok(vec![Reading::of("", profile).shown(format!("runs, profile {profile}"))])
}

fn network_manager(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    Ok(running(scope, &["NetworkManager"]))
}

fn power(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    // comm is cut at 15 characters.
    Ok(running(scope, &["power-profiles-", "thermald", "cpufreqd", "tlp"]))
}

fn numa(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    Ok(running(scope, &["numad", "ksmtuned"]))
}

/// Sysctls that a derived value is made of.
const DERIVED: [&str; 8] = [
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "net.core.rps_sock_flow_entries",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.default.rp_filter",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.min_free_kbytes",
];

/// Returns the sysctls that the table reads, by their sysctl names.
fn watched() -> impl Iterator<Item = String> {
    let settings = super::checks().filter_map(|check| match check.read {
        Read::Setting(template) => Some(template.strip_prefix("proc:sys/")?.replace('/', ".")),
        _ => None,
    });
    settings.chain(DERIVED.map(str::to_owned))
}

/// Parses the assignments of a file: name with dots, value.
fn assignments(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim().trim_start_matches('-').replace('/', ".");
        Some((name, value.trim().to_owned()))
    })
}

/// Returns the settings that the files would change. A file hides those of the same name in later folders, and of all
/// files the last by name wins (sysctl.d(5)).
fn sysctl_files(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let mut files: BTreeMap<String, Location> = BTreeMap::new();
    for folder in ["etc:sysctl.d", "run:sysctl.d", "lib:sysctl.d"] {
        let folder = Location::of(folder);
        for name in scope.host.list(&folder).into_iter().filter(|name| name.ends_with(".conf")).take(FILES_MAX) {
            files.entry(name.clone()).or_insert_with(|| folder.join(&name));
        }
    }
    let ordered = files.into_values().chain([Location::of("etc:sysctl.conf")]);
    let mut last: BTreeMap<String, (String, String)> = BTreeMap::new();
    for location in ordered {
        let text = scope.host.read(&location).unwrap_or_default();
        last.extend(assignments(&text).map(|(name, value)| (name, (value, location.words()))));
    }
    let differing = watched().filter_map(|name| {
        let (value, file) = last.get(&name)?;
        let now = scope.text(&format!("proc:sys/{}", name.replace('.', "/")));
        (now != *value).then(|| Reading::of(&name, "differs").shown(format!("{value} in {file}, {now} now")))
    });
    let readings: Vec<Reading> = differing.collect();
    Ok(if readings.is_empty() { vec![Reading::of("", "agree").shown("none that differ from now")] } else { readings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_cpus_are_read() {
        assert_eq!(banned("# x\nIRQBALANCE_BANNED_CPULIST=\"2-3\"\n").to_string(), "2-3");
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=0000000c\n").to_string(), "2-3");
        assert!(banned("IRQBALANCE_BANNED_CPULIST=x").is_empty());
    }

    #[test]
    fn assignments_are_read() {
        let all: Vec<_> = assignments("# a = b\n-net/core/busy_read = 50\nnonsense\nvm.swappiness=1\n").collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(all, [pair("net.core.busy_read", "50"), pair("vm.swappiness", "1")]);
    }
}

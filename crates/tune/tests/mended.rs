//! Advice that was wrong: for each check a host on which the simple reading and the kernel disagree, and what the kernel does.

mod support;

use sidestep_tune::audit::{Audit, Status};
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::host::Tree;
use sidestep_tune::plan::{Choice, Plan};
use sidestep_tune::profile::Profile;
use sidestep_tune::scope::{Request, Scope};
use support::unpack;

/// A host of bare metal with an interface and four CPUs, 2-3 hot.
const BASE: &str = "\
sys/devices/system/cpu/online: 0-3
sys/class/net/eth0/device -> ../../../devices/pci0000:00/0000:01:00.0
sys/devices/pci0000:00/0000:01:00.0/uevent: DRIVER=ice
";

/// Audits the base with these lines, and passes finding and plan on.
fn look<T>(lines: &str, id: &str, of: impl FnOnce(Status, String, Plan) -> T) -> T {
    let folder = unpack(&format!("{BASE}{lines}"));
    let host = Tree::at(folder.path());
    let request = Request { hot: CpuSet::list("2-3"), ..Request::default() };
    let scope = Scope::of(&host, &request).unwrap();
    let audit = Audit::of(&scope, &Profile::built_in("latency").unwrap());
    let only = Choice { only: vec![id.to_owned()], ..Choice::default() };
    let plan = Plan::of(&scope, &audit, &only).unwrap();
    let finding = audit.finding(id).unwrap();
    of(finding.status, sidestep_tune::show::text::seen(finding), plan)
}

/// Each: check, files, status, words of what is shown.
#[test]
fn the_kernel_decides() {
    let rp = |all: u8, own: u8| {
        format!("proc/sys/net/ipv4/conf/all/rp_filter: {all}\nproc/sys/net/ipv4/conf/eth0/rp_filter: {own}\n")
    };
    let kernel = |release: &str| format!("proc/sys/kernel/osrelease: {release}\n");
    let timers = |migration: u8, tickless: &str, apart: &str| {
        format!(
            "proc/sys/kernel/timer_migration: {migration}\nsys/devices/system/cpu/nohz_full: {tickless}\n\
             sys/devices/system/cpu/isolated: {apart}\n"
        )
    };
    let tsc = |release: &str, flag: &str, packages: u8, nodes: u8| {
        let ids: String = (0..packages).map(|id| format!("physical id : {id}\n")).collect();
        let info = format!("proc/cpuinfo <<\nflags : constant_tsc nonstop_tsc {flag}\n{ids}>>\n");
        let last = nodes - 1;
        format!("{}{info}sys/devices/system/node/node{{0-{last}}}/distance: 10\n", kernel(release))
    };
    let timed = |clock: &str| {
        let folder = "sys/devices/system/clocksource/clocksource0";
        tsc("6.1.0", "", 1, 1) + &format!("{folder}/current_clocksource: {clock}\n")
    };
    let audit = |enabled: u8, more: &str| format!("audit/status/enabled: {enabled}\naudit/status/rules: 0\n{more}");
    let idle = |name: &str, latency: u8| {
        let folder = "sys/devices/system/cpu/cpu{2-3}/cpuidle/state2";
        format!("{folder}/name: {name}\n{folder}/latency: {latency}\n{folder}/disable: 0\n")
    };
    let dirty = |ratio: u8, bytes: u64| {
        format!(
            "proc/meminfo: MemTotal: 1048576 kB\nproc/sys/vm/dirty_background_ratio: {ratio}\n\
             proc/sys/vm/dirty_background_bytes: {bytes}\n"
        )
    };
    let daemon = |enabled: &str, sleep: u32| {
        let folder = "sys/kernel/mm/transparent_hugepage";
        format!(
            "{folder}/enabled: {enabled}\n{folder}/khugepaged/defrag: 0\n{folder}/khugepaged/scan_sleep_millisecs: {sleep}\n"
        )
    };
    let busy = |poll: u8, read: u8| {
        format!(
            "proc/sys/net/core/busy_poll: {poll}\nproc/sys/net/core/busy_read: {read}\nprobe/epoll-parameters: unknown\n"
        )
    };
    let flows = |ntuple: &str, count: u32| {
        format!(
            "proc/sys/net/core/rps_sock_flow_entries: 32768\nethtool/eth0/features/rx-ntuple-filter: {ntuple}\n\
             sys/class/net/eth0/queues/rx-0/rps_flow_cnt: 4096\nsys/class/net/eth0/queues/rx-1/rps_flow_cnt: {count}\n"
        )
    };
    let napi = |timeout: u32, threaded: u8| {
        format!(
            "sys/class/net/eth0/napi_defer_hard_irqs: 0\nsys/class/net/eth0/gro_flush_timeout: 0\n\
             sys/class/net/eth0/threaded: 0\nnapi/eth0/{{8193-8194}}/defer-hard-irqs: 0\n\
             napi/eth0/{{8193-8194}}/gro-flush-timeout: 0\nnapi/eth0/8194/gro-flush-timeout: {timeout}\n\
             napi/eth0/{{8193-8194}}/threaded: {threaded}\n"
        )
    };
    let throttling = "proc/sys/kernel/sched_rt_runtime_us: 950000\n";
    let cases: Vec<(&str, String, Status, &str)> = vec![
        ("ip-reverse-path", rp(0, 1), Status::Warn, "1 (eth0)"),
        ("ip-reverse-path", rp(1, 0), Status::Warn, "1 (eth0)"),
        ("ip-reverse-path", rp(1, 2), Status::Pass, "2 (eth0)"),
        ("ip-reverse-path", rp(0, 0), Status::Pass, "0 (eth0)"),
        ("iso-rt-throttling", kernel("6.11.2") + throttling, Status::Info, "950000"),
        ("iso-rt-throttling", kernel("6.12.0") + throttling, Status::NotApplicable, "iso-fair-server"),
        ("iso-timer-migration", timers(1, "", ""), Status::Warn, "1; wanted 0"),
        ("iso-timer-migration", timers(0, "", ""), Status::Pass, "0"),
        ("iso-timer-migration", timers(1, "2-3", "2-3"), Status::Pass, "no timer moves to nohz_full CPUs"),
        ("iso-timer-migration", timers(0, "2-3", "2-3"), Status::Warn, "stay there"),
        ("iso-timer-migration", timers(1, "", "2-3"), Status::Pass, "no timer moves to isolated CPUs"),
        ("iso-tsc-watchdog", tsc("6.1.0", "tsc_adjust", 2, 2), Status::Pass, "off by itself"),
        ("iso-tsc-watchdog", tsc("6.1.0", "", 1, 1), Status::Warn, "unset"),
        ("iso-tsc-watchdog", tsc("5.15.0", "tsc_adjust", 1, 1), Status::Warn, "unset"),
        ("iso-tsc-watchdog", tsc("6.1.0", "tsc_adjust", 2, 4), Status::Warn, "unset"),
        ("iso-tsc-watchdog", tsc("6.6.0", "tsc_adjust", 2, 4), Status::Pass, "memory nodes: 4"),
        ("iso-tsc-watchdog", tsc("6.11.0", "tsc_adjust", 2, 8), Status::Warn, "unset"),
        ("iso-tsc-watchdog", tsc("6.12.0", "tsc_adjust", 2, 8), Status::Pass, "packages: 2"),
        ("iso-tsc-watchdog", tsc("6.12.0", "tsc_adjust", 8, 8), Status::Warn, "unset"),
        ("iso-tsc-watchdog", timed("tsc"), Status::Warn, "unset"),
        ("iso-tsc-watchdog", timed("hpet"), Status::NotApplicable, "the clock source is hpet"),
        ("iso-audit", audit(1, ""), Status::Warn, "on, rules: 0"),
        ("iso-audit", audit(0, ""), Status::Warn, "keep the slow path"),
        ("iso-audit", audit(0, "proc/cmdline: audit=0\n"), Status::Pass, "off by audit=0"),
        ("cpu-idle-states", idle("C1E", 2), Status::Fail, "C1E (2 us) enabled"),
        ("cpu-idle-states", idle("C1", 2), Status::Pass, "no state"),
        ("mem-dirty-background", dirty(0, 512 << 20), Status::Warn, "50, as 512 MiB"),
        ("mem-dirty-background", dirty(0, 16 << 20), Status::Pass, "16 MiB"),
        ("mem-dirty-background", dirty(3, 0), Status::Pass, "3"),
        ("mem-huge-daemon", daemon("[always] madvise never", 10_000), Status::Warn, "10000, all memory"),
        ("mem-huge-daemon", daemon("always madvise [never]", 10_000), Status::Pass, "does not run"),
        ("mem-huge-daemon", daemon("always [madvise] never", 3_600_000), Status::Pass, "3600000"),
        ("busy-pair", busy(50, 0), Status::Info, "epoll"),
        ("busy-epoll", busy(50, 0), Status::Warn, "host-wide only"),
        ("nic-rfs", flows("on", 4096), Status::Pass, "accelerated"),
        ("nic-rfs", flows("on", 0), Status::Warn, "software"),
        ("nic-rfs", flows("off", 4096), Status::Warn, "software"),
        ("napi-deferral", napi(20_000, 0), Status::Fail, "eth0 napi 8194"),
        ("napi-deferral", napi(0, 0), Status::Pass, "off"),
        ("napi-threaded", napi(0, 1), Status::Warn, "eth0 napi 8193"),
        ("napi-threaded", napi(0, 2), Status::Pass, "polls"),
    ];
    for (id, lines, expected, words) in cases {
        look(&lines, id, |status, seen, _| {
            assert_eq!(status, expected, "{id}: {seen}\n{lines}");
            assert!(seen.contains(words), "{id}: {seen}\n{lines}");
        });
    }
}

/// The change asked for passes the check, whichever of several files decides.
#[test]
fn a_change_is_made_where_it_counts() {
    let cases = [
        (
            "ip-reverse-path",
            "proc/sys/net/ipv4/conf/all/rp_filter: 0\nproc/sys/net/ipv4/conf/eth0/rp_filter: 1\n",
            "proc:sys/net/ipv4/conf/eth0/rp_filter",
            "2",
        ),
        (
            "ip-reverse-path",
            "proc/sys/net/ipv4/conf/all/rp_filter: 1\nproc/sys/net/ipv4/conf/eth0/rp_filter: 0\n",
            "proc:sys/net/ipv4/conf/all/rp_filter",
            "2",
        ),
        (
            "mem-huge-daemon",
            "sys/kernel/mm/transparent_hugepage/enabled: [always] madvise never\n\
             sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs: 10000\n",
            "sys:kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
            "3600000",
        ),
    ];
    for (id, lines, location, after) in cases {
        look(lines, id, |_, _, plan| {
            let [change] = &plan.changes[..] else { panic!("{id}: {plan:?}") };
            assert_eq!((change.location.to_string().as_str(), change.after.as_str()), (location, after), "{id}");
        });
    }
    look(
        "proc/sys/kernel/timer_migration: 0\nsys/devices/system/cpu/nohz_full: 2-3\n",
        "iso-timer-migration",
        |_, _, plan| {
            assert!(plan.changes.is_empty() && plan.by_hand.len() == 1, "a word is no value to write: {plan:?}");
        },
    );
}

/// A host, a check, its status, words of what is shown, and the number of changes that are planned.
type Case = (&'static str, String, Status, &'static str, usize);

fn all(cases: Vec<Case>) {
    for (id, lines, expected, words, changes) in cases {
        look(&lines, id, |status, seen, plan| {
            assert_eq!(status, expected, "{id}: {seen}\n{lines}");
            assert!(seen.contains(words), "{id}: {seen}\n{lines}");
            assert_eq!(plan.changes.len(), changes, "{id}: {plan:?}\n{lines}");
        });
    }
}

/// What the kernel would refuse, or what only the program can know, is not planned.
#[test]
fn what_cannot_be_set_is_not_planned() {
    let clock = |flags: &str, now: &str, available: &str| {
        let folder = "sys/devices/system/clocksource/clocksource0";
        format!("{flags}{folder}/current_clocksource: {now}\n{folder}/available_clocksource: {available}\n")
    };
    let x86 = "proc/cpuinfo: flags : fpu tsc\n";
    let arm = "proc/cpuinfo: Features : fp asimd\n";
    let pages = "sys/devices/system/node/node{0-1}/hugepages/hugepages-2048kB/nr_hugepages: 0\n";
    all(vec![
        ("nic-tx-push", "ethtool/eth0/rings/tx-push: off\n".into(), Status::Info, "off (eth0)", 0),
        ("cpu-clocksource", clock(x86, "hpet", "tsc hpet acpi_pm"), Status::Fail, "hpet; wanted", 1),
        ("cpu-clocksource", clock(x86, "hpet", "hpet acpi_pm"), Status::Fail, "does not offer tsc", 0),
        ("cpu-clocksource", clock(x86, "kvm-clock", "kvm-clock acpi_pm"), Status::Pass, "kvm-clock", 0),
        ("cpu-clocksource", clock(arm, "arch_sys_counter", "arch_sys_counter"), Status::NotApplicable, "not an x86", 0),
        ("mem-huge-pages", pages.into(), Status::Warn, "0", 0),
    ]);
}

#[test]
fn limits_of_a_container_are_those_at_its_own_root() {
    let at = |membership: &str, files: &str| format!("proc/self/cgroup <<\n{membership}\n>>\n{files}");
    let limited = "sys/fs/cgroup/cpu.max: 50000 100000\nsys/fs/cgroup/cpu.stat: nr_throttled 3\n\
                   sys/fs/cgroup/memory.high: 4096\nsys/fs/cgroup/memory.max: 8192\n";
    all(vec![
        ("cgroup-cpu-limit", at("0::/", limited), Status::Fail, "50000 us of every 100000 us", 0),
        ("cgroup-throttled", at("0::/", limited), Status::Fail, "3", 0),
        ("cgroup-memory-high", at("0::/", limited), Status::Warn, "4096", 0),
        ("cgroup-memory-max", at("0::/", limited), Status::Info, "8192", 0),
        ("cgroup-cpu-limit", at("0::/a/b", limited), Status::Fail, "50000 us", 0),
        ("cgroup-cpu-limit", at("0::/", ""), Status::Pass, "root group", 0),
        ("cgroup-cpu-limit", at("1:cpu,cpuacct:/x\n0::/", ""), Status::NotApplicable, "version 1", 0),
        ("cgroup-memory-high", at("1:cpu,cpuacct:/x\n0::/", ""), Status::Pass, "root group", 0),
        ("cgroup-memory-high", at("4:memory:/x\n0::/", ""), Status::NotApplicable, "version 1", 0),
        ("cgroup-cpu-limit", at("0::/../other", ""), Status::NotApplicable, "no control groups", 0),
    ]);
}

/// Boot parameters as the kernel takes them: every occurrence, and every spelling of a list.
#[test]
fn boot_parameters_are_those_that_the_kernel_takes() {
    let line = |parameters: &str, more: &str| format!("proc/cmdline: {parameters}\n{more}");
    let (managed, callbacks) = ("iso-managed-irq", "iso-rcu-callbacks");
    let tickless = "sys/devices/system/cpu/nohz_full: 2-3\n";
    let patience = |release: &str, more: &str| format!("proc/sys/kernel/osrelease: {release}\n{more}");
    all(vec![
        (managed, line("isolcpus=managed_irq,2-3 isolcpus=domain,1", ""), Status::Pass, "2-3", 0),
        (managed, line("isolcpus=1 isolcpus=managed_irq,2-N", ""), Status::Pass, "2-3", 0),
        (managed, line("isolcpus=domain,1 isolcpus=domain,managed_irq,2-3", ""), Status::Warn, "none", 0),
        (managed, line("isolcpus=2-3", ""), Status::Warn, "none", 0),
        (callbacks, line("rcu_nocbs=all", ""), Status::Pass, "0-3", 0),
        (callbacks, line("rcu_nocbs=2-N", ""), Status::Pass, "2-3", 0),
        (callbacks, line("rcu_nocbs=0-N:2/4 rcu_nocbs=2-3", ""), Status::Pass, "2-3", 0),
        (callbacks, line("rcu_nocbs=2-3 rcu_nocbs=0-N:2/4", ""), Status::Warn, "0-1", 0),
        (callbacks, line("quiet", tickless), Status::Pass, "2-3", 0),
        (callbacks, line("nohz_full=2-3", ""), Status::Warn, "none", 0),
        ("iso-tick-patience", patience("6.10.0", tickless), Status::NotApplicable, "before 6.11", 0),
        ("iso-tick-patience", patience("6.11.0", ""), Status::NotApplicable, "no CPU is nohz_full", 0),
        ("iso-tick-patience", patience("6.11.0", tickless), Status::Warn, "unset", 0),
    ]);
}

#[test]
fn the_tick_goes_on_for_other_reasons() {
    let with = |release: &str, more: &str| {
        format!(
            "proc/sys/kernel/osrelease: {release}\nsys/devices/system/cpu/nohz_full: 2-3\n\
             sys/devices/system/cpu/isolated: 2-3\n{more}"
        )
    };
    let limit = "proc/self/cgroup: 0::/a\nsys/fs/cgroup/a/cpu.max: 1000 100000\n";
    let clock = |info: &str, name: &str| {
        format!("proc/cpuinfo: {info}\nsys/devices/system/clocksource/clocksource0/current_clocksource: {name}\n")
    };
    all(vec![
        ("iso-tick-ready", with("6.12.0", ""), Status::Pass, "complete", 0),
        ("iso-tick-ready", with("6.12.0", limit), Status::Warn, "the CPU limit of the group a", 0),
        ("iso-tick-ready", with("6.1.0", limit), Status::Pass, "complete", 0),
        ("iso-tick-ready", with("6.12.0", &clock("flags : tsc", "hpet")), Status::Warn, "clock source is hpet", 0),
        ("iso-tick-ready", with("6.12.0", &clock("Features : fp", "arch_sys_counter")), Status::Pass, "complete", 0),
    ]);
}

/// What a device or its driver does not do is not judged.
#[test]
fn devices_are_judged_by_what_they_do() {
    let device = "sys/devices/pci0000:00/0000:01:00.0";
    let link = |folder: &str, now: u8| {
        format!("{device}{folder}/current_link_width: {now}\n{device}{folder}/max_link_width: 16\n")
    };
    let physical =
        |now: u8| format!("{}{}{device}/physfn -> ../0000:01:00.1\n", link("", 0), link("/../0000:01:00.1", now));
    let polled = |name: &str, interval: u32| {
        format!(
            "sys/devices/system/edac/mc/mc0/mc_name: {name}\nsys/module/edac_core/parameters/edac_mc_poll_msec: {interval}\n"
        )
    };
    let smi = |uptime: u32| format!("proc/uptime: {uptime}.0 1.0\nmsr/{{2-3}}/smi-count: 400\n");
    let flows = |driver: &str| {
        format!(
            "{device}/uevent: DRIVER={driver}\nproc/sys/net/core/rps_sock_flow_entries: 32768\n\
             ethtool/eth0/features/rx-ntuple-filter: on\nsys/class/net/eth0/queues/rx-0/rps_flow_cnt: 4096\n"
        )
    };
    all(vec![
        ("nic-pcie-width", link("", 8), Status::Fail, "8 of 16", 0),
        ("nic-pcie-width", physical(16), Status::Pass, "16 of 16", 0),
        ("nic-pcie-width", physical(8), Status::Fail, "8 of 16", 0),
        ("mem-error-polling", polled("IE31200", 1000), Status::Warn, "1000", 1),
        ("mem-error-polling", polled("F19h", 1000), Status::NotApplicable, "F19h is not known to poll", 0),
        ("mem-error-polling", polled("Skylake Socket#0 IMC#0", 1000), Status::NotApplicable, "not known to poll", 0),
        ("cpu-smi", smi(100), Status::NotApplicable, "less than a day", 0),
        ("cpu-smi", smi(36_000_000), Status::Pass, "1 an hour", 0),
        ("nic-rfs", flows("ice"), Status::Pass, "accelerated", 0),
        ("nic-rfs", flows("ixgbe"), Status::Warn, "not known to steer", 0),
    ]);
}

#[test]
fn shared_memory_has_huge_pages_of_its_own() {
    let folder = "sys/kernel/mm/transparent_hugepage";
    let host = |release: &str, shared: &str, size: &str| {
        format!(
            "proc/sys/kernel/osrelease: {release}\n{folder}/enabled: always madvise [never]\n\
             {folder}/khugepaged/scan_sleep_millisecs: 10000\n{folder}/shmem_enabled: {shared}\n\
             {folder}/hugepages-2048kB/shmem_enabled: {size}\n"
        )
    };
    let (advise, never) =
        ("always within_size [advise] never deny force", "always within_size advise [never] deny force");
    let (inherit, always) = ("always [inherit] within_size advise never", "[always] inherit within_size advise never");
    all(vec![
        ("mem-huge-daemon", host("6.12.0", advise, inherit), Status::Pass, "does not run", 0),
        ("mem-huge-daemon", host("6.13.0", advise, inherit), Status::Warn, "shared memory", 1),
        ("mem-huge-daemon", host("6.13.0", never, inherit), Status::Pass, "does not run", 0),
        ("mem-huge-daemon", host("6.13.0", never, always), Status::Warn, "shared memory", 1),
        ("mem-huge-shmem", host("6.13.0", never, inherit), Status::Pass, "never; inherit (hugepages-2048kB)", 0),
        ("mem-huge-shmem", host("6.13.0", never, always), Status::Warn, "always (hugepages-2048kB)", 1),
    ]);
}

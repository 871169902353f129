//! What the host only counts: joined with the samples of a slice by that it grew in the slice.

use super::names::{Class, Id, Names};
use sidestep_sys::perf::Counter;
use sidestep_sys::proc::Roots;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// MSR_SMI_COUNT (Intel SDM volume 4).
const SMI_COUNT: u64 = 0x34;
/// The cgroup file systems, by the first thread of the process: the measuring thread is in a lab, whose /sys has none.
const CGROUPS: &str = "/proc/self/root/sys/fs/cgroup";
/// A cpu.stat is a few lines.
const STAT_BYTES_MAX: u64 = 4096;
/// The names of CPU columns in /proc/interrupts and /proc/softirqs begin with it.
const CPU: &str = "CPU";

/// The counters of some CPUs.
#[derive(Debug)]
pub(super) struct Counters {
    cpus: Vec<u32>,
    roots: Roots,
    smi: Vec<Smi>,
    /// cpu.stat of the process's cgroup and of those above it.
    cpu_stats: Vec<PathBuf>,
    /// Set if interrupts and softirqs are to be counted, too, as no event tells of them.
    with_interrupts: bool,
}

/// The count of system management interrupts of a CPU.
#[derive(Debug)]
enum Smi {
    Perf(Counter),
    Msr(File),
}

/// Names and values at one moment.
pub(super) type Reading = Vec<(String, u64)>;

impl Counters {
    /// The counters of `cpus`, and what cannot be read of them.
    pub(super) fn open(cpus: &[u32], roots: Roots, with_interrupts: bool) -> (Self, Vec<String>) {
        let mut missing = Vec::new();
        let smi: Result<Vec<Smi>, String> = cpus.iter().map(|cpu| Smi::open(*cpu)).collect();
        let smi = smi.unwrap_or_else(|reason| {
            missing.push(format!("SMIs are not counted: {reason}"));
            Vec::new()
        });
        if throttles(&roots, cpus).is_empty() {
            missing.push("thermal throttling is not counted: this CPU or hypervisor shows no thermal_throttle".into());
        }
        let cpu_stats = cpu_stats(&roots.proc("self/cgroup"), Path::new(CGROUPS));
        if cpu_stats.is_empty() {
            missing.push("cgroup throttling is not counted: no cpu.stat of this process's cgroup can be read".into());
        }
        (Self { cpus: cpus.to_vec(), roots, smi, cpu_stats, with_interrupts }, missing)
    }

    /// Reads all of them.
    pub(super) fn read(&self) -> Reading {
        let mut reading = Reading::new();
        let steal = self.roots.cpu_counters(&self.cpus).iter().map(|counters| counters.steal_ticks).sum();
        reading.push(("steal time, counted in steps of 10 ms".into(), steal));
        reading.extend(throttles(&self.roots, &self.cpus));
        if !self.cpu_stats.is_empty() {
            let count = self.cpu_stats.iter().filter_map(|path| throttled(path)).sum();
            reading.push(("throttling by the cgroup's CPU limit".into(), count));
        }
        if !self.smi.is_empty() {
            reading.push(("SMI".into(), self.smi.iter().filter_map(Smi::value).sum()));
        }
        if self.with_interrupts {
            reading.extend(columns(&self.roots.proc("interrupts"), &self.cpus, "interrupt"));
            reading.extend(columns(&self.roots.proc("softirqs"), &self.cpus, "softirq"));
        }
        reading
    }
}

/// The counters that have grown.
pub(super) fn grown(before: &Reading, after: &Reading, names: &mut Names) -> Vec<Id> {
    let earlier = |name: &str| before.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    let grown = after.iter().filter(|(name, value)| earlier(name).is_some_and(|before| *value > before));
    grown.map(|(name, _)| names.id(Class::Counter, name)).collect()
}

impl Smi {
    fn open(cpu: u32) -> Result<Self, String> {
        if let Ok(counter) = Counter::open("msr", "smi", cpu) {
            return Ok(Self::Perf(counter));
        }
        let path = format!("/dev/cpu/{cpu}/msr");
        let msr = File::open(&path).map(Self::Msr).map_err(|error| {
            format!("no perf event msr/smi/, and {path}: {error}; on an Intel CPU of one's own: modprobe msr, and run as root")
        })?;
        match msr.value() {
            Some(_) => Ok(msr),
            None => Err("no perf event msr/smi/, and the CPU or the hypervisor refuses MSR 0x34".into()),
        }
    }

    fn value(&self) -> Option<u64> {
        match self {
            Self::Perf(counter) => counter.value(),
            Self::Msr(file) => {
                let mut value = [0; 8];
                file.read_exact_at(&mut value, SMI_COUNT).ok()?;
                Some(u64::from_ne_bytes(value))
            }
        }
    }
}

/// The files `cpu.stat` that count throttling of the cgroups in /proc/self/cgroup, and of those above them.
fn cpu_stats(cgroups: &str, mounts: &Path) -> Vec<PathBuf> {
    let below = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        // Version 2 has no controllers here; version 1 has a file system for each set of them.
        let is_ours = controllers.is_empty() || controllers.split(',').any(|controller| controller == "cpu");
        is_ours.then(|| (mounts.join(controllers), path.trim_start_matches('/').to_owned()))
    };
    let files = |(mount, path): (PathBuf, String)| {
        let all: Vec<_> = Path::new(&path).ancestors().map(|path| mount.join(path).join("cpu.stat")).collect();
        all.into_iter().filter(|file| throttled(file).is_some())
    };
    cgroups.lines().filter_map(below).flat_map(files).collect()
}

/// The periods in which a cgroup was throttled; none if it has no limit to count for.
fn throttled(cpu_stat: &Path) -> Option<u64> {
    let text = sidestep_sys::file::read_text(cpu_stat, STAT_BYTES_MAX).ok()?;
    text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

/// Thermal throttling of the CPUs and their packages (drivers/thermal/intel/therm_throt.c).
fn throttles(roots: &Roots, cpus: &[u32]) -> Reading {
    let count = |cpu: u32, what: &str| {
        roots.sys(&format!("devices/system/cpu/cpu{cpu}/thermal_throttle/{what}_throttle_count")).parse().ok()
    };
    let sum = |what: &str| {
        let counts: Vec<u64> = cpus.iter().filter_map(|cpu| count(*cpu, what)).collect();
        (!counts.is_empty()).then(|| (format!("thermal throttling, {what}"), counts.iter().sum()))
    };
    ["core", "package"].into_iter().filter_map(sum).collect()
}

/// The rows of a table whose columns are CPUs, each summed over `cpus`.
fn columns(table: &str, cpus: &[u32], kind: &str) -> Reading {
    let mut lines = table.lines();
    let head: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|name| name.strip_prefix(CPU)?.parse().ok())
        .collect();
    let row = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let mut words = rest.split_whitespace();
        let counts: Vec<u64> = words.by_ref().take(head.len()).map_while(|word| word.parse().ok()).collect();
        let of = |(cpu, count): (&u32, &u64)| cpus.contains(cpu).then_some(*count);
        let about = rest.split_whitespace().skip(counts.len()).collect::<Vec<_>>().join(" ");
        let name = format!("{kind} {} {about}", name.trim());
        Some((name.trim_end().to_owned(), head.iter().zip(&counts).filter_map(of).sum()))
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_summed_over_the_cpus_of_the_ends() {
        let table = "            CPU0       CPU1       CPU3\n  9:          4          5          6   IO-APIC   9-fasteoi   acpi\nLOC:        100        200        300   Local timer interrupts\nERR:          1\n";
        let rows = columns(table, &[0, 3], "interrupt");
        assert_eq!(rows[0], ("interrupt 9 IO-APIC 9-fasteoi acpi".into(), 10));
        assert_eq!(rows[1], ("interrupt LOC Local timer interrupts".into(), 400));
        assert_eq!(rows[2], ("interrupt ERR".into(), 1));
        assert!(columns("", &[0], "softirq").is_empty() && columns("x\ny: z", &[0], "softirq")[0].1 == 0);
    }

    #[test]
    fn the_cgroup_and_those_above_it_are_found() {
        let mounts = tempfile::tempdir().unwrap();
        let stat = |path: &str, text: &str| {
            std::fs::create_dir_all(mounts.path().join(path)).unwrap();
            std::fs::write(mounts.path().join(path).join("cpu.stat"), text).unwrap();
        };
        stat("a/b", "usage_usec 5\nnr_throttled 3\n");
        stat("a", "nr_throttled 4\n");
        stat("", "usage_usec 5\n");
        stat("cpu,cpuacct/c", "nr_throttled 5\n");
        let counted = |cgroups: &str| -> u64 {
            cpu_stats(cgroups, mounts.path()).iter().filter_map(|path| throttled(path)).sum()
        };
        assert_eq!(counted("0::/a/b\n"), 7);
        assert_eq!(counted("3:cpuset:/c\n2:cpu,cpuacct:/c\n"), 5);
        assert_eq!(counted("odd\n0:\n"), 0);
    }

    #[test]
    fn only_what_grew_is_a_cause() {
        let mut names = Names::default();
        let reading = |values: [u64; 2]| vec![("a".to_owned(), values[0]), ("b".to_owned(), values[1])];
        let found = grown(&reading([1, 1]), &reading([1, 2]), &mut names);
        assert_eq!(found.iter().map(|id| names.what(*id)).collect::<Vec<_>>(), ["b"]);
        assert!(grown(&Vec::new(), &reading([5, 5]), &mut names).is_empty(), "what was not read before says nothing");
    }

    #[test]
    fn this_host_is_read_and_says_what_it_does_not_have() {
        let (counters, missing) = Counters::open(&sidestep_sys::cpu::allowed(), Roots::default(), true);
        let reading = counters.read();
        assert!(reading.iter().any(|(name, _)| name.starts_with("steal")));
        assert!(reading.iter().any(|(name, _)| name.starts_with("softirq NET_RX")), "{reading:?}");
        assert!(missing.iter().all(|reason| reason.contains("not counted")));
    }
}

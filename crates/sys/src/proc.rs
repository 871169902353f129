//! Small readers of /proc and /sys. Tests can pass other roots.
//!
//! A missing or malformed file gives an empty answer instead of an error: these are facts for a report, not inputs.

use std::fs;
use std::path::{Path, PathBuf};

/// The locations of /proc and /sys.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Usually `/proc`.
    pub proc: PathBuf,
    /// Usually `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// Counters of one CPU, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCounters {
    /// Time that the hypervisor gave to others, in clock ticks of 10 ms (`steal` of /proc/stat).
    pub steal_ticks: u64,
    /// Interrupts handled, all kinds.
    pub interrupts: u64,
}

impl Roots {
    /// A file below /proc, trimmed; empty if it cannot be read.
    pub fn proc(&self, name: &str) -> String {
        read(&self.proc.join(name))
    }

    /// A file below /sys, trimmed; empty if it cannot be read.
    pub fn sys(&self, name: &str) -> String {
        read(&self.sys.join(name))
    }

    /// Steal time and interrupts of each of `cpus`.
    pub fn cpu_counters(&self, cpus: &[u32]) -> Vec<CpuCounters> {
        let (stat, interrupts) = (self.proc("stat"), self.proc("interrupts"));
        let totals = interrupt_totals(&interrupts);
        let of = |cpu: u32| CpuCounters {
            steal_ticks: steal_ticks(&stat, cpu),
            interrupts: totals.iter().find(|(number, _)| *number == cpu).map_or(0, |(_, total)| *total),
        };
        cpus.iter().map(|cpu| of(*cpu)).collect()
    }

    /// One-minute load average.
    pub fn load_1m(&self) -> f64 {
        self.proc("loadavg").split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
    }

    /// The CPU's model name.
    pub fn cpu_model(&self) -> String {
        let info = self.proc("cpuinfo");
        let line = info.lines().find(|line| line.starts_with("model name"));
        line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, name)| name.trim().to_owned())
    }
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).unwrap_or_default()
}

/// The eighth number of a `cpuN` line (proc(5): user nice system idle iowait irq softirq steal).
fn steal_ticks(stat: &str, cpu: u32) -> u64 {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(name.as_str()));
    line.and_then(|line| line.split_whitespace().nth(8)?.parse().ok()).unwrap_or_default()
}

/// Sums the columns of /proc/interrupts: (CPU number, interrupts).
fn interrupt_totals(table: &str) -> Vec<(u32, u64)> {
    let mut lines = table.lines();
    let header = lines.next().unwrap_or_default();
    let cpus = header.split_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok());
    let mut totals: Vec<(u32, u64)> = cpus.map(|cpu| (cpu, 0)).collect();
    for line in lines {
        let counts = line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
        for (total, count) in totals.iter_mut().zip(counts) {
            total.1 = total.1.saturating_add(count);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU2\n 24:          1          5  IO-APIC   5-edge      ACPI:Ged\n\
                              LOC:       8214      11198   Local timer interrupts\nERR:          0\n";
    const STAT: &str = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 42 9 10\ncpu2 1 2 3 4 5 6 7 43 9 10\n";

    #[test]
    fn reads_the_columns_of_the_cpus_named() {
        assert_eq!(interrupt_totals(INTERRUPTS), [(0, 8215), (2, 11203)]);
        assert_eq!(steal_ticks(STAT, 2), 43);
        assert_eq!(steal_ticks(STAT, 1), 0);
    }

    #[test]
    fn garbage_gives_nothing() {
        for text in ["", "\0\0", "CPU", "CPUx CPU0\n1: -5", "cpu0", "cpu0 a b c d e f g h"] {
            assert!(interrupt_totals(text).iter().all(|(_, total)| *total == 0));
            assert_eq!(steal_ticks(text, 0), 0);
        }
        let nowhere = Roots { proc: "/no/such".into(), sys: "/no/such".into() };
        assert_eq!(nowhere.cpu_counters(&[0]), [CpuCounters::default()]);
        assert_eq!(nowhere.cpu_model(), "");
    }

    #[test]
    fn this_host_has_interrupts() {
        let cpus = crate::cpu::allowed();
        assert!(Roots::default().cpu_counters(&cpus).iter().any(|counters| counters.interrupts > 0));
    }
}

//! The machine, its kernel, and what holds this process.

use super::Sources;
use sidestep_sys::cpu;
use std::fmt;

/// Bytes of a huge page that is asked for.
const HUGE_PAGES: &str = "kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// The version of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// Reads it at the beginning of a release ("6.12.5-amd64").
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

/// Access to a file system of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// It is not mounted.
    #[default]
    Missing,
    /// It can be read.
    ReadOnly,
    /// It can be written, by who has the right.
    Writable,
}

/// The machine and its kernel.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// `uname -r`.
    pub release: String,
    /// Its version.
    pub version: Option<Version>,
    /// CPUs that this process may use.
    pub cpus: Vec<u32>,
    /// CPUs that the scheduler leaves alone ("2-3").
    pub isolated: String,
    /// The hypervisor's name, in a virtual machine that tells it.
    pub hypervisor: Option<String>,
    /// The mark by which a container is known.
    pub container: Option<String>,
    /// The kernel's lockdown mode: `none`, `integrity`, `confidentiality`; none where the kernel does not tell.
    pub lockdown: Option<String>,
    /// /sys.
    pub sys: Access,
    /// /proc/sys.
    pub settings: Access,
    /// kernel.io_uring_disabled.
    pub io_uring_disabled: Option<u32>,
    /// kernel.perf_event_paranoid.
    pub perf_event_paranoid: Option<i32>,
    /// Free huge pages of 2 MiB.
    pub huge_pages_free: Option<u64>,
    /// True if cgroup v2 offers CPUs to groups.
    pub has_cpusets: bool,
    /// True if the kernel has the file system of BPF pins.
    pub has_bpf_files: bool,
}

impl Machine {
    pub(super) fn read(sources: &Sources) -> Self {
        let roots = &sources.roots;
        let number = |name: &str| roots.proc(name).parse().ok();
        let release = Some(roots.proc("sys/kernel/osrelease")).filter(|text| !text.is_empty());
        let release = release.unwrap_or_else(|| rustix::system::uname().release().to_string_lossy().into_owned());
        let mounts = roots.proc("self/mountinfo");
        Self {
            version: Version::parse(&release),
            release,
            cpus: cpu::allowed(),
            isolated: roots.sys("devices/system/cpu/isolated"),
            hypervisor: cpu::hypervisor(),
            container: container(sources),
            lockdown: chosen(&roots.sys("kernel/security/lockdown")),
            sys: access(&mounts, "/sys", &["/sys"]),
            settings: access(&mounts, "/proc/sys", &["/proc/sys", "/proc"]),
            io_uring_disabled: number("sys/kernel/io_uring_disabled"),
            perf_event_paranoid: roots.proc("sys/kernel/perf_event_paranoid").parse().ok(),
            huge_pages_free: roots.sys(HUGE_PAGES).parse().ok(),
            has_cpusets: roots.sys("fs/cgroup/cgroup.controllers").split_whitespace().any(|word| word == "cpuset")
                || roots.sys("fs/cgroup/unified/cgroup.controllers").split_whitespace().any(|word| word == "cpuset"),
            has_bpf_files: roots.proc("filesystems").split_whitespace().any(|word| word == "bpf"),
        }
    }

    /// Returns whether the kernel is at least this version; a release that cannot be read is taken for new.
    pub fn is_at_least(&self, version: Version) -> bool {
        self.version.is_none_or(|own| own >= version)
    }
}

/// The word in brackets: "none [integrity] confidentiality".
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The mark of a container: a file that its engine makes, or the group of its first process.
fn container(sources: &Sources) -> Option<String> {
    let marks =
        [(".dockerenv", "Docker"), ("run/.containerenv", "Podman"), ("run/systemd/container", "systemd-nspawn")];
    let by_file = marks.iter().find(|(mark, _)| sources.root.join(mark).exists()).map(|(_, name)| (*name).to_owned());
    let groups = sources.roots.proc("1/cgroup");
    let by_group = ["docker", "kubepods", "containerd", "libpod", "lxc"];
    by_file.or_else(|| by_group.iter().find(|name| groups.contains(**name)).map(|name| (*name).to_owned()))
}

/// The access that the last mount over `place` gives; where none is there, that of what lies below it.
fn access(mounts: &str, place: &str, mounted: &[&str]) -> Access {
    for point in mounted {
        let options = mounts.lines().rev().find_map(|line| {
            let mut fields = line.split(' ').skip(4);
            (fields.next()? == *point).then(|| fields.next().unwrap_or_default())
        });
        match options {
            Some(options) if options.split(',').any(|option| option == "ro") => return Access::ReadOnly,
            Some(_) => return Access::Writable,
            None => {}
        }
    }
    // Without a list of mounts the folder tells at least whether something is there.
    let is_there = mounts.is_empty() && std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
    if is_there { Access::ReadOnly } else { Access::Missing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        assert_eq!(Version::parse("6.12.5-amd64"), Some(Version(6, 12)));
        assert_eq!(Version::parse("5.10"), Some(Version(5, 10)));
        assert!(Version(5, 10) < Version(5, 14) && Version(6, 1) > Version(5, 18));
        assert!(
            Version::parse("x").is_none() && Version::parse("").is_none() && Version::parse("99999999999.1").is_none()
        );
    }

    #[test]
    fn the_last_mount_counts_and_proc_stands_for_what_is_in_it() {
        let mounts = "1 0 0:1 / /proc rw - proc proc rw\n2 0 0:2 / /sys ro,nosuid - sysfs sysfs rw\n3 1 0:1 /sys /proc/sys ro - proc proc rw";
        assert_eq!(access(mounts, "/sys", &["/sys"]), Access::ReadOnly);
        assert_eq!(access(mounts, "/proc/sys", &["/proc/sys", "/proc"]), Access::ReadOnly);
        let first = mounts.lines().next().unwrap();
        assert_eq!(access(first, "/proc/sys", &["/proc/sys", "/proc"]), Access::Writable);
        assert_eq!(access(first, "/sys", &["/sys"]), Access::Missing);
    }

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        assert_eq!(chosen("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert!(chosen("").is_none() && chosen("[x").is_none());
    }
}

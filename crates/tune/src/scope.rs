//! The subject of an audit: the host, its CPUs (hot ones among them), its interfaces.

use crate::cpus::CpuSet;
use crate::host::Host;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::want::Cpus;
use sidestep_sys::Problem;
use sidestep_sys::boot::parameters;

/// The most readings of one check: 512 CPUs with eight idle states each.
const READINGS_MAX: usize = 4096;
/// The most processes that are read; a host has some thousand.
const PROCESSES_MAX: usize = 32_768;

/// The most interfaces of hardware that are read without being named.
const INTERFACES_MAX: usize = 256;

/// The most cgroups below the root that are read; systemd creates about five.
const GROUPS_MAX: usize = 1024;

/// The user's request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Interfaces; none: those of hardware.
    pub interfaces: Vec<String>,
    /// The hot CPUs; none: those named with a saved host, else those that are isolated already.
    pub hot: Option<CpuSet>,
}

/// One network interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its driver, such as `mlx5_core`; empty if it has none.
    pub driver: String,
}

/// One process: its id and its name (`comm`).
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) pid: u32,
    pub(crate) name: String,
}

/// A host and the part of it that is audited.
pub struct Scope<'a> {
    /// The host.
    pub host: &'a dyn Host,
    /// Its CPUs. `hot` is empty if none are named and none is isolated.
    pub cpus: Cpus,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// Set if the CPU flag `hypervisor` marks a virtual machine.
    pub(crate) is_guest: bool,
    pub(crate) nodes: Vec<String>,
    pub(crate) command_line: Vec<(String, String)>,
    pub(crate) tasks: Vec<Task>,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("cpus", &self.cpus).field("interfaces", &self.interfaces).finish_non_exhaustive()
    }
}

impl<'a> Scope<'a> {
    /// Reads the host's CPUs, interfaces and processes. Err names an interface or a CPU that does not exist.
    pub fn of(host: &'a dyn Host, request: &Request) -> Result<Self, Problem> {
        let online = list(host, "sys:devices/system/cpu/online");
        let hot = match request.hot.clone().or_else(|| host.hot()) {
            Some(hot) => named_cpus(&hot, &online)?,
            None => isolated(host),
        };
        let nodes = host.list(&Location::of("sys:devices/system/node"));
        let numbered = |name: &String| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
        Ok(Self {
            host,
            cpus: Cpus { hot, online },
            interfaces: interfaces(host, &request.interfaces)?,
            is_guest: is_guest(host),
            nodes: nodes.into_iter().filter(numbered).collect(),
            command_line: command_line(&read(host, "proc:cmdline")),
            tasks: tasks(host),
        })
    }

    /// Returns the text at a location; empty if it cannot be read.
    pub(crate) fn text(&self, location: &str) -> String {
        read(self.host, location)
    }

    /// Returns the kernel's version, such as (6, 12).
    pub(crate) fn release(&self) -> Option<(u32, u32)> {
        let release = self.text("proc:sys/kernel/osrelease");
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// Returns whether the kernel is of this version or a later one; false if its version is unknown.
    pub(crate) fn is_since(&self, version: (u32, u32)) -> bool {
        self.release().is_some_and(|release| release >= version)
    }

    /// Returns an error if no hot CPU is named, and none is isolated.
    pub(crate) fn needs_hot(&self) -> Result<(), String> {
        if self.cpus.hot.is_empty() { Err("the hot CPUs are unknown: name them with --cpus".into()) } else { Ok(()) }
    }

    /// Returns a reading of each interface that has one. Err if there is no interface.
    pub(crate) fn each_interface(&self, of: impl Fn(&Interface) -> Option<Reading>) -> Result<Vec<Reading>, String> {
        if self.interfaces.is_empty() {
            return Err("there is no hardware interface: name one with --interface".into());
        }
        Ok(self.interfaces.iter().filter_map(of).collect())
    }

    /// Returns a list of CPUs at a location; the empty set if there is none.
    pub(crate) fn cpu_list(&self, location: &str) -> CpuSet {
        list(self.host, location)
    }

    /// Returns the last value of a boot parameter; `set` if it has none.
    pub(crate) fn boot(&self, name: &str) -> Option<&str> {
        let name = name.replace('-', "_");
        self.command_line.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the values of every occurrence of a boot parameter, in their order.
    pub(crate) fn boot_all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.command_line.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first process of this name.
    pub(crate) fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// Returns the hot CPUs, or all if none are named.
    pub(crate) fn watched(&self) -> &CpuSet {
        if self.cpus.hot.is_empty() { &self.cpus.online } else { &self.cpus.hot }
    }

    /// Reads one location, in its form.
    pub(crate) fn reading(&self, subject: impl Into<String>, location: Location, form: Form) -> Reading {
        let value = self.host.read(&location).map(|raw| form.normalise(&raw));
        Reading { subject: subject.into(), location: Some(location), value, shown: None }
    }

    /// Reads every location that a template stands for.
    pub(crate) fn expand(&self, template: &str, form: Form) -> Result<Vec<Reading>, String> {
        let mut locations = Vec::new();
        for (subject, path) in self.subjects(template)? {
            match path.split('/').position(|step| step.contains('*')) {
                None => locations.push((subject, path)),
                Some(_) => self.matching(&subject, &path, &mut locations),
            }
        }
        locations.truncate(READINGS_MAX);
        Ok(locations.into_iter().map(|(subject, path)| self.reading(subject, Location::of(&path), form)).collect())
    }

    fn subjects(&self, template: &str) -> Result<Vec<(String, String)>, String> {
        let each = |names: Vec<String>, mark: &str| {
            names.into_iter().map(|n| (n.clone(), template.replace(mark, &n))).collect()
        };
        if template.contains("{interface}") {
            if self.interfaces.is_empty() {
                return Err("there is no hardware interface: name one with --interface".into());
            }
            return Ok(each(self.interfaces.iter().map(|one| one.name.clone()).collect(), "{interface}"));
        }
        if template.contains("{cpu}") {
            let one = |cpu: u32| (format!("cpu{cpu}"), template.replace("{cpu}", &cpu.to_string()));
            return Ok(self.watched().iter().map(one).collect());
        }
        if template.contains("{node}") {
            return Ok(each(self.nodes.clone(), "{node}"));
        }
        Ok(vec![(String::new(), template.to_owned())])
    }

    /// Adds the locations that a path with a `*` in one step matches.
    fn matching(&self, subject: &str, path: &str, locations: &mut Vec<(String, String)>) {
        let Some((before, after)) = path.split_once('*') else { return };
        let (folder, prefix) = before.rsplit_once('/').unwrap_or((before, ""));
        for name in self.host.list(&Location::of(folder)).iter().filter(|name| name.starts_with(prefix)) {
            let rest = after.split_once('/').map_or(String::new(), |(_, rest)| format!("/{rest}"));
            locations.push((format!("{subject} {name}").trim().to_owned(), format!("{folder}/{name}{rest}")));
        }
    }
}

fn read(host: &dyn Host, location: &str) -> String {
    host.read(&Location::of(location)).unwrap_or_default()
}

fn list(host: &dyn Host, location: &str) -> CpuSet {
    CpuSet::list(&read(host, location)).unwrap_or_default()
}

/// Returns the isolated CPUs: by boot parameter, or by a cpuset partition.
pub(crate) fn isolated(host: &dyn Host) -> CpuSet {
    list(host, "sys:devices/system/cpu/isolated").with(&partitions(host))
}

/// Returns the CPUs of isolated partitions. Linux 6.7 and later list them; before, the groups below the root are read, where
/// alone a partition can be.
fn partitions(host: &dyn Host) -> CpuSet {
    let root = Location::of("sys:fs/cgroup");
    if let Ok(sum) = host.read(&root.join("cpuset.cpus.isolated")) {
        return CpuSet::list(&sum).unwrap_or_default();
    }
    let groups = host.list(&root).into_iter().take(GROUPS_MAX).map(|name| root.join(&name));
    let text = |group: &Location, name: &str| host.read(&group.join(name)).unwrap_or_default();
    let isolated = groups.filter(|group| text(group, "cpuset.cpus.partition") == "isolated");
    let cpus = isolated.filter_map(|group| CpuSet::list(&text(&group, "cpuset.cpus")));
    cpus.fold(CpuSet::default(), |all, one| all.with(&one))
}

fn named_cpus(hot: &CpuSet, online: &CpuSet) -> Result<CpuSet, Problem> {
    let missing = hot.without(online);
    // Without a list of online CPUs the request is believed.
    if missing.is_empty() || online.is_empty() {
        return Ok(hot.clone());
    }
    Err(Problem::usage(format!("cannot audit CPU {missing}"), "it is not online")
        .next(format!("choose from: {online}")))
}

fn interfaces(host: &dyn Host, named: &[String]) -> Result<Vec<Interface>, Problem> {
    let folder = Location::of("sys:class/net");
    let present = host.list(&folder);
    let interface = |name: &String| Interface { name: name.clone(), driver: driver(host, name) };
    if named.is_empty() {
        let is_hardware = |name: &&String| host.resolve(&folder.join(name).join("device")).is_some();
        return Ok(present.iter().filter(is_hardware).take(INTERFACES_MAX).map(interface).collect());
    }
    if let Some(missing) = named.iter().find(|name| !present.contains(name)) {
        return Err(Problem::usage(format!("cannot audit interface {missing}"), "there is none of this name")
            .next(format!("choose from: {}", present.join(", "))));
    }
    Ok(named.iter().map(interface).collect())
}

fn driver(host: &dyn Host, interface: &str) -> String {
    let events = read(host, &format!("sys:class/net/{interface}/device/uevent"));
    events.lines().find_map(|line| line.strip_prefix("DRIVER=")).unwrap_or_default().to_owned()
}

/// Returns the CPUID bit that hypervisors set, from /proc/cpuinfo.
fn is_guest(host: &dyn Host) -> bool {
    flags(&read(host, "proc:cpuinfo")).any(|flag| flag == "hypervisor")
}

/// Returns the CPU's flags (x86).
pub(crate) fn flags(cpuinfo: &str) -> impl Iterator<Item = &str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"));
    line.and_then(|line| line.split_once(':')).map_or("", |(_, flags)| flags).split_whitespace()
}

/// The parameters of the kernel's command line; one without a value is `set`.
fn command_line(text: &str) -> Vec<(String, String)> {
    parameters(text).map(|one| (one.name, one.value.unwrap_or_else(|| "set".to_owned()))).collect()
}

fn tasks(host: &dyn Host) -> Vec<Task> {
    let name = |pid: &u32| host.read(&Location::of(&format!("proc:{pid}/comm"))).unwrap_or_default();
    host.pids().into_iter().take(PROCESSES_MAX).map(|pid| Task { pid, name: name(&pid) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_parameters_are_read_as_the_kernel_does() {
        let line = command_line("quiet isolcpus=1 rcutree.x-y=\"a b\" isolcpus=managed_irq,2-3");
        let find = |name: &str| line.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!((find("quiet"), find("isolcpus")), (Some("set"), Some("managed_irq,2-3")));
        assert_eq!(find("rcutree.x_y"), Some("a b"));
    }

    #[test]
    fn isolated_cpus_are_those_of_the_boot_and_of_partitions() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let host = crate::host::Tree::at(folder.path());
        let found = || isolated(&host).to_string();
        file("sys/devices/system/cpu/isolated", "7\n");
        for (group, kind, cpus) in
            [("hot", "isolated", "2-3"), ("bad", "isolated invalid (x)", "4"), ("root", "root", "5")]
        {
            file(&format!("sys/fs/cgroup/{group}/cpuset.cpus.partition"), kind);
            file(&format!("sys/fs/cgroup/{group}/cpuset.cpus"), cpus);
        }
        assert_eq!(found(), "2-3,7", "before Linux 6.7");
        file("sys/fs/cgroup/cpuset.cpus.isolated", "3\n");
        assert_eq!(found(), "3,7");
    }

    #[test]
    fn flags_are_words() {
        assert!(flags("model : x\nflags\t\t: fpu hypervisor tsc\n").any(|flag| flag == "hypervisor"));
        assert_eq!(flags("flags").count(), 0);
    }
}

//! CPUs that the scheduler reserves for one program: a cpuset partition of cgroup v2 (Linux 6.1) that ends with the program.
//!
//! `isolcpus=` does the same at boot, until the next one. A partition is created while the host runs: nothing else is
//! scheduled on its CPUs any more, nothing is balanced onto them, and from Linux 6.7 unbound kernel work leaves them, too. The
//! program has to be in its cgroup, so the partition is created where the program is started, and not by a profile.
//!
//! ```text
//!  tune run --isolate ── creates the group ── starts the remover ── enters the group ── becomes the program
//!                                                 │  waits until the program and its descendants have ended
//!                                                 └─ removes the group: the CPUs are shared again
//! ```
//!
//! If the remover is killed, the group stays; the next partition and `tune revert` remove it ([`sweep`]).
//! Source: Linux admin-guide/cgroup-v2, "Cpuset Interface Files".

use crate::cpus::CpuSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_sys::Problem;
use sidestep_sys::process::{Process, Watch};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Prefix of the groups' names; pid and start time of the creator follow.
const PREFIX: &str = "sidestep-isolated-";
/// Interval of attempts to remove a group. cgroup.events reports an empty group at once, but not the end of groups within it.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The cgroup of one program and its CPUs.
#[derive(Debug, PartialEq, Eq)]
pub struct Partition {
    folder: PathBuf,
    creator: Process,
}

impl Partition {
    /// Creates the group and gives it the CPUs. Err has the kernel's reason if they cannot be had exclusively: another
    /// partition has them, or no CPU would be left for the rest.
    pub fn make(cpus: &CpuSet) -> Result<Self, Problem> {
        let hierarchy = hierarchy(&fs::read_to_string("/proc/self/mounts").unwrap_or_default())?;
        let creator = Process::this().map_err(|error| cannot("name this process", &error))?;
        Self::below(&hierarchy, cpus, creator)
    }

    fn below(hierarchy: &Path, cpus: &CpuSet, creator: Process) -> Result<Self, Problem> {
        sweep_below(hierarchy);
        delegate(hierarchy)?;
        let folder = hierarchy.join(format!("{PREFIX}{}-{}", creator.pid, creator.start_ticks));
        fs::create_dir(&folder).map_err(|error| cannot(&format!("create {}", folder.display()), &error))?;
        let partition = Self { folder, creator };
        if let Err(problem) = partition.take(cpus) {
            let _ = fs::remove_dir(&partition.folder);
            return Err(problem);
        }
        Ok(partition)
    }

    /// Makes the group's CPUs exclusive, and checks that they are.
    fn take(&self, cpus: &CpuSet) -> Result<(), Problem> {
        self.write("cpuset.cpus", &cpus.to_string())?;
        self.write("cpuset.cpus.partition", "isolated")?;
        let told = self.read("cpuset.cpus.partition")?;
        if told.trim() == "isolated" {
            return Ok(());
        }
        Err(Problem::failed(format!("cannot isolate CPU {cpus}"), format!("the kernel says: {}", told.trim()))
            .next("leave a CPU for the rest of the host, and choose CPUs that no other partition has"))
    }

    /// Returns the group's folder, whose name holds the process that has to end before it may be removed.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the group of a folder. Err if it is not one of ours.
    pub fn named(folder: &Path) -> Result<Self, Problem> {
        let creator = folder.file_name().and_then(|name| creator(name.to_str()?));
        let creator = creator.ok_or_else(|| {
            Problem::usage(format!("cannot remove {}", folder.display()), "it is not a group of tune run --isolate")
                .next("use: sidestep tune run --isolate")
        })?;
        Ok(Self { folder: folder.to_owned(), creator })
    }

    /// Moves the calling process, which becomes the program, into the group.
    pub fn enter(&self) -> Result<(), Problem> {
        self.write("cgroup.procs", "0")
    }

    /// Removes the group at once, if nothing was started in it.
    pub fn undo(self) {
        let _ = fs::remove_dir(&self.folder);
    }

    /// Waits until the creator has ended and the group is empty, and removes it.
    pub fn remove_when_empty(&self) -> Result<(), Problem> {
        let failed = |error: io::Error| cannot(&format!("remove {}", self.folder.display()), &error);
        if let Some(watch) = Watch::new(self.creator).map_err(failed)? {
            wait(&mut [PollFd::new(&watch, PollFlags::IN)], None).map_err(failed)?;
        }
        while !self.try_remove().map_err(failed)? {
            match File::open(self.folder.join("cgroup.events")) {
                Ok(events) => wait(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&LOOK_EVERY)).map_err(failed)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Tries to remove the group; returns whether it is gone. The kernel refuses to remove a group with processes in it.
    fn try_remove(&self) -> io::Result<bool> {
        match fs::remove_dir(&self.folder) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Problem> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| cannot(&format!("write {text} to {}", path.display()), &error))
    }

    fn read(&self, name: &str) -> Result<String, Problem> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).map_err(|error| cannot(&format!("read {}", path.display()), &error))
    }
}

/// Removes the groups whose program has ended and whose remover was killed; returns their names.
pub fn sweep() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    hierarchy(&mounts).map_or_else(|_| Vec::new(), |hierarchy| sweep_below(&hierarchy))
}

fn sweep_below(hierarchy: &Path) -> Vec<String> {
    let entries = fs::read_dir(hierarchy).into_iter().flatten().flatten();
    let left = entries.filter_map(|entry| Partition::named(&entry.path()).ok()).filter(|one| !one.creator.is_alive());
    left.filter(|one| matches!(one.try_remove(), Ok(true))).map(|one| one.folder.display().to_string()).collect()
}

/// Returns the mount point of cgroup v2, if its groups can have CPUs.
fn hierarchy(mounts: &str) -> Result<PathBuf, Problem> {
    let refused = |why: &str| Problem::failed("cannot isolate CPUs while the host runs", why);
    let mut kinds = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (location, kind) = (fields.nth(1)?, fields.next()?);
        Some((location, kind, fields.next()?))
    });
    let location = kinds.clone().find(|(_, kind, _)| *kind == "cgroup2").map(|(location, ..)| PathBuf::from(location));
    let by_version_1 =
        kinds.any(|(_, kind, options)| kind == "cgroup" && options.split(',').any(|one| one == "cpuset"));
    if by_version_1 {
        return Err(refused("cpuset belongs to cgroups of version 1 here, which have no partitions")
            .next("boot with systemd.unified_cgroup_hierarchy=1 or cgroup_no_v1=cpuset, or with isolcpus="));
    }
    location.ok_or_else(|| refused("no cgroup2 file system is mounted").next("mount -t cgroup2 none /sys/fs/cgroup"))
}

/// Enables the cpuset controller for groups below. That alone changes nothing for existing groups.
fn delegate(hierarchy: &Path) -> Result<(), Problem> {
    let read = |name: &str| fs::read_to_string(hierarchy.join(name)).unwrap_or_default();
    let has_it = |text: &str| text.split_whitespace().any(|one| one == "cpuset");
    if has_it(&read("cgroup.subtree_control")) {
        return Ok(());
    }
    if !has_it(&read("cgroup.controllers")) {
        return Err(Problem::failed(
            "cannot isolate CPUs while the host runs",
            format!("{} has no cpuset controller", hierarchy.display()),
        )
        .next("use a kernel with CONFIG_CPUSETS, outside of a container, or boot with isolcpus="));
    }
    let control = hierarchy.join("cgroup.subtree_control");
    fs::write(&control, "+cpuset").map_err(|error| cannot(&format!("write +cpuset to {}", control.display()), &error))
}

/// Returns the process that created a group of this name.
fn creator(name: &str) -> Option<Process> {
    let (pid, start) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some(Process { pid: pid.parse().ok()?, start_ticks: start.parse().ok()? })
}

/// Calls poll(2), again after signals.
fn wait(events: &mut [PollFd<'_>], limit: Option<&Timespec>) -> io::Result<()> {
    loop {
        match poll(events, limit) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done.map(|_| ())?),
        }
    }
}

fn cannot(what: &str, error: &io::Error) -> Problem {
    let next = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "run as root, outside of a container",
        io::ErrorKind::NotFound => "use Linux 6.1 or later, or boot with isolcpus=",
        _ => "leave --isolate out, and boot with isolcpus=",
    };
    Problem::failed(format!("cannot {what}"), error).errno(error.raw_os_error()).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Process = Process { pid: 4_000_000, start_ticks: 1 };

    #[test]
    fn the_hierarchy_is_that_of_version_2_with_cpusets() {
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(hierarchy(unified).unwrap(), Path::new("/sys/fs/cgroup"));
        let hybrid = "cgroup /c/cpuset cgroup rw,cpuset 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\n";
        assert!(hierarchy(hybrid).unwrap_err().to_string().contains("version 1"));
        assert!(hierarchy("proc /proc proc rw 0 0\n").unwrap_err().to_string().contains("cgroup2"));
        assert!(hierarchy("garbage\n\n a b\n").is_err());
    }

    #[test]
    fn cpus_that_are_not_given_leave_nothing() {
        let root = tempfile::tempdir().unwrap();
        let cpus = CpuSet::list("2-3").unwrap();
        let refused = Partition::below(root.path(), &cpus, NOBODY).unwrap_err().to_string();
        assert!(refused.contains("cpuset controller") && refused.contains("isolcpus="), "{refused}");
        fs::write(root.path().join("cgroup.subtree_control"), "cpu cpuset\n").unwrap();
        // A folder is no cgroup: what is written there stays, so the partition is what was asked for, and then it is not empty.
        let made = Partition::below(root.path(), &cpus, NOBODY).unwrap();
        assert_eq!(fs::read_to_string(made.folder.join("cpuset.cpus")).unwrap(), "2-3");
        assert!(Partition::below(root.path(), &cpus, NOBODY).unwrap_err().to_string().contains("create"));
    }

    #[test]
    fn a_group_is_known_by_its_name_alone() {
        let made = Partition {
            folder: PathBuf::from("/x/sidestep-isolated-12-345"),
            creator: Process { pid: 12, start_ticks: 345 },
        };
        assert_eq!(Partition::named(made.folder()).unwrap(), made);
        for wrong in ["/", "/x", "/x/sidestep-isolated-", "/x/sidestep-isolated-1", "/x/sidestep-isolated-a-1"] {
            assert!(Partition::named(Path::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_left_is_swept_and_what_is_used_is_not() {
        let root = tempfile::tempdir().unwrap();
        let this = Process::this().unwrap();
        let folder = |process: Process| format!("{PREFIX}{}-{}", process.pid, process.start_ticks);
        for name in [folder(NOBODY), folder(this), "user.slice".into()] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let swept = sweep_below(root.path());
        assert!(swept.len() == 1 && swept[0].ends_with(&folder(NOBODY)), "{swept:?}");
        assert!(root.path().join(folder(this)).exists() && root.path().join("user.slice").exists());
        Partition { folder: root.path().join(folder(NOBODY)), creator: NOBODY }
            .remove_when_empty()
            .expect("it is gone already");
    }
}

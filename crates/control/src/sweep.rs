//! Removal of leftovers of controls in network namespaces that no longer exist: folders, and BPF file systems mounted
//! in them. A control that was killed cannot remove its own, and no process enters its namespace again to do so.

use crate::state::State;
use crate::xdp::Xdp;
use sidestep_sys::Problem;
use sidestep_sys::problem::{note, say};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most folders examined at once; more are left to the next sweep.
const FOLDERS_MAX: usize = 4096;

/// Removes the leftovers next to `own`, the folder of this namespace's control. Leaves those of a namespace that a
/// process is in or that has a name, whose control lives, or whose stacks have living owners.
pub(crate) fn sweep(own: &Path) {
    let Some(root) = own.parent() else { return };
    let candidates: Vec<(u64, PathBuf)> = folders(root).filter(|(_, path)| path != own).take(FOLDERS_MAX).collect();
    if candidates.is_empty() {
        return;
    }
    // Without seeing every process, no namespace is known to be gone.
    let Some(living) = living() else { return };
    for (_, path) in candidates.into_iter().filter(|(inode, _)| !living.contains(inode)) {
        match remove(&path) {
            Ok(true) => note(format!("removed {}: its network namespace is gone", path.display())),
            Ok(false) => {}
            Err(problem) => say(problem.brief()),
        }
    }
}

/// The folders of controls, with the inodes of their namespaces.
fn folders(root: &Path) -> impl Iterator<Item = (u64, PathBuf)> {
    let entries = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| {
        let inode = entry.file_name().to_str()?.strip_prefix("net-")?.parse().ok()?;
        Some((inode, entry.path()))
    })
}

/// Inodes of the namespaces that a process is in, or that have a name: a mount of the namespace file.
fn living() -> Option<BTreeSet<u64>> {
    let mut inodes = BTreeSet::new();
    for entry in fs::read_dir("/proc").ok()?.filter_map(Result::ok) {
        if !entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        for task in fs::read_dir(entry.path().join("task")).into_iter().flatten().filter_map(Result::ok) {
            match fs::metadata(task.path().join("ns/net")) {
                Ok(facts) => _ = inodes.insert(facts.ino()),
                // Reading the namespace of a more privileged process needs CAP_SYS_PTRACE. That of process 1, which may
                // have more than root in a container, is the initial one here.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && entry.file_name() != "1" => {
                    // A process that has ended gives the same error.
                    if task.path().exists() {
                        return None;
                    }
                }
                // A process that has ended meanwhile is in none.
                Err(_) => {}
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    inodes.extend(mounts.lines().filter_map(named));
    Some(inodes)
}

/// The inode in a line of proc_pid_mountinfo(5) that mounts a network namespace: its fourth field is
/// `net:[4026531840]`.
fn named(line: &str) -> Option<u64> {
    line.split(' ').nth(3)?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Removes a folder, unless its control or an owner of one of its stacks lives.
fn remove(path: &Path) -> Result<bool, Problem> {
    // Its control holds the lock as long as it lives, in any pid namespace.
    let Ok(state) = State::take(path) else { return Ok(false) };
    if state.records().iter().any(|record| record.process().is_alive()) {
        return Ok(false);
    }
    Xdp::cleanup(&state.pins())?;
    state.remove()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Record;
    use crate::testing::stack_facts;
    use sidestep_control_api::place::namespace_inode;
    use sidestep_sys::owner::Owner;
    use sidestep_sys::process::Process;

    fn record(process: Process) -> Record {
        let (pid, start_ticks) = (process.pid, process.start_ticks);
        Record {
            facts: stack_facts(1, "eth1", 0),
            name: "feed".into(),
            pid,
            start_ticks,
            uid: 7,
            gid: 8,
            owner: Owner::User(7),
        }
    }

    #[test]
    fn only_what_nobody_can_need_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(name);
        let this = Process::this().unwrap();
        let dead = Process { start_ticks: this.start_ticks + 1, ..this };
        // No namespace has numbers as small as these.
        for (name, owner) in [("net-1", Some(dead)), ("net-2", Some(this)), ("net-3", None), ("net-4", None)] {
            let state = State::take(&folder(name)).unwrap();
            owner.into_iter().for_each(|owner| state.store(&record(owner)).unwrap());
        }
        let here = format!("net-{}", namespace_inode().unwrap());
        drop(State::take(&folder(&here)).unwrap());
        let _control = State::take(&folder("net-3")).unwrap();
        for other in ["labs", "net-x", "net-"] {
            fs::create_dir(folder(other)).unwrap();
        }
        sweep(&folder("net-4"));
        let mut left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected = ["labs", "net-", "net-2", "net-3", "net-4", "net-x", &here].map(std::ffi::OsString::from);
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_mounted_namespace_is_known_by_its_inode() {
        let line = "155 26 0:4 net:[4026532247] /run/netns/lab-a rw shared:80 - nsfs nsfs rw";
        assert_eq!(named(line), Some(4_026_532_247));
        assert_eq!(named("26 1 0:5 / /run rw - tmpfs tmpfs rw"), None);
        assert!(living().is_some_and(|living| living.contains(&namespace_inode().unwrap())));
    }
}

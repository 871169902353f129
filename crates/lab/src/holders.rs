//! Processes inside a namespace: a lab is not removed silently while they run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::name::namespace_path;

/// A process with at least one thread inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    /// The command name, as `ps` shows it.
    pub(crate) command: String,
}

/// The processes with a thread in one of the namespaces, except this process and those of `known`.
pub(crate) fn holders(namespaces: &[String], known: &[u32]) -> Vec<Holder> {
    let held: Vec<_> = namespaces.iter().filter_map(|namespace| identity(&namespace_path(namespace))).collect();
    if held.is_empty() {
        return Vec::new();
    }
    let this = std::process::id();
    numbered(Path::new("/proc"))
        .filter(|pid| *pid != this && !known.contains(pid))
        .filter(|pid| is_in(*pid, &held))
        .map(|pid| Holder { pid, command: command(pid) })
        .collect()
}

/// `1234 (sleep), 1235 (nc)`.
pub(crate) fn list(holders: &[Holder]) -> String {
    let one = |holder: &Holder| format!("{} ({})", holder.pid, holder.command);
    holders.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns whether a thread of the process is inside: each thread has its own namespace.
fn is_in(pid: u32, held: &[(u64, u64)]) -> bool {
    let threads = format!("/proc/{pid}/task");
    numbered(Path::new(&threads))
        .filter_map(|thread| identity(Path::new(&format!("{threads}/{thread}/ns/net"))))
        .any(|namespace| held.contains(&namespace))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

fn command(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

fn numbered(directory: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_does_not_exist_is_held_by_nobody() {
        assert_eq!(holders(&["sidestep-none-a".to_owned()], &[]), []);
    }

    #[test]
    fn this_process_is_in_its_own_namespace() {
        let own = identity(Path::new("/proc/self/ns/net")).unwrap();
        assert!(is_in(std::process::id(), &[own]));
        assert!(!command(std::process::id()).is_empty());
    }

    #[test]
    fn a_list_is_one_line() {
        let holder = |pid, command: &str| Holder { pid, command: command.to_owned() };
        assert_eq!(list(&[holder(1, "a"), holder(2, "b")]), "1 (a), 2 (b)");
    }
}

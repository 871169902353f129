//! Network namespaces: enters one by path, runs a closure or a program in one.

use crate::thread::apart;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use crate::Problem;

/// An open network namespace. The kernel keeps the namespace as long as one exists.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    label: String,
}

impl Namespace {
    /// Opens the namespace at a path: `/var/run/netns/NAME`, `/proc/PID/ns/net`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Problem> {
        let label = path.as_ref().display().to_string();
        let file = File::open(path.as_ref()).map_err(|error| {
            Problem::failed(format!("cannot open network namespace {label}"), error)
                .next("list the namespaces of this host with: ip netns list")
        })?;
        Ok(Self { file, label })
    }

    /// The namespace of the calling thread (threads of one process may be in different ones).
    pub fn current() -> Result<Self, Problem> {
        Self::open("/proc/thread-self/ns/net")
    }

    /// Makes an unnamed network namespace. It lasts as long as this value and the objects in it, so that nothing of it
    /// remains after the process ends. Needs CAP_SYS_ADMIN.
    pub fn unnamed() -> Result<Self, Problem> {
        let make = || {
            // SAFETY: unshare takes no pointer; it concerns the calling thread alone, which ends right after.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map_err(|error| {
                Problem::failed("cannot make a network namespace", error).next("run as root: it needs CAP_SYS_ADMIN")
            })?;
            Self::current()
        };
        apart(make)?
    }

    /// Duplicates the descriptor of the namespace.
    pub fn try_clone(&self) -> Result<Self, Problem> {
        let file = self.file.try_clone().map_err(|error| {
            Problem::failed(format!("cannot duplicate the descriptor of {}", self.label), error)
                .next("raise the limit of open files: ulimit -n")
        })?;
        Ok(Self { file, label: self.label.clone() })
    }

    /// Moves the calling thread alone into this namespace. Sockets opened before stay in their namespace;
    /// `/sys/class/net` keeps showing the namespace of its mount.
    pub fn enter(&self) -> Result<(), Problem> {
        set_namespace(self.file.as_raw_fd()).map_err(|error| {
            Problem::failed(format!("cannot enter network namespace {}", self.label), error)
                .next("run as root: entering a namespace needs CAP_SYS_ADMIN")
        })
    }

    /// Returns whether both are one namespace: the kernel identifies it by device and inode.
    pub fn is_same(&self, other: &Self) -> Result<bool, Problem> {
        Ok(self.identity()? == other.identity()?)
    }

    fn identity(&self) -> Result<(u64, u64), Problem> {
        let metadata = self.file.metadata().map_err(|error| {
            Problem::failed(format!("cannot identify network namespace {}", self.label), error)
                .next("check that it still exists with: ip netns list")
        })?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Makes `command` start in this namespace, with a matching `/sys`, as `ip netns exec` does. The program gets its
    /// own mount namespace, in which `/sys` is mounted anew (without `/sys/fs/cgroup` and `/sys/fs/bpf`).
    pub fn apply_to(&self, command: &mut Command) -> Result<(), Problem> {
        let file = self.try_clone()?.file;
        let enter = move || {
            set_namespace(file.as_raw_fd())?;
            mount_own_sysfs()
        };
        // SAFETY: between fork and exec the closure makes only the system calls setns, unshare, umount2 and mount, on
        // constants and on a descriptor that it owns: it neither allocates nor takes a lock.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

/// Runs `work` on a new thread inside the namespace at `path`; the calling thread stays in its own.
pub fn within<T: Send>(path: impl AsRef<Path>, work: impl FnOnce() -> Result<T, Problem> + Send) -> Result<T, Problem> {
    let namespace = Namespace::open(path)?;
    let in_namespace = || {
        namespace.enter()?;
        work()
    };
    apart(in_namespace)?
}

fn set_namespace(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: setns reads no memory of ours; the descriptor is owned by the caller for the length of the call.
    check(unsafe { libc::setns(descriptor, libc::CLONE_NEWNET) })
}

/// Mounts `/sys` anew after setns: a sysfs mount shows the network namespace of the process that mounted it.
fn mount_own_sysfs() -> io::Result<()> {
    // SAFETY: unshare takes no pointer; the caller is the only thread of a process between fork and exec.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // Slave: mounts below must not propagate back to the host.
    mount(c"none", c"/", None, libc::MS_SLAVE | libc::MS_REC)?;
    // SAFETY: the path is a constant C string. Failure is of no interest: the new mount covers what is left.
    unsafe { libc::umount2(c"/sys".as_ptr(), libc::MNT_DETACH) };
    mount(c"sysfs", c"/sys", Some(c"sysfs"), 0)
}

fn mount(source: &CStr, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: every pointer is a C string that outlives the call, or null where the kernel ignores it.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, ptr::null()) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_itself() {
        let one = Namespace::current().unwrap();
        let two = Namespace::open("/proc/self/ns/net").unwrap();
        assert!(one.is_same(&two).unwrap());
    }

    #[test]
    fn a_namespace_without_a_name_is_another_one() {
        if !crate::process::is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let ours = Namespace::current().unwrap();
        let made = Namespace::unnamed().unwrap();
        assert!(!made.is_same(&ours).unwrap() && made.is_same(&made.try_clone().unwrap()).unwrap());
        let inside = apart(|| made.enter().and_then(|()| made.is_same(&Namespace::current()?)));
        assert!(inside.unwrap().unwrap());
        assert!(Namespace::current().unwrap().is_same(&ours).unwrap());
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let problem = Namespace::open("/var/run/netns/no-such-namespace").unwrap_err();
        assert!(problem.to_string().contains("no-such-namespace"));
        assert!(problem.to_string().contains("ip netns list"));
    }

    #[test]
    fn work_within_a_namespace_returns_its_result() {
        if !crate::process::is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        assert_eq!(within("/proc/self/ns/net", || Ok(7)).unwrap(), 7);
    }
}

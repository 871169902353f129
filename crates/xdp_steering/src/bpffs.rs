//! A BPF file system of our own, for hosts without a mounted one, and to keep our pins apart from others.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};
use sidestep_sys::Problem;

/// `BPF_FS_MAGIC` of linux/magic.h.
const MAGIC: u32 = 0xcafe_4a11;

/// The mount's source in /proc/self/mountinfo, by which it is recognised.
const SOURCE: &str = "sidestep";

/// The kernel's own entries in every such file system (CONFIG_BPF_PRELOAD).
const OF_THE_KERNEL: [&str; 2] = ["maps.debug", "progs.debug"];

/// The most nested folders that are searched.
const DEPTH_MAX: usize = 16;

/// Returns whether a path is on a BPF file system.
pub(crate) fn is_bpffs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|facts| facts.f_type as u32 == MAGIC)
}

/// Mounts a BPF file system that only root can enter at `directory`; `false` if the directory is on one already.
pub fn mount(directory: &Path) -> Result<bool, Problem> {
    let problem = |error: io::Error| {
        Problem::failed(format!("cannot mount a BPF file system at {}", directory.display()), error)
            .next("run as root (mounting needs CAP_SYS_ADMIN), or name a directory on one that is mounted")
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(problem)?;
    if is_bpffs(directory) {
        return Ok(false);
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(SOURCE, directory, "bpf", flags, Some(c"mode=0700"))
        .map(|()| true)
        .map_err(|error| problem(error.into()))
}

/// Removes the mount of [`mount()`] and the directory; `false` if there is none. Refuses while anything is pinned in
/// it, as that would be lost.
///
/// Others may have used it: if nothing is mounted at /sys/fs/bpf (for example in a network namespace entered by `ip
/// netns exec`), iproute2 takes the first BPF file system that it finds, and makes folders and links in it. Those hold
/// nothing, and are removed.
pub fn unmount(directory: &Path) -> Result<bool, Problem> {
    let thing = format!("cannot unmount the BPF file system at {}", directory.display());
    let problem = |why: io::Error| Problem::failed(thing.clone(), why).next("run as root (it needs CAP_SYS_ADMIN)");
    if !is_our_mount(directory).map_err(problem)? {
        return Ok(false);
    }
    if let Some(pin) = pinned(directory, 0).map_err(problem)? {
        let path = pin.display();
        let why =
            format!("{path} is pinned there by another program, such as iproute2 if nothing is mounted at /sys/fs/bpf");
        return Err(Problem::failed(thing, why).next(format!("remove it if it is not needed: rm {path}")));
    }
    // It is empty, so a lazy unmount loses nothing, even if another mount namespace is using it just now.
    let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
    rustix::mount::unmount(directory, flags).map_err(|error| problem(error.into()))?;
    fs::remove_dir(directory).map_err(problem)?;
    Ok(true)
}

/// A pin in this folder or below: neither a folder, nor a link, nor one of the kernel's own.
fn pinned(folder: &Path, depth: usize) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let is_of_the_kernel = depth == 0 && OF_THE_KERNEL.iter().any(|known| entry.file_name() == *known);
        if kind.is_symlink() || is_of_the_kernel {
            continue;
        }
        // No program nests folders so deep; they count as a pin.
        if !kind.is_dir() || depth == DEPTH_MAX {
            return Ok(Some(entry.path()));
        }
        if let Some(pin) = pinned(&entry.path(), depth + 1)? {
            return Ok(Some(pin));
        }
    }
    Ok(None)
}

fn is_our_mount(directory: &Path) -> io::Result<bool> {
    let directory = match directory.canonicalize() {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().any(|line| is_mount_of(line, &directory)))
}

/// Fields of proc_pid_mountinfo(5): the fifth is the mount point; after a lone dash come file system and source.
fn is_mount_of(line: &str, directory: &Path) -> bool {
    let Some((mount, file_system)) = line.split_once(" - ") else { return false };
    let point = mount.split(' ').nth(4).map(unescape);
    let mut file_system = file_system.split(' ');
    point.as_deref().map(Path::new) == Some(directory)
        && file_system.next() == Some("bpf")
        && file_system.next() == Some(SOURCE)
}

/// Decodes the octal escapes of blanks, tabs, line ends and backslashes in a path.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_mount_is_known_again() {
        let ours = "90 35 0:45 / /run/side\\040step/bpf rw,nosuid - bpf sidestep rw,mode=700";
        assert!(is_mount_of(ours, Path::new("/run/side step/bpf")));
        assert!(!is_mount_of(ours, Path::new("/run/side step")));
        assert!(!is_mount_of(&ours.replace("- bpf", "- tmpfs"), Path::new("/run/side step/bpf")));
        assert!(!is_mount_of("90 35 0:45 / /sys/fs/bpf rw - bpf bpf rw", Path::new("/sys/fs/bpf")));
        assert!(!is_mount_of("", Path::new("/")));
    }

    #[test]
    fn a_plain_directory_is_neither() {
        assert!(!is_bpffs(Path::new("/proc")));
        assert!(!unmount(Path::new("/proc")).unwrap());
        assert!(!unmount(Path::new("/none/at/all")).unwrap());
    }
}

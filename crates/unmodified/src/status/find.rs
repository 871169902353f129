//! The search for status pages in /proc. It asks no process: one that hangs or is stopped is found as well.

use super::view::StatusView;
use rustix::fs::{Mode, OFlags};
use sidestep_sys::memory::memfd;
use sidestep_sys::process::{Process, state_of};
use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of the memfd.
pub(super) const MEMFD_NAME: &str = "sidestep-status";

/// The text of its link in /proc/PID/fd (proc_pid_fd(5)).
const LINK: &str = "/memfd:sidestep-status (deleted)";

/// The most descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 1 << 18;

/// A process with a status page.
#[derive(Debug)]
pub struct Found {
    /// Its process id here.
    pub pid: u32,
    /// Its user, who is the real one.
    pub uid: u32,
    /// Its state (proc_pid_stat(5)): `T` if it is stopped.
    pub state: char,
    /// The inode of its network namespace, if it can be seen.
    pub network_namespace: Option<u64>,
    /// Its page.
    pub view: StatusView,
    /// The inodes of its sockets, by their descriptors.
    pub sockets: HashMap<u32, u64>,
}

/// Returns the processes with a status page that the caller may read: its user's own; for root, all. In the order of their
/// numbers.
pub fn processes() -> Vec<Found> {
    let Some(mount) = memfd_mount() else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(|pid| found(pid, &mount)).collect()
}

fn found(pid: u32, mount: &str) -> Option<Found> {
    let mut pages = Vec::new();
    let mut sockets = HashMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().take(DESCRIPTORS_MAX) {
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        if link.as_os_str() == LINK {
            pages.push(entry.path());
        } else if let Some(inode) = socket_inode(&link) {
            sockets.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()).map(|number| (number, inode)));
        }
    }
    let view = pages.iter().filter_map(|path| view(path, mount)).find(|view| is_of(view, pid))?;
    Some(Found {
        pid,
        uid: status_field(pid, "Uid:")?.split_whitespace().next()?.parse().ok()?,
        state: state_of(pid).ok().flatten()?,
        network_namespace: fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|metadata| metadata.ino()),
        view,
        sockets,
    })
}

/// Returns the inode of a socket by its link in /proc/PID/fd: `socket:[123]`.
fn socket_inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Maps a descriptor's file if it is a memfd. Any file can have the name: one of a hostile file system would hold the reader for
/// ever, so its mount is checked before it is opened.
fn view(path: &Path, mount: &str) -> Option<StatusView> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    (mount_of(&place)? == mount).then_some(())?;
    let file = fs::File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()?;
    StatusView::open(file.as_fd()).ok()
}

/// Returns whether a process made the page: its children have the descriptor, too.
fn is_of(view: &StatusView, pid: u32) -> bool {
    let (claimed, start_ticks) = view.process();
    // The number in the innermost namespace comes last.
    let inside = status_field(pid, "NSpid:").and_then(|list| list.split_whitespace().last()?.parse().ok());
    let is_this = inside.unwrap_or(u64::from(pid)) == claimed;
    is_this && Process::of(pid).ok().flatten().is_some_and(|process| process.start_ticks == start_ticks)
}

/// Returns a line of /proc/PID/status without its name.
fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

/// Returns the mount that all memfds are on, which no path leads to.
fn memfd_mount() -> Option<String> {
    mount_of(&memfd("sidestep-ps", false).ok()?)
}

fn mount_of(file: &OwnedFd) -> Option<String> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(|rest| rest.trim().to_owned())
}

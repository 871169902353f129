//! Candidates for the holder of a queue: the processes that have AF_XDP sockets. The kernel reports the queue of a
//! socket only if it is built with CONFIG_XDP_SOCKETS_DIAG, so all of them are named.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The most processes that a message names.
const NAMED_MAX: usize = 8;
/// The most descriptors examined: some seconds' worth on the largest hosts.
const LOOKED_AT_MAX: usize = 100_000;

/// "held by PID NAME" for a message.
pub(super) fn holders() -> String {
    let mut named = BTreeSet::new();
    let mut looked_at = 0;
    for pid in numbers("/proc") {
        let Ok(process) = open_pid(pid) else { continue };
        let descriptors = numbers(&format!("/proc/{pid}/fd")).into_iter().filter(|fd| is_socket(pid, *fd));
        for descriptor in descriptors {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX || named.len() >= NAMED_MAX {
                break;
            }
            if copy_of(&process, descriptor).is_ok_and(|socket| is_xdp(&socket)) {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                named.insert(format!("{pid} ({})", name.trim()));
                break;
            }
        }
    }
    match named.len() {
        0 => "another AF_XDP socket has the queue; its process could not be found".into(),
        _ => {
            let list: Vec<String> = named.into_iter().collect();
            format!("another AF_XDP socket has the queue; processes that have such sockets: {}", list.join(", "))
        }
    }
}

/// The entries of a directory whose names are numbers.
fn numbers(directory: &str) -> Vec<i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn is_socket(pid: i32, descriptor: i32) -> bool {
    let target = fs::read_link(format!("/proc/{pid}/fd/{descriptor}"));
    target.is_ok_and(|target| target.to_str().is_some_and(|target| target.starts_with("socket:")))
}

fn open_pid(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes no pointer.
    own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Duplicates another process's descriptor (pidfd_getfd(2), Linux 5.6), which needs the right to trace it.
fn copy_of(process: &OwnedFd, descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_getfd takes no pointer.
    own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0) })
}

fn own(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_xdp(socket: &OwnedFd) -> bool {
    use std::os::fd::AsFd;
    super::options::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_DOMAIN, 0_i32).is_ok_and(|it| it == libc::AF_XDP)
}

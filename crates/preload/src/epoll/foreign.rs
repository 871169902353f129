//! Epoll sets that this process has not made: a forked child has them from its parent, a program from the one that has started it or
//! passed it. What stands in such a set the kernel tells in /proc (proc_pid_fdinfo(5)).

use super::Interest;
use super::Set;
use crate::description::{Description, Kind};
use crate::watchers::Watchers;
use crate::{descriptors, process};
use libc::c_int;
use sidestep_sys::file;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The link of a set's descriptor in /proc/self/fd.
const LINK: &[u8] = b"anon_inode:[eventpoll]";

/// A line of it has some 80 bytes: a set of more than 200,000 descriptors is not read.
const CONTENT_BYTES_MAX: u64 = 16 << 20;

/// Puts a set of ours beside a number, if it is an epoll set. The caller is inside.
pub(crate) fn adopt(number: c_int) -> Option<Arc<Set>> {
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    if link.as_os_str().as_bytes() != LINK || !process::own_first() {
        return None;
    }
    let set = put(number)?;
    for (watched, interest) in content(number) {
        set.note_real(libc::EPOLL_CTL_ADD, watched, interest);
        if let Some(description) = descriptors::find(watched) {
            // It has gone past the kernel since.
            set.adopt(watched, &description);
        }
    }
    Some(set)
}

/// Puts a set of ours beside a set of the kernel; `None` where there is no descriptor for it.
pub(crate) fn put(number: c_int) -> Option<Arc<Set>> {
    let watchers = Arc::new(Watchers::default());
    let set = Set::new(number, &watchers)?;
    let description = Description::new(Kind::Epoll(Arc::clone(&set)), watchers, false);
    descriptors::insert(number, description).then_some(set)
}

/// The numbers that stand in a set, as they were when they were added.
fn content(number: c_int) -> Vec<(c_int, Interest)> {
    let path = PathBuf::from(format!("/proc/self/fdinfo/{number}"));
    let text = file::read_text(Path::new(&path), CONTENT_BYTES_MAX).unwrap_or_default();
    text.lines().filter_map(item).collect()
}

/// `tfd:        5 events:       1d data:               7f pos:0 ino:61 sdev:6`
fn item(line: &str) -> Option<(c_int, Interest)> {
    let mut words = line.strip_prefix("tfd:")?.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let events = words.next().filter(|word| *word == "events:").and_then(|_| words.next())?;
    let data = words.next().filter(|word| *word == "data:").and_then(|_| words.next())?;
    let (events, data) = (u32::from_str_radix(events, 16).ok()?, u64::from_str_radix(data, 16).ok()?);
    Some((number, Interest { events, data }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_kernel_tells_what_stands_in_a_set() {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&set, &one, epoll::EventData::new_u64(0xfedc_ba98_7654_3210), flags).unwrap();
        // The kernel adds EPOLLERR and EPOLLHUP.
        let events = flags.bits() | (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let interest = Interest { events, data: 0xfedc_ba98_7654_3210 };
        assert_eq!(content(set.as_raw_fd()), [(one.as_raw_fd(), interest)]);
        assert!(content(one.as_raw_fd()).is_empty() && adopt(one.as_raw_fd()).is_none());
    }

    #[test]
    fn other_lines_are_no_items() {
        for line in ["", "pos:\t0", "tfd: x events: 1 data: 2", "tfd: 1 events: 1", "tfd: 1 data: 1 events: 1"] {
            assert!(item(line).is_none(), "{line}");
        }
    }
}

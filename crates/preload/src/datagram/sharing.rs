//! Groups whose port other programs have, too. The kernel gives each member a copy; a group that is steered would come to one program
//! alone. So while another program's socket is at the port (SO_REUSEADDR), its groups stay with the kernel.

use super::Datagrams;
use crate::descriptors;
use crate::signals::Inside;
use rustix::fs::fstat;
use sidestep_sys::file::read_text;
use sidestep_sys::signals::with_all_blocked;
use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Between two looks at the sockets of this host. A socket is another program's if two looks find it: one of this program is not known
/// for a moment after bind(2).
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The kernel's list is read up to here: a hundred thousand sockets.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// A socket in the kernel's list.
type Found = (u16, u64);

/// Returns whether another program has a socket at a port, where this program has one that may not be known to be past the kernel yet.
pub(super) fn is_shared(port: u16, socket: BorrowedFd<'_>) -> bool {
    let mut own = own_inodes();
    own.extend(fstat(socket).map(|facts| facts.st_ino));
    all().into_iter().any(|(at, inode)| at == port && !own.contains(&inode))
}

/// Looks at the ports of groups from now on.
pub(super) fn watch() {
    // A forked child does not have its parent's thread.
    static WATCHING: AtomicU32 = AtomicU32::new(0);
    if WATCHING.swap(std::process::id(), Ordering::Relaxed) != std::process::id() {
        let thread = std::thread::Builder::new().name("sidestep-groups".into());
        // Where there is no thread to be had, the groups that are steered stay so.
        let _ = with_all_blocked(|| thread.spawn(look_on));
    }
}

fn look_on() {
    let _inside = Inside::enter();
    let mut before = HashSet::new();
    loop {
        std::thread::sleep(LOOK_INTERVAL);
        before = look(&before);
    }
}

/// Leaves groups to the kernel whose port another program has had since the last look. Returns the other programs' sockets.
fn look(before: &HashSet<Found>) -> HashSet<Found> {
    let sharing: Vec<_> = descriptors::all().into_iter().filter(|(_, one)| of_group(one).is_some()).collect();
    if sharing.is_empty() {
        return HashSet::new();
    }
    let own = own_inodes();
    let others: HashSet<Found> = all().into_iter().filter(|(_, inode)| !own.contains(inode)).collect();
    for (_, description) in sharing {
        let Some((datagrams, port)) = of_group(&description) else { continue };
        if others.intersection(before).any(|(at, _)| *at == port) {
            datagrams.share_groups();
        }
    }
    others
}

/// A socket of which groups are steered, and its port.
fn of_group(description: &crate::description::Description) -> Option<(&Datagrams, u16)> {
    let datagrams = description.datagrams()?;
    Some((datagrams, datagrams.group_port()?))
}

/// The inodes of this program's sockets past the kernel.
fn own_inodes() -> HashSet<u64> {
    let inode = |number| {
        // SAFETY: borrowed for one system call; a closed one gives an error, or another file's number.
        fstat(unsafe { BorrowedFd::borrow_raw(number) }).ok().map(|facts| facts.st_ino)
    };
    let ours = descriptors::all().into_iter().filter(|(_, description)| description.datagrams().is_some());
    ours.filter_map(|(number, _)| inode(number)).collect()
}

/// All sockets of UDP of this network namespace.
fn all() -> Vec<Found> {
    let lists = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
    let texts = lists.into_iter().filter_map(|list| read_text(Path::new(list), LIST_BYTES_MAX).ok());
    texts.flat_map(|text| text.lines().filter_map(read).collect::<Vec<_>>()).collect()
}

/// A line of the kernel's list (udp4_format_sock, linux/net/ipv4/udp.c): the local port and the inode.
fn read(line: &str) -> Option<Found> {
    let mut words = line.split_ascii_whitespace();
    let (_, port) = words.nth(1)?.rsplit_once(':')?;
    let inode = words.nth(7)?.parse().ok()?;
    Some((u16::from_str_radix(port, 16).ok()?, inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_line_of_the_kernels_list_has_port_and_inode() {
        let line = "  335: 0100007F:0143 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 19238 2 0000000000000000 0";
        assert_eq!(read(line), Some((0x143, 19238)));
        let title = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
        assert_eq!(read(title), None);
    }

    #[test]
    fn a_socket_that_is_not_ours_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else { return eprintln!("skipped: no IPv6") };
            let at = (socket.local_addr().unwrap().port(), fstat(socket.as_fd()).unwrap().st_ino);
            let other = UdpSocket::bind(address).unwrap();
            assert!(all().contains(&at) && is_shared(at.0, other.as_fd()));
            assert!(!is_shared(at.0, socket.as_fd()), "it is known before it is in the table");
        }
    }
}

//! Programs under `sidestep run`: their status pages, and what the kernel knows of the sockets that it carries.

use super::figure::Figure;
use super::find::{Found, processes};
use super::kernel::{KernelSocket, sockets};
use super::snapshot::{PathNow, Snapshot, Socket};
use std::collections::{HashMap, HashSet};

/// A program under `sidestep run`.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its process id here.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its state (proc_pid_stat(5)): `T` if it is stopped.
    pub state: char,
    /// Its page.
    pub page: Snapshot,
}

/// Returns the programs of this network namespace whose pages the caller may read: its user's own; for root, all.
pub fn programs() -> Vec<Program> {
    let here = sidestep_control_api::place::namespace_inode().ok();
    let mut found = processes();
    found.retain(|found| found.network_namespace.is_none() || found.network_namespace == here);
    let kernel = if found.is_empty() { HashMap::new() } else { sockets() };
    found.iter().map(|found| program(found, &kernel)).collect()
}

fn program(found: &Found, kernel: &HashMap<u64, KernelSocket>) -> Program {
    let mut page = found.view.snapshot();
    complete(&mut page, &found.sockets, kernel);
    Program { pid: found.pid, uid: found.uid, state: found.state, page }
}

/// Completes a page. `inodes` are the process's sockets by their descriptors. Rows of sockets that were closed by a call that the
/// library does not see are left out, and sockets that were made by such a call are added.
fn complete(page: &mut Snapshot, inodes: &HashMap<u32, u64>, kernel: &HashMap<u64, KernelSocket>) {
    page.sockets.retain(|socket| inodes.contains_key(&socket.descriptor));
    let mut shown = HashSet::new();
    for socket in &mut page.sockets {
        let inode = inodes[&socket.descriptor];
        shown.insert(inode);
        let is_accelerated = matches!(socket.path, PathNow::Accelerated { .. });
        if let Some(known) = kernel.get(&inode).filter(|_| !is_accelerated) {
            follow(socket, known);
        }
    }
    let unseen: HashMap<u64, u32> = inodes.iter().filter(|(_, inode)| !shown.contains(inode)).fold(
        HashMap::new(),
        |mut lowest: HashMap<u64, u32>, (descriptor, inode)| {
            lowest.entry(*inode).and_modify(|known| *known = (*known).min(*descriptor)).or_insert(*descriptor);
            lowest
        },
    );
    let is_full = page.beyond > 0;
    let added = unseen.iter().filter_map(|(inode, descriptor)| Some(other(*descriptor, kernel.get(inode)?, is_full)));
    page.sockets.extend(added);
    page.sockets.sort_by_key(|socket| socket.descriptor);
}

/// Takes over what the kernel tells of a socket that it carries.
fn follow(socket: &mut Socket, known: &KernelSocket) {
    (socket.kind, socket.local, socket.remote, socket.state) =
        (known.kind, Some(known.local), known.remote, known.state);
    socket.set(Figure::UnsentBytes, known.unsent_bytes);
    socket.set(Figure::UnreadBytes, known.unread_bytes);
    socket.set(Figure::Drops, socket.value(Figure::Drops).saturating_add(known.drops));
}

fn other(descriptor: u32, known: &KernelSocket, is_full: bool) -> Socket {
    let (name, description) = match is_full {
        true => ("no_row", "not known: the status page has no row for it (option status-sockets)"),
        false => ("unseen", "it came from another program, or by a call that the library does not see"),
    };
    let path = PathNow::Kernel { name: name.to_owned(), description: description.to_owned() };
    let mut socket = Socket::of_kernel(descriptor, known.kind, path);
    follow(&mut socket, known);
    socket
}

#[cfg(test)]
mod tests {
    use super::super::{Path, SOCKETS_MIN, SocketKind, StatusPage, StatusView};
    use super::*;
    use std::os::fd::AsFd;

    const KERNEL: KernelSocket = KernelSocket {
        kind: SocketKind::TcpStream,
        local: std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 80),
        remote: None,
        state: None,
        unsent_bytes: 7,
        unread_bytes: 0,
        drops: 0,
    };

    #[test]
    fn what_the_library_does_not_see_is_seen() {
        let page = StatusPage::create("test", "safe", SOCKETS_MIN, &[("taken", "taken")]).unwrap();
        let engine = page.open_engine("eth1", sidestep_control_api::message::Mode::Copy, &[0]).unwrap();
        let rows = [5, 6, 7].map(|number| page.open_socket(number, SocketKind::TcpStream).unwrap());
        page.set_path(
            rows[0],
            Path::Accelerated { engine, mode: sidestep_control_api::message::Mode::Copy, queue: None },
        );
        page.set_path(rows[1], Path::Kernel { reason: 0 });
        let mut seen = StatusView::open(page.as_fd()).unwrap().snapshot();
        // 7 was closed by a call that was not seen, 8 and its copy 9 were made by one; 16390 is the library's copy of 5.
        let inodes = HashMap::from([(5, 105), (6, 106), (8, 108), (9, 108), (11, 111), (16390, 105)]);
        let kernel = HashMap::from([(105, KERNEL), (106, KERNEL), (108, KERNEL)]);
        complete(&mut seen, &inodes, &kernel);
        let list: Vec<_> = seen.sockets.iter().map(|socket| (socket.descriptor, socket.local.is_some())).collect();
        assert_eq!(list, [(5, false), (6, true), (8, true)]);
        assert_eq!(seen.sockets[1].value(Figure::UnsentBytes), 7);
        assert!(matches!(&seen.sockets[2].path, PathNow::Kernel { name, .. } if name == "unseen"));
    }
    #[test]
    fn the_book_has_what_is_said_of_sockets_without_a_row() {
        let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/past-the-kernel/troubleshooting.md");
        let chapter = std::fs::read_to_string(chapter).expect("the chapter is there");
        for is_full in [true, false] {
            let PathNow::Kernel { name, description } = other(3, &KERNEL, is_full).path else { panic!("{is_full}") };
            assert!(
                chapter.contains(&format!("\n### `{name}`\n\n> {description}\n")),
                "troubleshooting.md lacks {name}"
            );
        }
    }
}

//! The sockets of a network namespace as the kernel lists them (proc(5), /proc/net): addresses, state and queues of those that it carries.

use super::layout::SocketKind;
use super::tcp_state::TcpState;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The longest list: 150 bytes for each of 400,000 sockets.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// A socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelSocket {
    pub(super) kind: SocketKind,
    pub(super) local: SocketAddr,
    /// `None` of a socket that is not connected.
    pub(super) remote: Option<SocketAddr>,
    /// `None` of UDP.
    pub(super) state: Option<TcpState>,
    pub(super) unsent_bytes: u64,
    pub(super) unread_bytes: u64,
    /// Datagrams.
    pub(super) drops: u64,
}

/// Returns the sockets of this process's network namespace, by their inodes.
pub(super) fn sockets() -> HashMap<u64, KernelSocket> {
    let lists = [("tcp", true), ("tcp6", true), ("udp", false), ("udp6", false)];
    let of_list = |(name, is_tcp): (&str, bool)| {
        // Without the protocol there is no list.
        let text = sidestep_sys::file::read_text(&Path::new("/proc/self/net").join(name), LIST_BYTES_MAX);
        let lines = text.unwrap_or_default();
        lines.lines().skip(1).filter_map(|line| parse(line, is_tcp)).collect::<Vec<_>>()
    };
    lists.into_iter().flat_map(of_list).collect()
}

/// Parses a line: `sl local remote st tx:rx tr:when retrnsmt uid timeout inode ... drops`.
fn parse(line: &str, is_tcp: bool) -> Option<(u64, KernelSocket)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, remote) = (address(fields.get(1)?)?, address(fields.get(2)?)?);
    let state = u64::from_str_radix(fields.get(3)?, 16).ok()?;
    let (unsent, unread) = fields.get(4)?.split_once(':')?;
    let state = TcpState::numbered(state).filter(|_| is_tcp);
    let kind = match state {
        _ if !is_tcp => SocketKind::UdpSocket,
        Some(TcpState::Listen) => SocketKind::TcpListener,
        _ => SocketKind::TcpStream,
    };
    let drops = if is_tcp { 0 } else { fields.get(12)?.parse().ok()? };
    let socket = KernelSocket {
        kind,
        local,
        remote: (remote.port() != 0).then_some(remote),
        state,
        unsent_bytes: u64::from_str_radix(unsent, 16).ok()?,
        unread_bytes: u64::from_str_radix(unread, 16).ok()?,
        drops,
    };
    Some((fields.get(9)?.parse().ok().filter(|inode| *inode != 0)?, socket))
}

/// Parses an address: words of 32 bits in the order of the machine, and a port, all hexadecimal.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| u32::from_str_radix(words.get(8 * index..8 * index + 8)?, 16).ok();
    let ip: IpAddr = match words.len() {
        8 => Ipv4Addr::from(word(0)?.to_ne_bytes()).into(),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index)?.to_ne_bytes());
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::fs::MetadataExt;

    fn inode_of(descriptor: i32) -> u64 {
        std::fs::metadata(format!("/proc/self/fd/{descriptor}")).unwrap().ino()
    }

    #[test]
    fn sockets_of_both_families_are_found() {
        use std::os::fd::AsRawFd;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.connect(listener.local_addr().unwrap()).unwrap();
        let all = sockets();
        let seen = all[&inode_of(listener.as_raw_fd())];
        assert_eq!(
            (seen.kind, seen.local, seen.remote),
            (SocketKind::TcpListener, listener.local_addr().unwrap(), None)
        );
        let seen = all[&inode_of(datagrams.as_raw_fd())];
        assert_eq!((seen.kind, seen.local), (SocketKind::UdpSocket, datagrams.local_addr().unwrap()));
        assert_eq!((seen.remote, seen.state), (Some(listener.local_addr().unwrap()), None));
        if let Ok(six) = TcpListener::bind("[::1]:0") {
            assert_eq!(sockets()[&inode_of(six.as_raw_fd())].local, six.local_addr().unwrap());
        }
    }

    #[test]
    fn lines_that_are_none_are_skipped() {
        for line in
            ["", "sl", "0: 0:0 0:0 0A", "0: 00000000:XX 00000000:00 0A 0:0 0 0 0 0 5", "0: 000:0 0:0 0A 0:0 0 0 0 0 5"]
        {
            assert_eq!(parse(line, true), None, "{line}");
        }
        assert_eq!(
            address("0100007F:0050"),
            Some("127.0.0.1:80".parse().unwrap()).filter(|_| cfg!(target_endian = "little"))
        );
    }
}

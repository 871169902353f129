//! Local ports of the kernel: those that may be reserved, and the sockets that hold them.

use rustix::net::sockopt::{set_ipv6_v6only, set_socket_linger};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

/// The kernel's default range of local ports (net.ipv4.ip_local_port_range).
const RANGE_DEFAULT: RangeInclusive<u16> = 32_768..=60_999;

/// The kernel's interface for the pool of ports.
pub(crate) trait Ports {
    /// The ports that may be reserved without harm to others.
    fn range(&self) -> RangeInclusive<u16>;
    /// The ports that the administrator has reserved (net.ipv4.ip_local_reserved_ports).
    fn kept(&self) -> Vec<RangeInclusive<u16>>;
    /// Holds a TCP port exclusively, on every address of both families, as long as the descriptor is open.
    fn hold(&self, port: u16) -> io::Result<OwnedFd>;
    /// Returns whether packets that come by an interface may be for another host: forwarded, or to an address and port
    /// of this host that are translated (NAT) to a host behind it.
    fn is_forwarding(&self, interface: &str) -> bool;
}

/// The ports of the calling thread's network namespace.
pub(crate) struct KernelPorts;

impl Ports for KernelPorts {
    /// The upper half of the kernel's local ports: no service is there, and the lower half is left to others.
    fn range(&self) -> RangeInclusive<u16> {
        let told = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().and_then(|text| range_of(&text));
        let (first, last) = told.unwrap_or(RANGE_DEFAULT).into_inner();
        first.max(1024) / 2 + last / 2 + 1..=last
    }

    fn kept(&self) -> Vec<RangeInclusive<u16>> {
        kept_of(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default())
    }

    fn hold(&self, port: u16) -> io::Result<OwnedFd> {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        match open(AddressFamily::INET6) {
            Ok(both) => {
                set_ipv6_v6only(&both, false)?;
                bind(&both, &any)?;
                Ok(both)
            }
            // A kernel without IPv6.
            Err(_) => {
                let socket = open(AddressFamily::INET)?;
                bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
                Ok(socket)
            }
        }
    }

    fn is_forwarding(&self, interface: &str) -> bool {
        let is_on = |family: &str| {
            let told = fs::read_to_string(format!("/proc/sys/net/{family}/conf/{interface}/forwarding"));
            told.is_ok_and(|text| text.trim() != "0")
        };
        is_on("ipv4") || is_on("ipv6")
    }
}

/// Binds without SO_REUSEADDR and SO_REUSEPORT: no other socket can share the port, whatever its own options are.
fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    // It never connects, so closing it does not block.
    set_socket_linger(&socket, None)?;
    Ok(socket)
}

/// Two numbers, as sysctl shows them.
fn range_of(text: &str) -> Option<RangeInclusive<u16>> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (first <= last).then_some(first..=last)
}

/// `8080,9148-9150`.
fn kept_of(text: &str) -> Vec<RangeInclusive<u16>> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_lab::{Lab, Options, Side};
    use sidestep_sys::process::is_root;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn what_sysctl_shows_is_understood() {
        assert_eq!(range_of("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!((range_of("9 7"), range_of(""), range_of("1 65536")), (None, None, None));
        assert_eq!(kept_of("\n"), []);
        assert_eq!(kept_of("8080,9148-9150\n"), [8080..=8080, 9148..=9150]);
    }

    fn in_a_lab(test: impl FnOnce() + Send) {
        if !is_root() {
            return eprintln!("skipped: needs root");
        }
        let lab = Lab::up(&Options::default()).unwrap();
        let run = || {
            test();
            Ok(())
        };
        lab.host(Side::A).within(run).unwrap();
    }

    #[test]
    fn a_held_port_is_nobody_elses_in_either_family_and_its_datagrams_stay_free() {
        in_a_lab(|| {
            let held = KernelPorts.hold(50_000).unwrap();
            for taken in ["0.0.0.0:50000", "127.0.0.1:50000", "198.18.0.1:50000", "[::]:50000", "[::1]:50000"] {
                // The standard library's listeners set SO_REUSEADDR.
                let error = TcpListener::bind(taken).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{taken}");
            }
            assert!(KernelPorts.hold(50_000).is_err());
            assert!(UdpSocket::bind("0.0.0.0:50000").is_ok());
            assert!(TcpStream::connect("127.0.0.1:50000").is_err(), "nobody listens");
            drop(held);
            let listener = TcpListener::bind("127.0.0.1:50000").unwrap();
            assert!(KernelPorts.hold(50_000).is_err(), "somebody's own");
            drop(listener);
        });
    }

    /// The kernel's choice of a port for connect(2) and for bind(2) to port 0 avoids held ports.
    #[test]
    fn the_kernel_gives_nobody_a_held_port() {
        in_a_lab(|| {
            fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50003").unwrap();
            assert_eq!(KernelPorts.range(), 50_002..=50_003);
            let _held: Vec<_> = KernelPorts.range().map(|port| KernelPorts.hold(port).unwrap()).collect();
            let listener = TcpListener::bind("127.0.0.1:7").unwrap();
            let mut clients = Vec::new();
            while let Ok(client) = TcpStream::connect(listener.local_addr().unwrap()) {
                clients.push(client);
            }
            let mut seen: Vec<u16> = clients.iter().map(|client| client.local_addr().unwrap().port()).collect();
            seen.sort_unstable();
            assert_eq!(seen, [50_000, 50_001]);
            assert!(TcpListener::bind("127.0.0.1:0").is_err());
        });
    }

    #[test]
    fn whether_an_interface_forwards_is_told_by_family() {
        in_a_lab(|| {
            let set = |family: &str, value: &str| {
                fs::write(format!("/proc/sys/net/{family}/conf/lab0/forwarding"), value).unwrap();
            };
            ["ipv4", "ipv6"].into_iter().for_each(|family| set(family, "0"));
            assert!(!KernelPorts.is_forwarding("lab0"));
            for family in ["ipv4", "ipv6"] {
                set(family, "1");
                assert!(KernelPorts.is_forwarding("lab0"), "{family}");
                set(family, "0");
            }
        });
    }
}

//! The names of places where streams are reached, and how they are written.

use sidestep_sys::Problem;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A place where a listener listens and to which others connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A TCP port of a host; the host may be a name.
    Tcp {
        /// Name or address; empty for every IPv4 address of this host. `::` is every address of both kinds.
        host: String,
        /// 0 lets the kernel choose.
        port: u16,
    },
    /// A Unix socket's path.
    Unix(PathBuf),
    /// Two rings in shared memory, opened through a Unix socket of this path ([`super::shm`]).
    Shm(PathBuf),
    /// A TCP port past the kernel ([`crate::Engine`]), on this interface.
    Xdp {
        /// The interface.
        interface: String,
        /// An address, no name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Endpoint {
    /// Reads `HOST:PORT`, `[V6]:PORT`, `unix:PATH`, `shm:PATH` or `xdp:INTERFACE:HOST:PORT`.
    ///
    /// # Errors
    /// It is none of them.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let wrong = || {
            Problem::usage(format!("cannot use the address {text}"), "it is none")
                .next("write HOST:PORT, unix:PATH, shm:PATH or xdp:INTERFACE:ADDRESS:PORT")
        };
        let tcp = |text: &str| {
            let (host, port) = text.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some((host, port.parse().ok()?))
        };
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("shm", path)) if !path.is_empty() => Ok(Self::Shm(path.into())),
            Some(("xdp", rest)) => {
                let (interface, address) = rest.split_once(':').ok_or_else(wrong)?;
                let (host, port) = tcp(address).ok_or_else(wrong)?;
                Ok(Self::Xdp { interface: interface.to_owned(), host, port })
            }
            _ => tcp(text).map(|(host, port)| Self::Tcp { host, port }).ok_or_else(wrong),
        }
    }

    /// Returns the name or address of the host, if the endpoint has one: the name that a certificate has to be for.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Tcp { host, .. } | Self::Xdp { host, .. } => Some(host),
            Self::Unix(_) | Self::Shm(_) => None,
        }
    }

    /// Returns the port, if the endpoint has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { port, .. } | Self::Xdp { port, .. } => Some(*port),
            Self::Unix(_) | Self::Shm(_) => None,
        }
    }
}

impl From<SocketAddr> for Endpoint {
    /// TCP by the kernel.
    fn from(address: SocketAddr) -> Self {
        let host = match address {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
            _ => address.ip().to_string(),
        };
        Self::Tcp { host, port: address.port() }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        match self {
            Self::Tcp { host: name, port } => write!(f, "{}:{port}", host(name)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Shm(path) => write!(f, "shm:{}", path.display()),
            Self::Xdp { interface, host: name, port } => write!(f, "xdp:{interface}:{}:{port}", host(name)),
        }
    }
}

/// Reads the address of an endpoint past the kernel, where no name is looked up.
pub(super) fn literal(host: &str, port: u16) -> Result<SocketAddr, Problem> {
    let address: Result<IpAddr, _> = host.parse();
    let address = address.map_err(|_| {
        Problem::usage(format!("cannot use {host} past the kernel"), "it is no IP address").next("name an address")
    })?;
    Ok(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let address = |scope| SocketAddr::V6(std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, scope));
        assert_eq!(Endpoint::from(address(2)).to_string(), "[fe80::1%2]:80");
        assert_eq!(Endpoint::from(address(0)).to_string(), "[fe80::1]:80");
    }

    #[test]
    fn every_form_reads_back() {
        for text in
            ["127.0.0.1:9876", "fix.example:1", "[::1]:7", ":0", "unix:/tmp/a", "shm:/tmp/b", "xdp:eth1:10.0.0.1:9"]
        {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "host", "host:x", "unix:", "xdp:eth1", "1.2.3.4:70000"] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }
}

//! Where an acceptor is reached, as users write it.

use super::tls::TlsLink;
use super::veth::{Passage, Way};
use crate::transport::Transport;
use sidestep_link::{Address, Link, Options, connect};
use sidestep_sys::Problem;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Where an acceptor is reached: `HOST:PORT`, `tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH` or
/// `shm:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A stream without encryption.
    Plain(Address),
    /// TLS over TCP; the certificate is not looked at.
    Tls(SocketAddr),
    /// Through a veth: an acceptor that was started for the run.
    Wire(Box<Way>),
}

impl Reach {
    /// What carries the messages.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Plain(Address::Tcp(_)) | Self::Wire(_) => Transport::Tcp,
            Self::Tls(_) => Transport::Tls,
            Self::Plain(Address::Unix(_)) => Transport::Uds,
            Self::Plain(Address::Shm(_)) => Transport::Shm,
        }
    }

    /// The IP address, if there is one in this namespace.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Plain(Address::Tcp(address)) | Self::Tls(address) => Some(*address),
            Self::Plain(_) | Self::Wire(_) => None,
        }
    }

    /// Sessions at a time that it can carry.
    pub(super) fn sessions_max(&self) -> u32 {
        if let Self::Wire(way) = self { way.sessions_max() } else { u32::MAX }
    }

    /// Waits until the acceptor, which was stopped, can be reached as it is to be; what then counts its messages, if they go
    /// past the kernel.
    pub(super) fn awake(&self) -> Result<Option<Passage>, Problem> {
        if let Self::Wire(way) = self { way.awake() } else { Ok(None) }
    }

    /// Connects.
    pub(super) fn connect(&self, options: &Options) -> Result<Box<dyn Link>, Problem> {
        match self {
            Self::Plain(address) => connect(address, options),
            Self::Tls(address) => {
                let stream = connect(&Address::Tcp(*address), options)?;
                Ok(Box::new(TlsLink::new(stream, address.ip())?))
            }
            Self::Wire(way) => way.connect(options),
        }
    }
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Plain(Address::Unix(PathBuf::from(path)))),
            Some(("shm", path)) if !path.is_empty() => Ok(Self::Plain(Address::Shm(PathBuf::from(path)))),
            Some(("tls", address)) => resolve(address).map(Self::Tls),
            Some(("tcp", address)) => resolve(address).map(Address::Tcp).map(Self::Plain),
            _ => resolve(text).map(Address::Tcp).map(Self::Plain),
        }
    }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| {
        format!("cannot find {text:?}: {error}; an acceptor is at HOST:PORT, tls:HOST:PORT, unix:PATH or shm:PATH")
    })?;
    found.next().ok_or_else(|| format!("{text:?} has no address"))
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(address @ Address::Tcp(_)) => write!(f, "{address}"),
            Self::Tls(address) => write!(f, "tls:{address}"),
            Self::Plain(address @ Address::Unix(_)) => write!(f, "unix:{address}"),
            Self::Plain(address @ Address::Shm(_)) => write!(f, "shm:{address}"),
            Self::Wire(way) => write!(f, "{}", way.address()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptors_are_reached_in_several_ways() {
        for (text, shown, transport) in [
            ("127.0.0.1:9001", "127.0.0.1:9001", Transport::Tcp),
            ("tcp:[::1]:9001", "[::1]:9001", Transport::Tcp),
            ("tls:127.0.0.1:9002", "tls:127.0.0.1:9002", Transport::Tls),
            ("unix:/run/fix", "unix:/run/fix", Transport::Uds),
            ("shm:/run/fix", "shm:/run/fix", Transport::Shm),
        ] {
            let reach: Reach = text.parse().expect("it is an address");
            assert_eq!((reach.to_string(), reach.transport()), (shown.to_owned(), transport));
        }
        for bad in ["", "unix:", "127.0.0.1", "127.0.0.1:x"] {
            assert!(bad.parse::<Reach>().is_err(), "{bad}");
        }
    }
}

//! Addresses of acceptors, as users write them.

use super::passage::Watched;
use super::remote::FarWay;
use super::tls::TlsLink;
use super::veth::Way;
use crate::link::{Link, StreamLink};
use crate::transport::Transport;
use sidestep_lab::{Lab, Side};
use sidestep_socket::stream::{Endpoint, Options};
use sidestep_sys::Problem;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The address of an acceptor: `HOST:PORT`, `tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH`, `shm:PATH`, or from side A of a
/// lab `lab:NAME:HOST:PORT`, `lab:NAME:tls:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A stream without encryption.
    Plain(Endpoint),
    /// TLS over TCP; the certificate is not verified.
    Tls(SocketAddr),
    /// Over a veth pair: an acceptor that was started for the run.
    Wire(Box<Way>),
    /// On another host: an acceptor that its peer has started for the run.
    Far(Box<FarWay>),
    /// From side A of the lab of this name, by the kernel.
    Lab(String, Box<Self>),
}

impl Reach {
    /// The medium.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Tls(_) => Transport::Tls,
            Self::Wire(way) if way.is_tls => Transport::Tls,
            Self::Far(way) if way.is_tls => Transport::Tls,
            Self::Plain(Endpoint::Tcp { .. } | Endpoint::Xdp { .. }) | Self::Wire(_) | Self::Far(_) => Transport::Tcp,
            Self::Plain(Endpoint::Unix(_)) => Transport::Uds,
            Self::Plain(Endpoint::Shm(_)) => Transport::Shm,
            Self::Lab(_, there) => there.transport(),
        }
    }

    /// Returns whether a lab of this machine is between the client and the acceptor.
    pub(crate) fn is_in_lab(&self) -> bool {
        matches!(self, Self::Wire(_) | Self::Lab(..))
    }

    /// Refuses a lab that does not exist, before anything is measured.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if let Self::Lab(name, _) = self { Lab::open(name).map(drop) } else { Ok(()) }
    }

    /// The IP address, if there is one in this namespace.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Plain(Endpoint::Tcp { host, port }) => Some(SocketAddr::new(host.parse().ok()?, *port)),
            Self::Tls(address) => Some(*address),
            Self::Far(way) => Some(way.address()),
            Self::Plain(_) | Self::Wire(_) | Self::Lab(..) => None,
        }
    }

    /// Returns the number of concurrent sessions that it can carry.
    pub(super) fn sessions_max(&self) -> u32 {
        match self {
            Self::Wire(way) => way.sessions_max(),
            Self::Far(way) => way.sessions_max(),
            _ => u32::MAX,
        }
    }

    /// Waits until the acceptor, which was stopped, can be reached; returns a counter of its messages, if they go
    /// past the kernel.
    pub(super) fn awake(&self) -> Result<Option<Watched>, Problem> {
        match self {
            Self::Wire(way) => Ok(way.awake()?.map(Watched::Here)),
            Self::Far(way) => Ok(way.awake()?.map(Watched::There)),
            _ => Ok(None),
        }
    }

    /// Connects.
    pub(super) fn connect(&self, options: &Options) -> Result<Box<dyn Link>, Problem> {
        match self {
            Self::Plain(endpoint) => Ok(Box::new(StreamLink::connect(endpoint, options)?)),
            Self::Tls(address) => {
                let stream = StreamLink::connect(&Endpoint::from(*address), options)?;
                Ok(Box::new(TlsLink::new(stream, address.ip())?))
            }
            Self::Wire(way) if way.is_tls => Ok(Box::new(TlsLink::new(way.connect(options)?, way.address().ip())?)),
            Self::Wire(way) => Ok(Box::new(way.connect(options)?)),
            Self::Far(way) if way.is_tls => Ok(Box::new(TlsLink::new(way.connect(options)?, way.address().ip())?)),
            Self::Far(way) => Ok(Box::new(way.connect(options)?)),
            Self::Lab(name, there) => Lab::open(name)?.host(Side::A).within(|| there.connect(options)),
        }
    }
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Plain(Endpoint::Unix(path.into()))),
            Some(("shm", path)) if !path.is_empty() => Ok(Self::Plain(Endpoint::Shm(path.into()))),
            Some(("lab", rest)) => in_lab(rest),
            Some(("tls", address)) => resolve(address).map(Self::Tls),
            Some(("tcp", address)) => resolve(address).map(Endpoint::from).map(Self::Plain),
            _ => resolve(text).map(Endpoint::from).map(Self::Plain),
        }
    }
}

fn in_lab(text: &str) -> Result<Reach, String> {
    let form = || format!("{text:?} is not of the form NAME:HOST:PORT or NAME:tls:HOST:PORT");
    let (name, address) = text.split_once(':').filter(|(name, _)| !name.is_empty()).ok_or_else(form)?;
    match address.parse()? {
        there @ (Reach::Plain(Endpoint::Tcp { .. }) | Reach::Tls(_)) => Ok(Reach::Lab(name.into(), Box::new(there))),
        _ => Err(form()),
    }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| {
        format!(
            "cannot find {text:?}: {error}; an acceptor is at HOST:PORT, tls:HOST:PORT, unix:PATH, shm:PATH or \
             lab:NAME:HOST:PORT"
        )
    })?;
    found.next().ok_or_else(|| format!("{text:?} has no address"))
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(endpoint) => write!(f, "{endpoint}"),
            Self::Tls(address) => write!(f, "tls:{address}"),
            Self::Wire(way) => write!(f, "{}", way.address()),
            Self::Far(way) => write!(f, "{}", way.address()),
            Self::Lab(name, there) => write!(f, "lab:{name}:{there}"),
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
            ("lab:x:198.18.0.2:9001", "lab:x:198.18.0.2:9001", Transport::Tcp),
            ("lab:x:tls:198.18.0.2:9002", "lab:x:tls:198.18.0.2:9002", Transport::Tls),
        ] {
            let reach: Reach = text.parse().expect("it is an address");
            assert_eq!((reach.to_string(), reach.transport()), (shown.to_owned(), transport));
        }
        for bad in [
            "",
            "unix:",
            "127.0.0.1",
            "127.0.0.1:x",
            "lab:x",
            "lab::127.0.0.1:1",
            "lab:x:shm:/a",
            "lab:x:lab:y:127.0.0.1:1",
        ] {
            assert!(bad.parse::<Reach>().is_err(), "{bad}");
        }
    }
}

//! One of the two hosts: its addresses, and the ways to run a program or a thread on it.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Child, Command};

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;
use sidestep_sys::netns::{self, Namespace};

use super::name::{FRAMES_INTERFACE, INTERFACE, LabName, Place, namespace_path};
use super::privilege;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// 198.18.0.1, 2001:2::1.
    A,
    /// 198.18.0.2, 2001:2::2.
    B,
}

impl Side {
    /// The host at the other end of the wire.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    pub(crate) fn place(self) -> Place {
        match self {
            Self::A => Place::A,
            Self::B => Place::B,
        }
    }

    /// The last number of every address of this host.
    fn number(self) -> u8 {
        match self {
            Self::A => 1,
            Self::B => 2,
        }
    }
}

/// A host of a lab: a named network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The side of the lab.
    pub side: Side,
    /// The name for `ip netns exec NAME`.
    pub namespace: String,
    /// The file of the namespace.
    pub namespace_path: PathBuf,
    /// Its end of the wire: `lab0` on both hosts.
    pub interface: String,
    /// The MAC address of `interface`, locally administered.
    pub mac: [u8; 6],
    /// An address from the range for benchmarks, 198.18.0.0/15 (RFC 2544), in a /24.
    pub ipv4: Ipv4Addr,
    /// An address from the range for benchmarks, 2001:2::/48 (RFC 5180), in a /64; `None` on a kernel without IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

impl Host {
    pub(crate) fn new(name: &LabName, side: Side, has_ipv6: bool) -> Self {
        let namespace = name.namespace(side.place());
        let number = side.number();
        Self {
            side,
            namespace_path: namespace_path(&namespace),
            namespace,
            interface: INTERFACE.to_owned(),
            mac: [0x02, 0, 0, 0, 0, number],
            ipv4: Ipv4Addr::new(198, 18, 0, number),
            ipv6: has_ipv6.then(|| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, u16::from(number))),
        }
    }

    /// The same host by its interface of the second pair, in subnets of their own.
    pub(crate) fn by_frames(&self) -> Self {
        let number = self.side.number();
        Self {
            interface: FRAMES_INTERFACE.to_owned(),
            mac: [0x02, 0, 0, 0, 1, number],
            ipv4: Ipv4Addr::new(198, 18, 1, number),
            ipv6: self.ipv6.map(|_| Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, u16::from(number))),
            ..self.clone()
        }
    }

    /// A command that will run on this host, with a matching `/sys` (as `ip netns exec` does).
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, Problem> {
        // The error of the command itself would only say that it was not started.
        privilege::check_entering()?;
        let mut command = Command::new(program);
        self.namespace()?.apply_to(&mut command)?;
        Ok(command)
    }

    /// Starts any command on this host.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, Problem> {
        self.namespace()?.apply_to(command)?;
        command.spawn().map_err(|error| {
            let program = command.get_program().display().to_string();
            Problem::failed(format!("cannot start {program} on {}", self.namespace), error)
                .next(format!("try it by hand: ip netns exec {} {program}", self.namespace))
        })
    }

    /// Moves the calling thread to this host for good; its later sockets belong to the host.
    pub fn enter(&self) -> Result<(), Problem> {
        self.namespace()?.enter()
    }

    /// Runs `work` on a new thread on this host and waits for its result.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T, Problem> + Send) -> Result<T, Problem> {
        netns::within(&self.namespace_path, work)
    }

    fn namespace(&self) -> Result<Namespace, Problem> {
        Namespace::open(&self.namespace_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_differ_in_everything_that_must() {
        let name = LabName::new("x").unwrap();
        let [a, b] = [Side::A, Side::B].map(|side| Host::new(&name, side, true));
        assert_eq!(a.namespace, "sidestep-x-a");
        assert_eq!(b.namespace_path.to_str(), Some("/var/run/netns/sidestep-x-b"));
        assert_eq!((a.ipv4.to_string(), b.ipv4.to_string()), ("198.18.0.1".into(), "198.18.0.2".into()));
        assert_eq!(b.ipv6.unwrap().to_string(), "2001:2::2");
        assert_ne!(a.mac, b.mac);
        assert_eq!(a.side.other(), b.side);
        assert_eq!(Host::new(&name, Side::A, false).ipv6, None);
        let frames = b.by_frames();
        assert_eq!((frames.interface.as_str(), frames.ipv4.to_string()), ("lab1", "198.18.1.2".into()));
        assert_eq!(frames.ipv6.unwrap().to_string(), "2001:2:0:1::2");
        assert!(frames.mac != b.mac && frames.namespace == b.namespace);
    }
}

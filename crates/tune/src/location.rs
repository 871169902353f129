//! Locations of settings: files below /proc and /sys, values of ethtool netlink and of the netdev family.

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;
use std::fmt;

/// The longest name of a location, bytes; a path of sysfs has about a hundred.
const BYTES_MAX: usize = 512;

/// The kind of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// `/proc`
    Proc,
    /// `/sys`
    Sys,
    /// `/dev`
    Dev,
    /// `/etc`
    Etc,
    /// `/boot`
    Boot,
    /// `/usr/lib`
    Lib,
    /// `/run`
    Run,
    /// INTERFACE/GROUP/NAME, over ethtool netlink (linux/ethtool_netlink.h)
    Ethtool,
    /// INTERFACE/NAPI ID/NAME, over the netdev family (Linux 6.7)
    Napi,
    /// status/NAME, over audit netlink (linux/audit.h)
    Audit,
    /// CPU/NAME, a model-specific register of x86 by /dev/cpu/CPU/msr
    Msr,
    /// INTERFACE/NAME, a field of its device's PCI Express capability
    Pcie,
    /// NAME, a request that the kernel knows or not
    Probe,
}

impl Scheme {
    const ALL: [Self; 13] = [
        Self::Proc,
        Self::Sys,
        Self::Dev,
        Self::Etc,
        Self::Boot,
        Self::Lib,
        Self::Run,
        Self::Ethtool,
        Self::Napi,
        Self::Audit,
        Self::Msr,
        Self::Pcie,
        Self::Probe,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Proc => "proc",
            Self::Sys => "sys",
            Self::Dev => "dev",
            Self::Etc => "etc",
            Self::Boot => "boot",
            Self::Lib => "lib",
            Self::Run => "run",
            Self::Ethtool => "ethtool",
            Self::Napi => "napi",
            Self::Audit => "audit",
            Self::Msr => "msr",
            Self::Pcie => "pcie",
            Self::Probe => "probe",
        }
    }

    /// Returns the folder below the root of a host, or of a copy of it.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Lib => "usr/lib",
            other => other.name(),
        }
    }
}

/// The scope of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The whole host.
    Host,
    /// One network namespace; each has its own.
    Namespace,
    /// One interface.
    Interface,
}

/// The settings of `net.core` that each network namespace has of its own (net/core/sysctl_net_core.c, `netns_core_table`).
const CORE_OF_NAMESPACE: [&str; 4] = ["optmem_max", "rps_default_mask", "somaxconn", "txrehash"];

/// The location of a setting: `proc:sys/net/core/busy_read`, `ethtool:eth0/coalesce/rx-usecs`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Location {
    scheme: Scheme,
    path: String,
}

impl Location {
    /// Parses a name. A path that leaves its folder is refused, because names also come from files.
    pub fn parse(name: &str) -> Result<Self, Problem> {
        let refused = |why: &str| {
            Problem::usage(format!("cannot use the location {:?}", shorten(name)), why)
                .next("use a location as `sidestep tune explain` shows it, such as sys:kernel/mm/ksm/run")
        };
        let (scheme, path) = name.split_once(':').ok_or_else(|| refused("it has no kind, such as proc: or sys:"))?;
        let known = Scheme::ALL.into_iter().find(|known| known.name() == scheme);
        let scheme = known.ok_or_else(|| refused("its kind is unknown"))?;
        let is_step = |step: &str| !matches!(step, "" | "." | "..") && !step.contains('\0');
        if name.len() > BYTES_MAX || !path.split('/').all(is_step) {
            return Err(refused("its path leaves its folder or is too long"));
        }
        Ok(Self { scheme, path: path.to_owned() })
    }

    /// Returns a location that the code knows; a malformed path (`..`) becomes a location that does not exist.
    pub(crate) fn of(name: &str) -> Self {
        Self::parse(name).unwrap_or(Self { scheme: Scheme::Run, path: "sidestep/no-such-location".into() })
    }

    /// Returns the kind.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the path below the kind's folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns a location below this one.
    pub(crate) fn join(&self, step: &str) -> Self {
        Self::of(&format!("{self}/{step}"))
    }

    /// Returns the scope of the setting.
    pub fn reach(&self) -> Reach {
        let of_namespace = |name: &str| match name.split_once('/') {
            Some(("core", name)) => CORE_OF_NAMESPACE.contains(&name),
            _ => true,
        };
        match self.scheme {
            Scheme::Ethtool | Scheme::Napi | Scheme::Pcie => Reach::Interface,
            Scheme::Sys if self.path.starts_with("class/net/") => Reach::Interface,
            Scheme::Proc if self.path.strip_prefix("sys/net/").is_some_and(of_namespace) => Reach::Namespace,
            _ => Reach::Host,
        }
    }

    /// Returns whether it is the CPU affinity of an interrupt.
    pub(crate) fn is_interrupt(&self) -> bool {
        self.scheme == Scheme::Proc && self.path.starts_with("irq/")
    }

    /// Returns whether it is a setting of the running kernel that this program may change.
    pub fn is_settable(&self) -> bool {
        match self.scheme {
            Scheme::Proc => self.path.starts_with("sys/") || self.path.starts_with("irq/"),
            Scheme::Sys | Scheme::Ethtool | Scheme::Napi => true,
            _ => false,
        }
    }

    /// Returns the name for people: a path, or the words of ethtool.
    pub fn words(&self) -> String {
        match self.scheme {
            Scheme::Ethtool => format!("ethtool {}", self.path.replace('/', " ")),
            Scheme::Napi => format!("netdev napi {}", self.path.replace('/', " ")),
            Scheme::Audit => format!("audit {}", self.path.replace('/', " ")),
            Scheme::Msr => format!("msr of cpu{}", self.path.replace('/', " ")),
            Scheme::Probe => format!("request {}", self.path),
            Scheme::Pcie => format!("PCI Express {}", self.path.replace('/', " ")),
            other => format!("/{}/{}", other.folder(), self.path),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme.name(), self.path)
    }
}

impl From<Location> for String {
    fn from(location: Location) -> Self {
        location.to_string()
    }
}

impl TryFrom<String> for Location {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name).map_err(|problem| problem.brief())
    }
}

fn shorten(name: &str) -> String {
    name.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back() {
        for name in ["proc:sys/net/core/busy_read", "ethtool:eth0/coalesce/rx-usecs", "lib:sysctl.d"] {
            assert_eq!(Location::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(Location::of("lib:sysctl.d/50-x.conf").words(), "/usr/lib/sysctl.d/50-x.conf");
        assert_eq!(Location::of("ethtool:eth0/rings/rx").words(), "ethtool eth0 rings rx");
    }

    #[test]
    fn settings_of_a_namespace_are_told_from_those_of_the_host() {
        let reach = |name| Location::of(name).reach();
        assert_eq!(reach("proc:sys/net/core/busy_read"), Reach::Host);
        assert_eq!(reach("proc:sys/vm/swappiness"), Reach::Host);
        assert_eq!(reach("proc:sys/net/core/somaxconn"), Reach::Namespace);
        assert_eq!(reach("proc:sys/net/ipv4/tcp_autocorking"), Reach::Namespace);
        assert_eq!(reach("sys:class/net/eth0/threaded"), Reach::Interface);
        assert_eq!(reach("ethtool:eth0/rings/rx"), Reach::Interface);
    }

    #[test]
    fn nothing_leaves_its_folder() {
        let long = format!("proc:{}", "a/".repeat(300));
        for name in ["proc:../etc/shadow", "sys:/etc", "etc:a/../b", "home:x", "proc", "proc:a\0b", &long] {
            assert!(Location::parse(name).is_err(), "{name}");
        }
        assert!(!Location::of("etc:passwd").is_settable() && !Location::of("proc:1/mem").is_settable());
        assert!(Location::of("proc:sys/vm/swappiness").is_settable());
    }
}

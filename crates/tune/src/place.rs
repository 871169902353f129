//! Where a setting stands: one name for files below /proc and /sys, for what ethtool and the netdev family tell.

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;
use std::fmt;

/// The most bytes of a place's name; a path of sysfs has about a hundred.
const BYTES_MAX: usize = 512;

/// A kind of place.
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
}

impl Scheme {
    const ALL: [Self; 9] =
        [Self::Proc, Self::Sys, Self::Dev, Self::Etc, Self::Boot, Self::Lib, Self::Run, Self::Ethtool, Self::Napi];

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
        }
    }

    /// The folder below the root of a host; also that of a host's copy on disk.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Lib => "usr/lib",
            other => other.name(),
        }
    }
}

/// How far a setting reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The whole host.
    Host,
    /// One network namespace: others have their own.
    Namespace,
    /// One interface.
    Interface,
}

/// What of `net.core` each network namespace has for itself (net/core/sysctl_net_core.c, `netns_core_table`).
const CORE_OF_NAMESPACE: [&str; 4] = ["optmem_max", "rps_default_mask", "somaxconn", "txrehash"];

/// One place: `proc:sys/net/core/busy_read`, `ethtool:eth0/coalesce/rx-usecs`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Place {
    scheme: Scheme,
    path: String,
}

impl Place {
    /// Reads a name. A path that leaves its folder is refused: names also come from files.
    pub fn parse(name: &str) -> Result<Self, Problem> {
        let refused = |why: &str| {
            Problem::usage(format!("cannot use the place {:?}", shorten(name)), why)
                .next("places are as `sidestep tune explain` shows them, such as sys:kernel/mm/ksm/run")
        };
        let (scheme, path) = name.split_once(':').ok_or_else(|| refused("it names no kind, such as proc: or sys:"))?;
        let known = Scheme::ALL.into_iter().find(|known| known.name() == scheme);
        let scheme = known.ok_or_else(|| refused("its kind is not known"))?;
        let is_step = |step: &str| !matches!(step, "" | "." | "..") && !step.contains('\0');
        if name.len() > BYTES_MAX || !path.split('/').all(is_step) {
            return Err(refused("its path is not one below its folder"));
        }
        Ok(Self { scheme, path: path.to_owned() })
    }

    /// A place that the code knows; what stands in the way of a path (`..`) becomes a place that does not exist.
    pub(crate) fn of(name: &str) -> Self {
        Self::parse(name).unwrap_or(Self { scheme: Scheme::Run, path: "sidestep/no-such-place".into() })
    }

    /// What kind of place it is.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The path below the kind's folder.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A place below this one.
    pub(crate) fn join(&self, step: &str) -> Self {
        Self::of(&format!("{self}/{step}"))
    }

    /// How far a setting in this place reaches.
    pub fn reach(&self) -> Reach {
        let of_namespace = |name: &str| match name.split_once('/') {
            Some(("core", name)) => CORE_OF_NAMESPACE.contains(&name),
            _ => true,
        };
        match self.scheme {
            Scheme::Ethtool | Scheme::Napi => Reach::Interface,
            Scheme::Sys if self.path.starts_with("class/net/") => Reach::Interface,
            Scheme::Proc if self.path.strip_prefix("sys/net/").is_some_and(of_namespace) => Reach::Namespace,
            _ => Reach::Host,
        }
    }

    /// Whether it is the set of CPUs that an interrupt may come to.
    pub(crate) fn is_interrupt(&self) -> bool {
        self.scheme == Scheme::Proc && self.path.starts_with("irq/")
    }

    /// Whether it is a knob of the running kernel that this program may turn.
    pub fn is_settable(&self) -> bool {
        match self.scheme {
            Scheme::Proc => self.path.starts_with("sys/") || self.path.starts_with("irq/"),
            Scheme::Sys | Scheme::Ethtool | Scheme::Napi => true,
            _ => false,
        }
    }

    /// As a person names it: a path, or the words of ethtool.
    pub fn words(&self) -> String {
        match self.scheme {
            Scheme::Ethtool => format!("ethtool {}", self.path.replace('/', " ")),
            Scheme::Napi => format!("netdev napi {}", self.path.replace('/', " ")),
            other => format!("/{}/{}", other.folder(), self.path),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme.name(), self.path)
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

impl TryFrom<String> for Place {
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
            assert_eq!(Place::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(Place::of("lib:sysctl.d/50-x.conf").words(), "/usr/lib/sysctl.d/50-x.conf");
        assert_eq!(Place::of("ethtool:eth0/rings/rx").words(), "ethtool eth0 rings rx");
    }

    #[test]
    fn settings_of_a_namespace_are_told_from_those_of_the_host() {
        let reach = |name| Place::of(name).reach();
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
            assert!(Place::parse(name).is_err(), "{name}");
        }
        assert!(!Place::of("etc:passwd").is_settable() && !Place::of("proc:1/mem").is_settable());
        assert!(Place::of("proc:sys/vm/swappiness").is_settable());
    }
}

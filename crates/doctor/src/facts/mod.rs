//! What the host says of itself, read and not tried. A file that is missing or unreadable gives an empty fact, never an error.

mod interfaces;
mod machine;
mod user;

pub use interfaces::{Interface, Ready};
pub use machine::{Access, Machine, Version};
pub use user::{Capability, Group, User};

use sidestep_sys::proc::Roots;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where facts are read.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The places of /proc and /sys.
    pub roots: Roots,
    /// The root folder, for /etc and the marks of containers.
    pub root: PathBuf,
    /// Where programs are looked for (PATH).
    pub path: OsString,
}

impl Default for Sources {
    fn default() -> Self {
        // Administration programs lie where the PATH of users does not lead.
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(":/usr/sbin:/sbin:/usr/local/sbin");
        Self { roots: Roots::default(), root: "/".into(), path }
    }
}

/// Programs that are asked for somewhere: `ip` makes labs, the others help.
const PROGRAMS: [&str; 7] = ["ip", "ethtool", "bpftool", "gdb", "perf", "sudo", "apt-get"];

/// What the host says of itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Who asks.
    pub user: User,
    /// The machine and its kernel.
    pub machine: Machine,
    /// The programs that are there.
    pub programs: BTreeSet<String>,
    /// The interfaces, without loopback.
    pub interfaces: Vec<Interface>,
    /// Interfaces that there are beyond those that were looked at.
    pub more_interfaces: usize,
}

impl Facts {
    /// Reads the facts; of the interfaces only those named, if any are.
    pub fn read(sources: &Sources, interfaces: &[String]) -> Self {
        let (found, more_interfaces) = interfaces::read(interfaces);
        Self {
            user: User::read(sources),
            machine: Machine::read(sources),
            programs: programs(sources),
            interfaces: found,
            more_interfaces,
        }
    }

    /// Returns whether a program is there.
    pub fn has(&self, program: &str) -> bool {
        self.programs.contains(program)
    }

    /// The command as this user has to give it so that root runs it.
    pub fn as_root(&self, command: &str) -> String {
        match (self.user.uid == 0, self.has("sudo")) {
            (true, _) => command.to_owned(),
            (false, true) => format!("sudo {command}"),
            (false, false) => format!("as root: {command}"),
        }
    }

    /// The command that installs a program of this Debian package.
    pub fn install(&self, package: &str) -> String {
        if self.has("apt-get") {
            self.as_root(&format!("apt-get install {package}"))
        } else {
            format!("install {package} by the package manager of this system")
        }
    }

    /// What gives this process more rights: root, or where it is root already, a container with more.
    pub fn more_rights(&self, command: &str, capabilities: &str) -> String {
        if self.user.uid != 0 {
            return self.as_root(command);
        }
        let flags: Vec<String> = capabilities.split(' ').map(|name| format!("--cap-add {name}")).collect();
        format!("give this process the capabilities, for a container: docker run {} ...", flags.join(" "))
    }
}

fn programs(sources: &Sources) -> BTreeSet<String> {
    let folders: Vec<PathBuf> = std::env::split_paths(&sources.path).collect();
    let is_there = |name: &&str| folders.iter().any(|folder| folder.is_absolute() && folder.join(name).is_file());
    PROGRAMS.into_iter().filter(is_there).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;

//! One row of the table: the setting, its reason, its change and the risk.

use crate::reading::{Form, Reading};
use crate::scope::Scope;
use serde::Serialize;

/// One check. The profiles (`profiles/tune`) hold the wanted values, by its id.
#[derive(Debug)]
pub struct Check {
    /// The name on the command line.
    pub id: &'static str,
    /// The group of the check.
    pub group: Group,
    /// A short title.
    pub title: &'static str,
    /// The source of the value.
    pub read: Read,
    /// The format of the value.
    pub form: Form,
    /// The hosts that the check applies to.
    pub hosts: Hosts,
    /// The meaning of a missing value.
    pub absent: &'static str,
    /// The reason for the check, in a sentence or two.
    pub why: &'static str,
    /// The source of the advice.
    pub source: &'static str,
    /// The expected effect of a change, as an order of magnitude.
    pub effect: Effect,
    /// The means of a change.
    pub set: Set,
    /// The command or the steps, for an administrator.
    pub how: &'static str,
    /// The risk of a change.
    pub risk: Risk,
    /// The possible harm.
    pub harm: &'static str,
    /// Set if its values change by themselves: counts, and lists of processes. Drift then compares the verdicts alone.
    pub volatile: bool,
    /// Set if the check is never applied unless `--allow` names it.
    pub dangerous: bool,
}

impl Check {
    /// Returns whether a change shows as pauses of a CPU, a few a minute or an hour, and not in most round trips.
    pub fn shows_as_pauses(&self) -> bool {
        let is_of_cpus = !matches!(self.group, Group::Nic | Group::Sockets | Group::Owners);
        self.group == Group::Isolation || (self.effect == Effect::Stalls && is_of_cpus)
    }
}

/// A group of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Frequency, idle states, clock.
    Cpu,
    /// Other work kept off the hot CPUs.
    Isolation,
    /// Pages, swap, NUMA.
    Memory,
    /// The network interface.
    Nic,
    /// Interrupts, and polling instead of them.
    Polling,
    /// TCP and UDP.
    Sockets,
    /// Other programs that change settings.
    Owners,
}

impl Group {
    /// All groups, in the order of the documents.
    pub const ALL: [Self; 7] =
        [Self::Cpu, Self::Isolation, Self::Memory, Self::Nic, Self::Polling, Self::Sockets, Self::Owners];

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Isolation => "Isolation",
            Self::Memory => "Memory",
            Self::Nic => "Network interface",
            Self::Polling => "Interrupts and polling",
            Self::Sockets => "Sockets",
            Self::Owners => "Other programs that change settings",
        }
    }
}

/// The source of a value.
#[derive(Debug)]
pub enum Read {
    /// A location; `{cpu}`, `{node}`, `{interface}` stand for each hot CPU (each CPU if no hot ones are named), each
    /// NUMA node, each interface, and a `*` in one step of the path for every entry.
    Setting(&'static str),
    /// A boot parameter: its value, `set` if it has none, `unset` if it is not given.
    Boot(&'static str),
    /// A computed value: a description of the source, and the function.
    Derived(&'static str, fn(&Scope<'_>) -> Result<Vec<Reading>, String>),
}

/// The hosts that a check applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// All hosts.
    All,
    /// Bare metal only: in a virtual machine the hypervisor decides.
    Metal,
    /// Virtual machines only.
    Guest,
}

/// The expected effect of a change, as an order of magnitude; greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Tens of microseconds of most round trips.
    Tens,
    /// Rare stalls of up to milliseconds.
    Stalls,
    /// Microseconds.
    Units,
    /// Below a microsecond.
    Fractions,
    /// No effect of its own: other settings or measurements depend on it.
    Indirect,
}

impl Effect {
    /// Returns a short description.
    pub fn words(self) -> &'static str {
        match self {
            Self::Tens => "tens of us",
            Self::Stalls => "rare stalls, up to ms",
            Self::Units => "microseconds",
            Self::Fractions => "below 1 us",
            Self::Indirect => "indirect",
        }
    }
}

/// The means of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// A write to the location that was read. Writing the old value reverts it.
    Runtime,
    /// A boot parameter; `{hot}` stands for the hot CPUs.
    Boot(&'static str),
    /// The program itself, or `sidestep tune run`.
    Program,
    /// Another program's configuration.
    Service,
    /// Firmware or hardware.
    Firmware,
    /// No means: the value is a fact or a count.
    Never,
}

impl Set {
    /// Returns whether a change takes effect at the next boot.
    pub(crate) fn needs_reboot(self) -> bool {
        matches!(self, Self::Boot(_) | Self::Firmware)
    }

    /// Returns the way to revert a change.
    pub fn revert(self) -> &'static str {
        match self {
            Self::Runtime => "sidestep tune revert writes the old value back; so does a reboot",
            Self::Boot(_) => "remove the parameter from the boot loader's configuration and reboot",
            Self::Program => "the change ends with the program",
            Self::Service => "undo the change in that program's configuration",
            Self::Firmware => "set the firmware's old value and reboot",
            Self::Never => "nothing is changed",
        }
    }

    /// Returns a short description.
    pub fn words(self) -> &'static str {
        match self {
            Self::Runtime => "at run time, by sidestep tune apply",
            Self::Boot(_) => "by a boot parameter, at the next boot",
            Self::Program => "by the program, or by sidestep tune run",
            Self::Service => "in another program's configuration",
            Self::Firmware => "in firmware or hardware",
            Self::Never => "not at all: the value is only reported",
        }
    }
}

/// The risk of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// Power, heat, a little throughput.
    Low,
    /// A short loss of network, less memory, less diagnosis.
    Medium,
    /// The host may hang or be open to attack.
    High,
}

impl Risk {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

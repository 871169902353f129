//! One row of the table: the setting, its reason, its change and the risk.

use crate::cpus::CpuSet;
use crate::host::Absence;
use crate::location::Location;
use crate::scope::Scope;
use serde::{Deserialize, Serialize};

/// One check. The profiles (`profiles/tune`) hold the wishes, by its id.
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
    /// Set if the check is never applied unless `--allow` names it.
    pub dangerous: bool,
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

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Plain text.
    Text,
    /// `always [madvise] never`
    Choice,
    /// `0-3,8`
    List,
    /// `ff,00000000`
    Mask,
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

/// One value that a check has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The subject: `cpu3`, `eth0`, `irq 41 (eth0-rx-0)`; empty for the host.
    pub subject: String,
    /// The location, if there is a single one.
    pub location: Option<Location>,
    /// The value, normalised for all kernels.
    pub value: Result<String, Absence>,
    /// The text to display instead of the value.
    pub shown: Option<String>,
}

impl Reading {
    /// Builds a reading without a single location.
    pub(crate) fn of(subject: impl Into<String>, value: impl Into<String>) -> Self {
        Self { subject: subject.into(), location: None, value: Ok(value.into()), shown: None }
    }

    pub(crate) fn shown(self, text: impl Into<String>) -> Self {
        Self { shown: Some(text.into()), ..self }
    }

    pub(crate) fn at(self, location: Location) -> Self {
        Self { location: Some(location), ..self }
    }
}

impl Form {
    /// Normalises a value: the kernel may write the same one in several formats.
    pub(crate) fn normalise(self, raw: &str) -> String {
        let text = raw.trim();
        let normal = match self {
            Self::Text => None,
            Self::Choice => {
                text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned())
            }
            Self::List => CpuSet::list(text).map(|set| set.to_string()),
            Self::Mask => CpuSet::mask(text).map(|set| set.to_string()),
        };
        normal.unwrap_or_else(|| text.to_owned())
    }

    /// Formats a value for the kernel.
    pub(crate) fn spell(self, value: &str) -> String {
        match self {
            Self::Mask => CpuSet::list(value).map_or_else(|| value.to_owned(), |set| set.to_mask()),
            _ => value.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_become_one() {
        for (form, raw, normal) in [
            (Form::Text, " 50\n", "50"),
            (Form::Choice, "always [madvise] never\n", "madvise"),
            (Form::Choice, "no brackets", "no brackets"),
            (Form::List, "0,1,2\n", "0-2"),
            (Form::Mask, "00000000,0000000f", "0-3"),
            (Form::Mask, "garbage", "garbage"),
        ] {
            assert_eq!(form.normalise(raw), normal, "{raw:?}");
        }
        assert_eq!((Form::Mask.spell("0-3"), Form::List.spell("0-3")), ("f".into(), "0-3".into()));
    }
}

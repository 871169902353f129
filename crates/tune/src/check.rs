//! One row of the table: what is read, why it matters, how it is changed and what that may cost.

use crate::cpus::CpuSet;
use crate::host::Absence;
use crate::place::Place;
use crate::scope::Scope;
use serde::{Deserialize, Serialize};

/// One check. The wishes themselves stand in the profiles (`profiles/tune`), by its id.
#[derive(Debug)]
pub struct Check {
    /// The name that people type.
    pub id: &'static str,
    /// What it belongs to.
    pub group: Group,
    /// A few words.
    pub title: &'static str,
    /// What is read.
    pub read: Read,
    /// How the value is spelt.
    pub form: Form,
    /// Where it means anything.
    pub hosts: Hosts,
    /// Why there may be nothing to read.
    pub absent: &'static str,
    /// Why it matters, in a sentence or two.
    pub why: &'static str,
    /// Where that is known from.
    pub source: &'static str,
    /// What a change is worth, by its order.
    pub effect: Effect,
    /// How it is changed.
    pub set: Set,
    /// The command or the steps, for people.
    pub how: &'static str,
    /// What a change may break.
    pub risk: Risk,
    /// What exactly.
    pub harm: &'static str,
    /// Never changed unless it is named with `--allow`.
    pub dangerous: bool,
}

/// What checks belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Frequency, idle states, clock.
    Cpu,
    /// Keeping others off the hot CPUs.
    Isolation,
    /// Pages, swap, NUMA.
    Memory,
    /// The network interface.
    Nic,
    /// Interrupts, and polling instead of them.
    Polling,
    /// TCP and UDP.
    Sockets,
    /// Programs that change settings, too.
    Owners,
}

impl Group {
    /// All of them, in the order of the documents.
    pub const ALL: [Self; 7] =
        [Self::Cpu, Self::Isolation, Self::Memory, Self::Nic, Self::Polling, Self::Sockets, Self::Owners];

    /// A title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Isolation => "Isolation",
            Self::Memory => "Memory",
            Self::Nic => "Network interface",
            Self::Polling => "Interrupts and polling",
            Self::Sockets => "Sockets",
            Self::Owners => "Others who change settings",
        }
    }
}

/// What is read.
#[derive(Debug)]
pub enum Read {
    /// A place; `{cpu}`, `{node}`, `{interface}` stand for each hot CPU (each CPU, where nobody has named the hot ones), each
    /// NUMA node, each interface, and a `*` in one step of the path for whatever is there.
    Setting(&'static str),
    /// A boot parameter: its value, `set` where it has none, `unset` where it is not there.
    Boot(&'static str),
    /// What is read, in words, and how.
    Derived(&'static str, fn(&Scope<'_>) -> Result<Vec<Reading>, String>),
}

/// How a value is spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As it stands.
    Text,
    /// `always [madvise] never`
    Choice,
    /// `0-3,8`
    List,
    /// `ff,00000000`
    Mask,
}

/// Where a check means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Everywhere.
    All,
    /// Not in a virtual machine: there the hypervisor decides.
    Metal,
    /// Only in a virtual machine.
    Guest,
}

/// What a change is worth, by its order; greatest first.
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
    /// None of itself: others depend on it, or measurements do.
    Indirect,
}

impl Effect {
    /// In a few words.
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

/// How it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// By writing the place that was read; undone by writing the old value.
    Runtime,
    /// By a boot parameter; `{hot}` stands for the hot CPUs.
    Boot(&'static str),
    /// By the program itself, or by `sidestep tune run` around it.
    Program,
    /// By another program's configuration.
    Service,
    /// In firmware or hardware.
    Firmware,
    /// Not at all: it is a fact, or a count.
    Never,
}

impl Set {
    /// Whether a change waits for the next boot.
    pub(crate) fn needs_reboot(self) -> bool {
        matches!(self, Self::Boot(_) | Self::Firmware)
    }

    /// How a change is undone.
    pub fn revert(self) -> &'static str {
        match self {
            Self::Runtime => "sidestep tune revert writes the old value back; so does a reboot",
            Self::Boot(_) => "remove the parameter from the boot loader's configuration and boot again",
            Self::Program => "ends with the program",
            Self::Service => "undo the change in that program's configuration",
            Self::Firmware => "set the firmware's old value and boot again",
            Self::Never => "nothing is changed",
        }
    }

    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Runtime => "while running, by sidestep tune apply",
            Self::Boot(_) => "by a boot parameter, at the next boot",
            Self::Program => "by the program, or by sidestep tune run",
            Self::Service => "in another program's configuration",
            Self::Firmware => "in firmware or hardware",
            Self::Never => "not at all: it is looked at only",
        }
    }
}

/// What a change may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// Power, heat, a little throughput.
    Low,
    /// A moment without network, memory that is gone, diagnosis that is missing.
    Medium,
    /// The host may hang or be open to attack.
    High,
}

impl Risk {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// One value that a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Of what: `cpu3`, `eth0`, `irq 41 (eth0-rx-0)`; empty for the host.
    pub subject: String,
    /// Where it stands, if in one place.
    pub place: Option<Place>,
    /// The value, in one spelling for all kernels.
    pub value: Result<String, Absence>,
    /// What people are shown instead of the value.
    pub shown: Option<String>,
}

impl Reading {
    /// A value that stands in no single place.
    pub(crate) fn of(subject: impl Into<String>, value: impl Into<String>) -> Self {
        Self { subject: subject.into(), place: None, value: Ok(value.into()), shown: None }
    }

    pub(crate) fn shown(self, text: impl Into<String>) -> Self {
        Self { shown: Some(text.into()), ..self }
    }

    pub(crate) fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }
}

impl Form {
    /// One spelling for what the kernel may spell in several.
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

    /// The spelling that the kernel takes.
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

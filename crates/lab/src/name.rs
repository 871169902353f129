//! Names of labs, of their namespaces, of their interfaces.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;

/// The directory of iproute2's namespace names (NETNS_RUN_DIR).
pub(crate) const NAMESPACE_DIRECTORY: &str = "/var/run/netns";

/// The interface that joins a host to the other one; the same on both, so that a command works on either.
pub(crate) const INTERFACE: &str = "lab0";

/// The interface of the second pair, whose packets are frames.
pub(crate) const FRAMES_INTERFACE: &str = "lab1";

/// The ends of the two veth pairs of an impaired wire, in the namespace between the hosts.
pub(crate) const WIRE_TO_A: &str = "to-a";
pub(crate) const WIRE_TO_B: &str = "to-b";

/// The prefix of every namespace of a lab.
const NAMESPACE_PREFIX: &str = "sidestep-";

/// The limit leaves space for prefix and suffix in file names and messages.
const NAME_BYTES_MAX: usize = 32;

/// Six of 36 characters: two billion names, and those in use are refused.
const RANDOM_CHARACTERS: usize = 6;

/// A valid lab name: up to 32 of `a-z`, `0-9` and `-`, neither starting nor ending with `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LabName(String);

impl LabName {
    pub(crate) fn new(name: &str) -> Result<Self, Problem> {
        let refuse = |reason: String| {
            Err(Problem::usage(format!("cannot name a lab '{name}'"), reason)
                .next("use letters a-z, digits and hyphens, for example: lab-1"))
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return refuse(format!("a name has from 1 to {NAME_BYTES_MAX} characters"));
        }
        if let Some(bad) = name.chars().find(|&c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
            return refuse(format!("the character {bad:?} is not allowed"));
        }
        if name.starts_with('-') || name.ends_with('-') {
            return refuse("it starts or ends with a hyphen".to_owned());
        }
        Ok(Self(name.to_owned()))
    }

    pub(crate) fn random() -> Self {
        Self((0..RANDOM_CHARACTERS).map(|_| fastrand::digit(36)).collect())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn namespace(&self, place: Place) -> String {
        format!("{NAMESPACE_PREFIX}{}-{}", self.0, place.suffix())
    }

    /// The three namespaces of a lab; without an impaired wire the third does not exist.
    pub(crate) fn namespaces(&self) -> [String; 3] {
        Place::ALL.map(|place| self.namespace(place))
    }

    /// The lab to which a namespace name belongs; `None` for other names.
    pub(crate) fn of_namespace(namespace: &str) -> Option<Self> {
        let (name, suffix) = namespace.strip_prefix(NAMESPACE_PREFIX)?.rsplit_once('-')?;
        let is_ours = Place::ALL.iter().any(|place| place.suffix() == suffix);
        is_ours.then(|| Self::new(name).ok()).flatten()
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for LabName {
    type Error = Problem;

    fn try_from(name: String) -> Result<Self, Problem> {
        Self::new(&name)
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

/// A namespace of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    A,
    B,
    Wire,
}

impl Place {
    const ALL: [Self; 3] = [Self::A, Self::B, Self::Wire];

    fn suffix(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Wire => "wire",
        }
    }
}

/// The file of a named namespace.
pub(crate) fn namespace_path(namespace: &str) -> PathBuf {
    Path::new(NAMESPACE_DIRECTORY).join(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "lab-1", "0", &"x".repeat(32)] {
            assert_eq!(LabName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a_b", "../x", "a b", "ä", &"x".repeat(33)] {
            assert!(LabName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn random_names_are_valid() {
        for _ in 0..100 {
            let name = LabName::random();
            assert_eq!(LabName::new(name.as_str()).unwrap(), name);
        }
    }

    #[test]
    fn namespaces_lead_back_to_the_lab() {
        let name = LabName::new("x-a").unwrap();
        assert_eq!(name.namespaces(), ["sidestep-x-a-a", "sidestep-x-a-b", "sidestep-x-a-wire"]);
        for namespace in name.namespaces() {
            assert_eq!(LabName::of_namespace(&namespace).unwrap(), name);
        }
        for foreign in ["sidestep-x", "sidestep-x-c", "sidestep--a", "other-x-a", "sidestep-a"] {
            assert_eq!(LabName::of_namespace(foreign), None, "{foreign}");
        }
    }
}

//! The language in which profiles and policies describe wanted values.
//!
//! `"0"`: exactly this; `">=50"`, `"<=10"`, `"!=poll"`; `"never | madvise"`: one of them; `"*"`: any value. For sets of CPUs:
//! `"covers hot"`: all hot CPUs are in it; `"avoids hot"`: none is; `"within hot"`: no other is. A changed line in a file
//! changes the result of the check.

use crate::cpus::CpuSet;
use serde::{Deserialize, Serialize};
use sidestep_sys::printable::is_printable;
use std::fmt;

/// Limits of a wanted value: bytes of its text, and alternatives.
const BYTES_MAX: usize = 1000;

/// A wanted value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Want {
    text: String,
    alternatives: Vec<Alternative>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Alternative {
    Any,
    Is(String),
    Not(String),
    AtLeast(i64),
    AtMost(i64),
    Covers,
    Avoids,
    Within,
}

/// The CPUs that a wanted value may refer to.
#[derive(Clone, Debug, Default)]
pub struct Cpus {
    /// CPUs of the trading path; empty if none are named.
    pub hot: CpuSet,
    /// CPUs that are online.
    pub online: CpuSet,
}

impl Want {
    /// Parses a wanted value; Err has the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX || !text.chars().all(is_printable) {
            return Err(format!("a wanted value is a line of at most {BYTES_MAX} bytes"));
        }
        let alternatives = text.split(" | ").map(|one| alternative(one.trim())).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), alternatives })
    }

    /// Returns whether any value fulfils it.
    pub fn is_any(&self) -> bool {
        self.alternatives.contains(&Alternative::Any)
    }

    /// Returns whether it refers to the hot CPUs, and so means nothing without them.
    pub(crate) fn needs_hot(&self) -> bool {
        let about_hot =
            |one: &Alternative| matches!(one, Alternative::Covers | Alternative::Avoids | Alternative::Within);
        self.alternatives.iter().all(about_hot)
    }

    /// Returns whether a value fulfils it. A value that is not a number fulfils no bound; one that is not a list, no set.
    pub(crate) fn is_met(&self, value: &str, cpus: &Cpus) -> bool {
        self.alternatives.iter().any(|one| one.is_met(value, cpus))
    }

    /// Returns the values that it names.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        self.alternatives.iter().filter_map(|one| match one {
            Alternative::Is(value) | Alternative::Not(value) => Some(value.as_str()),
            _ => None,
        })
    }

    /// Returns whether it names on or off, and nothing else.
    pub(crate) fn is_of_switch(&self) -> bool {
        self.alternatives.iter().all(|one| matches!(one, Alternative::Is(value) if value == "on" || value == "off"))
    }

    /// Returns whether it names a number or a bound.
    pub(crate) fn is_of_numbers(&self) -> bool {
        self.alternatives.iter().any(|one| match one {
            Alternative::AtLeast(_) | Alternative::AtMost(_) => true,
            Alternative::Is(value) => value.parse::<i64>().is_ok(),
            _ => false,
        })
    }

    /// Returns the value that would fulfil it, derived from the present one; `None` if there is no single one.
    pub fn target(&self, value: &str, cpus: &Cpus) -> Option<String> {
        self.alternatives.first()?.target(value, cpus)
    }
}

fn alternative(text: &str) -> Result<Alternative, String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("{text:?} is not a whole number"));
    Ok(match text {
        "" => return Err("a wanted value is empty; write \"*\" for any value".into()),
        "*" => Alternative::Any,
        "covers hot" => Alternative::Covers,
        "avoids hot" => Alternative::Avoids,
        "within hot" => Alternative::Within,
        _ => match text.split_at_checked(2) {
            Some((">=", bound)) => Alternative::AtLeast(number(bound)?),
            Some(("<=", bound)) => Alternative::AtMost(number(bound)?),
            Some(("!=", other)) => Alternative::Not(other.trim().to_owned()),
            _ => Alternative::Is(text.to_owned()),
        },
    })
}

impl Alternative {
    fn is_met(&self, value: &str, cpus: &Cpus) -> bool {
        let number = || value.parse::<i64>().ok();
        let set = || CpuSet::list(value);
        match self {
            Self::Any => true,
            Self::Is(wanted) => wanted == value,
            Self::Not(unwanted) => unwanted != value,
            Self::AtLeast(bound) => number().is_some_and(|number| number >= *bound),
            Self::AtMost(bound) => number().is_some_and(|number| number <= *bound),
            Self::Covers => set().is_some_and(|set| set.covers(&cpus.hot)),
            Self::Avoids => set().is_some_and(|set| !set.touches(&cpus.hot)),
            Self::Within => set().is_some_and(|set| cpus.hot.covers(&set)),
        }
    }

    fn target(&self, value: &str, cpus: &Cpus) -> Option<String> {
        match self {
            Self::Any | Self::Not(_) => None,
            Self::Is(wanted) => Some(wanted.clone()),
            Self::AtLeast(bound) | Self::AtMost(bound) => Some(bound.to_string()),
            Self::Covers => Some(CpuSet::list(value).unwrap_or_default().with(&cpus.hot).to_string()),
            Self::Within => Some(cpus.hot.to_string()),
            Self::Avoids => {
                let kept = CpuSet::list(value)?.without(&cpus.hot);
                let kept = if kept.is_empty() { cpus.online.without(&cpus.hot) } else { kept };
                (!kept.is_empty()).then(|| kept.to_string())
            }
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_any() { "anything" } else { &self.text })
    }
}

impl From<Want> for String {
    fn from(want: Want) -> Self {
        want.text
    }
}

impl TryFrom<String> for Want {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus() -> Cpus {
        let set = |text| CpuSet::list(text).unwrap();
        Cpus { hot: set("2-3"), online: set("0-3") }
    }

    #[test]
    fn wishes_are_judged() {
        for (want, met, unmet) in [
            ("0", "0", "1"),
            (">=50", "50", "49"),
            ("<=10", "-1", "11"),
            ("!=poll", "unset", "poll"),
            ("never | madvise", "madvise", "always"),
            ("covers hot", "1-3", "3"),
            ("avoids hot", "0-1", "0-2"),
            ("within hot", "3", "1-3"),
            (">=1", "1", "one"),
        ] {
            let want = Want::parse(want).unwrap();
            assert!(want.is_met(met, &cpus()), "{want} {met}");
            assert!(!want.is_met(unmet, &cpus()), "{want} {unmet}");
        }
        assert!(Want::parse("*").unwrap().is_met("\u{fffd}", &cpus()));
    }

    #[test]
    fn a_target_fulfils_its_wish() {
        for (want, now) in [("0", "1"), (">=50", "0"), ("<=10", "60"), ("never | madvise", "always")] {
            let want = Want::parse(want).unwrap();
            assert!(want.is_met(&want.target(now, &cpus()).unwrap(), &cpus()), "{want}");
        }
        for (want, now, target) in [
            ("avoids hot", "0-3", "0-1"),
            ("avoids hot", "3", "0-1"),
            ("covers hot", "0", "0,2-3"),
            ("within hot", "0-1", "2-3"),
        ] {
            assert_eq!(Want::parse(want).unwrap().target(now, &cpus()).as_deref(), Some(target));
        }
        assert_eq!(Want::parse("!=poll").unwrap().target("poll", &cpus()), None);
    }

    #[test]
    fn what_is_no_wish_is_refused() {
        for text in ["", "1 | ", ">=x", "<=", "a\nb", &"x".repeat(2000)] {
            assert!(Want::parse(text).is_err(), "{text:?}");
        }
    }
}

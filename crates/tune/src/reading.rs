//! Readings: values of the host, in one spelling for all kernels.

use crate::cpus::CpuSet;
use crate::host::Absence;
use crate::location::Location;
use serde::{Deserialize, Serialize};

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

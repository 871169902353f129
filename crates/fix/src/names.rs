//! Names of messages and fields, for people who read them.

use crate::config::read_dictionary;
use crate::dictionary::{Dictionary, Version};
use sidestep_sys::Problem;
use std::path::Path;

/// Names by a dictionary of one's own, or by the standard's of each message's version.
#[derive(Debug, Default)]
pub struct Names {
    own: Option<Dictionary>,
    /// Those of the standard that have been asked for so far.
    fixed: Vec<(Version, Dictionary)>,
}

impl Names {
    /// By a dictionary in QuickFIX's format.
    ///
    /// # Errors
    /// The file cannot be read or is no dictionary.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        Ok(Self { own: Some(read_dictionary(path)?), fixed: Vec::new() })
    }

    /// Reads the standard's dictionary for messages with this BeginString (8), once.
    pub fn prepare(&mut self, begin_string: &[u8]) {
        let version = version(begin_string);
        if self.own.is_none() && self.fixed.iter().all(|(known, _)| *known != version) {
            self.fixed.push((version, Dictionary::fixed(version)));
        }
    }

    fn dictionary(&self, begin_string: &[u8]) -> Option<&Dictionary> {
        let version = version(begin_string);
        let fixed = || self.fixed.iter().find(|(known, _)| *known == version).map(|(_, dictionary)| dictionary);
        self.own.as_ref().or_else(fixed)
    }

    /// The name of a message; the version must have been prepared.
    pub fn message(&self, begin_string: &[u8], msg_type: &[u8]) -> Option<&str> {
        self.dictionary(begin_string)?.message(msg_type).map(|message| &*message.name)
    }

    /// The name of a field; the version must have been prepared.
    pub fn field(&self, begin_string: &[u8], tag: u32) -> Option<&str> {
        self.dictionary(begin_string)?.field(tag).map(|field| &*field.name)
    }
}

/// The version whose names serve: of those over FIXT.1.1 the last, which has them all.
fn version(begin_string: &[u8]) -> Version {
    let name = std::str::from_utf8(begin_string).unwrap_or_default();
    match Version::by_name(name) {
        None | Some(Version::Fixt11) => Version::Latest,
        Some(version) => version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_messages_version() {
        let mut names = Names::default();
        // Orchestra calls it in 4.2 as that version's abbreviation does.
        let orders =
            [(&b"FIX.4.2"[..], "OrderSingle"), (b"FIX.4.4", "NewOrderSingle"), (b"FIXT.1.1", "NewOrderSingle")];
        for (begin, order) in orders {
            names.prepare(begin);
            assert_eq!(names.message(begin, b"D"), Some(order));
            assert_eq!(names.field(begin, 55), Some("Symbol"));
        }
        assert_eq!(names.field(b"FIX.4.4", 32), Some("LastQty"));
        assert_eq!(names.field(b"FIX.4.4", 20_000), None);
        assert!(names.message(b"FIXT.1.1", b"A").is_some(), "session messages have names, too");
    }
}

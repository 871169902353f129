//! Names of messages and fields, for people who read them.

use crate::config::read_dictionary;
use crate::dictionary::{Dictionary, Version};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;

/// Names by a dictionary of one's own, or by the standard's of each message's version.
#[derive(Debug, Default)]
pub struct Names {
    own: Option<Dictionary>,
    /// Those of the standard that have been asked for so far.
    fixed: Vec<(Version, Dictionary)>,
    /// The standard's names of values, once they were asked for.
    values: OnceCell<ValueNames>,
}

/// Names by tag and value.
type ValueNames = HashMap<(u32, &'static [u8]), &'static str>;

/// Made of FIX Orchestra: see `examples/generate_tables.rs`.
const VALUES: &str = include_str!("../tables/values.txt");

impl Names {
    /// Names from a dictionary in QuickFIX's format.
    ///
    /// # Errors
    /// The file cannot be read or is no dictionary.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let own = read_dictionary(path)?;
        own.notes().iter().for_each(|note| say(format!("{}: {note}", path.display())));
        Ok(Self { own: Some(own), ..Self::default() })
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

    /// The meaning of a field's value: `BUY` for 54=1. The version must have been prepared.
    pub fn value(&self, begin_string: &[u8], tag: u32, value: &[u8]) -> Option<&str> {
        let field = self.dictionary(begin_string)?.field(tag)?;
        if self.own.is_some() {
            return field.value_name(value);
        }
        // Fields of the standard keep their tags, and values their meaning, through all versions.
        self.values.get_or_init(value_names).get(&(tag, value)).copied()
    }
}

fn value_names() -> ValueNames {
    let mut names = ValueNames::new();
    for line in VALUES.lines().filter(|line| !line.starts_with('#')) {
        let (tags, words) = line.split_once(' ').unwrap_or_default();
        for tag in tags.split(',').filter_map(|tag| tag.parse().ok()) {
            let mut words = words.split(' ');
            while let (Some(value), Some(name)) = (words.next(), words.next()) {
                names.insert((tag, value.as_bytes()), name);
            }
        }
    }
    names
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

    #[test]
    fn values_have_names() {
        let mut names = Names::default();
        for begin in [&b"FIX.4.2"[..], b"FIX.4.4", b"FIXT.1.1"] {
            names.prepare(begin);
            assert_eq!(names.value(begin, 54, b"1"), Some("Buy"));
            assert_eq!(names.value(begin, 39, b"2"), Some("Filled"));
            assert_eq!((names.value(begin, 54, b"?"), names.value(begin, 55, b"1")), (None, None));
        }
        assert_eq!(names.value(b"FIX.4.2", 20, b"0"), Some("New"), "a field that later versions have no more");
    }
}

//! Reading single settings of a session, its own or inherited.

use sidestep_sys::Problem;
use std::str::FromStr;
use std::time::Duration;

/// One setting of the file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: String,
    /// The line; 0 where the format has none.
    pub(super) line: usize,
}

/// One section of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) line: usize,
    pub(super) entries: Vec<Entry>,
}

/// The file as it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    pub(super) default: Section,
    pub(super) sessions: Vec<Section>,
}

/// Returns whether two spellings are the same key: case is ignored, and so are the underscores of TOML.
pub(super) fn same_key(one: &str, other: &str) -> bool {
    let letters =
        |text: &str| text.bytes().filter(|byte| *byte != b'_').map(|byte| byte.to_ascii_lowercase()).collect();
    let (one, other): (Vec<u8>, Vec<u8>) = (letters(one), letters(other));
    one == other
}

/// The settings of one session.
pub(super) struct Fields<'a> {
    pub(super) file: &'a str,
    pub(super) session: &'a Section,
    pub(super) default: &'a Section,
}

impl<'a> Fields<'a> {
    fn entry(&self, key: &str) -> Option<&'a Entry> {
        let in_section = |section: &'a Section| section.entries.iter().rev().find(|entry| same_key(&entry.key, key));
        in_section(self.session).or_else(|| in_section(self.default))
    }

    /// The value, unless it is empty.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.entry(key).map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
    }

    /// The value of the first of these keys that is set.
    pub(super) fn any(&self, keys: &[&str]) -> Option<&'a str> {
        keys.iter().find_map(|key| self.text(key))
    }

    /// A problem with the value of `key`.
    pub(super) fn wrong(&self, key: &str, why: &str) -> Problem {
        let entry = self.entry(key);
        let line = entry.map_or(self.session.line, |entry| entry.line);
        let value = entry.map_or("", |entry| &entry.value);
        let place = if line == 0 { String::new() } else { format!(", line {line}") };
        let setting = if entry.is_some() { format!("{key}={value}") } else { key.to_owned() };
        Problem::usage(format!("{}{place}: {setting}", self.file), why)
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Problem> {
        match self.text(key) {
            None => Ok(None),
            Some("Y" | "y" | "true" | "TRUE" | "yes") => Ok(Some(true)),
            Some("N" | "n" | "false" | "FALSE" | "no") => Ok(Some(false)),
            Some(_) => Err(self.wrong(key, "it is neither Y nor N")),
        }
    }

    pub(super) fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| text.parse().map_err(|_| self.wrong(key, "it is no such number"));
        self.text(key).map(parse).transpose()
    }

    /// Seconds, a fraction allowed.
    pub(super) fn seconds(&self, key: &str) -> Result<Option<Duration>, Problem> {
        let seconds: Option<f64> = self.number(key)?;
        let convert = |seconds| Duration::try_from_secs_f64(seconds).map_err(|_| self.wrong(key, "it is no time"));
        seconds.map(convert).transpose()
    }

    /// Sets `place` where the key is set.
    pub(super) fn flag_into(&self, key: &str, place: &mut bool) -> Result<(), Problem> {
        self.flag(key).map(|flag| flag.into_iter().for_each(|flag| *place = flag))
    }

    /// Sets `place` where the key is set.
    pub(super) fn number_into<T: FromStr>(&self, key: &str, place: &mut T) -> Result<(), Problem> {
        self.number(key).map(|number| number.into_iter().for_each(|number| *place = number))
    }

    /// Sets `place` where the key is set, in seconds.
    pub(super) fn seconds_into(&self, key: &str, place: &mut Duration) -> Result<(), Problem> {
        self.seconds(key).map(|time| time.into_iter().for_each(|time| *place = time))
    }

    /// The values of `key`, `key1`, `key2`, ... as far as they go without a hole; `key` itself may be missing.
    pub(super) fn numbered(&self, key: &str) -> Vec<(String, &'a str)> {
        let first = self.text(key).map(|value| (key.to_owned(), value));
        let rest = (1..).map_while(|number| {
            let name = format!("{key}{number}");
            self.text(&name).map(|value| (name, value))
        });
        first.into_iter().chain(rest).collect()
    }
}

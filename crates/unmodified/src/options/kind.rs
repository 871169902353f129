//! The types of option values: each is read from text and written as text that reads back.

use super::accelerate::Accelerate;
use sidestep_control_api::message::{Mode, QUEUES_MAX, Queues, ranges};
use sidestep_sys::printable::is_printable;
use std::path::PathBuf;

/// The value of `spin_us` with which a call never sleeps.
pub const SPIN_FOR_EVER: u32 = u32::MAX;

/// The longest text of an option, bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// The longest name of an interface, bytes (IFNAMSIZ without its NUL).
const INTERFACE_BYTES_MAX: usize = 15;

/// The bounds of a number; both are 0 for what is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least value.
    pub least: u32,
    /// The greatest value.
    pub greatest: u32,
    /// True if only powers of two are values.
    pub is_power_of_two: bool,
}

impl Range {
    fn contains(self, value: u32) -> bool {
        (self.least..=self.greatest).contains(&value) && (!self.is_power_of_two || value.is_power_of_two())
    }
}

/// The type of an option.
pub(super) trait Kind: Sized {
    /// Reads a value; the error names the accepted ones.
    fn parse(text: &str, range: Range) -> Result<Self, String>;
    /// Returns the text from which [`Self::parse`] makes the same value.
    fn text(&self) -> String;
}

impl Kind for bool {
    fn parse(text: &str, _: Range) -> Result<Self, String> {
        match text {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err("it is true or false".into()),
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Kind for u32 {
    fn parse(text: &str, range: Range) -> Result<Self, String> {
        let value = text.parse().ok().filter(|value| range.contains(*value));
        let kind = if range.is_power_of_two { "a power of two" } else { "a number" };
        value.ok_or_else(|| format!("it is {kind} from {} to {}", range.least, range.greatest))
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Kind for Option<u32> {
    fn parse(text: &str, range: Range) -> Result<Self, String> {
        if text == "any" { Ok(None) } else { u32::parse(text, range).map(Some).map_err(|why| format!("{why}, or any")) }
    }

    fn text(&self) -> String {
        self.map_or_else(|| "any".into(), |value| value.to_string())
    }
}

/// A name, or the path of a file.
impl Kind for String {
    fn parse(text: &str, _: Range) -> Result<Self, String> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX || !text.chars().all(is_printable) {
            return Err("it is a name or the path of a file".into());
        }
        Ok(text.to_owned())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

/// The name of an interface, which need not exist yet.
impl Kind for Option<String> {
    fn parse(text: &str, _: Range) -> Result<Self, String> {
        if text == "any" {
            return Ok(None);
        }
        // As the kernel's dev_valid_name().
        let is_name = (1..=INTERFACE_BYTES_MAX).contains(&text.len())
            && ![".", ".."].contains(&text)
            && text.chars().all(|c| is_printable(c) && !c.is_whitespace() && c != '/' && c != ':');
        if is_name { Ok(Some(text.to_owned())) } else { Err("it is any or the name of an interface".into()) }
    }

    fn text(&self) -> String {
        self.clone().unwrap_or_else(|| "any".into())
    }
}

impl Kind for Queues {
    fn parse(text: &str, _: Range) -> Result<Self, String> {
        let refused = || format!("it is any, every, or numbers below {QUEUES_MAX} such as 0,2-3");
        match text {
            "any" => return Ok(Self::Any),
            "every" => return Ok(Self::Every),
            _ => {}
        }
        let number = |text: &str| text.trim().parse().ok().filter(|number: &u32| *number < QUEUES_MAX);
        let mut queues = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) =
                number(first).zip(number(last)).filter(|(first, last)| first <= last).ok_or_else(refused)?;
            queues.extend(first..=last);
        }
        queues.sort_unstable();
        queues.dedup();
        Ok(Self::These(queues))
    }

    fn text(&self) -> String {
        match self {
            Self::Any => "any".into(),
            Self::Every => "every".into(),
            Self::These(queues) => ranges(queues.iter().copied()).replace(' ', ""),
        }
    }
}

const MODES: [(&str, Mode); 3] = [("zero-copy", Mode::ZeroCopy), ("copy", Mode::Copy), ("generic", Mode::Generic)];

impl Kind for Mode {
    fn parse(text: &str, _: Range) -> Result<Self, String> {
        let known = MODES.iter().find(|(name, _)| *name == text);
        known.map(|(_, mode)| *mode).ok_or_else(|| "it is zero-copy, copy or generic".into())
    }

    fn text(&self) -> String {
        MODES.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name).into()
    }
}

/// The treatment of programs that are linked with liburing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoUring {
    /// The kernel carries all their sockets.
    Kernel,
    /// They are accelerated: they use io_uring for files alone.
    Ignore,
}

impl Kind for IoUring {
    fn parse(text: &str, _: Range) -> Result<Self, String> {
        match text {
            "kernel" => Ok(Self::Kernel),
            "ignore" => Ok(Self::Ignore),
            _ => Err("it is kernel or ignore".into()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Kernel => "kernel".into(),
            Self::Ignore => "ignore".into(),
        }
    }
}

/// The place for the library's reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// Standard error.
    Stderr,
    /// The system's log (syslog(3)).
    Syslog,
    /// Nowhere.
    None,
    /// A file, to which lines are added.
    File(PathBuf),
}

impl Kind for Log {
    fn parse(text: &str, range: Range) -> Result<Self, String> {
        match text {
            "stderr" => Ok(Self::Stderr),
            "syslog" => Ok(Self::Syslog),
            "none" => Ok(Self::None),
            // A misspelt word is not taken for a file.
            _ if text.contains('/') => String::parse(text, range).map(|path| Self::File(path.into())),
            _ => Err("it is stderr, syslog, none, or the path of a file with a slash in it".into()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Stderr => "stderr".into(),
            Self::Syslog => "syslog".into(),
            Self::None => "none".into(),
            Self::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

impl Kind for Accelerate {
    fn parse(text: &str, _: Range) -> Result<Self, String> {
        text.parse()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Range = Range { least: 0, greatest: 0, is_power_of_two: false };

    #[test]
    fn queues_are_names_or_numbers() {
        let parse = |text: &str| Queues::parse(text, NONE);
        assert_eq!(parse("0,2-3,2"), Ok(Queues::These(vec![0, 2, 3])));
        assert_eq!(parse("0,2-3").unwrap().text(), "0,2-3");
        for wrong in ["", "64", "3-2", "0-", "all", "0,,1", "0-4294967295", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_log_is_a_word_or_a_path() {
        assert_eq!(Log::parse("/tmp/log", NONE), Ok(Log::File("/tmp/log".into())));
        assert!(Log::parse("sterr", NONE).is_err() && Log::parse("/tmp/\x1b", NONE).is_err());
    }

    #[test]
    fn interfaces_are_names_of_interfaces() {
        assert_eq!(Option::<String>::parse("any", NONE), Ok(None));
        assert_eq!(Option::<String>::parse("eth1", NONE), Ok(Some("eth1".into())));
        for wrong in ["", ".", "..", "no/such", "eth0:1", "two words", "sixteen-bytes-it"] {
            assert!(Option::<String>::parse(wrong, NONE).is_err(), "{wrong}");
        }
    }
}

//! Profiles and policies: the wanted value of each check, in TOML.
//!
//! A profile ships with the program (`profiles/tune`), a policy is made from a known-good host (`sidestep tune policy`); they are
//! the same format. A file may build on a profile (`base`), and says only where it differs.

use crate::table;
use crate::value;
use crate::want::Want;
use serde::{Deserialize, Serialize};
use sidestep_sys::printable::is_printable;
use sidestep_sys::{Problem, file};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

const BUILT_IN: [(&str, &str); 4] = [
    ("latency", include_str!("../profiles/latency.toml")),
    ("polling", include_str!("../profiles/polling.toml")),
    ("throughput", include_str!("../profiles/throughput.toml")),
    ("cloud", include_str!("../profiles/cloud.toml")),
];

/// The built-in profiles, parsed at first use.
static PARSED: [OnceLock<Profile>; BUILT_IN.len()] = [const { OnceLock::new() }; BUILT_IN.len()];

/// The longest policy file, bytes; one that names every check has about ten thousand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The most wrong values of a policy that are named in one error.
const FAULTS_SHOWN_MAX: usize = 8;

/// Returns the names of the built-in profiles.
pub fn names() -> [&'static str; 4] {
    BUILT_IN.map(|(name, _)| name)
}

/// The severity of a value that is not the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    /// Most packets are delayed, or the host stalls.
    Fail,
    /// A smaller effect, or one that depends on the workload.
    Warn,
    /// No wanted value: the value is reported.
    Report,
}

/// The wanted value of one check.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The wanted value; none for a report.
    pub want: Option<Want>,
    /// The severity of the opposite.
    pub(crate) severity: Severity,
    /// The value to set, if the wanted value does not determine it.
    pub set: Option<String>,
}

/// A profile or a policy.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// The wanted values, by the check's id.
    wishes: BTreeMap<String, Wish>,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    base: Option<String>,
    name: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    report: Vec<String>,
    #[serde(default)]
    fail: BTreeMap<String, Want>,
    #[serde(default)]
    warn: BTreeMap<String, Want>,
    #[serde(default)]
    set: BTreeMap<String, String>,
}

impl Profile {
    /// Returns a built-in profile.
    pub fn built_in(name: &str) -> Result<Self, Problem> {
        let unknown = || {
            Problem::usage(format!("cannot find the profile {name:?}"), "there is no profile of this name")
                .next(format!("choose from: {}", names().join(", ")))
        };
        let index = BUILT_IN.iter().position(|(known, _)| *known == name).ok_or_else(unknown)?;
        if let Some(profile) = PARSED[index].get() {
            return Ok(profile.clone());
        }
        let profile = Self::parse(BUILT_IN[index].1, &format!("profile {name}"))?;
        Ok(PARSED[index].get_or_init(|| profile).clone())
    }

    /// Reads a file of the user.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let what = format!("cannot read the policy {}", path.display());
        let failed = |error| {
            Problem::failed(&what, error).next("name a file that you may read, as `sidestep tune policy` writes it")
        };
        let text = file::read_text(path, FILE_BYTES_MAX).map_err(failed)?;
        let source = path.display().to_string();
        let profile = Self::parse(&text, &source)?;
        profile.validate(&source)?;
        Ok(profile)
    }

    /// Returns an error if a setting cannot take the value that is wanted of it, or to be set; `source` names the file.
    pub(crate) fn validate(&self, source: &str) -> Result<(), Problem> {
        let faults: Vec<String> = self.wishes.iter().filter_map(|(id, wish)| value::fault(id, wish)).collect();
        if faults.is_empty() {
            return Ok(());
        }
        let more = faults.len().saturating_sub(FAULTS_SHOWN_MAX);
        let mut words = faults[..faults.len().min(FAULTS_SHOWN_MAX)].join("; ");
        if more > 0 {
            words.push_str(&format!("; and {more} more"));
        }
        Err(Problem::usage(format!("cannot use {source}"), words)
            .next("correct the value; sidestep tune explain ID shows what a check reads"))
    }

    /// Parses the text of a file; `source` names it in errors.
    pub fn parse(text: &str, source: &str) -> Result<Self, Problem> {
        let refused = |why: String| {
            Problem::usage(format!("cannot use {source}"), why).next("see profiles/tune/latency.toml for the format")
        };
        let file: File = toml::from_str(text).map_err(|error| refused(error.message().to_owned()))?;
        // They are printed on terminals, and written to the drop-in of `plan --grub`, which a shell reads.
        if [&file.name, &file.about].into_iter().any(|words| !words.chars().all(is_printable)) {
            return Err(refused("its name or its description has characters that cannot be shown".into()));
        }
        let mut wishes = match &file.base {
            None => BTreeMap::new(),
            // A base is always built in, so there are no cycles.
            Some(base) if names().contains(&base.as_str()) && *base != file.name => Self::built_in(base)?.wishes,
            Some(base) => return Err(refused(format!("base {base:?} is not a built-in profile"))),
        };
        file.check_names(&refused)?;
        let wants = file.fail.into_iter().map(|(id, want)| (id, Severity::Fail, Some(want)));
        let wants = wants.chain(file.warn.into_iter().map(|(id, want)| (id, Severity::Warn, Some(want))));
        let all = wants.chain(file.report.into_iter().map(|id| (id, Severity::Report, None)));
        for (id, severity, want) in all {
            let set = wishes.remove(&id).and_then(|wish| wish.set);
            wishes.insert(id, Wish { want, severity, set });
        }
        for (id, value) in file.set {
            let wish =
                wishes.get_mut(&id).ok_or_else(|| refused(format!("{id} has a value to set, but no wanted value")))?;
            wish.set = Some(value);
        }
        Ok(Self { name: file.name, about: file.about, wishes })
    }

    /// Returns the wanted value of a check.
    pub fn wish(&self, id: &str) -> Option<&Wish> {
        self.wishes.get(id)
    }

    /// Replaces the wanted value of a check, but not the severity.
    pub(crate) fn refine(&mut self, id: &str, want: Want) {
        if let Some(wish) = self.wishes.get_mut(id)
            && wish.want.is_some()
        {
            wish.want = Some(want);
        }
    }
}

impl File {
    /// Checks that every name is that of a check, and is in one section only.
    fn check_names(&self, refused: &impl Fn(String) -> Problem) -> Result<(), Problem> {
        let mut seen = std::collections::BTreeSet::new();
        for id in self.fail.keys().chain(self.warn.keys()).chain(&self.report) {
            table::named(id).map_err(|problem| refused(problem.to_string()))?;
            if !seen.insert(id) {
                return Err(refused(format!("{id} stands twice")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_says_something_of_every_check() {
        for name in names() {
            let profile = Profile::built_in(name).unwrap();
            assert_eq!(profile.name, name);
            for check in table::checks() {
                assert!(profile.wish(check.id).is_some(), "{name} says nothing of {}", check.id);
            }
        }
    }

    #[test]
    fn a_file_builds_on_a_profile() {
        let text = "base = 'latency'\nname = 'mine'\nreport = ['busy-poll']\n[fail]\nbusy-read = '100'\n";
        let mine = Profile::parse(text, "mine.toml").unwrap();
        assert_eq!(mine.wish("busy-read").unwrap().severity, Severity::Fail);
        assert!(mine.wish("busy-poll").unwrap().want.is_none());
        assert!(mine.wish("cpu-governor").is_some());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        for (text, words) in [
            ("", "name"),
            ("name = 'x'\n[fail]\nbusy-raed = '1'", "busy-raed"),
            ("name = 'x'\n[fail]\nbusy-read = '>=x'", "whole number"),
            ("name = 'x'\n[warn]\nbusy-read = '1'\n[fail]\nbusy-read = '1'", "twice"),
            ("name = 'x'\nbase = 'x'", "base"),
            ("name = 'x'\n[set]\nbusy-read = '1'", "no wanted value"),
            ("name = 'x'\nwhatever = 1", "whatever"),
            ("\u{0}", "cannot use f"),
            ("name = \"x\\nid\"", "characters that cannot be shown"),
            ("name = 'x'\nabout = \"\\u001b]0;x\"", "characters that cannot be shown"),
        ] {
            let problem = Profile::parse(text, "f").unwrap_err().to_string();
            assert!(problem.contains(words), "{text:?}: {problem}");
        }
    }
}

//! A host in a file. The file may come from anywhere: its size, its number of answers, their lengths and their names are bounded
//! and checked before a check reads it.

use crate::cpus::CpuSet;
use crate::host::{Absence, Host, Identity};
use crate::location::Location;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sidestep_sys::printable::is_printable;
use sidestep_sys::{Problem, file};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The number of the file's format.
const SCHEMA: u32 = 1;
/// The longest file, bytes: a host of hundreds of CPUs and thousands of threads takes some MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The most answers of one kind.
pub(super) const ANSWERS_MAX: usize = 400_000;
/// The longest answer, bytes, as of a host's file.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// The longest name in a folder, bytes (NAME_MAX), and of a host (HOST_NAME_MAX is 64).
const NAME_BYTES_MAX: usize = 255;
/// Said of what the recording program did not ask for.
const UNASKED: &str = "the snapshot does not have it: take it again with this version, or with --interface";

/// The answer to one read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Text(String),
    Missing,
    Denied,
    Unreadable(String),
}

/// A saved host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    schema: u32,
    /// The version of the program that recorded it.
    tool: String,
    /// The host's name.
    pub name: String,
    /// When it was recorded, seconds since 1970.
    pub taken_unix_s: u64,
    /// The hot CPUs that the recorder was told; empty if none were.
    hot: String,
    identity: Identity,
    /// Set if the host had more to say than the file may hold.
    pub(super) is_cut: bool,
    pub(super) pids: Vec<u32>,
    pub(super) values: BTreeMap<Location, Answer>,
    pub(super) lists: BTreeMap<Location, Vec<String>>,
    pub(super) links: BTreeMap<Location, Option<Location>>,
}

impl Answer {
    pub(super) fn of(answer: &Result<String, Absence>) -> Self {
        match answer {
            Ok(text) => Self::Text(text.clone()),
            Err(Absence::Missing) => Self::Missing,
            Err(Absence::Denied) => Self::Denied,
            Err(Absence::Unreadable(why)) => Self::Unreadable(why.clone()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Unreadable(text) => text.len(),
            _ => 0,
        }
    }
}

impl Saved {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let what = format!("cannot read the snapshot {}", path.display());
        let next = "name a file that `sidestep tune snapshot` has written";
        let bytes = file::read(path, FILE_BYTES_MAX).map_err(|error| Problem::failed(&what, error).next(next))?;
        parse(&bytes).map_err(|why| Problem::failed(what, why).next(next))
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> Result<String, Problem> {
        let text = serde_json::to_string(self).map_err(|error| Problem::failed("cannot write the snapshot", error))?;
        Ok(text + "\n")
    }

    /// Returns whether the host had more to say than the file may hold.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn count(&self) -> usize {
        self.values.len().max(self.lists.len()).max(self.links.len())
    }

    pub(super) fn described(self, name: String, taken_unix_s: u64, hot: Option<&CpuSet>, identity: Identity) -> Self {
        let hot = hot.map_or_else(String::new, ToString::to_string);
        let tool = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema: SCHEMA, tool, name, taken_unix_s, hot, identity, ..self }
    }
}

fn parse(bytes: &[u8]) -> Result<Saved, String> {
    let saved: Saved = serde_json::from_slice(bytes).map_err(|error| match is_result(bytes) {
        true => "it is a result of `sidestep bench`: `sidestep compare` reads that".into(),
        false => error.to_string(),
    })?;
    if saved.schema != SCHEMA {
        return Err(format!("it has format {}, this program knows {SCHEMA}", saved.schema));
    }
    check(&saved)?;
    Ok(saved)
}

/// Returns whether the bytes are a result file.
fn is_result(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Result {
        #[serde(rename = "results")]
        _results: IgnoredAny,
        #[serde(rename = "setup")]
        _setup: IgnoredAny,
    }
    serde_json::from_slice::<Result>(bytes).is_ok()
}

/// Returns an error if the file holds what no host can answer, or too much of it.
fn check(saved: &Saved) -> Result<(), String> {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && name.len() <= NAME_BYTES_MAX;
    let is_entry = |name: &String| is_name(name) && !name.contains('/') && name.chars().all(is_printable);
    let is_shown = |location: &Location| location.path().chars().all(is_printable);
    let names: usize = saved.lists.values().map(Vec::len).sum();
    if saved.count().max(names).max(saved.pids.len()) > ANSWERS_MAX {
        return Err(format!("it has more than {ANSWERS_MAX} answers"));
    }
    if !is_name(&saved.name) || !saved.name.chars().all(is_printable) {
        return Err("its name is not one of a host".into());
    }
    if !saved.values.keys().chain(saved.lists.keys()).chain(saved.links.keys()).all(is_shown) {
        return Err("it has a location with characters that cannot be shown".into());
    }
    if let Some((location, _)) = saved.values.iter().find(|(_, answer)| answer.bytes() > TEXT_BYTES_MAX) {
        return Err(format!("{location} is longer than {TEXT_BYTES_MAX} bytes"));
    }
    if let Some((location, _)) = saved.lists.iter().find(|(_, names)| !names.iter().all(is_entry)) {
        return Err(format!("{location} has a name that no host has"));
    }
    match CpuSet::list(&saved.hot) {
        Some(_) => Ok(()),
        None => Err("its hot CPUs are no list".into()),
    }
}

/// Parses arbitrary bytes as a file. For fuzzing.
pub fn parse_any(bytes: &[u8]) -> Option<Saved> {
    parse(bytes).ok()
}

impl Host for Saved {
    fn read(&self, location: &Location) -> Result<String, Absence> {
        match self.values.get(location) {
            Some(Answer::Text(text)) => Ok(text.clone()),
            Some(Answer::Missing) => Err(Absence::Missing),
            Some(Answer::Denied) => Err(Absence::Denied),
            Some(Answer::Unreadable(why)) => Err(Absence::Unreadable(why.clone())),
            None => Err(Absence::Unreadable(UNASKED.into())),
        }
    }

    fn list(&self, location: &Location) -> Vec<String> {
        self.lists.get(location).cloned().unwrap_or_default()
    }

    fn pids(&self) -> Vec<u32> {
        self.pids.clone()
    }

    fn resolve(&self, location: &Location) -> Option<Location> {
        self.links.get(location).cloned().flatten()
    }

    fn write(&self, _location: &Location, _value: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn hot(&self) -> Option<CpuSet> {
        CpuSet::list(&self.hot).filter(|hot| !hot.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> serde_json::Value {
        serde_json::json!({"schema": 1, "tool": "0", "name": "a", "taken_unix_s": 0, "hot": "2-3",
            "identity": {"boot": "", "network": ""}, "is_cut": false, "pids": [1],
            "values": {"proc:sys/vm/swappiness": {"text": "60"}, "proc:sys/vm/x": "missing"},
            "lists": {"sys:class/net": ["eth0", "lo"]}, "links": {"sys:class/net/lo/device": null}})
    }

    #[test]
    fn answers_are_those_of_the_file() {
        let saved = parse(file().to_string().as_bytes()).unwrap();
        assert_eq!(saved.read(&Location::of("proc:sys/vm/swappiness")).as_deref(), Ok("60"));
        assert_eq!(saved.read(&Location::of("proc:sys/vm/x")), Err(Absence::Missing));
        assert!(
            matches!(saved.read(&Location::of("proc:y")), Err(Absence::Unreadable(why)) if why.contains("snapshot"))
        );
        assert_eq!(
            (saved.hot().unwrap().to_string(), saved.list(&Location::of("sys:class/net")).len()),
            ("2-3".into(), 2)
        );
        assert!(saved.write(&Location::of("proc:sys/vm/swappiness"), "1").is_err());
        assert_eq!(parse(saved.to_json().unwrap().as_bytes()).unwrap(), saved);
    }

    #[test]
    fn a_file_that_no_host_wrote_is_refused() {
        let good = file().to_string();
        for (from, to, words) in [
            ("\"schema\":1", "\"schema\":9", "format 9"),
            ("proc:sys/vm/x", "proc:sys/../../etc/shadow", "leaves its folder"),
            ("\"lo\"", "\"../lo\"", "no host has"),
            ("\"lo\"", "\"\"", "no host has"),
            ("\"lo\"", "\"e\\u001b[2J\"", "no host has"),
            ("\"lo\"", "\"e\\u202e\"", "no host has"),
            ("proc:sys/vm/x", "proc:sys/\\u001b]0;x", "cannot be shown"),
            ("\"name\":\"a\"", "\"name\":\"\\u001b[2J\"", "not one of a host"),
            ("\"name\":\"a\"", "\"name\":\"\"", "not one of a host"),
            ("2-3", "3-2", "hot CPUs"),
            ("\"pids\":[1]", "\"pids\":[-1]", "invalid value"),
            ("\"is_cut\"", "\"is_cute\"", "unknown field"),
        ] {
            assert!(good.contains(from), "{from}");
            let told = parse(good.replace(from, to).as_bytes()).unwrap_err();
            assert!(told.contains(words), "{to}: {told}");
        }
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert!(parse(good.replace("\"60\"", &format!("\"{long}\"")).as_bytes()).unwrap_err().contains("longer"));
        let pids = format!("[{}1]", "1,".repeat(ANSWERS_MAX));
        assert!(parse(good.replace("[1]", &pids).as_bytes()).unwrap_err().contains("more than"));
        assert!(parse(b"").is_err() && parse(b"[[[[").is_err());
        let result = parse(br#"{"schema": 1, "results": [], "setup": {}}"#).unwrap_err();
        assert!(result.contains("sidestep compare"), "{result}");
    }
}

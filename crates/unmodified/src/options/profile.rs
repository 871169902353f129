//! Profiles: values for options in TOML, from the files that come with sidestep (`profiles/run`) or a user's own.
//!
//! ```toml
//! base = "latency"        # a built-in profile to build on; may be left out
//! about = "..."           # its purpose, for people
//! [run]
//! spin_us = 50
//! ```

use super::table::Settings;
use sidestep_sys::{Problem, file};
use std::path::Path;

const BUILT_IN: [(&str, &str); 3] = [
    ("latency", include_str!("../../profiles/latency.toml")),
    ("throughput", include_str!("../../profiles/throughput.toml")),
    ("safe", include_str!("../../profiles/safe.toml")),
];

/// The name of no profile: the defaults of the table.
pub const CUSTOM: &str = "custom";

/// The longest file, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Returns the names of the built-in profiles.
pub fn names() -> [&'static str; 3] {
    BUILT_IN.map(|(name, _)| name)
}

/// Returns the defaults, changed as a profile says: a built-in one, [`CUSTOM`], or a file (a path with a slash or a dot).
pub(super) fn settings(name_or_file: &str) -> Result<Settings, Problem> {
    let settings = Settings { profile: name_or_file.to_owned(), ..Settings::default() };
    match built_in(name_or_file) {
        Some(text) => read(settings, text, name_or_file, true),
        None if name_or_file == CUSTOM => Ok(settings),
        None if name_or_file.contains(['/', '.']) => {
            let refused = |error| problem(name_or_file, error).next("name a file that can be read");
            let text = file::read_text(Path::new(name_or_file), FILE_BYTES_MAX).map_err(refused)?;
            read(settings, &text, name_or_file, true)
        }
        None => Err(problem(name_or_file, "there is none of this name")
            .next(format!("name one of: {}; or a file, with a slash or a dot in its path", names().join(", ")))),
    }
}

fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

fn problem(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::usage(format!("cannot use the profile {name}"), why)
}

/// Applies the text of a profile; `may_build` if it may build on another one.
fn read(mut settings: Settings, text: &str, name: &str, may_build: bool) -> Result<Settings, Problem> {
    let refused = |why: String| problem(name, why).next("see docs/run-options.md and profiles/run/latency.toml");
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| refused(in_line(text, &error)))?;
    if let Some(base) = table.get("base") {
        let base = base.as_str().filter(|_| may_build).and_then(built_in);
        let base = base.ok_or_else(|| refused(format!("base is one of: {}", names().join(", "))))?;
        settings = read(settings, base, name, false)?;
    }
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("base", _) | ("about", toml::Value::String(_)) => {}
            ("run", toml::Value::Table(options)) => apply(&mut settings, options).map_err(refused)?,
            _ => return Err(refused(format!("{key} is none of base, about, [run]"))),
        }
    }
    Ok(settings)
}

/// The message of a parser, with the number of the line.
fn in_line(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    line.map_or_else(|| error.message().to_owned(), |line| format!("line {line}: {}", error.message()))
}

fn apply(settings: &mut Settings, options: &toml::Table) -> Result<(), String> {
    for (name, value) in options {
        if name == "profile" {
            return Err("a profile does not name itself; base names the one that it builds on".into());
        }
        let text = text(value).ok_or_else(|| format!("{name} has a value that no option takes"))?;
        settings.set(name, &text).map_err(|why| format!("{name} = {text:?}: {why}"))?;
    }
    Ok(())
}

fn text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Integer(value) => Some(value.to_string()),
        toml::Value::String(value) => Some(value.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_default_profile_is_the_defaults_of_the_table() {
        assert_eq!(settings("latency").unwrap(), Settings::default());
        let plain = settings(CUSTOM).unwrap();
        assert_eq!(Settings { profile: "latency".into(), ..plain }, Settings::default());
    }

    #[test]
    fn every_built_in_profile_is_read_and_differs() {
        let spins = names().map(|name| settings(name).unwrap().spin_us);
        assert_eq!(spins, [100_000, 20, 0]);
    }

    #[test]
    fn a_file_builds_on_a_profile() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"base = \"safe\"\nabout = \"ours\"\n[run]\nframes = 1024\nwhy = true\naccelerate = \":80\"\n")
            .unwrap();
        let path = file.path().to_str().unwrap();
        let settings = settings(path).unwrap();
        assert_eq!((settings.spin_us, settings.frames, settings.why), (0, 1024, true));
        assert_eq!((settings.accelerate.to_string().as_str(), settings.profile.as_str()), (":80", path));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        for (text, why) in [
            ("spin_us = 1", "none of base"),
            ("[run]\nspin = 1", "no such option"),
            ("[run]\nspin_us = -1", "0 to 4294967295"),
            ("[run]\nspin_us = 1.5", "no option takes"),
            ("[run]\nprofile = \"safe\"", "base names"),
            ("base = \"./x\"", "base is one of"),
            ("[run", "unclosed"),
        ] {
            let problem = read(Settings::default(), text, "x", true).unwrap_err().to_string();
            assert!(problem.contains(why), "{text}: {problem}");
        }
        assert!(settings("fast").unwrap_err().to_string().contains("latency, throughput, safe"));
        assert!(settings("./no-such-file").unwrap_err().to_string().contains("No such file"));
    }
}

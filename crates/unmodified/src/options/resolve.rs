//! The order in which options are set: default, profile, environment, flag.

use super::profile::{self, CUSTOM};
use super::table::{OptionRow, Settings, TABLE};
use rustix::fs::{Access, access};
use sidestep_sys::Problem;
use sidestep_sys::cpu::check_helper_cpu;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The option that is set before the others.
const PROFILE: &str = "profile";

/// The profiles of TCP that come with the engine (`socket/src/tcp/profile.rs`), which this crate is below.
const TCP_PROFILES: [&str; 2] = ["latency", "default"];

impl Settings {
    /// Returns the options of this process by its environment, for the library: it cannot refuse a program, so what cannot be
    /// read keeps its default, with a problem to be reported.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut told = |text: Result<String, Problem>| text.map_err(|problem| problems.push(problem)).ok();
        let set: Vec<(&OptionRow, Option<String>)> =
            TABLE.iter().map(|row| (row, read(row, &variable).and_then(&mut told))).collect();
        let profile = set.iter().find(|(row, _)| row.name == PROFILE).and_then(|(_, text)| text.clone());
        let mut settings = profile.map_or_else(Self::default, |name| {
            profile::settings(&name).unwrap_or_else(|problem| {
                problems.push(problem);
                Self::default()
            })
        });
        for (row, text) in set.into_iter().filter(|(row, _)| row.name != PROFILE) {
            let result = text.map_or(Ok(()), |text| settings.set_by(row, &row.variable(), &text));
            problems.extend(result.err());
        }
        (settings, problems)
    }

    /// Returns the options that flags, given by option name, and the environment ask for, for `sidestep run`. Relative paths of
    /// flags and variables are those of the calling process.
    pub fn resolve(
        flags: &[(&str, String)],
        variable: impl Fn(&str) -> Option<OsString>,
        directory: &Path,
    ) -> Result<Self, Problem> {
        let of = |row: &OptionRow| -> Result<Option<(String, String)>, Problem> {
            let flag = flags.iter().find(|(name, _)| *name == row.name);
            match flag {
                Some((_, text)) => Ok(Some((format!("--{}", row.flag()), text.clone()))),
                None => Ok(read(row, &variable).transpose()?.map(|text| (row.variable(), text))),
            }
        };
        let profile = TABLE.iter().find(|row| row.name == PROFILE).and_then(|row| of(row).transpose()).transpose()?;
        let mut settings = profile.map_or_else(|| Ok(Self::default()), |(_, name)| profile::settings(&name))?;
        for row in TABLE.iter().filter(|row| row.name != PROFILE) {
            if let Some((from, text)) = of(row)? {
                settings.set_by(row, &from, &text)?;
            }
        }
        settings.make_absolute(directory);
        Ok(settings)
    }

    /// Returns the environment that makes [`Self::from_environment`] return the same options in the program: each variable
    /// with its value, or `None` to remove it.
    pub fn environment(&self) -> Vec<(String, Option<String>)> {
        let is_file = !profile::names().contains(&self.profile.as_str());
        let name = if is_file { CUSTOM } else { &self.profile };
        // The program does not read the file again.
        let base = profile::settings(name).unwrap_or_default();
        let value = |row: &OptionRow| match row.name {
            PROFILE => Some(name.to_owned()),
            name => self.value(name).filter(|value| base.value(name).as_ref() != Some(value)),
        };
        TABLE.iter().map(|row| (row.variable(), value(row))).collect()
    }

    /// Checks the files and the CPU that options name, for `sidestep run`: the library could only report later that it cannot use
    /// them, and without its log not even that.
    pub fn check_host(&self) -> Result<(), Problem> {
        let failed = |name: &str, value: &dyn Display, why: &dyn Display, next: &str| {
            Err(Problem::usage(format!("cannot use {name}={value}"), why).next(next))
        };
        if !self.tcp.contains(['/', '.']) && !TCP_PROFILES.contains(&self.tcp.as_str()) {
            let next =
                format!("name one of: {}; or a file, with a slash or a dot in its path", TCP_PROFILES.join(", "));
            return failed("--tcp", &self.tcp, &"there is no profile of this name", &next);
        }
        if let (true, Err(error)) = (self.tcp.contains(['/', '.']), access(&self.tcp, Access::READ_OK)) {
            return failed("--tcp", &self.tcp, &io::Error::from(error), "name a file that can be read");
        }
        if let super::Log::File(path) = &self.log
            && let Err(why) = writable(path)
        {
            return failed("--log", &path.display(), &why, "name a file that can be written, or stderr, syslog, none");
        }
        match self.helper_cpu.map(|cpu| (cpu, check_helper_cpu(cpu))) {
            Some((cpu, Err(problem))) => failed("--helper-cpu", &cpu, &problem.brief(), problem.next_step()),
            _ => Ok(()),
        }
    }

    fn set_by(&mut self, row: &OptionRow, from: &str, text: &str) -> Result<(), Problem> {
        self.set(row.name, text).map_err(|why| {
            Problem::usage(format!("cannot use {from}={text}"), why).next(format!("its values: {}", row.accepted()))
        })
    }

    /// Makes paths independent of the working directory, which the program may change.
    fn make_absolute(&mut self, directory: &Path) {
        if let super::Log::File(path) = &mut self.log {
            *path = directory.join(&path);
        }
        if self.tcp.contains(['/', '.']) {
            self.tcp = directory.join(&self.tcp).to_string_lossy().into_owned();
        }
    }
}

/// Finds out whether lines can be added to a file, or the file can be made. It is not opened: a pipe would wait for its reader.
fn writable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(facts) if facts.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error),
    }
}

/// Returns the text of an option's variable; `None` if it is not set, or empty.
fn read(row: &OptionRow, variable: &impl Fn(&str) -> Option<OsString>) -> Option<Result<String, Problem>> {
    let name = row.variable();
    let text = variable(&name).filter(|text| !text.is_empty())?;
    let refused = |_| Problem::usage(format!("cannot use {name}"), "it is not UTF-8").next("see docs/run-options.md");
    Some(text.into_string().map_err(refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn environment(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        let set: Vec<(String, String)> = set.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        move |name| set.iter().find(|(known, _)| known == name).map(|(_, text)| text.into())
    }

    fn resolve(flags: &[(&str, &str)], set: &[(&str, &str)]) -> Result<Settings, Problem> {
        let flags: Vec<(&str, String)> = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Settings::resolve(&flags, environment(set), Path::new("/home/trader"))
    }

    #[test]
    fn a_flag_is_stronger_than_a_variable_and_that_than_a_profile() {
        let spin = |flags: &[(&str, &str)], set: &[(&str, &str)]| resolve(flags, set).unwrap().spin_us;
        assert_eq!(spin(&[], &[]), 100_000);
        assert_eq!(spin(&[("profile", "safe")], &[]), 0);
        assert_eq!(spin(&[], &[("SIDESTEP_PROFILE", "throughput")]), 20);
        assert_eq!(spin(&[("profile", "safe")], &[("SIDESTEP_SPIN_US", "7")]), 7);
        assert_eq!(spin(&[("profile", "safe"), ("spin_us", "8")], &[("SIDESTEP_SPIN_US", "7")]), 8);
        assert_eq!(spin(&[], &[("SIDESTEP_SPIN_US", "")]), 100_000, "an empty variable is none");
    }

    #[test]
    fn the_program_gets_what_was_resolved() {
        type Pairs = &'static [(&'static str, &'static str)];
        let cases: [(Pairs, Pairs); 4] = [
            (&[], &[]),
            (&[("profile", "safe"), ("frames", "1024"), ("accelerate", "!:22"), ("log", "./log")], &[]),
            (&[("profile", "throughput")], &[("SIDESTEP_SPIN_US", "100000")]),
            (&[("why", "true"), ("queues", "0-1"), ("tcp", "./mine.toml")], &[("SIDESTEP_PROFILE", "safe")]),
        ];
        for (flags, set) in cases {
            let settings = resolve(flags, set).unwrap();
            let passed = settings.environment();
            let passed: Vec<(&str, &str)> =
                passed.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?))).collect();
            let (found, problems) = Settings::from_environment(environment(&passed));
            assert!(problems.is_empty(), "{problems:?}");
            assert_eq!(found, settings);
        }
    }

    #[test]
    fn a_file_is_read_once_and_paths_are_made_absolute() {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), "[run]\nspin_us = 5\nlog = \"./log\"\n").unwrap();
        let settings = resolve(&[("profile", file.path().to_str().unwrap())], &[]).unwrap();
        let passed = settings.environment();
        let value = |name: &str| passed.iter().find(|(known, _)| known == name).unwrap().1.as_deref();
        assert_eq!((value("SIDESTEP_PROFILE"), value("SIDESTEP_SPIN_US")), (Some("custom"), Some("5")));
        assert_eq!((value("SIDESTEP_LOG"), value("SIDESTEP_FRAMES")), (Some("/home/trader/./log"), None));
    }

    #[test]
    fn run_refuses_what_the_library_only_reports() {
        let wrong = [("SIDESTEP_SPIN_US", "soon"), ("SIDESTEP_PROFILE", "fast"), ("SIDESTEP_FRAMES", "1024")];
        assert!(resolve(&[], &wrong[..1]).unwrap_err().to_string().contains("SIDESTEP_SPIN_US=soon"));
        assert!(resolve(&[("frames", "1")], &[]).unwrap_err().to_string().contains("--frames=1"));
        let (settings, problems) = Settings::from_environment(environment(&wrong));
        assert_eq!((settings.spin_us, settings.frames, problems.len()), (100_000, 1024, 2));
        let strange = |name: &str| (name == "SIDESTEP_TCP").then(|| OsString::from_vec(vec![0xff]));
        assert_eq!(Settings::from_environment(strange).1.len(), 1);
    }
}

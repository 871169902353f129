//! Records what a host answers while every check reads it.

use super::saved::{ANSWERS_MAX, Answer, Saved};
use crate::audit::Audit;
use crate::cpus::CpuSet;
use crate::host::{Absence, Host, Identity};
use crate::location::{Location, Scheme};
use crate::policy::host_name;
use crate::profile::Profile;
use crate::scope::{Request, Scope};
use sidestep_sys::Problem;
use sidestep_sys::printable::is_printable;
use std::cell::RefCell;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// The lines of /proc/PID/status that checks read. The others are the program's business, and most of the file.
const STATUS_LINES: [&str; 3] = ["Name:", "PPid:", "Cpus_allowed_list:"];

/// A host whose answers are kept.
struct Recorder<'a> {
    host: &'a dyn Host,
    kept: RefCell<Saved>,
}

/// Records a host. Every check is read as if all CPUs were hot, and as if none were, so that the choice can be made later. `hot` is
/// what the file proposes.
pub fn record(host: &dyn Host, interfaces: &[String], hot: Option<&CpuSet>) -> Result<Saved, Problem> {
    let recorder = Recorder { host, kept: RefCell::default() };
    let usual = Scope::of(&recorder, &Request { interfaces: Vec::new(), hot: hot.cloned() })?;
    let mut names: Vec<String> = usual.interfaces.iter().map(|one| one.name.clone()).collect();
    names.extend(interfaces.iter().filter(|name| !usual.interfaces.iter().any(|one| one.name == **name)).cloned());
    let all = usual.cpus.online.clone();
    // This profile has something to say of every check.
    let profile = Profile::built_in("latency")?;
    for hot in [all, CpuSet::default()] {
        let scope = Scope::of(&recorder, &Request { interfaces: names.clone(), hot: Some(hot) })?;
        Audit::of(&scope, &profile);
    }
    let name = host_name(&recorder);
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let kept = recorder.kept.into_inner();
    Ok(kept.described(name, taken, hot, host.identity()))
}

impl Recorder<'_> {
    fn keep(&self, keep: impl FnOnce(&mut Saved)) {
        let mut kept = self.kept.borrow_mut();
        if kept.count() < ANSWERS_MAX {
            keep(&mut kept);
        } else {
            kept.is_cut = true;
        }
    }
}

impl Host for Recorder<'_> {
    fn read(&self, location: &Location) -> Result<String, Absence> {
        let answer = self.host.read(location).map(|text| shortened(location, text));
        self.keep(|kept| _ = kept.values.insert(location.clone(), Answer::of(&answer)));
        answer
    }

    fn list(&self, location: &Location) -> Vec<String> {
        let mut names = self.host.list(location);
        // A file with such a name would not be read again.
        names.retain(|name| name.chars().all(is_printable));
        // /proc lists the processes, and they are kept as such.
        if *location != Location::of("proc:") {
            self.keep(|kept| _ = kept.lists.insert(location.clone(), names.clone()));
        }
        names
    }

    fn pids(&self) -> Vec<u32> {
        let pids = self.host.pids();
        self.keep(|kept| kept.pids.clone_from(&pids));
        pids
    }

    fn resolve(&self, location: &Location) -> Option<Location> {
        let target = self.host.resolve(location);
        self.keep(|kept| _ = kept.links.insert(location.clone(), target.clone()));
        target
    }

    fn write(&self, _location: &Location, _value: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn identity(&self) -> Identity {
        self.host.identity()
    }
}

/// Returns what checks read of a process's status; other texts are left whole.
fn shortened(location: &Location, text: String) -> String {
    let is_status = location.scheme() == Scheme::Proc
        && location.path().ends_with("/status")
        && location.path().starts_with(|c: char| c.is_ascii_digit());
    if !is_status {
        return text;
    }
    let lines = text.lines().filter(|line| STATUS_LINES.iter().any(|name| line.starts_with(name)));
    lines.collect::<Vec<_>>().join("\n")
}

//! A host on which `sidestep run` may start a control plane.

use super::{Finished, WATCHDOG, finish, is_root, sidestep};
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::process::Process;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A host with a state directory of its own, without a control plane.
pub(crate) struct Place {
    pub(crate) lab: Option<Lab>,
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    /// A host of a lab, where root may start a control plane.
    pub(crate) fn in_lab() -> Option<Self> {
        let lab = is_root().then(|| Lab::up(&Options::default()).unwrap())?;
        let mut place = Self::here();
        place.lab = Some(lab);
        Some(place)
    }

    /// This network namespace, in which nothing is started.
    pub(crate) fn here() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        Self { lab: None, folder }
    }

    pub(crate) fn host(&self) -> &Host {
        self.lab.as_ref().expect("a lab").host(Side::A)
    }

    /// The command in this place; the library is the one that cargo has built.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sidestep(arguments);
        let library = std::env::current_exe().unwrap().with_file_name("libsidestep_preload.so");
        command.env("SIDESTEP_LIBRARY", library).env("SIDESTEP_STATE_DIR", self.folder.path());
        command.env_remove("LD_PRELOAD").env_remove("SIDESTEP_CONTROL");
        command
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        match &self.lab {
            Some(_) => self.host().within(|| Ok(command.spawn().unwrap())).unwrap(),
            None => command.spawn().unwrap(),
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        finish(self.spawn(&mut self.command(arguments)))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The pid of the control plane of this place, if one runs.
    pub(crate) fn control(&self) -> Option<u32> {
        let found = fs::read_dir(self.folder.path()).unwrap().flatten();
        let mut folders = found.filter(|entry| entry.file_name().to_string_lossy().starts_with("net-"));
        fs::read_to_string(folders.next()?.path().join("lock")).ok()?.trim().parse().ok()
    }
}

impl Drop for Place {
    /// Ends the control plane before its lab, and detaches what a killed one has left.
    fn drop(&mut self) {
        let control = self.control().and_then(|pid| Process::of(pid).ok().flatten());
        if let Some(process) = control {
            // SIGTERM.
            let _ = process.signal(15);
            let begin = Instant::now();
            while process.is_alive() && begin.elapsed() < WATCHDOG {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        if self.lab.is_some() {
            self.run(&["control", "--cleanup"]);
        }
    }
}

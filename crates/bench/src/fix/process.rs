//! The process of an acceptor of ours.

use super::veth::Ends;
use super::{Reach, certificate};
use sidestep_lab::Host;
use sidestep_sys::process::Process;
use sidestep_sys::{Problem, process};
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A process to be started.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Exchange { store: &'a str, spin: bool },
    Bare,
}

/// Returns whether records of TLS travel over a transport: `tls`, `veth-tls`, `xdp-tls`.
pub(super) fn is_tls(transport: &str) -> bool {
    transport.rsplit('-').next() == Some("tls")
}

/// The store without a suffix in the name of a path: an engine's default.
const USUAL_STORE: &str = "page-cache";

/// The first words of the names of folders; the process and a number follow.
const FOLDER: &str = "sidestep-fix-";

/// Makes a folder for the files of acceptors, and removes those of processes that were killed.
pub(super) fn new_folder() -> Result<PathBuf, Problem> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    sweep(&std::env::temp_dir());
    let folder = std::env::temp_dir().join(format!("{FOLDER}{}-{number}", std::process::id()));
    // It must not exist yet, and only this user may enter it: others can guess its name.
    let made = DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|error| Problem::failed(format!("cannot create {}", folder.display()), error)).map(|()| folder)
}

/// Removes folders of this user whose processes have gone. What cannot be removed stays.
fn sweep(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(owner) else { continue };
        // Others can make folders of such names, and links.
        let is_own = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == process::effective_uid());
        if is_own && matches!(Process::of(pid), Ok(None)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that made the folder of that name.
fn owner(name: &str) -> Option<u32> {
    let (pid, number) = name.strip_prefix(FOLDER)?.split_once('-')?;
    number.parse::<u64>().ok().and_then(|_| pid.parse().ok())
}

pub(super) fn not_started(why: String) -> Problem {
    Problem::failed("cannot start our own acceptor", why)
}

impl Kind<'_> {
    /// Starts it on `cpu`, with its files in `folder`, on a host of a lab or here. Returns the address that it listens on.
    pub(super) fn start(
        self,
        program: &Path,
        listen: &str,
        is_tls: bool,
        folder: &Path,
        cpu: u32,
        host: Option<&Host>,
    ) -> Result<(Child, String), Problem> {
        std::fs::create_dir_all(folder).map_err(|error| not_started(error.to_string()))?;
        let mut command = self.command(program, folder);
        command.args(["--listen", listen, "--cpu", &cpu.to_string()]);
        if is_tls {
            certificate::make(folder)?.present(&mut command);
        }
        // Ctrl-C is for the client alone, which then ends its acceptors.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        // One that spins would go on for ever if this process were killed. This thread lives until the run ends.
        process::die_with_parent(&mut command);
        let mut child = match host {
            Some(host) => host.spawn(&mut command)?,
            None => command.spawn().map_err(|error| not_started(error.to_string()))?,
        };
        match address(&mut child) {
            Ok(address) => Ok((child, address)),
            Err(problem) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(problem)
            }
        }
    }

    fn command(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        match self {
            Self::Exchange { store, spin } => {
                command.args(["fix", "exchange", "--store", store]).args(spin.then_some("--spin"));
                command.arg("--store-path").arg(folder.join("store"));
            }
            Self::Bare => drop(command.args(["bench", "fix-bare"])),
        }
        command
    }

    pub(super) fn name(self, transport: &str) -> String {
        let transport = (transport != "tcp").then_some(transport);
        let parts = match self {
            Self::Exchange { store, spin } => {
                vec![Some("sidestep"), transport, (store != USUAL_STORE).then_some(store), (!spin).then_some("block")]
            }
            Self::Bare => vec![Some("bare"), transport],
        };
        parts.into_iter().flatten().collect::<Vec<_>>().join("-")
    }

    pub(super) fn description(self, transport: &str, reach: &Reach) -> String {
        let medium = reach.transport();
        let way = match Ends::named(transport) {
            _ if matches!(reach, Reach::Far(_)) => match transport.strip_suffix("-tls").unwrap_or(transport) {
                "xdp" => " past the kernel at both ends, on another host",
                "xdp-one-end" => " past the kernel at its end, on another host",
                "xdp-client" => " past the kernel at the client's end, on another host",
                _ => " by the kernel, on another host",
            },
            None => "",
            Some(Ends::None) => " by the kernel, through a veth between two namespaces",
            Some(Ends::Acceptor) => {
                " past the kernel at its end, through a veth between two namespaces; the client's end is the kernel's"
            }
            Some(Ends::Both) => " past the kernel at both ends, through a veth between two namespaces",
        };
        let tls = if is_tls(transport) { "; its certificate is made for the run, and not verified" } else { "" };
        match self {
            Self::Exchange { store, spin } => {
                let waits = if spin { "spins" } else { "sleeps until something comes" };
                format!(
                    "sidestep fix exchange over {medium}{way}: it {waits}; its store is {store}; no dictionary{tls}."
                )
            }
            Self::Bare => format!(
                "The bare acceptor over {medium}{way}: it spins, and answers with reports that were encoded before: \
                 the transport's own time for the same bytes."
            ),
        }
    }
}

/// The longest first line of an acceptor, bytes: an address.
const LINE_BYTES_MAX: u64 = 1024;

/// Reads the address that an acceptor says it listens on.
fn address(child: &mut Child) -> Result<String, Problem> {
    let output = child.stdout.take().map(|output| BufReader::new(output.take(LINE_BYTES_MAX)));
    let line = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok).next();
    let line = line.ok_or_else(|| not_started("it ended early".into()))?;
    let address = line.strip_prefix("listening on ").ok_or_else(|| not_started(format!("it says {line:?}")))?;
    Ok(address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_processes_that_have_gone_are_swept() {
        let place = tempfile::tempdir().unwrap();
        // Higher than any pid (PID_MAX_LIMIT of linux/threads.h).
        let (gone, mine) = ("sidestep-fix-4194305-0", format!("sidestep-fix-{}-0", std::process::id()));
        for name in [gone, &mine, "sidestep-fix-4194305-x", "sidestep-fix-4194305"] {
            std::fs::create_dir_all(place.path().join(name).join("store")).unwrap();
        }
        std::os::unix::fs::symlink(place.path().join(&mine), place.path().join("sidestep-fix-4194305-1")).unwrap();
        sweep(place.path());
        assert!(!place.path().join(gone).exists());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 4);
        assert!(place.path().join(mine).join("store").exists());
    }

    #[test]
    fn names_say_what_is_not_usual() {
        let name = |transport, store, spin| Kind::Exchange { store, spin }.name(transport);
        assert_eq!(name("tcp", "page-cache", true), "sidestep");
        assert_eq!(name("uds", "none", true), "sidestep-uds-none");
        assert_eq!(name("tcp", "page-cache", false), "sidestep-block");
        assert_eq!([Kind::Bare.name("tcp"), Kind::Bare.name("xdp")], ["bare", "bare-xdp"]);
    }
}

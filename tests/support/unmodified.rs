//! Programs that know nothing of sidestep, on the two hosts of a lab, bare or under the library.

use super::{send_signal, sidestep};
use sidestep_control_api::client::Client;
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_testkit::wait;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The library of this build.
pub(crate) fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows its file");
    let library = program.parent().expect("a file is in a folder").join("libsidestep_preload.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// The id of a user of this machine.
fn uid_of(name: &str) -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name)?;
    fields.get(2)?.parse().ok()
}

/// Two hosts, each with a control plane, and a folder that both see.
pub(crate) struct Hosts {
    pub(crate) lab: Lab,
    pub(crate) folder: tempfile::TempDir,
    controls: Vec<Child>,
}

impl Hosts {
    /// Two hosts of the kernel alone.
    pub(crate) fn bare() -> Self {
        let lab = Lab::up(&Options::default()).expect("root can make a lab");
        Self { lab, folder: tempfile::tempdir().expect("a folder"), controls: Vec::new() }
    }

    /// Two hosts with a control plane on each of these.
    pub(crate) fn accelerated(sides: &[Side]) -> Self {
        Self::accelerated_for(sides, None)
    }

    /// The same, where a user besides root may bypass the kernel, if there is one of that name.
    pub(crate) fn accelerated_for(sides: &[Side], user: Option<&str>) -> Self {
        let mut hosts = Self::bare();
        let uid = user.and_then(uid_of);
        for side in sides {
            hosts.start_control(*side, uid);
        }
        hosts
    }

    fn control_socket(&self, side: Side) -> PathBuf {
        self.folder.path().join(format!("control-{side:?}"))
    }

    fn start_control(&mut self, side: Side, uid: Option<u32>) {
        let socket = self.control_socket(side);
        let log = File::create(socket.with_extension("log")).expect("a file");
        let mut command = sidestep(&["control", "--socket", socket.to_str().expect("text")]);
        command.args(uid.map(|uid| format!("--allow-uid={uid}")));
        command.env("SIDESTEP_STATE_DIR", self.folder.path().join(format!("state-{side:?}"))).stderr(Stdio::from(log));
        let host = self.lab.host(side);
        let mut child = host.within(|| Ok(command.spawn().expect("the binary is built"))).expect("root can enter");
        wait("a control plane", || {
            assert!(child.try_wait().expect("it is a child of ours").is_none(), "control has ended");
            Client::connect_to(&socket, "test").ok()
        });
        self.controls.push(child);
    }

    /// A command on a host.
    pub(crate) fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.lab.host(side).command(program).expect("root can enter");
        command.env_remove("LD_PRELOAD").stdin(Stdio::null());
        command
    }

    /// Has a command run under the library; each socket's path goes to `log`.
    pub(crate) fn accelerate(&self, side: Side, command: &mut Command, log: &Path) {
        let host: &Host = self.lab.host(side);
        command
            .env("LD_PRELOAD", library())
            .env("SIDESTEP_CONTROL", self.control_socket(side))
            .env("SIDESTEP_INTERFACE", &host.interface)
            .env("SIDESTEP_FRAMES", "1024")
            .env("SIDESTEP_SPIN_US", "100")
            .env("SIDESTEP_WHY", "true")
            .env("SIDESTEP_LOG", log);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for control in &mut self.controls {
            if control.try_wait().is_ok_and(|ended| ended.is_none()) {
                send_signal(control.id(), "TERM");
            }
            let _ = control.wait();
        }
    }
}

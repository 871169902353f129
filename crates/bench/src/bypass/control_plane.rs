//! The control plane of an end: one of a lab's, the one that runs on the host, or one that is started by consent.
//!
//! A started one is a process of its own. It ends by itself, and detaches, ten seconds after its last client: so it goes
//! also where the process that started it was killed.

use super::keeper::{Keeper, Use};
use super::{Consent, ControlPlaneThread};
use sidestep_control_api::client::{Client, Error};
use sidestep_control_api::place;
use sidestep_sys::problem::say;
use sidestep_sys::process::Process;
use sidestep_sys::{Problem, xdp};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The name of this program at the control plane.
const NAME: &str = "sidestep bench";
/// The time for a control plane to detach from its interfaces and to end.
const END_MAX: Duration = Duration::from_secs(10);
/// The time for acceptors of a session that is over, and what else is about to end, to leave it.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
const SIGTERM: i32 = 15;

/// The control plane of an end, while it is needed.
pub(crate) enum ControlPlane {
    /// In a lab, on a thread of this process.
    Lab { _thread: ControlPlaneThread },
    /// On a host, as another process. While the connection lasts, one that ends unused stays.
    Host { client: Client, is_started: bool, _use: Use },
}

impl ControlPlane {
    /// Finds the control plane of this network namespace, or starts one where `consent` has it, and gives it to `keeper`. The
    /// threads and processes of one that is started use the CPUs `cpus`.
    pub(crate) fn need(consent: &Consent, keeper: &Keeper, cpus: &[u32]) -> Result<Self, Problem> {
        let (name, may_start) = match consent {
            Consent::Lab => return Ok(Self::Lab { _thread: ControlPlaneThread::start(cpus)? }),
            Consent::Interface { name, may_start } => (name, *may_start),
            Consent::Nothing => return Err(Consent::refused()),
        };
        // Before it is found: another session must not take it away meanwhile.
        let in_use = keeper.begin_use();
        match Client::connect(NAME) {
            Ok(client) => Ok(Self::Host { is_started: keeper.has(client.control_pid()), client, _use: in_use }),
            Err(Error::Lost(_)) if may_start => {
                let (client, started) = start(name)?;
                keeper.keep(started);
                Ok(Self::Host { client, is_started: true, _use: in_use })
            }
            Err(Error::Lost(problem)) => {
                let by_hand = format!("sidestep control --interface {name}");
                Err(Problem::failed("cannot go past the kernel", problem.brief())
                    .next(format!("start it on that host as root: {by_hand}; or allow it there: --start-control")))
            }
            Err(refused) => Err(refused.into()),
        }
    }

    /// Returns whether it is another process, which has a program on the interface between slices, too.
    pub(crate) fn is_on_host(&self) -> bool {
        matches!(self, Self::Host { .. })
    }

    /// Returns what a reader of the results must know.
    pub(crate) fn note(&self) -> String {
        match self {
            Self::Lab { .. } => {
                "the steering program is attached during these slices only, so that the kernel's paths \
                                 are measured without it"
                    .into()
            }
            Self::Host { client, is_started: false, .. } => {
                format!("control plane: process {}, which runs on that host", client.control_pid())
            }
            Self::Host { client, is_started: true, .. } => {
                format!("control plane: process {}, started for the measurement", client.control_pid())
            }
        }
    }
}

/// A control plane that this process has started; dropping ends it, unless others use it by then.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) process: Process,
    socket: PathBuf,
    interface: String,
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.process.is_alive() {
            return self.say_what_is_left();
        }
        if self.keeps_others() {
            let pid = self.process.pid;
            return say(format!(
                "the control plane that was started for the run (process {pid}) goes on: other programs use it. It ends ten \
                 seconds after the last of them"
            ));
        }
        let deadline = Instant::now() + END_MAX;
        let _ = self.process.signal(SIGTERM);
        while self.process.is_alive() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        if self.process.is_alive() {
            say(Problem::failed(
                format!("the control plane that was started for the run (process {}) does not end", self.process.pid),
                "it is silent",
            )
            .next("end it, and then detach what it has left: sidestep control --cleanup"));
        }
    }
}

impl Started {
    /// Says what one that has ended early may have left: it detaches, unless it was killed.
    fn say_what_is_left(&self) {
        let (pid, interface) = (self.process.pid, &self.interface);
        let Some(program) = xdp::device(interface).ok().and_then(|device| device.xdp_program) else { return };
        let what = format!("the control plane that was started for the run (process {pid}) has ended before it");
        let left = Problem::failed(what, format!("XDP program {program} is attached to {interface}"));
        say(left.next("if no other control plane runs, detach it: sidestep control --cleanup"));
    }

    /// Returns whether other processes are connected to it, and stay.
    fn keeps_others(&self) -> bool {
        let deadline = Instant::now() + LEAVE_MAX;
        loop {
            if !self.has_others() {
                return false;
            }
            if Instant::now() >= deadline {
                return true;
            }
            std::thread::sleep(10 * LOOK);
        }
    }

    fn has_others(&self) -> bool {
        let clients = Client::connect_to(&self.socket, NAME).and_then(|mut client| client.clients());
        clients.is_ok_and(|clients| clients.iter().any(|client| client.pid != Some(std::process::id())))
    }
}

/// Starts `sidestep control` for one interface. It waits until the interface carries frames with the program on it.
fn start(interface: &str) -> Result<(Client, Started), Problem> {
    let failed = |why: &dyn std::fmt::Display| {
        Problem::failed("cannot start a control plane", why)
            .next(format!("start it by hand, as root: sidestep control --interface {interface}"))
    };
    let socket = place::socket()?;
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.args(["control", "--interface", interface, "--end-unused", "--background", "--socket"]).arg(&socket);
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(&said.trim().trim_start_matches("sidestep: ").replace("\n  next: ", "; ")));
    }
    let client = Client::connect_to(&socket, NAME)?;
    let pid = client.control_pid();
    let process = Process::of(pid).ok().flatten().ok_or_else(|| failed(&"it ended early"))?;
    Ok((client, Started { process, socket, interface: interface.to_owned() }))
}

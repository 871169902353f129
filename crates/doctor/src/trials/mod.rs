//! What no file tells is tried, in ways that leave nothing behind also after a kill: sockets on loopback, memory and files without names,
//! and a network namespace without a name, in which a program is loaded and a frame goes past the kernel.

mod bypass;
mod files;
mod local;
mod namespace;

pub use files::{FileSystem, Journal};

use crate::facts::Facts;
use sidestep_control_api::client::{Client, Error};
use sidestep_control_api::message::Code;
use sidestep_control_api::place;
use sidestep_sys::Problem;
use sidestep_sys::clock::{Choice, Clock};
use sidestep_tune::audit::{Audit, Status};
use sidestep_tune::host::Live;
use sidestep_tune::profile::Profile;
use sidestep_tune::scope::{Request, Scope};
use sidestep_unmodified::library;

/// What a trial found, or why it failed.
pub type Outcome = Result<String, Problem>;

/// The control plane of this network namespace.
#[derive(Clone, Debug)]
pub enum Control {
    /// It serves this user; its process.
    Serves(u32),
    /// None is there.
    NotRunning(String),
    /// One is there that does not serve this user, or not this version.
    Refuses {
        /// True if it is of another version.
        is_other_version: bool,
        /// The reason, in its words.
        reason: String,
    },
}

/// What `sidestep tune check` reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Checks that could be read.
    pub read: usize,
    /// Those of them whose values are not the wanted ones.
    pub unwanted: usize,
    /// Checks that root alone may read.
    pub needs_root: usize,
}

/// What was tried.
#[derive(Clone, Debug)]
pub struct Trials {
    /// A message over UDP and TCP on 127.0.0.1.
    pub loopback: Outcome,
    /// A network namespace with a veth pair.
    pub lab: Outcome,
    /// The steering program, loaded and not attached.
    pub steering: Outcome,
    /// A frame past the kernel in that namespace.
    pub af_xdp: Outcome,
    /// An io_uring.
    pub io_uring: Outcome,
    /// A tracepoint, opened.
    pub tracepoints: Outcome,
    /// Shared memory.
    pub shared_memory: Outcome,
    /// The clock: its name; the reason why it is not the TSC.
    pub clock: Outcome,
    /// The settings that are read; why not.
    pub settings: Result<Settings, Problem>,
    /// The folder of what `tune apply` changes can be written.
    pub snapshots: Outcome,
    /// The device that keeps CPUs awake.
    pub latency_device: Outcome,
    /// The control plane.
    pub control: Control,
    /// `libsidestep.so`.
    pub library: Outcome,
    /// The working directory, for journals.
    pub journal: Result<Journal, Problem>,
}

impl Trials {
    /// Tries everything; takes about a second.
    pub fn run(facts: &Facts) -> Self {
        let namespace::InNamespace { lab, af_xdp } = namespace::run(facts);
        Self {
            loopback: local::loopback(),
            lab,
            steering: bypass::steering(),
            af_xdp,
            io_uring: local::io_uring(),
            tracepoints: local::tracepoints(&facts.machine.cpus),
            shared_memory: local::shared_memory(),
            clock: clock(),
            settings: settings(),
            snapshots: files::snapshots(),
            latency_device: files::latency_device(),
            control: control(),
            library: library::find(std::env::var_os(library::VARIABLE)).map(|path| path.display().to_string()),
            journal: files::journal(),
        }
    }
}

fn clock() -> Outcome {
    let clock = Clock::calibrate(Choice::Auto);
    match clock.refusal() {
        Some(reason) => Err(Problem::failed("the TSC is not used", reason)),
        None => Ok(format!("TSC, error below {:.1} ppm", clock.error_ppm())),
    }
}

fn settings() -> Result<Settings, Problem> {
    let host = Live::new();
    let scope = Scope::of(&host, &Request::default())?;
    let audit = Audit::of(&scope, &Profile::built_in("latency")?);
    let count = |statuses: &[Status]| statuses.iter().map(|status| audit.count(*status)).sum();
    Ok(Settings {
        read: count(&[Status::Fail, Status::Warn, Status::Pass, Status::Info]),
        unwanted: count(&[Status::Fail, Status::Warn]),
        needs_root: count(&[Status::NeedsRoot]),
    })
}

/// Says hello to the control plane, and goodbye.
fn control() -> Control {
    let socket = match place::socket() {
        Ok(socket) => socket,
        Err(problem) => return Control::NotRunning(problem.brief()),
    };
    match Client::connect_to(&socket, "sidestep doctor") {
        Ok(client) => {
            let pid = client.control_pid();
            let _ = client.bye();
            Control::Serves(pid)
        }
        Err(Error::Lost(problem)) => Control::NotRunning(problem.brief()),
        Err(Error::Refused(refusal)) => {
            Control::Refuses { is_other_version: refusal.code == Code::Version, reason: refusal.to_string() }
        }
    }
}

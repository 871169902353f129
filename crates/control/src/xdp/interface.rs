//! One interface with the steering program on it.

use sidestep_plane::message::{Code, Downgrade, Mode, Refusal};
use sidestep_plane::table::Link;
use sidestep_steer::{self as steer, Attach, Steering};
use sidestep_sys::problem::{note, say};
use sidestep_sys::xdp;
use std::path::PathBuf;
use std::time::Duration;

/// How long an interface may take to come up again after the program was attached; a veth pair takes milliseconds.
const UP_WAIT: Duration = Duration::from_secs(3);

/// A program, and what was told to it.
pub(super) struct Interface {
    pub(super) steering: Steering,
    mac: Option<[u8; 6]>,
}

impl Interface {
    pub(super) fn new(steering: Steering) -> Self {
        Self { steering, mac: None }
    }

    /// Attaches the program in the best mode that is wanted and possible.
    pub(super) fn attach(link: &Link, mode: Mode, directory: PathBuf) -> Result<Self, Refusal> {
        let mode = if mode == Mode::Generic { steer::Mode::Generic } else { steer::Mode::Native };
        let steering = Steering::attach(&Attach { ifindex: link.index, mode, directory }).map_err(|problem| {
            let is_taken = xdp::device(&link.name).is_ok_and(|device| device.xdp_program.is_some());
            let code = if is_taken { Code::ProgramAttached } else { Code::Unsupported };
            Refusal::of(code, format!("cannot serve {}", link.name), &problem)
        })?;
        let facts = steering.facts();
        note(format!("attached to {} ({:?}), program {}", facts.interface, facts.mode, facts.program_id));
        if let Err(problem) = xdp::wait_until_up(&link.name, UP_WAIT) {
            say(problem.brief());
        }
        Ok(Self { mac: Some(link.mac), ..Self::new(steering) })
    }

    /// The best mode that a socket can have here.
    pub(super) fn mode(&self) -> Mode {
        match self.steering.facts().mode {
            steer::Mode::Native => Mode::ZeroCopy,
            steer::Mode::Generic => Mode::Generic,
        }
    }

    /// The step down that a stack has to take because of the program.
    pub(super) fn downgrade(&self, wish: Mode) -> Option<Downgrade> {
        if wish == Mode::Generic || self.mode() != Mode::Generic {
            return None;
        }
        let others = || "the program was attached in generic mode before, for another stack".to_owned();
        let reason = self.steering.facts().downgrade.clone().unwrap_or_else(others);
        Some(Downgrade { from: Mode::Copy, to: Mode::Generic, reason })
    }

    /// What cannot be asked counts as attached: nothing is taken from anybody for a failed question.
    pub(super) fn is_attached(&self) -> bool {
        self.steering.is_attached().unwrap_or(true)
    }

    /// Tells the program what has changed.
    pub(super) fn follow(&mut self, link: &Link) {
        if self.mac == Some(link.mac) {
            return;
        }
        match self.steering.tables().set_mac(link.mac) {
            Ok(()) => self.mac = Some(link.mac),
            Err(problem) => say(problem),
        }
    }
}

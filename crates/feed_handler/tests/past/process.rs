//! Other processes: this very test program, told by a variable what to be. They end with this one.

use crate::WATCHDOG;
use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::Host;
use sidestep_sys::process::die_with_parent;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

const ROLE: &str = "SIDESTEP_FEED_ROLE";
/// What a role is told.
const WORDS: &str = "SIDESTEP_FEED_WORDS";
/// Nobody's number.
pub(crate) const NOBODY: u32 = 65_534;

pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts this program in a role, on a host or here, as a user or as this one.
    pub(crate) fn start(host: Option<&Host>, role: &str, words: &str, uid: Option<u32>) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut line = Vec::new();
        if let Some(host) = host {
            // Its network namespace alone: a control plane's pins would end with a mount namespace of its own.
            line.extend(["nsenter".to_owned(), format!("--net={}", host.namespace_path.display()), "--".to_owned()]);
        }
        if let Some(uid) = uid {
            let ids = [format!("--reuid={uid}"), format!("--regid={uid}")];
            line.extend(
                ["setpriv".to_owned()]
                    .into_iter()
                    .chain(ids)
                    .chain(["--clear-groups", "--no-new-privs"].map(str::to_owned)),
            );
        }
        line.push(program.to_str().unwrap().to_owned());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args([
            "process::a_role_of_another_process",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ]);
        command.env(ROLE, role).env(WORDS, words).stdin(Stdio::null()).stdout(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { child, lines }
    }

    /// A control plane of a host that serves; nobody may use it, too.
    pub(crate) fn control(host: &Host) -> Self {
        let control = Self::start(Some(host), "control", "", None);
        let path = host.within(place::socket).expect("it has a place");
        let begin = Instant::now();
        while Client::connect_to(&path, "test").and_then(Client::bye).is_err() {
            assert!(begin.elapsed() < WATCHDOG, "there is no control plane");
            std::thread::yield_now();
        }
        control
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for a line of its output that contains `text`; returns what follows it.
    pub(crate) fn line(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(WATCHDOG).unwrap_or_else(|error| panic!("{text} was not said: {error}"));
            if let Some((_, rest)) = line.split_once(text) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Whether it has said something that contains `text` since the last question.
    pub(crate) fn has_said(&mut self, text: &str) -> bool {
        self.lines.try_iter().any(|line| line.contains(text))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a killed control plane leaves on a host.
pub(crate) fn clean(host: &Host) {
    host.within(sidestep_control::cleanup).unwrap();
}

/// No test of its own: what [`Process::start`] runs.
#[test]
fn a_role_of_another_process() {
    let words = std::env::var(WORDS).unwrap_or_default();
    match std::env::var(ROLE).as_deref() {
        Ok("control") => control(),
        Ok("relay") => crate::servers::relay(&words),
        Ok("desk") => crate::users::desk(),
        _ => {}
    }
}

fn control() {
    let permit = Permit::new(&[NOBODY], &[]);
    let options = Options { interfaces: Vec::new(), permit, socket: None, detaches_unused: false };
    run(&options, &AtomicBool::new(false)).unwrap();
}

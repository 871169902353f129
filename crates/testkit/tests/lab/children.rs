//! This test program as another process: each role is a test that does nothing unless a variable requests it.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use sidestep_lab::{Lab, Options, wire};
use sidestep_sys::process::die_with_parent;

const OWNER: &str = "SIDESTEP_TEST_OWNER";
const WIRE: &str = "SIDESTEP_TEST_WIRE";
const MARKER: &str = "lab is up: ";

/// A process that owns a lab and waits until its standard input ends.
pub(crate) struct Owner {
    pub(crate) child: Child,
    pub(crate) lab: String,
}

impl Owner {
    /// Starts it; returns when the lab is up.
    pub(crate) fn start(state_directory: Option<&Path>) -> Self {
        Self::finish(Self::begin(state_directory))
    }

    /// Starts it without waiting for its lab.
    pub(crate) fn begin(state_directory: Option<&Path>) -> Child {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "children::owner_role", "--nocapture"]).env(OWNER, "1");
        command.envs(state_directory.map(|path| ("SIDESTEP_STATE_DIR", path)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        die_with_parent(&mut command);
        command.spawn().unwrap()
    }

    pub(crate) fn finish(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        // The harness prints no line end after `test children::owner_role ... `.
        let lab = lines.filter_map(|line| Some(line.split_once(MARKER)?.1.to_owned())).next();
        Self { child, lab: lab.expect("the owner makes a lab") }
    }

    /// Ends it normally.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn owner_role() {
    if env::var_os(OWNER).is_none() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    println!("{MARKER}{}", lab.name());
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A program that runs the wire when it is called as `PROGRAM lab wire NAME`. It is a script, because the arguments of
/// a test program are names of tests.
pub(crate) fn relay_script() -> String {
    let program = env::current_exe().unwrap();
    let role = "--exact children::wire_role --nocapture";
    format!("#!/bin/sh\n[ \"$1 $2\" = \"lab wire\" ] && {WIRE}=\"$3\" exec '{}' {role}\n", program.display())
}

#[test]
fn wire_role() {
    if let Some(lab) = env::var_os(WIRE) {
        wire::run(lab.to_str().unwrap(), &AtomicBool::new(false)).unwrap();
    }
}

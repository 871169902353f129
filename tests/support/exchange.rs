//! `sidestep market exchange` on host A of a lab.

use super::{is_root, sidestep};
use sidestep_lab::{Lab, Options, Side};
use std::io::{BufRead, BufReader, Read};
use std::process::Child;

/// Killed when the test ends, however it does.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn lab() -> Option<Lab> {
    is_root().then(|| Lab::up(&Options::default()).unwrap())
}

/// An exchange on host A that serves; its flags follow those that make it small.
pub(crate) fn exchange(lab: &Lab, flags: &[&str]) -> Process {
    let fixed = ["market", "exchange", "--interface", "lab0", "--symbols", "20", "--live-orders", "500"];
    let mut command = sidestep(&[&fixed, flags].concat());
    let mut process = Process(lab.host(Side::A).spawn(&mut command).unwrap());
    // It says where it serves before it begins; the rest of its output is read, so that it never waits for this test.
    let mut output = BufReader::new(process.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("OUCH ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the exchange has ended");
    }
    std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
    process
}

//! Helpers for the tests of labs.

use std::env;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use sidestep_lab::wire::Directions;
use sidestep_lab::{Host, Impairment, Lab, Options};
use sidestep_sys::process::is_root;
pub(crate) use sidestep_testkit::{WATCHDOG, wait_until};

/// Returns whether the test can run; prints the reason if not.
pub(crate) fn can_run() -> bool {
    if !is_root() {
        eprintln!("skipped: needs root");
    }
    is_root()
}

/// A name that no other run of these tests uses.
pub(crate) fn unique(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// An ephemeral lab with this impairment both ways.
pub(crate) fn impaired(text: &str) -> Lab {
    let impairment = Impairment::parse(text).unwrap();
    let directions = Directions { a_to_b: impairment.clone(), b_to_a: impairment };
    Lab::up(&Options { impairment: Some(directions), ..Options::default() }).unwrap()
}

/// A UDP socket on a host, on any port; reading times out after the watchdog.
pub(crate) fn udp(host: &Host, is_ipv6: bool) -> (UdpSocket, SocketAddr) {
    let address = if is_ipv6 { host.ipv6.unwrap().into() } else { host.ipv4.into() };
    let socket = host.within(|| Ok(UdpSocket::bind(SocketAddr::new(address, 0)).unwrap())).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// The namespaces of this machine that belong to a lab, as iproute2 sees them.
pub(crate) fn namespaces_of(lab: &str) -> Vec<String> {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let ours = format!("sidestep-{lab}-");
    let names = String::from_utf8(output.stdout).unwrap();
    names.lines().filter(|line| line.starts_with(&ours)).map(str::to_owned).collect()
}

/// The files of a lab in a state directory.
pub(crate) fn files_of(root: &Path, lab: &str) -> Vec<PathBuf> {
    let ours = format!("{lab}.");
    let entries = fs::read_dir(root.join("labs")).into_iter().flatten().map(Result::unwrap);
    entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with(&ours)).map(|entry| entry.path()).collect()
}

/// The state directory of this process.
pub(crate) fn state_directory() -> PathBuf {
    env::var_os("SIDESTEP_STATE_DIR").map_or_else(|| "/run/sidestep".into(), PathBuf::from)
}

/// Asserts that nothing is left of a lab: no namespace, no file.
pub(crate) fn assert_gone(lab: &str) {
    assert_eq!(namespaces_of(lab), Vec::<String>::new());
    assert_eq!(files_of(&state_directory(), lab), Vec::<PathBuf>::new());
}

/// A directory that is removed with its value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("sidestep-{}", unique(test)));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

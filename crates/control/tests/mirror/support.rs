//! A mirror of one host of a lab, and the `ip` command there.

use serde_json::Value;
use sidestep_control::mirror::Mirror;
use sidestep_control_api::routes::MirrorRoutes;
use sidestep_control_api::table::{Reader, Route, Snapshot};
use sidestep_lab::{Lab, Options, Side};
use sidestep_sys::process::is_root;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

/// A watchdog, not a measurement: a slower event counts as missing.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Two hosts, and the mirror of the first one's tables.
pub(crate) struct Place {
    lab: Lab,
    pub(crate) mirror: Mirror,
    pub(crate) reader: Reader,
    pub(crate) seen: Snapshot,
}

impl Place {
    /// `None`, with a message, if the test cannot run.
    pub(crate) fn new() -> Option<Self> {
        Self::with_buffer(None)
    }

    pub(crate) fn with_buffer(event_buffer_bytes: Option<usize>) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let lab = Lab::up(&Options::default()).unwrap();
        let mirror = lab.host(Side::A).within(|| Mirror::open(1, event_buffer_bytes)).unwrap();
        let reader = Reader::open(mirror.file()).unwrap();
        let mut place = Self { lab, mirror, reader, seen: Snapshot::default() };
        place.look();
        Some(place)
    }

    /// Runs `ip` on the mirrored host and returns what it printed.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        self.run(Side::A, "ip", &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs `ip` on the other host.
    pub(crate) fn peer_ip(&self, arguments: &str) -> String {
        self.run(Side::B, "ip", &arguments.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn run(&self, side: Side, program: &str, arguments: &[&str]) -> String {
        let output = self.lab.host(side).command(program).unwrap().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A program to run on the mirrored host.
    pub(crate) fn command(&self, program: &str) -> std::process::Command {
        self.lab.host(Side::A).command(program).unwrap()
    }

    /// The output of `ip -json`.
    pub(crate) fn json(&self, arguments: &str) -> Vec<Value> {
        let text = self.ip(&format!("-json {arguments}"));
        if text.trim().is_empty() { Vec::new() } else { serde_json::from_str(&text).unwrap() }
    }

    pub(crate) fn interface(&self) -> u32 {
        self.seen.links.iter().find(|link| link.name == "lab0").unwrap().index
    }

    pub(crate) fn peer_address(&self) -> IpAddr {
        self.lab.host(Side::B).ipv4.into()
    }

    pub(crate) fn peer_mac(&self) -> [u8; 6] {
        self.lab.host(Side::B).mac
    }

    /// The routing logic over the table.
    pub(crate) fn routes(&self) -> MirrorRoutes {
        MirrorRoutes::new(Reader::open(self.mirror.file()).unwrap())
    }

    /// Runs one iteration of the daemon's loop, and takes a snapshot of the table.
    pub(crate) fn look(&mut self) {
        self.mirror.drain().unwrap();
        self.mirror.refresh(Instant::now()).unwrap();
        self.reader.snapshot(&mut self.seen).unwrap();
    }

    /// Iterates until the table shows it.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Snapshot) -> bool) {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            self.look();
            if holds(&self.seen) {
                return;
            }
            assert!(Instant::now() < deadline, "{what} is not shown: {:#?}", self.seen);
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The records of the route to a prefix, all next hops.
pub(crate) fn routes_to(seen: &Snapshot, prefix: &str) -> Vec<Route> {
    let (address, length) = prefix.split_once('/').unwrap();
    let (address, length): (IpAddr, u8) = (address.parse().unwrap(), length.parse().unwrap());
    let is_it = |route: &&Route| route.destination == address && route.prefix_len == length;
    seen.routes.iter().filter(is_it).copied().collect()
}

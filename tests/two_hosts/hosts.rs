//! Two hosts that no measurement has made: namespaces with a veth pair of several queues, with a router between them if
//! asked for.

use super::support::{Finished, WATCHDOG, finish, sidestep};
use sidestep_sys::netns;
use sidestep_sys::offload::{self, Offload};
use sidestep_sys::xdp;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// One host: its namespace, interface, address.
#[derive(Clone)]
pub(crate) struct Host {
    namespace: String,
    pub(crate) interface: &'static str,
    pub(crate) address: &'static str,
}

/// Both, and the folder of their control planes.
pub(crate) struct Hosts {
    pub(crate) here: Host,
    pub(crate) there: Host,
    all: Vec<String>,
    folder: tempfile::TempDir,
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip is there");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Hosts {
    /// Joined directly by a pair of four queues, with checksum offload, segmentation and merging on or off.
    pub(crate) fn joined(offloads: bool) -> Self {
        let hosts = Self::apart(["10.77.0.1", "10.77.0.2"], &["a", "b"]);
        hosts.pair(&hosts.here.clone(), &hosts.there.clone(), "10.77.0.2", offloads);
        hosts
    }

    /// In two networks, with a router between them.
    pub(crate) fn routed() -> Self {
        let hosts = Self::apart(["10.77.0.1", "10.78.0.1"], &["a", "b", "r"]);
        let router = hosts.all[2].clone();
        for (host, interface, address) in [(&hosts.here, "r0", "10.77.0.254"), (&hosts.there, "r1", "10.78.0.254")] {
            let port = Host { namespace: router.clone(), interface, address };
            hosts.pair(host, &port, address, true);
            ip(&format!("-n {} route add default via {address}", host.namespace));
        }
        netns::within(path(&router), || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a namespace has its own");
            Ok(())
        })
        .unwrap();
        hosts
    }

    fn apart([here, there]: [&'static str; 2], places: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |place: &&str| format!("sidestep-hosts-{}-{number}-{place}", std::process::id());
        let all: Vec<String> = places.iter().map(name).collect();
        for namespace in &all {
            ip(&format!("netns add {namespace}"));
            ip(&format!("-n {namespace} link set lo up"));
        }
        let host = |at: usize, interface, address| Host { namespace: all[at].clone(), interface, address };
        let folder = tempfile::tempdir().unwrap();
        Self { here: host(0, "h0", here), there: host(1, "h1", there), folder, all }
    }

    fn pair(&self, one: &Host, two: &Host, two_address: &str, offloads: bool) {
        let queues = "numtxqueues 4 numrxqueues 4";
        let (a, b) = (&one.namespace, &two.namespace);
        ip(&format!(
            "-n {a} link add {} {queues} type veth peer name {} {queues} netns {b}",
            one.interface, two.interface
        ));
        for (host, address) in [(one, one.address), (two, two_address)] {
            ip(&format!("-n {} address add {address}/24 dev {}", host.namespace, host.interface));
            ip(&format!("-n {} link set {} up", host.namespace, host.interface));
            host.within(|| {
                for offload in Offload::ALL {
                    // GRO of a veth is off as long as no program is attached.
                    offload::set(host.interface, offload, offloads).unwrap();
                }
            });
        }
        let begin = Instant::now();
        while !one.within(|| xdp::device(one.interface).unwrap().is_up) {
            assert!(begin.elapsed() < WATCHDOG, "the pair does not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The command, whose control plane keeps its state in a folder of this test.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sidestep(arguments);
        command.env("SIDESTEP_STATE_DIR", self.folder.path()).env_remove("SIDESTEP_CONTROL");
        command
    }

    /// Starts the command on a host. It is in the network namespace alone: in a mount namespace of its own, what a killed control
    /// plane leaves would go with the last process.
    pub(crate) fn start(&self, host: &Host, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        host.within(|| command.spawn()).expect("the binary is built")
    }

    pub(crate) fn run(&self, host: &Host, arguments: &[&str]) -> Finished {
        finish(self.start(host, arguments))
    }

    /// A server on the other host.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        let mut child = self.start(&self.there, &[&["bench", "serve"], arguments].concat());
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        said.read_line(&mut line).expect("it says where it listens");
        assert!(line.contains("listening on"), "{line}");
        // What it says later is for who reads the test's output.
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(|line| eprintln!("serve: {line}")));
        Server(child)
    }

    /// A control plane on a host, in the foreground.
    pub(crate) fn control(&self, host: &Host) -> Server {
        let mut command = self.command(&["control", "--interface", host.interface]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = host.within(|| command.spawn()).expect("the binary is built");
        let begin = Instant::now();
        while !host.has_program() {
            assert!(begin.elapsed() < WATCHDOG, "it does not attach");
            std::thread::sleep(Duration::from_millis(5));
        }
        Server(child)
    }

    /// The processes of control planes that hold their state here.
    pub(crate) fn controls(&self) -> Vec<u32> {
        let folders = std::fs::read_dir(self.folder.path()).unwrap().flatten().map(|entry| entry.path().join("lock"));
        let pids = folders.filter_map(|lock| std::fs::read_to_string(lock).ok()?.trim().parse().ok());
        pids.filter(|pid| sidestep_sys::process::Process::of(*pid).is_ok_and(|found| found.is_some())).collect()
    }

    /// Waits until nothing of a measurement is left on a host.
    pub(crate) fn wait_until_clean(&self, host: &Host) {
        let begin = Instant::now();
        while host.has_program() {
            assert!(begin.elapsed() < WATCHDOG, "a program is still attached to {}", host.interface);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let begin = Instant::now();
        for pid in self.controls() {
            if let Ok(Some(process)) = sidestep_sys::process::Process::of(pid) {
                let _ = process.signal(15);
                while process.is_alive() && begin.elapsed() < WATCHDOG {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        for host in [&self.here, &self.there] {
            let _ = self.run(host, &["control", "--cleanup"]);
        }
        for namespace in &self.all {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

impl Host {
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        netns::within(path(&self.namespace), || Ok(work())).unwrap()
    }

    /// Whether an XDP program is attached to its interface.
    pub(crate) fn has_program(&self) -> bool {
        self.within(|| xdp::device(self.interface).unwrap().xdp_program.is_some())
    }
}

fn path(namespace: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(namespace)
}

/// A process that serves, killed at the end of a test that leaves it running.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// Ends it as Ctrl-C does.
    pub(crate) fn interrupt(mut self) {
        super::support::send_signal(self.0.id(), "INT");
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

//! SIGKILL of the control plane, while programs under `sidestep run` have connections with bytes under way.

mod support;

use sidestep_lab::{Host, Side};
use sidestep_sys::process::Process;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use support::place::Place;
use support::{WATCHDOG, send_signal};

const CONNECTIONS: usize = 6;
const PORT: &str = "9000";

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/preload/tests/programs").join(name)
}

/// A program that is told by lines, and answers by lines.
struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Running {
    fn start(host: &Host, command: &mut Command) -> Self {
        command.env("PYTHONUNBUFFERED", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = host.within(|| Ok(command.spawn().expect("it can be started"))).expect("root can enter");
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Self { child, input, lines: lines_of(output) }
    }

    fn expect(&self, line: &str) {
        let said = self.lines.recv_timeout(WATCHDOG).unwrap_or_else(|error| panic!("no {line:?}: {error}"));
        assert_eq!(said, line);
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
    }

    /// Tells it something that it says when it has done it.
    fn ask(&mut self, line: &str) {
        self.tell(line);
        self.expect(line);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    let read = move || BufReader::new(output).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok());
    std::thread::spawn(read);
    lines
}

/// Two hosts; on the first `sidestep run` starts the control plane.
struct Hosts {
    place: Place,
    log: PathBuf,
}

impl Hosts {
    fn up() -> Option<Self> {
        let place = Place::in_lab()?;
        let log = place.path("why");
        Some(Self { place, log })
    }

    fn linux(&self) -> &Host {
        self.place.lab.as_ref().expect("a lab").host(Side::B)
    }

    /// A program under `sidestep run`, on the first host.
    fn start_ours(&self, name: &str, arguments: &[&str]) -> Running {
        let mut command = self.place.command(&["run", "--why", "--", "/usr/bin/python3"]);
        command.arg(program(name)).args(arguments).env("SIDESTEP_LOG", &self.log);
        command.stderr(Stdio::inherit());
        Running::start(self.place.host(), &mut command)
    }

    /// A program of the kernel's, on the second host.
    fn start_linux(&self, name: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new("/usr/bin/python3");
        // It says there that its connections were reset.
        Running::start(self.linux(), command.arg(program(name)).args(arguments).stderr(Stdio::null()))
    }

    /// What the library has reported of connections.
    fn accelerated(&self) -> usize {
        std::fs::read_to_string(&self.log).unwrap_or_default().matches("accelerated").count()
    }

    fn kill_control(&self) {
        let pid = self.place.control().expect("a control plane");
        let control = Process::of(pid).expect("it can be read").expect("it runs");
        send_signal(pid, "KILL");
        wait_until("control ends", || !control.is_alive());
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed() < WATCHDOG, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Bytes flow on while there is no control plane, connections are made, and the next `sidestep run` starts one that takes over.
fn control_is_killed(dials_from_ours: bool) {
    let Some(hosts) = Hosts::up() else { return };
    let to = if dials_from_ours { hosts.linux() } else { hosts.place.host() };
    let (address, count) = (to.ipv4.to_string(), CONNECTIONS.to_string());
    let start = |is_ours, name, arguments: &[&str]| {
        if is_ours { hosts.start_ours(name, arguments) } else { hosts.start_linux(name, arguments) }
    };
    let server = start(!dials_from_ours, "echo_threads.py", &[&address, PORT]);
    server.expect("listening");
    let mut client = start(dials_from_ours, "steady_client.py", &[&address, PORT, &count]);
    client.expect("going");
    assert!(hosts.accelerated() >= CONNECTIONS, "{}", hosts.accelerated());
    hosts.kill_control();
    client.ask("more");
    client.ask("another");
    client.ask("more");
    // It starts a control plane anew. The only queue is the first program's.
    let peer = hosts.start_linux("echo_all.py", &[&hosts.linux().ipv4.to_string(), "9001"]);
    peer.expect("listens");
    let second = hosts.start_ours("one_talk.py", &[&hosts.linux().ipv4.to_string(), "9001"]);
    second.expect("good");
    wait_until("the next control plane has taken the program up", || {
        let before = hosts.accelerated();
        client.ask("another");
        hosts.accelerated() > before
    });
    client.ask("more");
    client.tell("end");
    client.expect("all good");
}

#[test]
fn connections_that_a_program_has_made_outlive_a_killed_control_plane() {
    control_is_killed(true);
}

#[test]
fn connections_that_a_program_has_accepted_outlive_a_killed_control_plane() {
    control_is_killed(false);
}

/// Where the pins of a control plane were in mounts of its own, its XDP program ends with it.
#[test]
fn what_ends_with_a_control_plane_is_told_and_the_kernel_serves_what_comes_next() {
    let Some(hosts) = Hosts::up() else { return };
    let mut control = hosts.place.host().command(env!("CARGO_BIN_EXE_sidestep")).expect("root can enter");
    control.args(["control"]).env("SIDESTEP_STATE_DIR", hosts.place.folder.path());
    let mut control = control.stderr(Stdio::null()).spawn().expect("the binary is built");
    wait_until("a control plane", || hosts.place.control() == Some(control.id()));
    let (address, count) = (hosts.linux().ipv4.to_string(), CONNECTIONS.to_string());
    let server = hosts.start_linux("echo_threads.py", &[&address, PORT]);
    server.expect("listening");
    let mut client = hosts.start_ours("steady_client.py", &[&address, PORT, &count]);
    client.expect("going");
    assert_eq!(hosts.accelerated(), CONNECTIONS);
    control.kill().expect("it is a child of ours");
    control.wait().expect("it is a child of ours");
    // All of them have ended when this is answered.
    client.ask("more");
    client.ask("another");
    assert_eq!(hosts.accelerated(), CONNECTIONS, "the kernel has it");
    client.ask("more");
    client.tell("end");
    for number in 0..CONNECTIONS {
        client.expect(&format!("{number}: ECONNABORTED"));
    }
}

/// A child of fork(2) gets a connection by way of control.
#[test]
fn without_a_control_plane_a_forked_child_has_no_connection_and_its_parent_keeps_it() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let server = hosts.start_linux("echo_all.py", &[&address, PORT]);
    server.expect("listens");
    let mut program = hosts.start_ours("inherits.py", &[&address, PORT]);
    program.expect("good");
    assert_eq!(hosts.accelerated(), 1);
    hosts.kill_control();
    program.tell("fork");
    // As any socket that is not connected.
    program.expect("child EPIPE");
    program.expect("parent good");
}

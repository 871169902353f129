//! Other processes: this very test program, told by a variable what to be.

use crate::support::{WATCHDOG, settled};
use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_lab::Host;
use sidestep_socket::{Engine, EngineOptions, UdpOptions};
use sidestep_sys::process::die_with_parent;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub(crate) const ROLE: &str = "SIDESTEP_TEST_ROLE";
pub(crate) const AT: &str = "SIDESTEP_TEST_AT";

/// A process that ends with its value.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn signal(&self, signal: i32) {
        let process = sidestep_sys::process::Process::of(self.0.id()).unwrap().expect("it lives");
        process.signal(signal).unwrap();
        if signal == libc::SIGSTOP {
            crate::support::wait("the stop of every thread", || self.is_stopped().then_some(()));
        }
    }

    /// Whether every thread has taken the signal: state T of proc(5).
    fn is_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for a line of its output that contains `text`, and returns it.
    pub(crate) fn line(&mut self, text: &str) -> String {
        let output = self.0.stdout.as_mut().expect("it is piped");
        let deadline = Instant::now() + WATCHDOG;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.contains(text) {
                return line;
            }
            assert!(Instant::now() < deadline);
        }
        panic!("it ended without saying {text}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this program in a role on a host, as a user.
pub(crate) fn start(host: &Host, role: &str, at: Option<SocketAddr>, uid: Option<u32>) -> Process {
    start_test(host, "roles::a_role_of_another_process", role, at, uid)
}

/// The same for the roles of another file.
pub(crate) fn start_test(host: &Host, test: &str, role: &str, at: Option<SocketAddr>, uid: Option<u32>) -> Process {
    // Its network namespace alone: in a mount namespace of its own, which ends with it, a control plane's pins would end
    // with it, too.
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", host.namespace_path.display())).arg("--");
    if let Some(uid) = uid {
        command.args(["setpriv", &format!("--reuid={uid}"), &format!("--regid={uid}"), "--clear-groups"]);
    }
    command.arg(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(AT, at.map(|at| at.to_string()).unwrap_or_default());
    command.stdout(Stdio::piped());
    die_with_parent(&mut command);
    Process(command.spawn().unwrap())
}

/// No test of its own: what [`start`] runs.
#[test]
fn a_role_of_another_process() {
    match std::env::var(ROLE).as_deref() {
        Ok("control") => control(),
        Ok("echo") => echo(),
        Ok("stream") => stream(),
        Ok("last_words") => last_words(),
        _ => {}
    }
}

fn control() {
    let options =
        Options { interfaces: Vec::new(), permit: Permit::new(&[65534], &[]), socket: None, detaches_unused: false };
    run(&options, &AtomicBool::new(false)).unwrap();
}

/// Echoes for ever.
fn echo() {
    let at: SocketAddr = std::env::var(AT).unwrap().parse().unwrap();
    let options = EngineOptions { frames: 1024, ring_entries: 512, ..EngineOptions::on("lab0") };
    let mut engine = Engine::open(&options).unwrap();
    let socket = engine.bind(at, &UdpOptions::default()).unwrap();
    println!("path {:?} {}", settled(&mut engine, socket), std::process::id());
    loop {
        match engine.receive(socket).unwrap() {
            Some(datagram) => _ = engine.reply(socket, datagram),
            None => std::thread::yield_now(),
        }
    }
}

/// Accepts connections and echoes for ever.
fn stream() {
    let at: SocketAddr = std::env::var(AT).unwrap().parse().unwrap();
    let options = EngineOptions { frames: 1024, ring_entries: 512, ..EngineOptions::on("lab0") };
    let mut engine = Engine::open(&options).unwrap();
    let defaults = engine.tcp().defaults();
    let listener = engine.tcp().listen(at, 16, defaults).unwrap();
    println!("path {:?}", engine.tcp().listener_path(listener).unwrap());
    let (mut streams, mut buffer) = (Vec::new(), [0; 2048]);
    loop {
        engine.poll().unwrap();
        streams.extend(engine.tcp().accept(listener).unwrap());
        for stream in &streams {
            // What there is no room for is lost: it is the peer's to notice.
            if let Ok(count @ 1..) = engine.tcp().read(*stream, &mut buffer) {
                let _ = engine.tcp().send(*stream, &buffer[..count]);
            }
        }
        std::thread::yield_now();
    }
}

/// Connects, hands over a few megabytes, and returns from main.
fn last_words() {
    let at: SocketAddr = std::env::var(AT).unwrap().parse().unwrap();
    let mut options = EngineOptions { frames: 1024, ring_entries: 512, linger: WATCHDOG, ..EngineOptions::on("lab0") };
    options.tcp.send_buffer_initial_bytes = options.tcp.send_buffer_bytes;
    let mut engine = Engine::open(&options).unwrap();
    let defaults = engine.tcp().defaults();
    let stream = engine.tcp().connect(at, None, defaults).unwrap();
    let deadline = Instant::now() + WATCHDOG;
    while engine.tcp().send(stream, &vec![7; 3 << 20]) != Ok(3 << 20) {
        engine.poll().unwrap();
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
}

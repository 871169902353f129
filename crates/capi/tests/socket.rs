//! Every call of `socket.h`, from C: without a control plane as any user, and accelerated in a lab as root.

mod support;

use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::place;
use sidestep_lab::Lab;
use sidestep_lab::{Host, Side};
use sidestep_sys::process::{die_with_parent, is_root};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};
use support::{C99, compile, include, library_folder};

/// The interval at which threads check whether they should end.
const LOOK: Duration = Duration::from_millis(20);
/// A watchdog, not a measurement.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The C program, in a folder with the shared library under its name.
struct Program(tempfile::TempDir);

impl Program {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/socket.c");
        let (library, include) = (library_folder().join("libsidestep_c.so"), include());
        symlink(&library, folder.path().join("libsidestep_c.so.1")).unwrap();
        let rpath = format!("-Wl,-rpath,{}", folder.path().display());
        let more = ["-I".as_ref(), include.as_os_str(), library.as_os_str(), rpath.as_ref()];
        compile(&C99, &source, &more, &folder.path().join("socket")).unwrap();
        Self(folder)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.0.path().join("socket"));
        die_with_parent(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs a program, which must succeed.
fn is_good(mut command: Command, host: Option<&Host>) {
    let child = match host {
        Some(host) => host.spawn(&mut command).unwrap(),
        None => command.spawn().unwrap(),
    };
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {words}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "good\n", "{words}");
}

#[test]
fn by_the_kernel_every_call_does_what_the_header_says() {
    let program = Program::new();
    let mut command = program.command();
    command.arg("kernel").arg(program.0.path().join("nobody-listens"));
    is_good(command, None);
}

#[test]
fn past_the_kernel_every_call_does_what_the_header_says() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let program = Program::new();
    let lab = Lab::up(&sidestep_lab::Options::default()).unwrap();
    let (ours, theirs) = (lab.host(Side::A), lab.host(Side::B));
    let peer = theirs.within(|| Ok(UdpSocket::bind((theirs.ipv4, 0)).unwrap())).unwrap();
    let stop = AtomicBool::new(false);
    scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let socket = control_place(ours);
        scope.spawn(|| control(ours, &stop));
        appears(&socket);
        let address = peer.local_addr().unwrap();
        scope.spawn(|| answer(&peer, &stop));
        let mut command = program.command();
        command.env(place::SOCKET_VARIABLE, &socket).arg("accelerated").arg(&ours.interface);
        command.args([SocketAddr::from((ours.ipv4, 7000)), address].map(|address| address.to_string()));
        is_good(command, Some(ours));
    });
}

/// Ends the threads of a scope, also if a test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn control_place(host: &Host) -> PathBuf {
    host.within(place::socket).expect("it has a place")
}

/// Runs the control plane of a host until it is stopped.
fn control(host: &Host, stop: &AtomicBool) {
    host.enter().expect("root can enter");
    let options =
        Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None, detaches_unused: false };
    run(&options, stop).expect("root can run a control plane");
}

fn appears(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < WATCHDOG, "no control plane");
        std::thread::sleep(LOOK);
    }
}

/// Sends everything back; a text that names a group goes there as "to all" instead.
fn answer(socket: &UdpSocket, stop: &AtomicBool) {
    socket.set_read_timeout(Some(LOOK)).unwrap();
    let mut bytes = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok((count, from)) = socket.recv_from(&mut bytes) else { continue };
        let named = str::from_utf8(&bytes[..count]).ok().and_then(|text| text.parse::<SocketAddr>().ok());
        match named {
            Some(group) => socket.send_to(b"to all", group),
            None => socket.send_to(&bytes[..count], from),
        }
        .expect("the lab is there");
    }
}

//! `examples/udp_echo.c` against a peer that knows only the kernel: with the control plane's daemon, and without.

mod support;

use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::process::die_with_parent;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use support::lab::{ask, introduce};
use support::{WATCHDOG, finish, is_root, send_signal, sidestep};

const MESSAGES: u32 = 200;
const PORT: u16 = 7000;

/// A lab, the program, and a folder for both.
struct Place {
    lab: Lab,
    folder: tempfile::TempDir,
}

/// The daemon; its end takes the steering program away.
struct Control(Option<Child>);

impl Control {
    fn end(mut self) {
        let child = self.0.take().expect("it runs");
        send_signal(child.id(), "TERM");
        let ended = finish(child);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Place {
    fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let place = Self { lab: Lab::up(&Options::default()).unwrap(), folder: tempfile::tempdir().unwrap() };
        place.compile();
        Some(place)
    }

    fn compile(&self) {
        let libraries = std::env::current_exe().expect("a program knows its file");
        let library = libraries.parent().expect("a file is in a folder").join("libsidestep_c.so");
        symlink(&library, self.folder.path().join("libsidestep_c.so.1")).expect("a link");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut cc = Command::new("cc");
        cc.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(root.join("include"));
        cc.arg(root.join("examples/udp_echo.c")).arg(library);
        cc.arg(format!("-Wl,-rpath,{}", self.folder.path().display())).arg("-o").arg(self.folder.path().join("echo"));
        assert!(cc.status().expect("cc can be run").success());
    }

    fn host(&self) -> &Host {
        self.lab.host(Side::A)
    }

    fn control_socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Where the program and its control plane find each other.
    fn settle(&self, command: &mut Command) {
        command.env("SIDESTEP_STATE_DIR", self.folder.path()).env("SIDESTEP_CONTROL", self.control_socket());
    }

    /// In the mounts of this process, as `tests/control.rs` has it.
    fn start_control(&self) -> Control {
        let socket = self.control_socket();
        let mut command = sidestep(&["control", "--socket", socket.to_str().unwrap()]);
        self.settle(&mut command);
        let mut child = self.host().within(|| Ok(command.spawn().unwrap())).unwrap();
        let begin = Instant::now();
        while !socket.exists() {
            assert!(child.try_wait().unwrap().is_none() && begin.elapsed() < WATCHDOG, "no control plane");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Control(Some(child))
    }

    /// Runs the program against the peer; its lines.
    fn echo(&self) -> (String, String) {
        let at = SocketAddr::from((self.host().ipv4, PORT));
        let mut command = Command::new(self.folder.path().join("echo"));
        command.arg(&self.host().interface).arg(at.to_string()).arg(MESSAGES.to_string());
        self.settle(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()));
        die_with_parent(&mut command);
        let mut child = self.host().spawn(&mut command).unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut first, mut rest) = (String::new(), String::new());
        stdout.read_line(&mut first).unwrap();
        ask(self.lab.host(Side::B), at, MESSAGES);
        stdout.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{first}{rest}");
        (first, rest)
    }
}

#[test]
fn a_c_program_echoes_past_the_kernel() {
    let Some(place) = Place::new() else { return };
    introduce(place.host(), place.lab.host(Side::B));
    let control = place.start_control();
    let (path, counts) = place.echo();
    assert!(path.ends_with(": past the kernel (accelerated)\n"), "{path}");
    let expected = format!("past the kernel: {MESSAGES} in, {MESSAGES} out; by the kernel: 0 in, 0 out\n");
    assert_eq!(counts, expected);
    control.end();
}

#[test]
fn without_control_the_same_program_goes_by_the_kernel_and_says_so() {
    let Some(place) = Place::new() else { return };
    let (path, counts) = place.echo();
    assert!(path.ends_with(": the control plane is not running (control_absent)\n"), "{path}");
    let expected = format!("past the kernel: 0 in, 0 out; by the kernel: {MESSAGES} in, {MESSAGES} out\n");
    assert_eq!(counts, expected);
}

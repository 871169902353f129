//! A lab of two hosts, the control plane of one, and Python programs on both.

use crate::support::library;
use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Side};
use sidestep_sys::process::is_root;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A watchdog, not a measurement: what takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Host A has a control plane and programs under the library; host B is Linux.
pub(crate) struct Hosts {
    control: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    pub(crate) lab: Lab,
}

impl Hosts {
    /// Makes them, if this process may.
    pub(crate) fn up() -> Option<Self> {
        Self::up_with(&sidestep_lab::Options::default())
    }

    /// The same, on a wire of one's own.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn up_with(options: &sidestep_lab::Options) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let lab = Lab::up(options).expect("root can make a lab");
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, there) = (Arc::clone(&stop), lab.host(Side::A).clone());
        let serve = move || {
            there.enter().expect("root can enter");
            let options =
                Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None, detaches_unused: false };
            run(&options, &seen).expect("root can run a control plane");
        };
        let control = Some(std::thread::spawn(serve));
        let path = lab.host(Side::A).within(place::socket).expect("it has a place");
        let deadline = Instant::now() + WATCHDOG;
        while Client::connect_to(&path, "test").and_then(Client::bye).is_err() {
            assert!(Instant::now() < deadline, "the control plane does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Self { control, stop, lab })
    }

    pub(crate) fn ours(&self) -> &Host {
        self.lab.host(Side::A)
    }

    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn linux(&self) -> &Host {
        self.lab.host(Side::B)
    }

    /// Starts a program under the library.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn start_ours(&self, program: &str, arguments: &[&str]) -> Running {
        self.start_where(program, arguments, &[])
    }

    /// The same, of a program that has these queues.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn start_with(&self, program: &str, arguments: &[&str], queues: &str) -> Running {
        self.start_where(program, arguments, &[("SIDESTEP_QUEUES", queues.to_owned())])
    }

    /// The same, of one whose connections are too many for a pipe: what becomes of them goes to a file.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn start_logging(&self, program: &str, arguments: &[&str], log: &Path) -> Running {
        self.start_where(program, arguments, &[("SIDESTEP_LOG", log.to_str().expect("its path is text").to_owned())])
    }

    /// The same, with these options.
    pub(crate) fn start_where(&self, program: &str, arguments: &[&str], options: &[(&str, String)]) -> Running {
        let interface = &self.ours().interface;
        let variables = [
            ("LD_PRELOAD", library().to_str().expect("its path is text").to_owned()),
            ("SIDESTEP_INTERFACE", interface.clone()),
            ("SIDESTEP_WHY", "true".to_owned()),
            ("SIDESTEP_FRAMES", "1024".to_owned()),
            ("SIDESTEP_SPIN_US", "200".to_owned()),
        ];
        start(self.ours(), program, arguments, &[&variables, options].concat())
    }

    /// Starts a program beside those under the library, without it.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn start_bare(&self, program: &str, arguments: &[&str]) -> Running {
        start(self.ours(), program, arguments, &[])
    }

    /// Starts a program on Linux.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn start_linux(&self, program: &str, arguments: &[&str]) -> Running {
        start(self.linux(), program, arguments, &[])
    }
}

impl Hosts {
    /// Ends the control plane in order.
    pub(crate) fn end_control(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.control.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking(), "the control plane has panicked");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.end_control();
    }
}

/// A program that runs; it ends with its value.
pub(crate) struct Running(Child);

fn start(host: &Host, program: &str, arguments: &[&str], variables: &[(&str, String)]) -> Running {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program);
    let mut command = if program.ends_with(".c") {
        Command::new(compiled(&file))
    } else {
        let mut python = Command::new("/usr/bin/python3");
        python.arg(file);
        python
    };
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("LD_PRELOAD").env("PYTHONUNBUFFERED", "1");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    Running(host.spawn(&mut command).expect("python3 is there"))
}

/// A program of C, compiled beside this test, once for all that start it.
fn compiled(source: &Path) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let name = source.file_stem().expect("it has a name").to_string_lossy().into_owned();
    let program = library().with_file_name(format!("{name}-{}", std::process::id()));
    if !compiled.contains(&program) {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
        assert!(cc.status().expect("cc can be run").success(), "{}", source.display());
        compiled.insert(program.clone());
    }
    program
}

impl Running {
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a line.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.0.stdin.as_mut().expect("it is a pipe");
        writeln!(stdin, "{line}").expect("it can be written");
    }

    /// Stops it, and waits until it has stopped.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let is_stopped = |pid| sidestep_sys::process::state_of(pid).ok().flatten() == Some('T');
        let deadline = Instant::now() + WATCHDOG;
        while !is_stopped(self.pid()) {
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::yield_now();
        }
    }

    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    #[allow(dead_code)] // Not all tests do.
    fn signal(&self, signal: i32) {
        let process = sidestep_sys::process::Process::of(self.pid()).expect("it can be read").expect("it runs");
        assert!(process.signal(signal).expect("it is a child of ours"));
    }

    /// The next line that it says.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn line(&mut self) -> String {
        let stdout = self.0.stdout.as_mut().expect("it is a pipe");
        let (mut said, mut byte) = (Vec::new(), [0]);
        while stdout.read(&mut byte).expect("it can be read") == 1 && byte != *b"\n" {
            said.push(byte[0]);
        }
        String::from_utf8(said).expect("it is text")
    }

    /// Waits until it has said a line.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn wait_for(&mut self, line: &str) {
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !said.ends_with(format!("{line}\n").as_bytes()) {
            let stdout = self.0.stdout.as_mut().expect("it is a pipe");
            if stdout.read(&mut byte).expect("it can be read") == 0 {
                self.panic_without(line, &String::from_utf8_lossy(&said));
            }
            said.push(byte[0]);
        }
    }

    /// It has ended too early: panics with what it was told.
    fn panic_without(&mut self, line: &str, said: &str) -> ! {
        let status = self.0.wait().expect("it is a child of ours");
        let mut told = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            let _ = stderr.read_to_string(&mut told);
        }
        panic!("it ended before it said {line:?}: {status}\nsaid: {said}\ntold: {told}");
    }

    /// Waits for its end, which must be a good one; returns what it has said and what it was told.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn finish(self) -> (String, String) {
        self.finish_within(WATCHDOG)
    }

    /// The same, of one that takes longer.
    #[allow(dead_code)] // Not all tests do.
    pub(crate) fn finish_within(self, longest: Duration) -> (String, String) {
        let (status, out, err) = self.end_within(longest);
        assert!(status.success(), "{status}\n{out}\n{err}");
        (out, err)
    }

    /// Waits for its end, and ends it if that takes longer; returns what it has said and what it was told.
    pub(crate) fn end_within(mut self, longest: Duration) -> (ExitStatus, String, String) {
        let deadline = Instant::now() + longest;
        let status = loop {
            match self.0.try_wait().expect("it is a child of ours") {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    let _ = self.0.kill();
                    break self.0.wait().expect("it is a child of ours");
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let (mut out, mut err) = (String::new(), String::new());
        let _ = self.0.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out));
        let _ = self.0.stderr.take().map(|mut pipe| pipe.read_to_string(&mut err));
        (status, out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

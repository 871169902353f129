//! `sidestep run` with real programs: they stay what they are, and what cannot be accelerated is said once.

mod support;

use sidestep_sys::process::Process;
use std::fs::{self, Permissions};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::place::Place;
use support::{WATCHDOG, copy_program, finish, is_root, send_signal};

const NOBODY: u32 = 65_534;

/// A program that says what `sidestep run` has given it.
const ENVIRONMENT: &str = "env | grep -E '^(LD_PRELOAD|SIDESTEP_[A-Z_]*)=' | sort";

#[test]
fn the_end_of_a_program_is_its_own() {
    let Some(place) = Place::in_lab() else { return };
    for code in [0, 1, 7, 125, 255] {
        let finished = place.run(&["run", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((finished.code, finished.stderr.as_str()), (code, ""));
    }
    let mut command = place.command(&["run", "--", "sh", "-c", "kill -USR1 $$"]);
    let status = place.spawn(&mut command).wait().unwrap();
    assert_eq!((status.code(), status.signal()), (None, Some(10)), "SIGUSR1");
    // What a program reads and writes passes through, and arguments are taken as they are.
    let mut command = place.command(&["run", "cat", "-", "--", "/dev/null"]);
    let mut child = place.spawn(command.stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(b"one\0two").unwrap();
    let finished = finish(child);
    assert_eq!((finished.code, finished.stdout.as_str()), (0, "one\0two"));
}

#[test]
fn the_program_is_the_process_that_was_started() {
    let Some(place) = Place::in_lab() else { return };
    let script = "echo $$ $0; echo children $(cat /proc/$$/task/$$/children); ls /proc/$$/fd | wc -l";
    let child = place.spawn(&mut place.command(&["run", "--", "sh", "-c", script]));
    let pid = child.id();
    let finished = finish(child);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines[0], format!("{pid} sh"));
    let bare = || {
        let bare = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
        let bare = String::from_utf8(bare.stdout).unwrap();
        let bare: Vec<&str> = bare.lines().collect();
        (bare[1].split_whitespace().count(), bare[2].to_owned())
    };
    // One that starts beside another test's may inherit descriptors of that: the fewest of some are its own.
    let bare = (0..10).map(|_| bare()).min().unwrap();
    // Neither the control plane that was started for it, nor a descriptor.
    assert_eq!((lines[1].split_whitespace().count(), lines[2].to_owned()), bare, "{finished:?}");
}

/// Sets what a process leaves to the program that it becomes, SIGPIPE as told, and becomes it.
const LEAVES: &str = "import os, resource, signal, sys
signal.signal(signal.SIGPIPE, getattr(signal, sys.argv[1])); signal.signal(signal.SIGUSR2, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGRTMIN]); resource.setrlimit(resource.RLIMIT_NOFILE, (500, 600))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.nice(3); os.umask(0o27); os.chdir('/usr')
os.execvp(sys.argv[2], sys.argv[2:])";
const INHERITED: &str =
    "grep -E '^Sig(Blk|Ign|Cgt)|^NoNewPrivs|^Cpus_allowed' /proc/self/status; nice; ulimit -a; umask; pwd";

#[test]
fn the_program_inherits_what_it_would_without_run() {
    let Some(place) = Place::in_lab() else { return };
    for broken_pipe in ["SIG_DFL", "SIG_IGN"] {
        let told = |run: &[&str]| {
            let sidestep = place.command(run);
            let mut command = Command::new("python3");
            command.args(["-c", LEAVES, broken_pipe]);
            if !run.is_empty() {
                command.arg(sidestep.get_program()).args(sidestep.get_args());
            }
            command.args(["sh", "-c", INHERITED]).env_remove("LD_PRELOAD").env_remove("SIDESTEP_CONTROL");
            command.envs(sidestep.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            finish(place.spawn(&mut command))
        };
        let (bare, run) = (told(&[]), told(&["run", "--"]));
        assert!(bare.code == 0 && bare.stdout.lines().count() > 10, "{bare:?}");
        assert_eq!((run.code, run.stdout), (bare.code, bare.stdout), "{broken_pipe}: {}", run.stderr);
    }
}

#[test]
fn what_is_no_program_is_told_as_a_shell_tells_it() {
    let place = Place::here();
    let file = place.path("file");
    fs::write(&file, "text").unwrap();
    let finished = place.run(&["run", "no-such-program"]);
    assert_eq!(finished.code, 127);
    assert!(finished.stderr.contains("no-such-program: there is no such program"), "{}", finished.stderr);
    assert_eq!(place.run(&["run", "/no/such/program"]).code, 127);
    for path in [file.to_str().unwrap(), "/etc"] {
        let finished = place.run(&["run", path]);
        assert_eq!(finished.code, 126, "{}", finished.stderr);
    }
    assert!(place.run(&["run", "/etc"]).stderr.contains("/etc: it is a directory\n  next: name a program"));
    // Usage errors are not taken for the program's.
    assert_eq!(place.run(&["run"]).code, 125);
    assert_eq!(place.run(&["run", "--no-such-flag", "true"]).code, 125);
    let refused = [
        "--frames=3",
        "--profile=fast",
        "--accelerate=x",
        "--spin-us=-1",
        "--tcp=fast",
        "--tcp=/no/file.toml",
        "--log=/no/file",
        "--log=/etc",
        "--helper-cpu=8000",
    ];
    for flags in refused.map(|flag| [flag]) {
        let finished = place.run(&[&["run"], &flags[..], &["true"]].concat());
        assert_eq!(finished.code, 125, "{}", finished.stderr);
        assert!(
            finished.stderr.contains(flags[0].split('=').next().unwrap().trim_start_matches('-')),
            "{}",
            finished.stderr
        );
    }
    let mut command = place.command(&["run", "true"]);
    let finished = finish(place.spawn(command.env("SIDESTEP_LIBRARY", "/no/such/library.so")));
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("make build") && finished.stderr.contains("/no/such/library.so"));
}

#[test]
fn a_program_gets_the_library_and_its_options() {
    let Some(place) = Place::in_lab() else { return };
    let profile = place.path("mine.toml");
    fs::write(&profile, "base = \"safe\"\n[run]\nframes = 1024\n").unwrap();
    let mut command = place.command(&["run", "--profile", profile.to_str().unwrap(), "--why", "sh", "-c", ENVIRONMENT]);
    let libc = "libm.so.6";
    command.env("LD_PRELOAD", libc).env("SIDESTEP_SPIN_US", "30").env("SIDESTEP_TCP", "latency");
    let finished = finish(place.spawn(&mut command));
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    let has = |line: &str| assert!(lines.contains(&line), "{line}: {lines:?}");
    assert!(
        lines[0].starts_with("LD_PRELOAD=libm.so.6:/") && lines[0].ends_with("/libsidestep_preload.so"),
        "{lines:?}"
    );
    ["SIDESTEP_PROFILE=custom", "SIDESTEP_FRAMES=1024", "SIDESTEP_SPIN_US=30", "SIDESTEP_WHY=true"]
        .iter()
        .for_each(|line| has(line));
    assert!(!lines.iter().any(|line| line.starts_with("SIDESTEP_TCP")), "it is the default: {lines:?}");
    assert!(finished.stderr.contains("the control plane is process"), "{}", finished.stderr);
    let finished = place.run(&["run", "--profile", "throughput", "sh", "-c", ENVIRONMENT]);
    assert!(finished.stdout.contains("SIDESTEP_PROFILE=throughput\n") && !finished.stdout.contains("SIDESTEP_FRAMES"));
}

/// Waits until `condition` holds.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < WATCHDOG, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The session of a process (field 6 of proc_pid_stat(5)).
fn session(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().parse().unwrap()
}

#[test]
fn a_control_plane_is_started_stays_while_programs_live_and_ends_after_them() {
    let Some(place) = Place::in_lab() else { return };
    assert_eq!(place.control(), None);
    let mut first = place.spawn(&mut place.command(&["run", "--", "sleep", "1000"]));
    wait_until("the program is started", || {
        fs::read_to_string(format!("/proc/{}/comm", first.id())).is_ok_and(|name| name == "sleep\n")
    });
    let control = place.control().expect("a control plane");
    let process = Process::of(control).unwrap().unwrap();
    assert_eq!(session(control), control, "the terminal's signals do not reach it");
    let logs = fs::read_dir(place.folder.path()).unwrap().flatten();
    assert_eq!(logs.filter(|entry| entry.file_name().to_string_lossy().ends_with(".log")).count(), 1);
    // Another program uses the one that is there.
    let second = place.run(&["run", "--why", "true"]);
    assert!(second.stderr.contains(&format!("the control plane is process {control}")), "{}", second.stderr);
    assert_eq!(place.control(), Some(control));
    // Longer than a control plane waits without a program.
    std::thread::sleep(Duration::from_secs(11));
    assert!(process.is_alive(), "the first program has not ended, and has no connection");
    first.kill().unwrap();
    first.wait().unwrap();
    wait_until("the control plane ends", || !process.is_alive());
    assert_eq!(place.control(), None, "it leaves nothing behind");
}

#[test]
fn a_control_plane_that_was_started_by_hand_stays() {
    let Some(place) = Place::in_lab() else { return };
    let started = place.run(&["control", "--background", "--log", place.path("log").to_str().unwrap()]);
    assert_eq!(started.code, 0, "{}", started.stderr);
    assert!(started.stdout.contains("/log"), "{}", started.stdout);
    let control = place.control().unwrap();
    assert_eq!(place.run(&["run", "true"]).code, 0);
    let again = place.run(&["control", "--background"]);
    assert_eq!((again.code, place.control()), (0, Some(control)), "one serves: {}", again.stderr);
    send_signal(control, "TERM");
    wait_until("it ends", || place.control().is_none());
    // One that cannot start says why.
    let mut command = place.command(&["control", "--background", "--log", place.path("log").to_str().unwrap()]);
    let refused = finish(place.spawn(command.env("SIDESTEP_STATE_DIR", "/proc/none")));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("cannot use /proc/none") && refused.stderr.contains("/log"), "{}", refused.stderr);
}

#[test]
fn without_a_control_plane_an_ordinary_user_runs_by_the_kernel_and_is_told_once() {
    if !is_root() {
        return;
    }
    let place = Place::here();
    let binary = place.path("sidestep");
    copy_program(Path::new(env!("CARGO_BIN_EXE_sidestep")), &binary);
    let run = |script: &str| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary)
            .args(["run", "sh", "-c", script]);
        let library = std::env::current_exe().unwrap().with_file_name("libsidestep_preload.so");
        let copy = place.path("libsidestep.so");
        copy_program(&library, &copy);
        command
            .env("SIDESTEP_LIBRARY", copy)
            .env("SIDESTEP_STATE_DIR", place.folder.path())
            .env_remove("SIDESTEP_CONTROL");
        finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let finished = run(&format!("{ENVIRONMENT}; id -u; exit 3"));
    assert_eq!(finished.code, 3);
    assert!(
        finished.stdout.ends_with(&format!("{NOBODY}\n")) && !finished.stdout.contains("LD_PRELOAD"),
        "{finished:?}"
    );
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    assert!(
        finished.stderr.contains("the kernel carries") && finished.stderr.contains("sidestep control"),
        "{finished:?}"
    );
}

/// A program in C or Go in a folder; `None`, said by name, without the compiler.
fn compiled(folder: &Path, name: &str, compiler: &[&str]) -> Option<PathBuf> {
    let program = folder.join(name);
    let source = folder.join(if compiler[0] == "go" { "main.go" } else { "main.c" });
    let text = match compiler[0] {
        "go" => "package main\nimport \"os\"\nfunc main() { os.Exit(9) }\n",
        _ => "int main(void) { return 9; }\n",
    };
    fs::write(&source, text).unwrap();
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-o").arg(&program).arg(&source).env("GO111MODULE", "off");
    let is_made = command.output().is_ok_and(|output| output.status.success());
    if !is_made {
        eprintln!("skipped: {} does not work here", compiler.join(" "));
    }
    is_made.then_some(program)
}

#[test]
fn programs_that_cannot_be_served_run_by_the_kernel_with_the_reason() {
    if !is_root() {
        return;
    }
    let place = Place::here();
    let told = |program: &Path, reason: &str| {
        let finished = place.run(&["run", program.to_str().unwrap()]);
        assert_eq!(finished.code, 9, "{}", finished.stderr);
        assert!(
            finished.stderr.contains("the kernel carries") && finished.stderr.contains(reason),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        assert_eq!(place.control(), None, "nothing is started for it");
    };
    if let Some(program) = compiled(place.folder.path(), "static", &["cc", "-static"]) {
        told(&program, "linked statically");
        let script = place.path("script");
        fs::write(&script, format!("#!{}\n", program.display())).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        told(&script, "static: it is linked statically");
    }
    if let Some(program) = compiled(place.folder.path(), "go", &["go", "build"]) {
        told(&program, "Go");
    }
    if let Some(program) = compiled(place.folder.path(), "other", &["cc"]) {
        chown(&program, Some(NOBODY), None).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        told(&program, "set-user-ID");
    }
}

/// A shell with job control on a terminal of its own, and what it says.
struct Terminal {
    child: Child,
    output: std::sync::mpsc::Receiver<u8>,
    seen: String,
}

impl Terminal {
    fn open(place: &Place) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            eprintln!("skipped: script of util-linux is not installed");
            return None;
        }
        let command = place.command(&[]);
        // Who has started the tests may ignore SIGINT, as a shell does for what it runs in the background; a shell leaves that so.
        let mut script = Command::new("env");
        script.args(["--default-signal=INT,QUIT", "script", "-qfec", "bash --norc --noprofile -i", "/dev/null"]);
        script.env("TERM", "dumb");
        command.get_envs().for_each(|(name, value)| {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        });
        let mut child = place.spawn(script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
        let (sender, output) = std::sync::mpsc::channel();
        let bytes = BufReader::new(child.stdout.take().unwrap()).bytes().map_while(Result::ok);
        std::thread::spawn(move || bytes.into_iter().all(|byte| sender.send(byte).is_ok()));
        Some(Self { child, output, seen: String::new() })
    }

    fn write(&mut self, bytes: &[u8]) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(bytes).and_then(|()| input.flush()).unwrap();
    }

    /// Reads until the terminal has shown `text`.
    fn wait(&mut self, text: &str) {
        while !self.seen.ends_with(text) {
            let byte = self.output.recv_timeout(WATCHDOG);
            let Ok(byte) = byte else { panic!("no {text:?} after {:?}", self.seen) };
            self.seen.push(char::from(byte));
        }
    }
}

impl Drop for Terminal {
    /// Hangs up, which ends the shell and its jobs.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_is_a_job_of_its_shell() {
    let Some(place) = Place::in_lab() else { return };
    let Some(mut terminal) = Terminal::open(&place) else { return };
    let run = format!("{} run --", env!("CARGO_BIN_EXE_sidestep"));
    // It says when it goes on: only then it is in the foreground again. It starts no process: one that Ctrl-Z meets between
    // vfork(2) and execve(2) holds its parent up.
    let program = "trap \"echo res\"umed CONT; echo star\"\"ted; while :; do read line; done";
    // By default, a terminal forgets what it has read and written once it has sent a signal: also the answer to the signal, if
    // that comes soon (NOFLSH, termios(3)).
    terminal.write(format!("stty noflsh; {run} sh -c '{program}'\n").as_bytes());
    terminal.wait("started\r\n");
    terminal.write(b"\x1a");
    terminal.wait("Stopped");
    terminal.write(b"echo code $?; jobs | wc -l\n");
    terminal.wait("code 148\r\n1\r\n");
    terminal.write(b"fg\n");
    terminal.wait("resumed\r\n");
    terminal.write(b"\x03");
    terminal.wait("# ");
    terminal.write(b"echo ended $?\n");
    terminal.wait("ended 130\r\n");
    let control = place.control().expect("it was started");
    let process = Process::of(control).unwrap().unwrap();
    terminal.write(b"exit\n");
    terminal.child.wait().unwrap();
    assert!(process.is_alive(), "neither Ctrl-C nor the end of the terminal ends it");
    send_signal(control, "TERM");
    wait_until("it ends", || !process.is_alive());
}

//! `sidestep lab` as a user types it.

mod support;

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use support::{WATCHDOG, finish, is_root, my_turn, run, send_signal, sidestep};

/// A lab that is taken down whatever becomes of the test.
struct Up(String);

impl Up {
    fn new(name: &str, options: &[&str]) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let arguments: Vec<&str> = ["lab", "up", &name].into_iter().chain(options.iter().copied()).collect();
        let up = run(&arguments);
        assert_eq!(up.code, 0, "{}", up.stderr);
        assert!(up.stdout.contains("198.18.0.2"), "{}", up.stdout);
        Self(name)
    }

    fn exec(&self, host: &str, command: &[&str]) -> support::Finished {
        let arguments: Vec<&str> =
            ["lab", "exec", "--lab", &self.0, host, "--"].into_iter().chain(command.iter().copied()).collect();
        run(&arguments)
    }

    /// Host a measures against `bench serve` on host b.
    fn measured(&self, arguments: &[&str]) -> support::Finished {
        let binary = env!("CARGO_BIN_EXE_sidestep");
        let serve = ["b", "--", binary, "bench", "serve", "--listen", "198.18.0.2:7411"];
        let mut server = sidestep(&[&["lab", "exec", "--lab", &self.0][..], &serve].concat())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary is built");
        let mut told = BufReader::new(server.stderr.take().expect("piped"));
        let mut line = String::new();
        told.read_line(&mut line).expect("it says where it listens");
        assert!(line.contains("198.18.0.2:7411"), "{line}");
        let measured = self.exec("a", &[&[binary][..], arguments, &["--to", "198.18.0.2", "--json", "-"]].concat());
        send_signal(server.id(), "INT");
        assert_eq!(finish(server).code, 0);
        measured
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        run(&["lab", "down", &self.0, "--force"]);
    }
}

#[test]
fn up_exec_status_down() {
    if !is_root() {
        return;
    }
    let lab = Up::new("cli", &[]);
    let name = lab.0.clone();
    assert!(lab.exec("a", &["ip", "-br", "address"]).stdout.contains("198.18.0.1"));
    assert_eq!(lab.exec("b", &["sh", "-c", "exit 7"]).code, 7, "the command's exit code is ours");
    assert_eq!(lab.exec("b", &["/no/such/program"]).code, 1);
    assert!(run(&["lab", "status"]).stdout.contains(&name));
    let status = run(&["lab", "status", "--json"]).json();
    let ours = status.as_array().and_then(|labs| labs.iter().find(|lab| lab["name"] == name.as_str()));
    assert_eq!(ours.expect("it is listed")["condition"], "persistent");
    let again = run(&["lab", "up", &name]);
    assert_eq!(again.code, 1, "the name is taken");
    assert!(again.stderr.contains(&name) && again.stderr.contains("next:"), "{}", again.stderr);
    assert_eq!(run(&["lab", "down", &name]).code, 0);
    assert!(!run(&["lab", "status"]).stdout.contains(&name));
    assert!(!Path::new(&format!("/run/netns/sidestep-{name}-a")).exists());
}

#[test]
fn a_bad_wire_is_bad_both_ways_or_one() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let lab = Up::new("bad", &["--impair", "delay=20ms", "--impair-back", "delay=30ms"]);
    let status = run(&["lab", "status"]).stdout;
    assert!(status.contains("delay=20ms") && status.contains("delay=30ms"), "{status}");
    let measured = lab.measured(&["bench", "rr", "--paths", "kernel-default", "--duration", "1s"]);
    assert_eq!(measured.code, 0, "{}", measured.stderr);
    let min = measured.json()["results"][0]["min"].as_f64().expect("a number");
    assert!(min >= 50e6, "{min} ns through a wire of 20 ms and 30 ms");
}

#[test]
fn who_may_not_enter_a_lab_is_told_so() {
    if !is_root() {
        return;
    }
    let (lab, folder) = (Up::new("deny", &[]), tempfile::tempdir().expect("a temporary folder"));
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let program = folder.path().join("sidestep");
    support::copy_program(Path::new(env!("CARGO_BIN_EXE_sidestep")), &program);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    command.args(["lab", "exec", "--lab", &lab.0, "a", "--", "true"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let refused = finish(command.spawn().expect("setpriv is there"));
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("no CAP_SYS_ADMIN") && refused.stderr.contains("as root"), "{}", refused.stderr);
}

/// Its interface would drop them without a word.
#[test]
fn datagrams_that_the_peers_interface_does_not_take_are_refused_by_name() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let lab = Up::new("mtu", &["--mtu", "9000"]);
    assert!(lab.exec("a", &["cat", "/sys/class/net/lab0/mtu"]).stdout.contains("9000"));
    assert_eq!(lab.exec("b", &["ip", "link", "set", "lab0", "mtu", "1500"]).code, 0);
    let what = ["bench", "sizes", "--transport", "udp", "--sizes", "64,8972", "--paths", "kernel-spin"];
    let measured = lab.measured(&[&what[..], &["--duration", "60ms"]].concat());
    assert_eq!(measured.code, 0, "{}", measured.stderr);
    let document = measured.json();
    assert_eq!(document["results"].as_array().expect("a list").len(), 1, "{document}");
    let reason = document["unavailable"][0]["reason"].to_string();
    assert!(["9000", "1500", "lab0", "at most 1472 bytes"].iter().all(|word| reason.contains(word)), "{reason}");
}

#[test]
fn a_killed_run_is_cleaned_up_by_the_next() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let mut victim = sidestep(&["bench", "rr", "--place", "lab", "--paths", "uds-spin", "--duration", "60s"])
        .spawn()
        .expect("the binary is built");
    let owned = format!("\"owned\": {}", victim.id());
    let begin = Instant::now();
    while !run(&["lab", "status", "--json"]).stdout.contains(&owned) {
        assert!(begin.elapsed() < WATCHDOG, "it makes a lab");
    }
    victim.kill().expect("it runs");
    victim.wait().expect("it was started");
    let next = Up::new("next", &[]);
    assert!(!run(&["lab", "status", "--json"]).stdout.contains(&owned), "the dead one's lab is gone");
    drop(next);
}

//! `sidestep doctor` as people run it: as root, as a user without rights, where much is missing. It leaves nothing behind.

mod support;

use serde_json::Value;
use sidestep_lab::{Lab, Options, Side};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Finished, WATCHDOG, copy_program, finish, is_root, run, send_signal, sidestep};

const NOBODY: &str = "65534";
/// A user without a capability, and without a way to get one.
const STRIPPED: &[&str] = &["--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"];
const AS_NOBODY: &[&str] = &["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];

/// A folder that every user may read, with the binary in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        copy_program(Path::new(env!("CARGO_BIN_EXE_sidestep")), &folder.path().join("sidestep"));
        Self(folder)
    }

    fn program(&self) -> String {
        self.0.path().join("sidestep").display().to_string()
    }

    /// Runs the doctor by a program that changes its rights or its mounts.
    fn by(&self, program: &str, arguments: &[&str]) -> Finished {
        finish(self.command(program, arguments).spawn().unwrap())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir("/tmp").env("SIDESTEP_STATE_DIR", self.0.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

fn one<'d>(document: &'d Value, list: &str, key: &str, name: &str) -> &'d Value {
    let all = document[list].as_array().expect("a list");
    all.iter().find(|one| one[key] == name).unwrap_or_else(|| panic!("no {name} in {document}"))
}

fn state<'d>(document: &'d Value, verb: &str) -> &'d str {
    one(document, "verdicts", "verb", verb)["state"].as_str().unwrap()
}

fn check<'d>(document: &'d Value, id: &str) -> &'d Value {
    one(document, "checks", "id", id)
}

/// What could be left behind.
fn left() -> Vec<String> {
    let said = |arguments: &[&str]| {
        let output = Command::new("ip").args(arguments).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let list = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.file_name()).collect();
        names.sort();
        format!("{names:?}")
    };
    let programs = said(&["-d", "-o", "link"]).lines().filter(|line| line.contains("xdp")).count();
    let links =
        said(&["-br", "link"]).lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    let folders = ["/sys/fs/bpf", "/var/lib/sidestep"].map(|folder| list(Path::new(folder)));
    [vec![programs.to_string()], links, folders.to_vec()].concat()
}

#[test]
fn root_is_told_what_works_and_nothing_is_left_behind() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let before = left();
    let here = tempfile::tempdir().unwrap();
    let mut command = folder.command(&folder.program(), &["doctor", "--json", "-"]);
    let found = finish(command.current_dir(here.path()).spawn().unwrap());
    let document = document(&found);
    assert_eq!(document["schema"], 1);
    for verb in ["measure", "tune", "trade"] {
        assert_ne!(state(&document, verb), "missing", "{document}");
    }
    // As root with these rights a frame goes past the kernel, or the kernel lacks what it takes and the reason says so.
    let way = check(&document, "af-xdp");
    assert_eq!(way["state"], "ok", "{way}");
    assert!(way["reason"].as_str().unwrap().contains("a frame went past the kernel"), "{way}");
    assert_eq!(found.code, 0);
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    assert!(!folder.0.path().join("state").exists(), "it has made its state folder");
    assert_eq!(left(), before);
    let text = finish(folder.command(&folder.program(), &["doctor"]).spawn().unwrap());
    for words in ["measure  ", "tune     ", "bypass   ", "trade    ", "next: ", "af-xdp"] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
    assert!(text.stderr.is_empty() && !text.stdout.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_user_without_rights_is_told_what_to_ask_for() {
    if !is_root() {
        let found = run(&["doctor", "--json", "-"]);
        assert!([0, 3].contains(&found.code), "{found:?}");
        return;
    }
    let folder = Folder::new();
    let program = folder.program();
    let found = folder.by("setpriv", &[AS_NOBODY, STRIPPED, &[&program, "doctor", "--json", "-"]].concat());
    let document = document(&found);
    assert_eq!((found.code, state(&document, "bypass")), (3, "missing"), "{document}");
    assert_eq!(state(&document, "measure"), "partly");
    assert_eq!(state(&document, "tune"), "partly");
    let next = check(&document, "af-xdp")["next"].as_str().unwrap();
    assert!(next.ends_with("sidestep control --background --allow-uid 65534"), "{next}");
    assert!(found.stderr.is_empty(), "{found:?}");
}

#[test]
fn root_without_capabilities_is_told_which_are_missing() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let program = folder.program();
    let found = folder.by("setpriv", &[STRIPPED, &[&program, "doctor", "--json", "-"]].concat());
    let document = document(&found);
    assert_eq!((found.code, state(&document, "bypass")), (3, "missing"), "{document}");
    let way = check(&document, "af-xdp");
    assert!(way["reason"].as_str().unwrap().contains("CAP_NET_ADMIN"), "{way}");
    assert!(way["next"].as_str().unwrap().contains("--cap-add NET_ADMIN"), "{way}");
}

#[test]
fn a_control_plane_that_serves_a_user_makes_bypass_work_for_it() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let lab = Lab::up(&Options::default()).unwrap();
    let socket = folder.0.path().join("socket");
    let mut control = sidestep(&["control", "--socket", socket.to_str().unwrap(), "--allow-uid", NOBODY]);
    control.env("SIDESTEP_STATE_DIR", folder.0.path().join("control")).stderr(Stdio::null());
    let mut control = lab.host(Side::A).within(|| Ok(control.spawn().unwrap())).unwrap();
    let begin = Instant::now();
    while !socket.exists() {
        assert!(control.try_wait().unwrap().is_none() && begin.elapsed() < WATCHDOG, "no control plane");
        std::thread::sleep(Duration::from_millis(5));
    }
    let program = folder.program();
    let arguments = [AS_NOBODY, STRIPPED, &[&program, "doctor", "--json", "-"]].concat();
    let mut doctor = folder.command("setpriv", &arguments);
    doctor.env("SIDESTEP_CONTROL", &socket);
    let found = finish(lab.host(Side::A).within(|| Ok(doctor.spawn().unwrap())).unwrap());
    send_signal(control.id(), "TERM");
    let ended = finish(control);
    let document = document(&found);
    assert_eq!((found.code, ended.code), (0, 0), "{document}");
    assert_eq!(check(&document, "control")["state"], "ok");
    assert_eq!(check(&document, "af-xdp")["state"], "ok");
    assert!(check(&document, "interface-lab0")["reason"].as_str().unwrap().contains("veth"), "{document}");
}

#[test]
fn a_host_without_sys_or_proc_or_network_is_examined_all_the_same() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let program = folder.program();
    let within = |script: &str, flags: &[&str]| {
        let script = format!("{script}; exec {program} doctor --json -");
        folder.by("unshare", &[flags, &["sh", "-c", &script]].concat())
    };
    let no_sys = within("mount -t tmpfs none /sys", &["--mount"]);
    let found = document(&no_sys);
    assert_eq!(no_sys.code, 0, "{found}");
    assert_eq!(check(&found, "af-xdp")["state"], "ok", "{found}");
    let nothing = within("mount -t tmpfs none /sys; mount -t tmpfs none /proc", &["--mount"]);
    let found = document(&nothing);
    assert!([0, 3].contains(&nothing.code) && nothing.stderr.is_empty(), "{nothing:?}");
    assert_eq!(check(&found, "user")["state"], "partly", "{found}");
    // A new namespace has its loopback down.
    let no_network = within("true", &["--net"]);
    let found = document(&no_network);
    assert_eq!(
        (no_network.code, state(&found, "measure"), state(&found, "trade")),
        (3, "missing", "missing"),
        "{found}"
    );
    assert!(check(&found, "loopback")["next"].as_str().unwrap().contains("ip link set lo up"));
    let read_only = within(
        "mount -o remount,bind,ro /proc/sys 2>/dev/null || mount --bind -o ro /proc/sys /proc/sys",
        &["--mount"],
    );
    let found = document(&read_only);
    assert_eq!(check(&found, "apply")["state"], "missing", "{found}");
    assert!(check(&found, "lab")["reason"].as_str().unwrap().contains("rp_filter"), "{found}");
}

#[test]
fn interfaces_are_chosen_by_name() {
    let found = run(&["doctor", "--interface", "none0"]);
    assert!(found.code == 2 && found.stderr.contains("none0") && found.stderr.contains("lo"), "{found:?}");
    let found = run(&["doctor", "--interface", "lo", "--json", "-"]);
    let lo = document(&found);
    assert_eq!(check(&lo, "interface-lo")["state"], "partly");
    assert!(!found.stdout.contains("interface-eth0"), "{}", found.stdout);
}

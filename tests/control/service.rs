//! The unit for systemd in contrib/: what it forbids is nothing that control does.

use super::*;
use std::collections::BTreeSet;
use std::path::Path;

/// `systemd-analyze security`, in tenths. What is left are settings that make a mount namespace, and what control is for.
const EXPOSURE_MAX: u32 = 50;

fn unit() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/sidestep-control.service")).unwrap()
}

/// The words after each line of this name.
fn setting(name: &str) -> Vec<String> {
    let unit = unit();
    let values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).collect()
}

fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|done| done.status.success());
    if !is_there {
        eprintln!("skipped: needs {program}");
    }
    is_there
}

#[test]
fn the_unit_leaves_little_open() {
    if !is_there("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The program must exist where the unit says, or it is not checked.
    let path = folder.path().join("sidestep-control.service");
    fs::write(&path, unit().replace("/usr/local/bin/sidestep", env!("CARGO_BIN_EXE_sidestep"))).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager", &format!("--threshold={EXPOSURE_MAX}")]).arg(&path);
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
}

/// System calls that the unit allows, its groups (`@system-service`) written out.
fn allowed_calls() -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for line in setting("SystemCallFilter") {
        let (is_allowed, words) = line.strip_prefix('~').map_or((true, line.as_str()), |words| (false, words));
        for call in words.split_whitespace().flat_map(written_out) {
            if is_allowed {
                calls.insert(call);
            } else {
                calls.remove(&call);
            }
        }
    }
    calls
}

fn written_out(word: &str) -> Vec<String> {
    if !word.starts_with('@') {
        return vec![word.to_owned()];
    }
    let done = Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", word]).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let words = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    words.flat_map(written_out).collect()
}

/// Starts control with the capabilities of the unit, and has every system call of it noted.
fn start(place: &mut Place, trace: &Path) {
    let capabilities = setting("CapabilityBoundingSet").join(" ").to_lowercase();
    let set = capabilities.split_whitespace().map(|name| format!(",+{}", name.trim_start_matches("cap_")));
    let set = format!("-all{}", set.collect::<String>());
    let socket = place.socket();
    let mut command = Command::new("strace");
    // The tracer is the grandchild: signals reach control.
    command.args(["-D", "-f", "-qq", "-a1", "-o"]).arg(trace);
    command.args(["setpriv", "--no-new-privs", "--bounding-set", &set, "--", env!("CARGO_BIN_EXE_sidestep")]);
    command.args(["control", "--socket", socket.to_str().unwrap()]);
    let log = fs::File::options().create(true).append(true).open(place.folder.path().join("log")).unwrap();
    command.env("SIDESTEP_STATE_DIR", place.folder.path()).stdin(Stdio::null()).stderr(Stdio::from(log));
    let mut child = place.spawn(&mut command);
    wait("a control plane", || {
        assert!(child.try_wait().unwrap().is_none(), "{}", place.log());
        Client::connect_to(&socket, "test").ok()
    });
    place.control = Some(child);
}

#[test]
fn control_asks_for_nothing_that_the_unit_forbids() {
    let Some(mut place) = Place::new(&[]) else { return };
    if !is_there("strace") || !is_there("systemd-analyze") {
        return;
    }
    place.stop("TERM");
    let trace = place.folder.path().join("trace");
    start(&mut place, &trace);
    let mut application = Application::new(&place);
    application.steer();
    assert!(application.comes_by_the_stack(true));
    application.client.report("udp 198.18.0.1:7", Code::RouteUnknown).unwrap();
    drop(place.client());
    let neighbour = place.lab.host(Side::B).ipv4.into();
    application.client.resolve(neighbour, application.facts.index).unwrap();
    application.client.bye().unwrap();
    place.stop("TERM");

    let calls = allowed_calls();
    assert!(calls.contains("recvmsg") && !calls.contains("ptrace") && !calls.contains("init_module"));
    let families: BTreeSet<String> =
        setting("RestrictAddressFamilies").join(" ").split(' ').map(str::to_owned).collect();
    let text = fs::read_to_string(&trace).unwrap();
    // What comes before is the doing of setpriv, and of systemd there.
    let is_start = |line: &&str| line.contains("execve(") && line.contains("/sidestep\"");
    let own: Vec<&str> = text.lines().skip_while(|line| !is_start(line)).skip(1).collect();
    assert!(own.len() > 100, "{text}");
    // `1234 openat(AT_FDCWD, ...`
    let called = own.iter().filter_map(|line| line.split_whitespace().nth(1)?.split_once('(').map(|(name, _)| name));
    let forbidden: BTreeSet<&str> = called.filter(|call| !calls.contains(*call)).collect();
    assert_eq!(forbidden, BTreeSet::new());
    for line in own.iter().filter(|line| line.contains(" socket(") || line.contains(" socketpair(")) {
        let family = line.split_once('(').unwrap().1.split(',').next().unwrap();
        assert!(families.contains(family), "{line}");
    }
    let refused: Vec<&&str> = own.iter().filter(|line| line.contains(" = -1 EPERM")).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

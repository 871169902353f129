//! `sidestep tune` from the outside: what is printed, how it ends, what is changed and put back.

mod support;

use serde_json::Value;
use sidestep_lab::{Host, Lab, Options, Side};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Finished, finish, is_root, my_turn, run, sidestep};

/// A host of few files, on which `busy_read` is wrong.
fn copy_of_a_host() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("proc/sys/net/core/busy_read", "0\n");
    file("proc/sys/net/core/busy_poll", "50\n");
    file("proc/sys/vm/swappiness", "10\n");
    file("proc/cmdline", "quiet\n");
    file("sys/devices/system/cpu/online", "0-3\n");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn this_host_is_checked() {
    let shown = run(&["tune", "check", "--all", "--fail-on", "never"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("profile latency") && shown.stdout.contains("mem-swap"), "{}", shown.stdout);
    let document = run(&["tune", "check", "--json", "-", "--profile", "cloud"]).json();
    assert_eq!((&document["schema"], &document["profile"]), (&Value::from(1), &Value::from("cloud")));
    let findings = document["findings"].as_array().unwrap();
    let counted: u64 = document["counts"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert!(findings.len() > 100 && counted == findings.len() as u64);
}

#[test]
fn findings_decide_the_exit_code() {
    let folder = copy_of_a_host();
    let check = |more: &[&str]| run(&[&["tune", "check", "--root", text(folder.path())], more].concat());
    assert_eq!(check(&[]).code, 0, "warnings are no failures");
    let daemons = folder.path().join("sys/kernel/mm/transparent_hugepage");
    fs::create_dir_all(&daemons).unwrap();
    fs::write(daemons.join("enabled"), "[always] madvise never\n").unwrap();
    let found = check(&["--json", "-"]);
    assert!(found.json()["counts"]["fail"].as_u64().unwrap() > 0, "{}", found.stdout);
    assert_eq!(found.code, 3, "a failure is a finding unless it is asked not to be");
    assert_eq!((check(&["--fail-on", "never"]).code, check(&["--fail-on", "warn"]).code), (0, 3));
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "name = 'p'\n[warn]\nbusy-read = '>=50'\n").unwrap();
    assert_eq!(check(&["--policy", text(&policy), "--fail-on", "warn"]).code, 3);
    assert_eq!(check(&["--policy", text(&policy), "--fail-on", "fail"]).code, 0);
    fs::write(folder.path().join("proc/sys/net/core/busy_read"), "50\n").unwrap();
    assert_eq!(check(&["--policy", text(&policy), "--fail-on", "warn"]).code, 0);
}

#[test]
fn a_policy_of_one_host_is_checked_on_another() {
    let (good, other) = (copy_of_a_host(), copy_of_a_host());
    fs::write(other.path().join("proc/sys/vm/swappiness"), "60\n").unwrap();
    let policy = run(&["tune", "policy", "--root", text(good.path()), "--name", "good"]);
    assert_eq!(policy.code, 0, "{}", policy.stderr);
    let file = good.path().join("good.toml");
    fs::write(&file, &policy.stdout).unwrap();
    let check =
        |root: &Path| run(&["tune", "check", "--root", text(root), "--policy", text(&file), "--fail-on", "fail"]);
    assert_eq!(check(good.path()).code, 0, "{}", check(good.path()).stdout);
    let found = check(other.path());
    assert_eq!(found.code, 3);
    assert!(found.stdout.contains("mem-swappiness") && found.stdout.contains("60; wanted 10"), "{}", found.stdout);
}

#[test]
fn a_check_is_explained() {
    let one = run(&["tune", "explain", "busy-read"]);
    for words in ["why:", "source:", "undone:", "wanted by latency: >=50", "/proc/sys/net/core/busy_read"] {
        assert!(one.stdout.contains(words), "{words}: {}", one.stdout);
    }
    assert!(run(&["tune", "explain"]).stdout.lines().count() > 100);
    let unknown = run(&["tune", "explain", "bsy-read"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean: ") && unknown.stderr.contains("busy-read"), "{}", unknown.stderr);
}

#[test]
fn a_plan_changes_nothing() {
    let folder = copy_of_a_host();
    let grub = folder.path().join("90-sidestep.cfg");
    let plan = |more: &[&str]| run(&[&["tune", "plan", "--cpus", "2-3", "--root", text(folder.path())], more].concat());
    let shown = plan(&["--grub", text(&grub)]);
    assert!(shown.stdout.contains("/proc/sys/net/core/busy_read: 0 -> 50"), "{}", shown.stdout);
    assert!(fs::read_to_string(&grub).unwrap().contains("rcu_nocbs=2-3"));
    assert_eq!(plan(&["--grub", text(&grub)]).code, 1, "what is there is somebody's");
    let document = plan(&["--json", "-", "--only", "busy-read"]).json();
    assert_eq!(document["changes"][0]["place"], "proc:sys/net/core/busy_read");
    assert_eq!((&document["schema"], &document["changes"][0]["risk"]), (&Value::from(1), &Value::from("low")));
    assert_eq!(fs::read_to_string(folder.path().join("proc/sys/net/core/busy_read")).unwrap(), "0\n");
    let refused = run(&["tune", "apply", "--root", text(folder.path())]);
    assert!(refused.code == 2 && refused.stderr.contains("copy of a host"), "{}", refused.stderr);
}

#[test]
fn what_is_wrong_is_named() {
    for (arguments, words) in [
        (&["check", "--interface", "none0"][..], "interface none0"),
        (&["check", "--cpus", "8191"], "CPU 8191"),
        (&["check", "--cpus", "x"], "list of CPUs"),
        (&["check", "--profile", "fast"], "choose from: latency, polling, throughput, cloud"),
        (&["check", "--root", "/no/such"], "neither proc nor sys"),
        (&["plan", "--only", "no-such-check"], "no-such-check"),
        (&["plan", "--grub", "/no/such/folder/x", "--only", "busy-read"], "no boot parameters"),
    ] {
        let refused = run(&[&["tune"], arguments].concat());
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(words), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(run(&["tune", "check", "--policy", "/no/such"]).code, 1);
    let folder = copy_of_a_host();
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "name = 'p'\n[fail]\nmem-swappiness = 'low'\n").unwrap();
    for command in ["check", "plan"] {
        let refused = run(&["tune", command, "--root", text(folder.path()), "--policy", text(&policy)]);
        assert!(refused.code == 2 && refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.stderr.contains("mem-swappiness takes a number"), "{}", refused.stderr);
    }
}

/// The settings of a network namespace: nothing of the host itself is among them.
const OWN: &str = "tcp-autocorking,tcp-slow-start-idle,igmp-memberships";

fn there(host: &Host, state: &Path, arguments: &[&str]) -> Finished {
    let mut command = host.command(env!("CARGO_BIN_EXE_sidestep")).unwrap();
    command.args(arguments).env("SIDESTEP_STATE_DIR", state);
    finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn values(host: &Host) -> Vec<String> {
    let names = ["tcp_autocorking", "tcp_slow_start_after_idle", "igmp_max_memberships"];
    let read = |name: &&str| {
        let output = host.command("cat").unwrap().arg(format!("/proc/sys/net/ipv4/{name}")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    names.iter().map(read).collect()
}

#[test]
fn a_profile_is_applied_and_reverted_in_a_namespace() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let lab = Lab::up(&Options::default()).unwrap();
    let host = lab.host(Side::A);
    let state = tempfile::tempdir().unwrap();
    let before = values(host);
    let tune = |arguments: &[&str]| there(host, state.path(), &[&["tune"], arguments].concat());
    assert!(tune(&["status"]).stdout.contains("nothing is changed"));
    let applied = tune(&["apply", "--only", OWN]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    assert!(applied.stdout.contains("3 of 3 settings changed"), "{}", applied.stdout);
    assert_eq!(values(host), ["0", "0", "1024"]);
    assert!(tune(&["status"]).stdout.matches("in force").count() == 3);
    let elsewhere = there(lab.host(Side::B), state.path(), &["tune", "revert"]);
    assert!(elsewhere.code == 1 && elsewhere.stderr.contains("nsenter"), "{}", elsewhere.stderr);
    let other = host.command("sh").unwrap().args(["-c", "echo 77 > /proc/sys/net/ipv4/igmp_max_memberships"]).status();
    assert!(other.unwrap().success());
    let reverted = tune(&["revert"]);
    assert_eq!(reverted.code, 0, "{}", reverted.stderr);
    assert!(reverted.stdout.contains("another program to \"77\""), "{}", reverted.stdout);
    assert_eq!(values(host), [before[0].as_str(), &before[1], "77"]);
    assert!(tune(&["status", "--json", "-"]).json()["snapshots"].as_array().unwrap().is_empty());
}

/// Settings of one network namespace, changed while its loopback is measured.
#[test]
fn verify_judges_each_setting_and_leaves_the_host_as_it_was() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let lab = Lab::up(&Options::default()).unwrap();
    let host = lab.host(Side::A);
    let state = tempfile::tempdir().unwrap();
    let before = values(host);
    let subject = ["tune", "verify", "--change-host", "--place", "loopback", "--interface", "lo", "--only", OWN];
    let told = there(
        host,
        state.path(),
        &[&subject[..], &["--duration", "60ms", "--pause-time", "80ms", "--json", "-"]].concat(),
    );
    assert_eq!(told.code, 0, "{}", told.stderr);
    let document = told.json();
    let steps = document["steps"].as_array().expect("steps were tried");
    for check in OWN.split(',') {
        let step = steps.iter().find(|step| step["name"] == check).unwrap_or_else(|| panic!("{check}: {document}"));
        assert!(step["decision"] == "kept" || step["decision"] == "dropped", "{step}");
    }
    assert_eq!(values(host), before);
    assert!(there(host, state.path(), &["tune", "status"]).stdout.contains("nothing is changed"));
}

#[test]
fn nobody_may_look_but_not_change() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    // The folder that the binary was built in may be closed to others.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let program = folder.path().join("sidestep");
    support::copy_program(env!("CARGO_BIN_EXE_sidestep").as_ref(), &program);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).uid(65534).gid(65534).env("SIDESTEP_STATE_DIR", folder.path().join("state"));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    let looked = nobody(&["tune", "check", "--fail-on", "never", "--json", "-"]);
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    assert!(looked.json()["counts"]["pass"].as_u64().unwrap() > 5);
    let before = fs::read_to_string("/proc/sys/net/ipv4/tcp_autocorking").unwrap();
    let refused = nobody(&["tune", "apply", "--only", OWN]);
    assert!(refused.code == 1 && refused.stderr.contains("run as root"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/tcp_autocorking").unwrap(), before);
}

#[test]
fn the_manual_has_a_page_of_checks() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(&["man", text(folder.path())]).code, 0);
    let page = fs::read_to_string(folder.path().join("sidestep-tune-checks.7")).unwrap();
    assert!(page.contains("busy\\-read"));
    let mut help = sidestep(&["tune", "--help"]);
    assert!(String::from_utf8_lossy(&help.output().unwrap().stdout).contains("revert"));
}

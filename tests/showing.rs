//! What commands say where something is missing or stops them: the thing, its reason, the next step that helps.

mod support;

use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Finished, finish, is_root, my_turn, send_signal, sidestep};

/// The binary in a namespace of its own, made by unshare(1) with this flag; a script prepares it.
fn apart(flag: &str, prepare: &str, arguments: &[&str]) -> Finished {
    let script = format!("{prepare} exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command.args([flag, "sh", "-c", &script, env!("CARGO_BIN_EXE_sidestep")]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("unshare is there"))
}

#[test]
fn loopback_that_is_down_is_named_with_the_command_that_brings_it_up() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    for what in ["rr", "rates", "connect", "bulk"] {
        let finished = apart("-n", "", &["bench", what, "--place", "loopback", "--duration", "50ms"]);
        assert_eq!(finished.code, 1, "{what}: {}", finished.stderr);
        for part in ["lo is down in this network namespace", "next: bring it up: ip link set lo up"] {
            assert!(finished.stderr.contains(part), "{what}: {}", finished.stderr);
        }
    }
    let fix =
        apart("-n", "", &["bench", "fix", "--own", "tcp,uds", "--duration", "50ms", "--warmup", "10ms", "--json", "-"]);
    let unavailable = fix.json()["unavailable"].to_string();
    assert!(unavailable.contains("lo is down in this network namespace"), "{unavailable}");
    let remote = apart("-n", "ip link set lo up;", &["fix", "send", "192.0.2.1:9", "--wait", "1s", "--count", "1"]);
    assert!(!remote.stderr.contains("lo is down"), "{}", remote.stderr);
}

#[test]
fn a_full_disk_is_seen_before_the_run() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let there = folder.path().display();
    let file = format!("{there}/a.json");
    let prepare = format!("mount -t tmpfs -o size=64k none {there} &&");
    let finished = apart("-m", &prepare, &["bench", "rr", "--place", "loopback", "--duration", "60s", "--json", &file]);
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    assert!(
        finished.stderr.contains("No space left") && finished.stderr.contains("free space there"),
        "{}",
        finished.stderr
    );
}

#[test]
fn the_signal_that_ends_a_run_is_named() {
    let _turn = my_turn();
    for (signal, name) in [("INT", "Ctrl-C (SIGINT)"), ("TERM", "SIGTERM")] {
        let ring =
            sidestep(&["bench", "ring", "--sizes", "8", "--duration", "60s", "--paths", "uds"]).spawn().expect("built");
        std::thread::sleep(Duration::from_secs(3));
        send_signal(ring.id(), signal);
        let finished = finish(ring);
        if finished.code == 2 {
            return assert!(finished.stderr.contains("between two CPUs"), "{}", finished.stderr);
        }
        assert_eq!(finished.code, 130, "{}", finished.stderr);
        assert!(finished.stderr.contains(&format!("stopped: {name}")), "{}", finished.stderr);
    }
}

#[test]
fn a_demo_that_is_stopped_early_has_something_of_every_path() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().to_str().expect("UTF-8");
    let stopped = |wait_s| {
        let demo = sidestep(&["demo", "--place", "loopback", "--out", out]).spawn().expect("the binary is built");
        std::thread::sleep(Duration::from_secs(wait_s));
        send_signal(demo.id(), "TERM");
        finish(demo)
    };
    let read = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("result.json")).unwrap_or_default())
            .unwrap_or_default()
    };
    let paths = ["kernel-default", "kernel-pinned", "kernel-spin", "uring-spin", "uds-spin", "shm", "floor"];
    // How long the first pass takes depends on who else runs.
    let all = [12, 24, 45].into_iter().map(stopped).find_map(|finished| {
        let document = read();
        let rows = document["results"].as_array()?;
        let has = |path: &&str| rows.iter().any(|row| row["path"] == **path) || !is_possible(&document, path);
        paths.iter().all(has).then_some((finished, document))
    });
    let (finished, document) = all.expect("a first pass of every path");
    assert_eq!((finished.code, &document["interrupted"]), (130, &Value::Bool(true)), "{}", finished.stderr);
    assert!(finished.stderr.contains("stopped: SIGTERM"), "{}", finished.stderr);
    assert!(folder.path().join("report.html").exists());
}

fn is_possible(document: &Value, path: &str) -> bool {
    document["unavailable"].as_array().is_none_or(|missing| missing.iter().all(|one| one["path"] != path))
}

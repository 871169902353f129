//! Hosts in files, from the outside: `tune snapshot`, `tune check` of several, `tune drift`.

mod support;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use support::run;
use tempfile::TempDir;

/// A folder of few files of a host.
fn host(name: &str, swappiness: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("proc/sys/kernel/hostname", name),
        ("proc/sys/vm/swappiness", swappiness),
        ("proc/sys/net/core/busy_read", "50"),
        ("proc/cmdline", "quiet"),
        ("sys/devices/system/cpu/online", "0-3"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Takes a snapshot of a folder into a file of another one.
fn snapshot(host: &TempDir, into: &Path, name: &str) -> PathBuf {
    let file = into.join(name);
    let taken = run(&["tune", "snapshot", "--root", text(host.path()), "--cpus", "2-3", "--out", text(&file)]);
    assert!(taken.code == 0 && taken.stdout.is_empty(), "{taken:?}");
    file
}

#[test]
fn hosts_are_checked_side_by_side_against_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (host("good", "10"), host("bad", "60"));
    let files = [snapshot(&good, folder.path(), "a.json"), snapshot(&bad, folder.path(), "b.json")];
    let made = run(&["tune", "policy", "--root", text(&files[0])]);
    assert!(made.code == 0 && made.stdout.contains("name = \"good\""), "{made:?}");
    let policy = folder.path().join("good.toml");
    fs::write(&policy, made.stdout).unwrap();
    let check = |files: &[&PathBuf], more: &[&str]| {
        let files = files.iter().map(|file| text(file));
        let arguments = ["tune", "check", "--policy", text(&policy)].into_iter().chain(more.iter().copied());
        run(&arguments.chain(files).collect::<Vec<_>>())
    };
    let both = check(&[&files[0], &files[1]], &[]);
    assert_eq!(both.code, 3, "{both:?}");
    let row = both.stdout.lines().find(|line| line.starts_with("mem-swappiness")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["mem-swappiness", ".", "F"], "{}", both.stdout);
    for words in ["1  good (", "2  bad (", "hot CPUs 2-3", "60; wanted 10"] {
        assert!(both.stdout.contains(words), "{words}: {}", both.stdout);
    }
    assert_eq!(check(&[&files[1]], &["--fail-on", "never"]).code, 0);
    // The CPUs that the snapshot was told are hot wherever it is read.
    let alone = run(&["tune", "check", "--root", text(&files[0]), "--fail-on", "never"]);
    assert!(alone.stdout.contains("hot CPUs 2-3"), "{}", alone.stdout);
    assert_eq!(check(&[&files[0]], &["--fail-on", "warn"]).code, 0);
    let document = check(&[&files[0], &files[1]], &["--json", "-"]).json();
    let checks = document["checks"].as_array().unwrap();
    let swappiness = checks.iter().find(|check| check["id"] == "mem-swappiness").unwrap();
    assert_eq!((&document["schema"], &swappiness["verdicts"][1]), (&Value::from(1), &Value::from("fail")));
}

#[test]
fn drift_from_a_good_host_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (host("good", "10"), host("bad", "60"));
    let files = [snapshot(&good, folder.path(), "a.json"), snapshot(&bad, folder.path(), "b.json")];
    let drift = |more: &[&str]| run(&[&["tune", "drift", text(&files[0])], more].concat());
    let same = drift(&[text(&files[0])]);
    assert!(same.code == 0 && same.stdout.contains("nothing differs"), "{same:?}");
    let other = drift(&[text(&files[1])]);
    assert_eq!(other.code, 3);
    assert!(other.stdout.contains("mem-swappiness") && other.stdout.contains("10 -> 60"), "{}", other.stdout);
    let document = drift(&[text(&files[1]), "--json", "-"]).json();
    assert_eq!(document["hosts"][0]["checks"][0]["id"], "mem-swappiness");
    // Without another file: the host itself, or a copy of it.
    assert_eq!(drift(&["--root", text(good.path())]).code, 0);
    assert!(drift(&["--root", text(bad.path())]).stdout.contains("10 -> 60"));
}

#[test]
fn this_host_is_written_down_and_has_not_drifted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("here.json");
    assert_eq!(run(&["tune", "snapshot", "--out", text(&file)]).code, 0);
    let (there, here) = (
        run(&["tune", "check", "--root", text(&file), "--fail-on", "never", "--json", "-"]).json(),
        run(&["tune", "check", "--fail-on", "never", "--json", "-"]).json(),
    );
    assert_eq!(there["interfaces"], here["interfaces"]);
    let verdict = |document: &Value, id: &str| {
        let findings = document["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["id"] == id).unwrap()["verdict"].clone()
    };
    for id in
        ["mem-swap", "net-bpf-jit", "cpu-clocksource", "iso-audit", "mem-huge-daemon", "busy-epoll", "cgroup-cpu-limit"]
    {
        assert_eq!(verdict(&there, id), verdict(&here, id), "{id}");
    }
}

#[test]
fn a_file_that_is_no_snapshot_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    for (content, words) in [("", "EOF"), ("{}", "missing field"), ("[1]", "invalid"), ("\u{1b}[2J", "expected value")]
    {
        fs::write(&file, content).unwrap();
        for arguments in [
            &["tune", "check", text(&file)][..],
            &["tune", "drift", text(&file)],
            &["tune", "plan", "--root", text(&file)],
        ] {
            let refused = run(arguments);
            assert_eq!(refused.code, 1, "{arguments:?} {content:?}: {refused:?}");
            assert!(refused.stderr.contains("x.json") && refused.stderr.contains(words), "{}", refused.stderr);
            assert!(refused.stderr.contains("next:") && refused.stdout.is_empty(), "{refused:?}");
        }
    }
    assert_eq!(run(&["tune", "check", "/no/such.json"]).code, 1);
    assert_eq!(run(&["tune", "check", "--root", "/", text(&file)]).code, 2, "one or the other");
}

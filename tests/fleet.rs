//! `sidestep fleet compare` from the outside: results of many hosts, and folders that hold anything.

mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use support::run;
use tempfile::TempDir;

/// A result as `bench rr` writes it, of one row. The interval is of a hundredth.
fn result(host: &str, run: usize, factor: f64, kernel: &str) -> Value {
    // Hosts differ by up to a hundredth, each run by its own number.
    let seed = host.bytes().fold(run as u64 + 7, |sum, byte| (sum * 31 + u64::from(byte)) % 1009);
    let value = |base: f64| base * factor * (1.0 + 0.01 * (seed as f64 / 1009.0 - 0.5));
    let block = json!({"n": 1000, "p50": 1.0, "p99": 1.0, "mean": 1.0});
    let interval = |value: f64| json!([value * 0.98, value * 1.02]);
    let (p50, p99) = (value(5000.0), value(9000.0));
    json!({
        "schema": 1, "tool": {"name": "sidestep", "version": "0.1.0"},
        "started": format!("2026-01-01T00:{run:02}:00Z"), "elapsed_s": 1.0, "command": "sidestep bench rr",
        "host": {"hostname": host, "kernel": kernel, "cpu": "x", "cpus": 2, "virtualised": null, "clocksource": "tsc",
                 "clock": "tsc", "tsc_hz": null, "clock_error_ppm": 0.0, "timer_cost_ns": 20.0, "timer_resolution_ns": 1.0,
                 "governor": null, "cmdline": "quiet", "noise": {}},
        "setup": {"place": "loopback", "interface": "lo", "address": "127.0.0.1", "client_cpu": 0, "server_cpu": 1},
        "results": [{
            "scenario": "rr", "transport": "tcp", "path": "kernel-spin", "size": 64, "rate_offered": null, "rate_achieved": null,
            "unit": "ns", "measure": "rtt", "n": 40000, "min": 1.0, "mean": p50, "stddev": 1.0, "p50": p50, "p90": p50,
            "p99": p99, "p99_9": null, "p99_99": null, "max": 99999.0,
            "ci95": {"p50": interval(p50), "p99": interval(p99)}, "histogram": "", "lost": 0, "blocks": vec![block; 40],
        }],
    })
}

/// Results of `hosts` hosts, of which the first is slow and has another kernel.
fn tree(hosts: usize, runs: usize, factor: f64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..hosts {
        let host = format!("host-{at:03}");
        let (factor, kernel) = if at == 0 { (factor, "6.1.0") } else { (1.0, "6.12.5") };
        for run in 0..runs {
            put(folder.path(), &format!("{host}/{run}.json"), &result(&host, run, factor, kernel));
        }
    }
    folder
}

fn put(folder: &Path, name: &str, value: &Value) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, value.to_string()).unwrap();
}

fn compare(folder: &Path, more: &[&str]) -> support::Finished {
    run(&[&["fleet", "compare", folder.to_str().unwrap()], more].concat())
}

#[test]
fn one_and_two_hosts_have_no_verdict_and_twenty_have() {
    for hosts in [1, 2] {
        let found = compare(tree(hosts, 1, 3.0).path(), &[]);
        assert_eq!(found.code, 5, "{found:?}");
        assert!(found.stdout.contains("needs 6 hosts") && found.stdout.contains("too few hosts"), "{}", found.stdout);
    }
    let slow = compare(tree(20, 1, 1.5).path(), &[]);
    assert_eq!(slow.code, 3, "{slow:?}");
    assert!(slow.stdout.contains("slower than the others: host-000\n"), "{}", slow.stdout);
    assert!(slow.stdout.contains("kernel: 6.1.0") && slow.stdout.contains("1 of 1"), "{}", slow.stdout);
    let equal = compare(tree(20, 1, 1.0).path(), &[]);
    assert_eq!(equal.code, 0, "{equal:?}");
    assert!(equal.stdout.contains("no measurable difference between the hosts"), "{}", equal.stdout);
}

#[test]
fn three_hundred_hosts_are_compared_and_the_table_stays_short() {
    let folder = tree(300, 2, 1.3);
    let found = compare(folder.path(), &[]);
    assert_eq!(found.code, 3);
    assert!(found.stdout.lines().count() < 80, "{}", found.stdout);
    assert!(
        found.stdout.contains("hosts: 300, runs: 600") && found.stdout.contains("not shown; --all"),
        "{}",
        found.stdout
    );
    assert!(compare(folder.path(), &["--all"]).stdout.lines().count() > 600);
    let document = compare(folder.path(), &["--json", "-"]).json();
    assert_eq!((&document["schema"], &document["hosts"][0]["host"]), (&json!(1), &json!("host-000")));
    let row = &document["rows"][0];
    assert_eq!(
        (row["row"].as_str(), row["hosts"].as_array().map(Vec::len)),
        (Some("rr tcp kernel-spin 64 B, loopback"), Some(300))
    );
    assert_eq!(row["hosts"][299]["standing"], "slower");
}

#[test]
fn a_baseline_judges_each_host_as_compare_does() {
    let folder = tree(3, 1, 1.5);
    let found = compare(folder.path(), &["--baseline", "host-001"]);
    assert_eq!(found.code, 4, "{found:?}");
    assert!(found.stdout.contains("worse than the baseline"), "{}", found.stdout);
    assert_eq!(compare(tree(3, 1, 1.0).path(), &["--baseline", "host-001"]).code, 0);
    let refused = compare(folder.path(), &["--baseline", "none"]);
    assert!(refused.code == 2 && refused.stderr.contains("host-000"), "{refused:?}");
}

#[test]
fn what_cannot_be_read_is_left_out_by_name_and_told_by_the_exit_code() {
    let folder = tree(8, 1, 1.0);
    let at = |name: &str| folder.path().join(name);
    fs::write(at("cut.json"), "{\"schema\": 1, ").unwrap();
    fs::write(at("old.json"), "{\"schema\": 0}").unwrap();
    fs::write(at("compared.json"), "{\"schema\": 1, \"runs\": [1, 1], \"rows\": []}").unwrap();
    fs::write(at("deep.json"), format!("{{\"schema\": 1, \"host\": {}", "[".repeat(200_000))).unwrap();
    // Larger than a result may be, and no bytes on the disk.
    fs::File::create(at("huge.json")).unwrap().set_len(1 << 40).unwrap();
    std::os::unix::fs::symlink("loop.json", at("loop.json")).unwrap();
    std::os::unix::fs::symlink(folder.path(), at("host-000/up")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe.json")).status().unwrap().success());
    let found = compare(folder.path(), &[]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stderr.contains("left out 7 of the files") && found.stderr.contains("next:"), "{}", found.stderr);
    for name in ["cut.json", "old.json", "compared.json", "deep.json", "huge.json", "loop.json", "pipe.json"] {
        assert!(found.stdout.contains(name), "{name}: {}", found.stdout);
    }
    assert!(found.stdout.contains("hosts: 8, runs: 8"), "{}", found.stdout);
    let document = compare(folder.path(), &["--json", "-"]);
    assert_eq!((document.code, document.json()["left_out"].as_array().map(Vec::len)), (1, Some(7)));
}

#[test]
fn a_folder_that_holds_nothing_or_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (path, words) in
        [(folder.path().to_owned(), "no file *.json"), (folder.path().join("none"), "cannot read the folder")]
    {
        let refused = compare(&path, &[]);
        assert!(refused.code == 1 && refused.stderr.contains(words) && refused.stderr.contains("next:"), "{refused:?}");
    }
    let tree = tree(2, 1, 1.0);
    for name in ["fleet.json", "host-000/fleet.json"] {
        let output = tree.path().join(name);
        let refused = compare(tree.path(), &["--json", output.to_str().unwrap()]);
        assert!(refused.code == 2 && refused.stderr.contains("among the results") && !output.exists(), "{refused:?}");
    }
}

#[test]
fn files_of_a_real_run_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..2 {
        let file = folder.path().join(format!("{number}.json"));
        let measured = run(&[
            "bench",
            "rr",
            "--place",
            "loopback",
            "--transport",
            "udp",
            "--paths",
            "kernel-spin",
            "--duration",
            "600ms",
            "--json",
            file.to_str().unwrap(),
        ]);
        assert_eq!(measured.code, 0, "{measured:?}");
    }
    let found = compare(folder.path(), &[]);
    assert!(found.code == 5 && found.stdout.contains("hosts: 1, runs: 2"), "{found:?}");
}

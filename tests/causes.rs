//! `bench rr --causes` and `--timestamps`: what the host did during the slowest samples, and the stages of the others.

mod support;

use serde_json::Value;
use support::result::{check_schema, number, rows};
use support::{Finished, finish, is_root, my_turn, run, sidestep};

const NOBODY: u32 = 65_534;

fn check(finished: &Finished, source: &str) -> Value {
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    for row in rows(&document) {
        let causes = &row["causes"];
        assert_eq!(causes["source"], source, "{row}");
        assert!(number(causes, "n") > 0.0 && number(causes, "slowest") >= 1.0);
        assert!(number(causes, "from_ns") <= number(causes, "max") && number(causes, "p50") <= number(causes, "max"));
        let outliers = causes["outliers"].as_array().expect("a list");
        assert!(!outliers.is_empty() && outliers.iter().all(|one| number(one, "ns") >= number(causes, "from_ns")));
        for cause in causes["causes"].as_array().expect("a list") {
            assert!(
                number(cause, "samples") >= 1.0 && number(cause, "samples") <= number(causes, "slowest"),
                "{cause}"
            );
            assert!(number(cause, "explains") <= number(cause, "samples"), "{cause}");
            for share in [&cause["share"], &cause["usual"]] {
                assert!(share.is_null() || share.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{cause}");
            }
        }
    }
    document
}

#[test]
fn root_sees_events_or_why_not() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let paths = "--paths=kernel-default,kernel-spin,xdp";
    let finished = run(&["bench", "rr", "--transport=udp", paths, "--duration=200ms", "--causes", "--json=-"]);
    let refused = finished.stdout.contains("events are not recorded");
    let document = check(&finished, if refused { "counters" } else { "tracepoints" });
    assert_eq!(rows(&document).len(), 3, "{}", finished.stderr);
    if refused {
        return eprintln!("skipped: this kernel does not allow tracepoints");
    }
    for row in rows(&document) {
        assert!(number(&row["causes"], "events") > 0.0 && number(&row["causes"], "clock_error_ns") < 1e6, "{row}");
    }
}

#[test]
fn a_user_without_privilege_gets_counters_and_what_would_allow_more() {
    let _turn = my_turn();
    let mut command = sidestep(&["bench", "rr", "--paths=kernel-spin", "--duration=60ms", "--causes", "--json=-"]);
    if is_root() {
        use std::os::unix::process::CommandExt;
        command.uid(NOBODY).gid(NOBODY);
    }
    let finished = finish(command.spawn().expect("the binary is built"));
    if !finished.stdout.contains("events are not recorded") {
        return eprintln!("skipped: users may record tracepoints here");
    }
    let document = check(&finished, "counters");
    let causes = &rows(&document)[0]["causes"];
    assert_eq!(number(causes, "uncovered"), number(causes, "slowest"), "nothing is explained by counters");
    assert!(causes["missing"].to_string().contains("run as root"), "{causes}");
}

#[test]
fn what_is_not_asked_for_is_not_there_and_samples_of_other_programs_are_not_observed() {
    let _turn = my_turn();
    let plain = run(&["bench", "rr", "--place=loopback", "--paths=kernel-spin", "--duration=60ms", "--json=-"]);
    assert!(rows(&plain.json())[0].get("causes").is_none());
    let floor = run(&[
        "bench",
        "rr",
        "--place=loopback",
        "--paths=kernel-spin,floor",
        "--duration=60ms",
        "--causes",
        "--json=-",
    ]);
    let document = floor.json();
    let Some(floor) = rows(&document).iter().find(|row| row["path"] == "floor") else { return };
    assert!(floor.get("causes").is_none() && floor["notes"].to_string().contains("not observed"), "{floor}");
    let ladder = run(&["bench", "rr", "--ladder", "--causes"]);
    assert_eq!(ladder.code, 2, "{}", ladder.stderr);
}

#[test]
fn stages_are_of_udp_over_kernel_sockets_and_others_say_why_not() {
    let _turn = my_turn();
    let what = ["bench", "rr", "--place=loopback", "--duration=120ms", "--json=-", "--timestamps"];
    let finished = run(&[&what[..], &["--transport=tcp,udp", "--paths=kernel-spin,kernel-epoll"]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    for row in rows(&document) {
        if (&row["transport"], &row["path"]) != (&Value::from("udp"), &Value::from("kernel-spin")) {
            assert!(row.get("stages").is_none() && row["notes"].to_string().contains("no stages"), "{row}");
            continue;
        }
        let stages = &row["stages"];
        assert!(number(stages, "stamped") > 0.0 && number(stages, "every") == 16.0, "{stages}");
        let all = stages["stages"].as_array().expect("a list");
        assert_eq!(all.len(), 6, "{stages}");
        assert!(all.iter().all(|stage| stage["clock"] == "system"), "{stages}");
        // A slice that was held up has few samples, and may keep a percentile of few samples from being told.
        let is_early = |stage: &Value| !stage["p50"].is_null() && number(stage, "n") < 200.0;
        let is_kept_back = |stage: &Value| stage["p50"].is_null() && number(stage, "n") >= 5000.0;
        assert!(!all.iter().any(|stage| is_early(stage) || is_kept_back(stage)), "{stages}");
        assert!(stages["unavailable"].to_string().contains("lo has no hardware timestamps"), "{stages}");
    }
    for wrong in [&["--transport=tcp"][..], &["--transport=udp", "--ladder"]] {
        assert_eq!(run(&[&what[..], wrong].concat()).code, 2, "{wrong:?}");
    }
    assert_eq!(run(&["bench", "rr", "--hardware-timestamps"]).code, 2);
}

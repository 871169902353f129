//! `sidestep bench bulk` and `sidestep bench connect` as a user runs them: over loopback, in a lab, and refused.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::result::{check_schema, number, rows};
use support::{finish, is_root, my_turn, run, sidestep};

/// One run in a place over paths: what it printed, its result and its report.
struct Run {
    shown: String,
    document: Value,
    html: String,
    json: PathBuf,
    /// The process that measured.
    owner: u32,
    _folder: tempfile::TempDir,
}

impl Run {
    fn of(command: &str, place: &str, paths: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (json, html) = (folder.path().join("result.json"), folder.path().join("report.html"));
        let files = ["--verbose", "--json", json.to_str().expect("a name"), "--html", html.to_str().expect("a name")];
        let duration: &[&str] = if more.contains(&"--duration") { &[] } else { &["--duration", "60ms"] };
        let measure = [&["bench", command, "--place", place, "--paths", paths], duration].concat();
        let child = sidestep(&[&measure, more, &files[..]].concat()).spawn().expect("the binary is built");
        let owner = child.id();
        let finished = finish(child);
        assert_eq!(finished.code, 0, "{}", finished.stderr);
        let read = |path: &Path| std::fs::read_to_string(path).expect("it was written");
        let document: Value = serde_json::from_str(&read(&json)).expect("JSON");
        check_schema(&document);
        assert_eq!(document["setup"]["place"], place);
        Self { shown: finished.stdout, document, html: read(&html), json, owner, _folder: folder }
    }

    /// Each of these was measured, or it is said that a machine this busy left it no time.
    fn check_has(&self, scenarios: &[&str], paths: &[&str]) {
        for (scenario, path) in scenarios.iter().flat_map(|scenario| paths.iter().map(move |path| (scenario, path))) {
            let is_row = |row: &&Value| row["scenario"] == *scenario && row["path"] == *path;
            let missed = self.unavailable().find(is_row).map(|row| row["reason"].to_string());
            let is_there = rows(&self.document).iter().any(|row| is_row(&row));
            let is_said = missed.as_ref().is_some_and(|reason| reason.contains("fell into its slices"));
            assert!(is_there != is_said, "{scenario} {path}: {missed:?}");
        }
    }

    fn unavailable(&self) -> impl Iterator<Item = &Value> {
        self.document["unavailable"].as_array().expect("a list").iter()
    }

    /// So many rows are missing for this reason.
    fn check_lacks(&self, path: &str, why: &str, times: usize) {
        let reason = |row: &&Value| row["reason"].as_str().is_some_and(|reason| reason.contains(why));
        let found = self.unavailable().filter(|row| row["path"] == path).filter(reason).count();
        assert_eq!(found, times, "{path}: {}", self.document["unavailable"]);
    }

    /// The result in every form, and held against itself: never worse (5: on a busy machine no row may have enough).
    fn check_reports(&self, heading: &str) {
        assert!(self.shown.contains(heading), "{}", self.shown);
        assert!(self.html.contains(heading) && self.html.trim_end().ends_with("</html>"));
        let file = self.json.to_str().expect("a name");
        let compared = run(&["compare", file, file]);
        assert!([0, 5].contains(&compared.code), "{}\n{}", compared.stdout, compared.stderr);
        for row in rows(&self.document) {
            let (scenario, path) = (row["scenario"].as_str().expect("a name"), row["path"].as_str().expect("a name"));
            assert!(self.html.contains(path) && self.shown.contains(path), "{path}");
            assert!(compared.stdout.contains(&format!("{scenario} tcp {path} ")), "{}", compared.stdout);
        }
    }
}

/// A run at full speed reports the time for each message: its mean is the inverse of the rate, and nothing is lost.
fn check_full_speed(document: &Value, measure: &str) {
    for row in rows(document) {
        assert_eq!((&row["transport"], &row["measure"], &row["lost"]), (&"tcp".into(), &measure.into(), &0.into()));
        assert!(row["rate_offered"].is_null() && number(row, "n") > 0.0, "{row}");
        let of_a_second = number(row, "rate_achieved") * number(row, "mean") / 1e9;
        assert!((of_a_second - 1.0).abs() < 0.01, "a rate is the inverse of a time: {row}");
    }
    for ratio in document["ratios"].as_array().expect("a list") {
        assert_eq!(ratio["measure"].as_str().unwrap_or(measure), measure, "{ratio}");
    }
}

#[test]
fn streams_go_each_way_over_tcp_and_what_has_none_says_so() {
    let _turn = my_turn();
    let run = Run::of("bulk", "loopback", "kernel-spin,uring,uds,shm,floor,xdp-raw,xdp", &[]);
    check_full_speed(&run.document, "per_message");
    run.check_has(&["bulk", "bulk-back"], &["kernel-spin", "uring"]);
    assert!(rows(&run.document).iter().all(|row| row["congestion"].is_string()));
    // Each way each.
    for path in ["uds", "shm", "floor", "xdp-raw"] {
        run.check_lacks(path, "over TCP", 2);
    }
    run.check_lacks("xdp", "in the lab only", 2);
    assert_eq!(rows(&run.document).len() + run.unavailable().count(), 14);
    run.check_reports("Throughput");
}

#[test]
fn streams_past_the_kernel_go_each_way_in_a_lab() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let run = Run::of("bulk", "lab", "xdp", &["--size", "16000"]);
    check_full_speed(&run.document, "per_message");
    run.check_has(&["bulk", "bulk-back"], &["xdp"]);
    for row in rows(&run.document) {
        assert!(row["size"] == 16_000 && row["notes"].to_string().contains("copy mode"), "{row}");
    }
    run.check_reports("Throughput");
}

/// The same wire for both, each with the congestion control that is asked for, or its own default.
#[test]
fn streams_over_an_impaired_wire_tell_the_wire_and_their_congestion_control() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").expect("any Linux has it");
    let ours = if ["reno", "cubic", "bbr"].contains(&default.trim()) { default.trim() } else { "cubic" };
    for (past, more, kernels, ours) in
        [("xdp", &[][..], default.trim(), ours), ("xdp-block", &["--congestion", "reno"], "reno", "reno")]
    {
        let wire = ["--impair", "rate=200mbit,delay=500us", "--size", "16384", "--duration", "600ms"];
        let paths = format!("kernel-pinned,kernel-spin-frames,{past}");
        let run = Run::of("bulk", "lab", &paths, &[&wire, more].concat());
        assert_eq!(run.document["setup"]["wire"], "delay=500us,rate=200mbit");
        run.check_has(&["bulk", "bulk-back"], &["kernel-pinned", past]);
        run.check_lacks("kernel-spin-frames", "beside the impaired wire", 2);
        for row in rows(&run.document) {
            let expected = if row["path"] == "kernel-pinned" { kernels } else { ours };
            assert_eq!(row["congestion"], expected, "{row}");
        }
        for part in ["wire, each way", "delay=500us,rate=200mbit", "congestion control of the end that sends"] {
            assert!(run.html.contains(part), "{part}");
        }
        assert!(run.shown.contains("congestion"), "{}", run.shown);
    }
}

/// Over a veth the kernel passes packets that no cable carries, unless its devices neither segment nor merge.
#[test]
fn the_kernel_sends_super_packets_over_one_pair_of_a_lab_and_frames_over_the_other() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    for family in [&[][..], &["-6"]] {
        let run = Run::of("bulk", "lab", "kernel-spin,kernel-spin-frames,xdp", family);
        run.check_has(&["bulk", "bulk-back"], &["kernel-spin", "kernel-spin-frames"]);
        let kernel = rows(&run.document).iter().filter(|row| row["path"] != "xdp");
        for row in kernel.filter(|row| number(row, "n") > 100.0) {
            let notes = row["notes"].to_string();
            let (kind, device) =
                if row["path"] == "kernel-spin" { ("super-packets", "lab0") } else { ("frames, as a cable", "lab1") };
            assert!(notes.contains(kind) && notes.contains(device), "{row}");
        }
        assert_eq!(run.document["setup"]["interface"], "lab0");
    }
    let elsewhere = Run::of("bulk", "loopback", "kernel-spin,kernel-spin-frames", &[]);
    elsewhere.check_lacks("kernel-spin-frames", "in the lab only", 2);
}

#[test]
fn connections_are_made_one_after_the_other_and_each_is_answered() {
    let _turn = my_turn();
    let run = Run::of("connect", "loopback", "kernel-spin,uring,uds,xdp", &["--size", "1472"]);
    check_full_speed(&run.document, "per_connection");
    run.check_has(&["connect"], &["kernel-spin"]);
    run.check_lacks("uring", "other back-ends do not connect", 1);
    run.check_lacks("uds", "over TCP", 1);
    run.check_lacks("xdp", "in the lab only", 1);
    assert!(rows(&run.document).iter().all(|row| row["congestion"].is_null()));
    run.check_reports("Connections in sequence");
}

#[test]
fn connections_past_the_kernel_are_made_in_a_lab_and_leave_nothing() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let measured = Run::of("connect", "lab", "xdp", &[]);
    check_full_speed(&measured.document, "per_connection");
    measured.check_has(&["connect"], &["xdp"]);
    let labs = run(&["lab", "status", "--json"]).stdout;
    assert!(!labs.contains(&format!("\"owned\": {}", measured.owner)), "{labs}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_set_up() {
    for (arguments, names) in [
        (&["bulk", "--size", "7"][..], &["7 bytes", "8 to 65536"][..]),
        (&["bulk", "--size", "65537"], &["65537 bytes", "8 to 65536"]),
        (&["connect", "--size", "0"], &["0 bytes", "8 to 65536"]),
        (&["bulk", "--duration", "0s"], &["1 ms to 1 h", "next:"]),
        (&["connect", "--duration", "2h"], &["1 ms to 1 h", "next:"]),
        (&["bulk", "--paths", "pigeon"], &["pigeon", "kernel-spin"]),
        (&["connect", "--transport", "udp"], &["--transport"]),
        (&["bulk", "--cpus", "100000"], &["100000"]),
        (&["connect", "--place", "lab", "--to", "127.0.0.1"], &["--place", "--to"]),
        (&["bulk", "--place", "loopback", "--impair", "loss=1%"], &["an impaired wire", "--place lab"]),
        (&["bulk", "--impair", "loss=2x"], &["loss=2x", "rate"]),
        (&["bulk", "--impair", "loss=1%", "--to", "127.0.0.1"], &["--impair", "--to"]),
        (&["bulk", "--congestion", "nonesuch"], &["nonesuch", "neither our stack nor this kernel", "reno"]),
        (&["rr", "--congestion", "reno"], &["--congestion"]),
        (&["connect", "--service-time", "1us"], &["only round trips", "bench rr"]),
        (&["bulk", "--service-time", "1us"], &["only round trips", "bench rr"]),
        (&["rates", "--service-time", "1us"], &["only round trips", "bench rr"]),
    ] {
        let finished = run(&[&["bench"], arguments].concat());
        assert_eq!(finished.code, 2, "{arguments:?}: {}", finished.stderr);
        assert!(names.iter().all(|name| finished.stderr.contains(name)), "{arguments:?}: {}", finished.stderr);
        assert!(finished.stdout.is_empty());
    }
}

#[test]
fn nothing_measured_is_a_failure_that_names_each_reason() {
    let _turn = my_turn();
    let finished = run(&["bench", "connect", "--place", "loopback", "--paths", "uring,shm"]);
    assert_eq!(finished.code, 1);
    assert!(finished.stderr.contains("uring: other back-ends do not connect"), "{}", finished.stderr);
    assert!(finished.stderr.contains("shm: it is measured over TCP"), "{}", finished.stderr);
}

//! `sidestep bench tick` as a user runs it: an exchange and a trader, started for the run.

mod support;

use serde_json::Value;
use support::{is_root, my_turn, run};

/// Short slices: what is checked is that orders are right and counts add up, not how long they take.
const SHORT: [&str; 8] = ["--duration", "160ms", "--symbols", "50", "--trigger-every", "40", "--json", "-"];

fn rows(document: &Value) -> &[Value] {
    document["results"].as_array().expect("results is a list")
}

fn count(row: &Value, name: &str) -> u64 {
    row["tick"][name].as_u64().unwrap_or_else(|| panic!("{name} of {row}"))
}

fn measure(arguments: &[&str]) -> Value {
    let finished = run(&[&["bench", "tick"], arguments, &SHORT[..]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    finished.json()
}

/// Every tick is answered or missed, every answer is a sample or fell into the first moments of a slice.
fn check_counts(document: &Value) {
    for row in rows(document).iter().filter(|row| row["tick"].is_object()) {
        let (answered, missed, counted) = (count(row, "answered"), count(row, "missed"), count(row, "counted"));
        let (samples, lost) = (row["n"].as_u64().expect("a count"), row["lost"].as_u64().expect("a count"));
        assert!(answered > 0 && samples > 0, "{row}");
        assert_eq!(samples + lost, counted, "{row}");
        assert!(answered >= samples && answered + missed >= counted, "{row}");
        assert_eq!(
            (&row["scenario"], &row["measure"], &row["loop"]),
            (&"tick".into(), &"tick_to_trade".into(), &"open".into())
        );
    }
}

#[test]
fn every_work_and_every_form_of_order_is_right_on_every_path_of_a_lab() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let paths = ["kernel-epoll", "kernel-spin", "uring-spin", "xdp", "xdp-one-end", "ring"];
    let document = measure(&[
        "--place",
        "lab",
        "--paths",
        &paths.join(","),
        "--work",
        "reflex,decode,book",
        "--order",
        "fix,ouch,raw",
        "--rate",
        "20k",
    ]);
    for path in paths {
        for work in ["reflex", "decode", "book"] {
            for order in ["fix", "ouch", "raw"] {
                let name = format!("{path} {work} {order}");
                assert!(
                    rows(&document).iter().any(|row| row["path"] == name.as_str()),
                    "{name}: {}",
                    document["unavailable"]
                );
            }
        }
    }
    check_counts(&document);
    assert!(document["paths"].as_array().is_some_and(|paths| paths.len() == 54));
}

#[test]
fn what_line_a_lacks_comes_by_line_b() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let document = measure(&[
        "--place",
        "lab",
        "--paths",
        "kernel-spin,xdp",
        "--lines",
        "1,2",
        "--gap-on-a",
        "0,20",
        "--rate",
        "20k",
        "--messages-per-packet",
        "3",
    ]);
    check_counts(&document);
    assert_eq!(rows(&document).len(), 6, "{}", document["unavailable"]);
    for row in rows(&document).iter().filter(|row| row["tick"]["gap_on_a"] == 20.0) {
        assert!(count(row, "left_out") > 0 && count(row, "recovered") > 0, "{row}");
        assert_eq!(count(row, "never"), 0, "line B lacks nothing: {row}");
    }
    for row in rows(&document).iter().filter(|row| row["tick"]["lines"] == 2) {
        assert_eq!(row["tick"]["line"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn a_ring_of_the_kernel_brings_both_lines_and_says_so() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let document = measure(&["--place", "lab", "--paths", "ring", "--lines", "2", "--gap-on-a", "20", "--rate", "20k"]);
    check_counts(&document);
    let [row] = rows(&document) else { panic!("one row: {}", document["unavailable"]) };
    assert!(row["notes"][0].as_str().is_some_and(|note| note.contains("the feed by a ring (XDP")), "{}", row["notes"]);
    assert!(count(row, "recovered") > 0 && count(row, "never") == 0, "{row}");
}

#[test]
fn a_feed_over_loopback_is_traded_without_root() {
    let _turn = my_turn();
    let document = measure(&["--place", "loopback", "--paths", "kernel-spin,xdp,ring", "--rate", "10k"]);
    check_counts(&document);
    let missing = document["unavailable"].as_array().expect("a list");
    for path in ["xdp book fix", "ring book fix"] {
        let one = missing.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{path}: {missing:?}"));
        assert!(one["reason"].as_str().is_some_and(|reason| reason.contains("XDP program")), "{one}");
    }
}

#[test]
fn the_floor_and_the_profiles_have_rows() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    for profile in ["open", "sparse"] {
        let rate = if profile == "sparse" { "1M" } else { "10k" };
        let document = measure(&[
            "--place",
            "lab",
            "--paths",
            "xdp,xdp-raw",
            "--profile",
            profile,
            "--rate",
            rate,
            "--speed",
            "1,2",
        ]);
        check_counts(&document);
        assert!(rows(&document).iter().any(|row| row["path"] == "xdp-raw" && row["measure"] == "rtt"));
        assert_eq!(rows(&document).len(), 3, "{}", document["unavailable"]);
    }
}

#[test]
fn what_cannot_be_played_is_named() {
    let gap = run(&["bench", "tick", "--gap-on-a", "1"]);
    assert_eq!(gap.code, 2);
    assert!(gap.stderr.contains("--lines 2"), "{}", gap.stderr);
    let fast = run(&["bench", "tick", "--rate", "90M"]);
    assert_eq!(fast.code, 2);
    assert!(fast.stderr.contains("messages of a slice") && fast.stderr.contains("--rate"), "{}", fast.stderr);
    let group = run(&["bench", "tick", "--group", "192.0.2.1"]);
    assert_eq!(group.code, 2);
    assert!(group.stderr.contains("224.0.0.0/4"), "{}", group.stderr);
}

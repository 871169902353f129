//! Open loops, measured for a short time: what is due is sent or counted, and what is missing counts as long.

mod support;

use serde_json::Value;
use support::result::{check_schema, number, rows};
use support::{is_root, my_turn, run};

fn measured(place: &str, paths: &str, more: &[&str]) -> Value {
    let what = ["bench", "rr", "--place", place, "--paths", paths, "--json", "-"];
    let finished = run(&[&what[..], more].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    finished.json()
}

/// What holds for every row of an open loop, on a machine as slow as may be.
fn check(row: &Value) {
    let detail = &row["rate"];
    assert_eq!((&row["scenario"], &row["loop"]), (&"open-loop".into(), &"open".into()), "{row}");
    let count = |key: &str| detail[key].as_f64().unwrap_or(0.0);
    let (sent, answered, unsent) = (count("sent"), count("received"), count("unsent"));
    assert_eq!(number(row, "lost"), sent - answered + unsent, "{row}");
    assert_eq!(number(row, "n"), answered, "every answer is a sample: {row}");
    assert_eq!(count("unknown") + count("duplicates"), 0.0, "{row}");
    assert!(count("late") <= sent, "{row}");
    let service = &detail["from_actual_send"];
    assert_eq!(number(service, "n"), answered, "{row}");
    assert!(
        answered == 0.0 || number(service, "min") <= number(row, "min"),
        "service begins after what was due: {row}"
    );
}

#[test]
fn messages_are_due_whatever_becomes_of_the_answers() {
    let _turn = my_turn();
    let more = ["--transport", "tcp,udp", "--rate", "1k,4k", "--duration", "240ms"];
    let paths = "kernel-default,kernel-pinned,kernel-epoll,kernel-spin,uring-spin,uds,shm,xdp-raw,run,floor";
    let document = measured("loopback", paths, &more);
    check_schema(&document);
    for path in ["kernel-default", "kernel-pinned", "kernel-epoll", "uds"] {
        assert!(rows(&document).iter().any(|row| row["path"] == path), "{path}: {}", document["unavailable"]);
    }
    rows(&document).iter().for_each(check);
    for row in rows(&document).iter().filter(|row| row["rate_offered"] == 1e3) {
        let due = number(&row["rate"], "sent") + row["rate"]["unsent"].as_f64().unwrap_or(0.0);
        // A message more or less in each of the twelve slices; what is late while settling counts.
        assert!((228.0..=1_000.0).contains(&due), "{row}");
    }
    let missing = document["unavailable"].to_string();
    for reason in ["one message under way", "a closed loop: it waits for each answer", "one message at a time"] {
        assert!(missing.contains(reason), "{reason}: {missing}");
    }
}

#[test]
fn random_arrivals_come_again_with_their_seed() {
    let _turn = my_turn();
    let document = measured(
        "loopback",
        "kernel-pinned",
        &["--transport", "udp", "--rate", "2k", "--arrival", "poisson", "--seed", "7", "--duration", "240ms"],
    );
    check_schema(&document);
    let row = &rows(&document)[0];
    check(row);
    assert_eq!((&row["rate"]["arrival"], &row["rate"]["seed"]), (&"poisson".into(), &7.into()));
}

#[test]
fn a_search_ends_and_the_table_has_its_rule() {
    let _turn = my_turn();
    let what = ["bench", "rr", "--place", "loopback", "--paths", "kernel-pinned", "--transport", "udp"];
    let finished = run(&[&what[..], &["--rate", "auto", "--duration", "60ms", "--verbose"]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    for part in ["Response time by load", "knee: from the lowest rate", "highest load carried (knee): kernel-pinned"] {
        assert!(finished.stdout.contains(part), "{part}: {}", finished.stdout);
    }
}

#[test]
fn paths_past_the_kernel_have_open_loops_in_a_lab() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let more = ["--transport", "udp,tcp", "--rate", "2k", "--duration", "120ms"];
    let document = measured("lab", "xdp,xdp-one-end", &more);
    check_schema(&document);
    rows(&document).iter().for_each(check);
    assert_eq!(rows(&document).len(), 4, "{}", document["unavailable"]);
}

#[test]
fn a_closed_loop_says_that_it_is_one() {
    let _turn = my_turn();
    let what = ["bench", "rr", "--place", "loopback", "--paths", "kernel-pinned", "--duration", "60ms"];
    let finished = run(&[&what[..], &["--verbose"]].concat());
    assert!(finished.stdout.contains("closed loop: a message is sent after the answer to the one before it"));
    let document = run(&[&what[..], &["--json", "-"]].concat()).json();
    assert_eq!(rows(&document)[0]["loop"], "closed");
}

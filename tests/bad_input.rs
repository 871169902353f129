//! What is wrong is named, with its reason, the next step and the right exit code.

mod support;

use std::fs;
use support::{finish, run};

/// Fails with `code`, and standard error holds every one of `words`.
fn refuses(arguments: &[&str], code: i32, words: &[&str]) {
    let finished = run(arguments);
    assert_eq!(finished.code, code, "{arguments:?}: {}", finished.stderr);
    for word in words {
        assert!(finished.stderr.contains(word), "{arguments:?} does not say {word:?}: {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("panicked"), "{arguments:?}: {}", finished.stderr);
}

const RR: [&str; 4] = ["bench", "rr", "--place", "loopback"];

fn rr<'a>(more: &[&'a str]) -> Vec<&'a str> {
    RR.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn sizes_out_of_range() {
    for size in ["0", "7", "65537", "4294967295"] {
        refuses(&rr(&["--size", size]), 2, &["messages of", "next: choose --size"]);
    }
    refuses(&rr(&["--transport", "udp", "--size", "65508"]), 2, &["65508 bytes", "8 to 65507"]);
    refuses(&rr(&["--size", "99999999999"]), 2, &["invalid value"]);
    refuses(&rr(&["--size", "-1"]), 2, &["unexpected argument"]);
}

#[test]
fn rates_out_of_range() {
    for rate in ["0", "0.5", "1e12", "-5"] {
        let rates = format!("--rates={rate}");
        refuses(&["bench", "rates", "--place", "loopback", &rates], 2, &["messages per second", "next: give --rates"]);
    }
    refuses(&["bench", "rates", "--rates", "fast"], 2, &["\"fast\" is not a rate"]);
    refuses(&rr(&["--rate", "0"]), 2, &["messages per second", "next: give --rate within it"]);
    refuses(&rr(&["--rate", "fast"]), 2, &["\"fast\" is not a rate", "or `auto`"]);
    refuses(&rr(&["--rate", "1k", "--ladder"]), 2, &["--rate", "--ladder"]);
    refuses(&rr(&["--arrival", "poisson"]), 2, &["--rate"]);
    refuses(&["bench", "rates", "--reflect-every", "0"], 2, &["--reflect-every"]);
    for batch in ["0", "1025", "many"] {
        refuses(&["bench", "rates", "--batch", batch], 2, &["--batch"]);
    }
    let seldom = ["bench", "rates", "--place", "loopback", "--batch", "32", "--rates", "31,64"];
    refuses(&seldom, 2, &["31 messages", "at least one batch a second", "--rates"]);
    refuses(&["bench", "rates", "--group", "10.0.0.1"], 2, &["group 10.0.0.1", "224.0.0.0/4"]);
}

#[test]
fn durations_out_of_range() {
    refuses(&rr(&["--duration", "0s"]), 2, &["1 ms to 1 h"]);
    refuses(&rr(&["--duration", "2h"]), 2, &["1 ms to 1 h"]);
    refuses(&rr(&["--duration", "soon"]), 2, &["--duration"]);
    refuses(&rr(&["--duration", "7200"]), 2, &["1 ms to 1 h"]);
    refuses(&["bench", "ring", "--pace", "5"], 2, &["--pace", "it has no unit: write 5us"]);
    refuses(&rr(&["--service-time", "1s"]), 2, &["the limit is 10ms"]);
}

#[test]
fn rings_that_cannot_be_measured() {
    let ring = |more: &[&'static str]| ["bench", "ring"].into_iter().chain(more.iter().copied()).collect::<Vec<_>>();
    for size in ["0", "7", "9999999"] {
        refuses(&ring(&["--sizes", size]), 2, &["messages of", "8 to 65536"]);
    }
    refuses(&ring(&["--pace", "5s"]), 2, &["every 5s", "100ns to 10ms"]);
    refuses(&ring(&["--pace", "often"]), 2, &["often", "neither `hot` nor a time"]);
    refuses(&ring(&["--pace", "none", "--no-throughput"]), 2, &["nothing to measure", "next: leave one"]);
    refuses(&ring(&["--paths", "ring,rong"]), 2, &["no path \"rong\"", "did you mean: ring"]);
    refuses(&ring(&["--paths", "ring,elsewhere"]), 2, &["no path \"elsewhere\"", "ring-shm"]);
    refuses(&ring(&["--room", "0"]), 2, &["rings of 0 bytes", "next: give --room within it"]);
    refuses(&ring(&["--duration", "0s"]), 2, &["1 ms to 1 h"]);
    refuses(&ring(&["--cpus", "0,0"]), 2, &["between two CPUs", "both ends would be on CPU 0"]);
    refuses(&["bench", "ring-peer", "nonsense"], 2, &["cannot be a far end"]);
    refuses(&["bench", "ring-peer", "answer", "0", "64", "8"], 1, &["cannot attach to the ring"]);
}

#[test]
fn unknown_names() {
    refuses(&rr(&["--paths", "kernel-fast"]), 2, &["no path \"kernel-fast\"", "kernel-spin"]);
    refuses(&rr(&["--transport", "sctp"]), 2, &["sctp", "tcp"]);
    refuses(&rr(&["--ladder", "--size", "64,128"]), 2, &["ladder", "one --size"]);
    refuses(&["bench", "fly"], 2, &["fly"]);
    refuses(&[], 2, &["Usage"]);
}

#[test]
fn interfaces_that_do_not_exist() {
    for command in [
        &["control", "--interface"][..],
        &["control", "--release"],
        &["tune", "check", "--interface"],
        &["tune", "plan", "--interface"],
        &["tune", "apply", "--interface"],
        &["tune", "policy", "--interface"],
        &["tune", "verify", "--place", "loopback", "--interface"],
    ] {
        refuses(
            &[command, &["none0"]].concat(),
            2,
            &["none0", "there is none of this name", "next: choose from:", "lo"],
        );
    }
}

#[test]
fn files_that_cannot_be_read() {
    refuses(&["tune", "check", "--policy", "/no/such.toml"], 1, &["/no/such.toml", "next: name a file"]);
}

#[test]
fn what_a_lab_cannot_be() {
    refuses(&["lab", "up", "--mtu", "1279"], 2, &["MTU of 1279", "next: ask for 1280"]);
    refuses(&["bench", "rr", "--place", "lab", "--mtu", "9217"], 2, &["MTU of 9217", "to 9216"]);
    refuses(&["bench", "rr", "--to", "192.0.2.1", "--mtu", "9000"], 2, &["--mtu", "--to"]);
}

#[test]
fn no_lab_is_there_to_be_entered_or_taken_down() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let told = |arguments: &[&str]| {
        let mut command = support::sidestep(arguments);
        let finished = finish(command.env("SIDESTEP_STATE_DIR", folder.path()).spawn().expect("the binary is built"));
        assert_eq!(finished.code, 2, "{}", finished.stderr);
        finished.stderr
    };
    assert!(told(&["lab", "down"]).contains("none is up\n  next: there is nothing to remove"));
    assert!(told(&["lab", "exec", "a", "--", "true"]).contains("next: create one with: sidestep lab up"));
}

#[test]
fn a_cpu_that_does_not_exist() {
    refuses(&rr(&["--cpus", "1000"]), 2, &["CPU 1000", "choose from:"]);
    refuses(&rr(&["--cpus", "0,1000"]), 2, &["CPU 1000", "choose from:"]);
    refuses(&["bench", "serve", "--listen", "127.0.0.1:0", "--cpu", "1000"], 2, &["CPU 1000"]);
}

#[test]
fn a_peer_that_refuses_or_cannot_be_reached() {
    refuses(&["bench", "rr", "--to", "127.0.0.1:1"], 1, &["127.0.0.1:1", "refused", "sidestep bench serve"]);
    refuses(&["bench", "rr", "--to", "no-such-host.invalid"], 2, &["no-such-host.invalid"]);
    refuses(&["bench", "serve", "--listen", "203.0.113.1:1"], 1, &["203.0.113.1:1", "next:"]);
}

#[test]
fn outputs_that_cannot_be_written_are_found_before_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = folder.path().join("missing/a.json");
    let make = format!("mkdir -p {}", folder.path().join("missing").display());
    refuses(&rr(&["--json", missing.to_str().expect("UTF-8")]), 1, &["cannot write", "missing/a.json", &make]);
    refuses(&rr(&["--html", folder.path().to_str().expect("UTF-8")]), 1, &["cannot write"]);
    refuses(&["demo", "--out", "/proc/nowhere"], 1, &["/proc/nowhere"]);
    refuses(&["demo", "--out", "/dev/null/here"], 1, &["/dev/null/here", "a part of its path is a file"]);
    assert_eq!(fs::read_dir(folder.path()).expect("it exists").count(), 0, "nothing is left behind");
}

#[test]
fn damaged_results() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let good = file("good.json", run(&rr(&["--paths", "uds", "--duration", "20ms", "--json", "-"])).stdout.as_bytes());
    let whole = fs::read(&good).expect("just written");
    let damaged = [
        file("half.json", &whole[..whole.len() / 2]),
        file("empty.json", b""),
        file("text.json", b"hello"),
        file("list.json", b"[]"),
        file("binary.json", &[0xff; 100]),
        file("old.json", br#"{"schema": 0}"#),
        file("new.json", br#"{"schema": 99}"#),
    ];
    for path in &damaged {
        refuses(&["compare", &good, path], 1, &[path, "next:"]);
    }
    refuses(&["compare", &good, "/no/such.json"], 1, &["/no/such.json"]);
    refuses(&["compare", &good, folder.path().to_str().expect("UTF-8")], 1, &["next:"]);
    refuses(&["compare", &good], 2, &["AFTER"]);
    let same = run(&["compare", &good, &good]);
    assert!([0, 5].contains(&same.code), "a result does not differ from itself: {same:?}");
    assert!(same.stderr.contains("on both sides"), "{same:?}");
    let another = file("another.json", &whole.iter().copied().chain(*b" ").collect::<Vec<u8>>());
    refuses(&["compare", &format!("{good},{another}"), &good], 2, &["results 1 and 2", "same run"]);
    refuses(&["compare", &good, &good, "--json", &good], 2, &["one of the results"]);
    assert_eq!(fs::read(&good).expect("it is there"), whole, "a result is not overwritten by its comparison");
    refuses(&["compare", &good, &format!("{good},{}", damaged[1])], 1, &[&damaged[1], "empty"]);
}

#[test]
fn labs_that_do_not_exist() {
    refuses(&["lab", "exec", "--lab", "nowhere", "a", "--", "true"], 1, &["nowhere", "sidestep lab up"]);
    refuses(&["lab", "up", "--impair", "loss=200%"], 2, &["200%"]);
    refuses(&["lab", "up", "--impair", "los=1%"], 2, &["los", "loss"]);
    refuses(&["lab", "up", "NAME WITH SPACE"], 2, &["NAME WITH SPACE"]);
}

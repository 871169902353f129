//! `bench --to HOST --interface IF` past the kernel, between two hosts that bench has not made: by the consent of both
//! operators, and with nothing left attached.

#[path = "two_hosts/hosts.rs"]
mod hosts;
mod support;

use hosts::Hosts;
use serde_json::Value;
use std::io::{Read, Write};
use std::time::Duration;
use support::result::{check_schema, rows};
use support::{Finished, finish, is_root, my_turn, send_signal};

const BY_CONSENT: &[&str] = &["--interface", "h0", "--start-control"];
const SERVED_BY_CONSENT: &[&str] = &["--interface", "h1", "--start-control", "--stream-bytes", "1000000000000"];

fn measure(hosts: &Hosts, scenario: &[&str], consent: &[&str]) -> Finished {
    let to = ["--to", hosts.there.address, "--json", "-"];
    hosts.run(&hosts.here, &[&["bench"], scenario, &to, consent].concat())
}

fn paths(document: &Value) -> Vec<(&str, &str)> {
    let word =
        |row: &Value, key: &str| -> &str { Box::leak(row[key].as_str().expect("a word").to_owned().into_boxed_str()) };
    rows(document).iter().map(|row| (word(row, "transport"), word(row, "path"))).collect()
}

fn note<'a>(document: &'a Value, path: &str) -> &'a str {
    let row = rows(document).iter().find(|row| row["path"] == path).unwrap_or_else(|| panic!("no {path}: {document}"));
    row["notes"].as_array().unwrap().iter().filter_map(Value::as_str).find(|note| note.contains("AF_XDP")).unwrap_or("")
}

fn reason<'a>(document: &'a Value, path: &str) -> &'a str {
    let refused = document["unavailable"].as_array().expect("a list").iter().find(|row| row["path"] == path);
    refused.and_then(|row| row["reason"].as_str()).unwrap_or_else(|| panic!("{path} is not refused: {document}"))
}

fn check(finished: &Finished) -> Value {
    assert_eq!(finished.code, 0, "{}\n{}", finished.stdout, finished.stderr);
    let document = finished.json();
    check_schema(&document);
    assert_eq!(document["setup"]["place"], "remote");
    document
}

#[test]
fn a_control_plane_is_started_by_consent_and_goes_with_the_run() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    for offloads in [true, false] {
        let hosts = Hosts::joined(offloads);
        let server = hosts.serve(SERVED_BY_CONSENT);
        let what =
            ["rr", "--transport", "tcp,udp", "--paths", "kernel-spin,xdp,xdp-one-end,xdp-raw", "--duration", "200ms"];
        let document = check(&measure(&hosts, &what, BY_CONSENT));
        let mut measured = paths(&document);
        measured.sort_unstable();
        let both = ["kernel-spin", "xdp", "xdp-one-end"];
        let mut expected: Vec<(&str, &str)> =
            ["tcp", "udp"].iter().flat_map(|how| both.map(|path| (*how, path))).collect();
        expected.push(("udp", "xdp-raw"));
        expected.sort_unstable();
        assert_eq!(measured, expected, "{}", document["unavailable"]);
        // Checksums are complete, queues are found. A message is late where the scheduler has put an end aside for 200 ms.
        let is_whole = |row: &Value| row["lost"].as_u64().unwrap() <= 3 + row["n"].as_u64().unwrap() / 100;
        assert!(rows(&document).iter().all(is_whole), "{document}");
        for (path, words) in [
            (
                "xdp",
                &[
                    "copy mode",
                    "queues 0-3 of h0 (veth)",
                    "native XDP",
                    "started for the measurement",
                    "The peer:",
                    "of h1",
                ][..],
            ),
            ("xdp-raw", &["queues 0-3 of h0", "of h1"]),
            ("xdp-one-end", &["queues 0-3 of h0"]),
        ] {
            let note = note(&document, path);
            assert!(words.iter().all(|word| note.contains(word)), "{path}: {note}");
        }
        assert_eq!((&document["setup"]["interface"], &document["setup"]["queues"]), (&"h0".into(), &4.into()));
        assert!(!hosts.here.has_program(), "the run has removed what it has started");
        server.interrupt();
        assert!(!hosts.there.has_program(), "so has the server");
        assert_eq!(hosts.controls(), [0_u32; 0]);
    }
}

#[test]
fn the_control_planes_that_run_are_used_and_stay() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let hosts = Hosts::joined(true);
    let _controls = [hosts.control(&hosts.here), hosts.control(&hosts.there)];
    let _server = hosts.serve(&["--interface", "h1", "--stream-bytes", "1000000000000"]);
    let named = ["--interface", "h0"];
    for (scenario, flags) in [
        ("rr", &["--paths", "xdp,xdp-one-end,xdp-raw,kernel-spin"][..]),
        ("sizes", &["--paths", "xdp,xdp-one-end", "--sizes", "64,1472"]),
        ("rates", &["--paths", "xdp,xdp-one-end", "--rates", "2k", "--transport", "udp"]),
        ("bulk", &["--paths", "xdp"]),
        ("connect", &["--paths", "xdp,xdp-one-end"]),
    ] {
        let what = [&[scenario, "--duration", "100ms"], flags].concat();
        let document = check(&measure(&hosts, &what, &named));
        let measured = if scenario == "bulk" { &["xdp"][..] } else { &["xdp", "xdp-one-end"] };
        for path in measured {
            let note = note(&document, path);
            assert!(note.contains("which runs on that host"), "{scenario} {path}: {note}");
        }
        if scenario == "rr" {
            assert!(reason(&document, "xdp-raw").contains("--start-control"));
            let kernel = rows(&document).iter().find(|row| row["path"] == "kernel-spin").unwrap();
            let notes = kernel["notes"].to_string();
            assert!(notes.contains("attached to h0") && notes.contains("attached to h1"), "{notes}");
        }
    }
    assert_eq!(hosts.controls().len(), 2, "they are not the measurement's to end");
}

/// No consent of one end is the other's.
#[test]
fn nothing_is_attached_that_the_operator_has_not_named() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let hosts = Hosts::joined(true);
    let server = hosts.serve(&[]);
    let what =
        ["rr", "--transport", "tcp", "--paths", "kernel-spin,xdp,xdp-raw,xdp-one-end,run", "--duration", "100ms"];
    let document = check(&measure(&hosts, &what, BY_CONSENT));
    for path in ["xdp", "xdp-raw"] {
        assert!(reason(&document, path).contains("bench serve --interface"), "{document}");
    }
    assert!(reason(&document, "run").contains("lab"));
    assert!(note(&document, "xdp-one-end").contains("of h0"), "this end alone needs no consent of the peer");
    // A measuring end that asks all the same.
    let mut stranger =
        hosts.here.within(|| std::net::TcpStream::connect((hosts.there.address, 7411)).expect("it listens"));
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut ask = |request: &str| {
        stranger.write_all(&(request.len() as u32).to_le_bytes()).unwrap();
        stranger.write_all(request.as_bytes()).unwrap();
        let mut length = [0; 4];
        stranger.read_exact(&mut length).expect("it answers");
        let mut answer = vec![0; u32::from_le_bytes(length) as usize];
        stranger.read_exact(&mut answer).expect("it answers");
        serde_json::from_slice::<Value>(&answer).expect("it speaks JSON")
    };
    let hello = ask(r#"{"request":"hello","magic":"sidestep-bench","protocol":6,"version":"1"}"#);
    assert_eq!((&hello["past_kernel"], &hello["same_machine"]), (&"nothing".into(), &false.into()), "{hello}");
    for path in ["xdp", "xdp-block", "xdp-raw", "run"] {
        let answer = ask(&format!(
            r#"{{"request":"echo","transport":"udp","path":"{path}","size":64,"cpu":null,"port":9,"service_time_ns":0,"pipelined":false}}"#
        ));
        assert_eq!(answer["reply"], "refused", "{path}: {answer}");
        assert!(
            answer["next"].as_str().is_some_and(|next| next.contains("--interface") || next.contains("lab")),
            "{answer}"
        );
    }
    assert!(!hosts.there.has_program() && hosts.controls().is_empty());
    server.interrupt();
}

#[test]
fn bare_frames_go_by_the_gateway() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let hosts = Hosts::routed();
    let _server = hosts.serve(SERVED_BY_CONSENT);
    let what = ["rr", "--transport", "udp", "--paths", "kernel-spin,xdp,xdp-raw", "--duration", "100ms"];
    let document = check(&measure(&hosts, &what, BY_CONSENT));
    assert_eq!(rows(&document).len(), 3, "{}", document["unavailable"]);
}

/// Ctrl-C ends in order. A killed process cleans nothing: its control plane notices, and goes by itself.
#[test]
fn nothing_stays_attached_however_a_run_ends() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let hosts = Hosts::joined(true);
    let long = ["bench", "rr", "--paths", "xdp", "--duration", "60s", "--json", "-", "--to", hosts.there.address];
    let begin = || {
        let client = hosts.start(&hosts.here, &[&long[..], BY_CONSENT].concat());
        while !(hosts.here.has_program() && hosts.there.has_program()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(500));
        client
    };
    for signal in ["INT", "TERM", "KILL"] {
        let server = hosts.serve(SERVED_BY_CONSENT);
        let client = begin();
        send_signal(client.id(), signal);
        let finished = finish(client);
        assert_ne!(finished.code, 0, "{}", finished.stderr);
        if signal != "KILL" {
            assert!(!hosts.here.has_program(), "{signal}: {}", finished.stderr);
        }
        hosts.wait_until_clean(&hosts.here);
        server.interrupt();
        assert!(!hosts.there.has_program(), "{signal}");
    }
    // The server is killed, and the control planes of both ends, too.
    let server = hosts.serve(SERVED_BY_CONSENT);
    let client = begin();
    let controls = hosts.controls();
    assert_eq!(controls.len(), 2);
    controls.iter().for_each(|pid| send_signal(*pid, "KILL"));
    drop(server);
    let finished = finish(client);
    // Both are gone; which is noticed first is chance.
    let is_told = ["peer", "lost the control plane"].iter().any(|loss| finished.stderr.contains(loss));
    assert!(is_told, "{}", finished.stderr);
    assert!(finished.stderr.contains("control --cleanup"), "what is left is said: {}", finished.stderr);
    for host in [&hosts.here, &hosts.there] {
        assert!(host.has_program(), "nobody was left to detach it");
        let cleaned = hosts.run(host, &["control", "--cleanup"]);
        assert!(cleaned.stdout.contains("detached from 1 interface"), "{}", cleaned.stdout);
        assert!(!host.has_program());
    }
}

#[test]
fn two_ends_on_one_cpu_are_noticed() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let hosts = Hosts::joined(true);
    let _server = hosts.serve(&["--cpu", "0"]);
    let what = ["rr", "--paths", "kernel-default,kernel-epoll,kernel-spin", "--duration", "100ms"];
    let document = check(&measure(&hosts, &what, &["--cpus", "0"]));
    assert!(reason(&document, "kernel-spin").contains("CPU 0 of one machine"));
    let notes = rows(&document).iter().find(|row| row["path"] == "kernel-epoll").unwrap()["notes"].to_string();
    assert!(notes.contains("pinned to CPU 0"), "{notes}");
    assert_eq!((&document["setup"]["client_cpu"], &document["setup"]["server_cpu"]), (&0.into(), &0.into()));
    assert!(document["notes"].to_string().contains("under one kernel"), "{}", document["notes"]);
    // Of several CPUs this end takes another one than the peer's.
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let document = check(&measure(&hosts, &what, &[]));
        assert!(rows(&document).iter().any(|row| row["path"] == "kernel-spin"), "{document}");
        assert_ne!(document["setup"]["client_cpu"], 0);
    }
}

/// The peer starts our acceptors, where its operator allows it: by the kernel, past it at one end or the other, or at both,
/// with TLS or without.
#[test]
fn acceptors_of_fix_are_measured_on_the_other_host() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let hosts = Hosts::joined(true);
    let own = |transports: &'static str| {
        ["fix", "--own", transports, "--store", "none", "--sessions", "1", "--duration", "60ms", "--warmup", "0ms"]
    };
    {
        let _server = hosts.serve(SERVED_BY_CONSENT);
        let refused = measure(&hosts, &own("tcp"), &[]);
        assert!(refused.code == 1 && refused.stderr.contains("--fix"), "{}", refused.stderr);
    }
    // A session is over when its acceptors are gone, a little after the measuring end.
    let server = hosts.serve(&[SERVED_BY_CONSENT, &["--fix", "--sessions", "3"]].concat());
    for (transports, paths) in [
        ("tcp,tls,xdp,xdp-one-end,xdp-client", &["", "-tls", "-xdp", "-xdp-one-end", "-xdp-client"][..]),
        ("xdp-tls", &["-xdp-tls"]),
    ] {
        let document = check(&measure(&hosts, &own(transports), BY_CONSENT));
        for path in paths {
            let name = format!("sidestep{path}-none");
            let of: Vec<&Value> = rows(&document).iter().filter(|row| row["path"] == *name).collect();
            assert_eq!(of.len(), 2, "{name}: {}", document["unavailable"]);
            assert!(of.iter().all(|row| row["lost"] == 0 && (row["transport"] == "tls") == path.ends_with("tls")));
        }
        let notes = document["notes"].to_string();
        assert!(notes.contains("of h0") && notes.contains("past the kernel on h1"), "{notes}");
        assert!(document["peer"]["kernel"].is_string());
        assert!(!hosts.here.has_program());
    }
    let two = measure(&hosts, &own("xdp,xdp-tls"), BY_CONSENT);
    assert!(two.code == 2 && two.stderr.contains("one acceptor past the kernel"), "{}", two.stderr);
    let strange = measure(&hosts, &own("uds"), &[]);
    assert!(strange.code == 2 && strange.stderr.contains("xdp-client"), "{}", strange.stderr);
    server.interrupt();
    assert!(!hosts.there.has_program());
}

//! `sidestep bench fix` as a user runs it: our own acceptor, started for the run.

mod support;

use serde_json::Value;
use sidestep_lab::{Host, Lab, Side};
use sidestep_sys::process::Process;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::result::has_many;
use support::{WATCHDOG, is_root, my_turn, run, send_signal, sidestep};

fn rows(document: &Value) -> &[Value] {
    document["results"].as_array().expect("results is a list")
}

#[test]
fn our_acceptor_is_measured_over_every_transport_and_ends_with_the_run() {
    let _turn = my_turn();
    let finished = run(&[
        "bench",
        "fix",
        "--own",
        "tcp,tls,uds,shm",
        "--store",
        "none,page-cache",
        "--sessions",
        "1,2",
        "--duration",
        "60ms",
        "--warmup",
        "0ms",
        "--json",
        "-",
    ]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    for transport in ["tcp", "tls", "uds", "shm"] {
        let of = rows(&document).iter().filter(|row| row["transport"] == transport);
        // Two stores, one session and two, to the acknowledgement and to the fill.
        assert_eq!(of.count(), 8, "{transport}: {}", document["unavailable"]);
    }
    assert!(rows(&document).iter().all(|row| row["scenario"] == "fix" && row["lost"] == 0));
    assert!(document["paths"].as_array().is_some_and(|paths| paths.len() == 8));
}

/// Waits until `condition` holds, at most [`WATCHDOG`].
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < WATCHDOG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The children of all threads of a process (proc_pid_children(5)).
fn children(pid: u32) -> Vec<Process> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<u32> =
        lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect();
    pids.into_iter().filter_map(|pid| Process::of(pid).ok().flatten()).collect()
}

#[test]
fn acceptors_end_with_a_measurement_that_is_killed() {
    let _turn = my_turn();
    let own = ["bench", "fix", "--own", "tcp", "--bare", "--store", "none", "--duration", "5s"];
    let mut bench = sidestep(&own).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut acceptors = Vec::new();
    wait_until("an exchange and a bare acceptor are started", || {
        acceptors = children(bench.id());
        acceptors.len() == 2
    });
    send_signal(bench.id(), "KILL");
    bench.wait().unwrap();
    wait_until("its acceptors end", || acceptors.iter().all(|acceptor| !acceptor.is_alive()));
}

#[test]
fn acceptors_that_cannot_be_had_are_named() {
    let strays = run(&["bench", "fix", "--own", "none", "--pid", "nobody=1"]);
    assert_eq!(strays.code, 2);
    assert!(strays.stderr.contains("nobody"), "{}", strays.stderr);
    let unknown = run(&["bench", "fix", "--own", "pigeon"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("pigeon") && unknown.stderr.contains("tcp, tls, uds, shm"), "{}", unknown.stderr);
    let nowhere = run(&["bench", "fix", "--own", "none", "--acceptor", "far=lab:nowhere:198.18.0.2:9001"]);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.stderr.contains("nowhere") && nowhere.stderr.contains("lab up"), "{}", nowhere.stderr);
    let against = run(&["bench", "fix", "--own", "none", "--acceptor", "one=127.0.0.1:9", "--against", "two"]);
    assert_eq!(against.code, 2);
    assert!(against.stderr.contains("against two"), "{}", against.stderr);
}

#[test]
fn acceptors_of_others_are_measured_from_the_near_host_of_a_lab() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let lab = Lab::up(&sidestep_lab::Options::default()).unwrap();
    let Host { ipv4, .. } = lab.host(Side::B);
    let start = |port: u16| {
        let listen = format!("{ipv4}:{port}");
        let mut command = sidestep(&["fix", "exchange", "--listen", &listen, "--spin", "--store", "none"]);
        let mut child = lab.host(Side::B).spawn(command.stdout(Stdio::piped()).stderr(Stdio::null())).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening"), "{line}");
        (child, format!("lab:{}:{listen}", lab.name()))
    };
    let mut acceptors = [9001, 9002].map(start);
    let named: Vec<String> =
        ["one", "two"].iter().zip(&acceptors).map(|(name, (_, at))| format!("{name}={at}")).collect();
    let mut arguments = vec!["bench", "fix", "--own", "none", "--duration", "60ms", "--warmup", "0ms", "--json", "-"];
    arguments.extend(named.iter().flat_map(|named| ["--acceptor", named]).chain(["--against", "two"]));
    let finished = run(&arguments);
    for (child, _) in &mut acceptors {
        child.kill().and_then(|()| child.wait()).unwrap();
    }
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    assert_eq!(document["setup"]["place"], "lab");
    assert_eq!(rows(&document).len(), 4, "two acceptors, two answers each: {}", document["unavailable"]);
}

#[test]
fn a_bare_acceptor_is_measured_beside_ours_over_each_transport_and_ours_is_held_against_it() {
    let _turn = my_turn();
    let own = ["bench", "fix", "--own", "tcp,uds,shm", "--bare", "--store", "none", "--workload", "orders,heartbeats"];
    let finished = run(&[&own[..], &["--duration", "200ms", "--warmup", "0ms", "--json", "-"]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    for (bare, transport) in [("bare", "tcp"), ("bare-uds", "uds"), ("bare-shm", "shm")] {
        let of = rows(&document).iter().filter(|row| row["path"] == bare && row["transport"] == transport);
        assert_eq!(of.count(), 3, "to ack, fill and heartbeat, {bare}: {}", document["unavailable"]);
        let mut ratios = document["ratios"].as_array().expect("it is a list").iter();
        let own = if bare == "bare" { "sidestep-none".to_owned() } else { format!("sidestep-{transport}-none") };
        let counts = |path: &str| rows(&document).iter().filter(|row| row["path"] == path).all(has_many);
        let is_there = ratios.any(|ratio| ratio["of"] == own && ratio["against"] == bare);
        assert!(is_there || !counts(&own) || !counts(bare), "{own} against {bare}");
    }
}

#[test]
fn our_acceptor_is_measured_past_the_kernel_beside_the_kernels_tcp() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let own = ["bench", "fix", "--own", "veth,xdp-one-end,xdp,xdp-tls", "--store", "none", "--sessions", "1,2"];
    let finished = run(&[&own[..], &["--duration", "60ms", "--warmup", "0ms", "--json", "-"]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    assert_eq!(document["setup"]["place"], "lab");
    let unavailable = document["unavailable"].as_array().expect("it is a list");
    for (path, sessions_max) in [("sidestep-veth-none", 2), ("sidestep-xdp-one-end-none", 2), ("sidestep-xdp-none", 1)]
    {
        let of = rows(&document).iter().filter(|row| row["path"] == path && row["transport"] == "tcp");
        // To the acknowledgement and to the fill, for each number of sessions that the client can have.
        assert_eq!(of.count(), 2 * sessions_max, "{path}: {unavailable:?}");
    }
    let tls = rows(&document).iter().filter(|row| row["path"] == "sidestep-xdp-tls-none" && row["transport"] == "tls");
    assert_eq!(tls.count(), 2, "{unavailable:?}");
    // What cannot be is named: past the kernel the client has one connection.
    let [refused, with_tls] = &unavailable[..] else { panic!("{unavailable:?}") };
    assert_eq!((&refused["path"], &with_tls["path"]), (&"sidestep-xdp-none".into(), &"sidestep-xdp-tls-none".into()));
    assert!(refused["reason"].as_str().is_some_and(|reason| reason.contains("one connection")), "{refused}");
}

//! Real measurements, short: over loopback, in a lab, and against a serving peer.

mod support;

use serde_json::Value;
use std::time::Duration;
use support::result::{check_row, check_schema, has_many, number, rows};
use support::{Finished, finish, is_root, my_turn, run, send_signal, sidestep};

fn has_end(ratio: &Value, path: &str) -> bool {
    ratio["of"] == path || ratio["against"] == path
}

#[test]
fn every_path_is_measured_or_says_why_not() {
    let _turn = my_turn();
    for transport in ["tcp", "udp"] {
        let finished =
            run(&["bench", "rr", "--place=loopback", "--duration=200ms", "--json=-", "--transport", transport]);
        assert_eq!(finished.code, 0, "{}", finished.stderr);
        let document = finished.json();
        check_schema(&document);
        let unavailable = document["unavailable"].as_array().expect("a list");
        assert_eq!(rows(&document).len() + unavailable.len(), 19, "{}", finished.stderr);
        assert!(unavailable.iter().all(|row| row["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
        assert_eq!(document["setup"]["place"], "loopback");
        let ratios = document["ratios"].as_array().expect("a list");
        let counts = |path: &str| rows(&document).iter().any(|row| row["path"] == path && has_many(row));
        // The baseline is the pinned path, or the one that spins where that one has modes.
        let both = ["kernel-spin", "kernel-pinned"];
        let is_between =
            |ratio: &Value| ratio["of"] != ratio["against"] && both.iter().all(|path| has_end(ratio, path));
        if both.iter().all(|path| counts(path)) {
            assert!(ratios.iter().any(is_between), "{}", document["ratios"]);
        }
        assert!(ratios.iter().any(|ratio| ratio["of"] == ratio["against"]), "there is a control");
    }
}

/// Path xdp has all of them: with one of four most answers would come by another.
#[test]
fn a_lab_has_the_queues_that_are_asked_for_and_the_result_says_so() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let _turn = my_turn();
    let run_with = |queues: &str, place: &str, transport: &str| {
        let what = ["bench", "rr", "--place", place, "--queues", queues, "--transport", transport];
        let how = ["--paths", "kernel-spin,xdp", "--duration", "200ms", "--json", "-"];
        run(&[&what[..], &how[..]].concat())
    };
    for transport in ["tcp", "udp"] {
        let finished = run_with("4", "lab", transport);
        assert_eq!(finished.code, 0, "{}", finished.stderr);
        let document = finished.json();
        check_schema(&document);
        assert_eq!(document["setup"]["queues"], 4);
        let xdp = rows(&document).iter().find(|row| row["path"] == "xdp");
        let xdp = xdp.unwrap_or_else(|| panic!("path xdp was not measured: {}", finished.stderr));
        let notes = xdp["notes"].to_string();
        assert!(notes.contains("queues 0-3 of lab0"), "{notes}");
    }
    let refused = run_with("4", "loopback", "tcp");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("queues"), "{}", refused.stderr);
}

#[test]
fn rings_are_measured_beside_the_floor_and_what_blocks() {
    let _turn = my_turn();
    if std::thread::available_parallelism().map_or(1, |cpus| cpus.get()) < 2 {
        let finished = run(&["bench", "ring"]);
        assert_eq!(finished.code, 2, "{}", finished.stderr);
        assert!(finished.stderr.contains("between two CPUs"), "{}", finished.stderr);
        return;
    }
    let finished = run(&["bench", "ring", "--sizes", "8", "--duration", "120ms", "--json", "-"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    let of =
        |measure: &str| -> Vec<&Value> { rows(&document).iter().filter(|row| row["measure"] == measure).collect() };
    let refused = document["unavailable"].as_array().expect("a list");
    let paths = [
        "floor",
        "floor-each-way",
        "ring",
        "ring-small",
        "ring-shm",
        "ring-broadcast",
        "ring-park",
        "eventfd",
        "pipe",
        "uds",
    ];
    for path in paths {
        assert!(of("rtt").iter().any(|row| row["path"] == path), "{path}: {refused:?}");
        let streams = of("per_message").iter().any(|row| row["path"] == path);
        assert_eq!(streams, !path.starts_with("floor"), "{path}: {refused:?}");
    }
    for row in of("per_message") {
        let (rate, mean) = (number(row, "rate_achieved"), number(row, "mean"));
        assert!((rate * mean / 1e9 - 1.0).abs() < 0.2, "a rate is the inverse of a time per message: {row}");
    }
    let ratios = document["ratios"].as_array().expect("a list");
    let has = |of: &str, against: &str, measure: &str, stat: &str| {
        let is = |ratio: &Value| ratio["of"] == of && ratio["against"] == against;
        ratios.iter().any(|ratio| is(ratio) && ratio["measure"] == measure && ratio["stat"] == stat)
    };
    assert!(has("pipe", "ring", "per_message", "mean"));
    assert!(has("ring", "ring", "per_message", "mean"), "there are controls");
    let counts = |path: &str| of("rtt").iter().any(|row| row["path"] == path && has_many(row));
    for (path, against) in [("ring", "floor"), ("ring", "floor-each-way"), ("pipe", "ring"), ("ring", "ring")] {
        if counts(path) && counts(against) {
            assert!(has(path, against, "rtt", "p50"), "{path} against {against}");
        }
    }
    assert!(document["paths"].as_array().expect("a list").iter().any(|path| path["name"] == "ring-shm"));
}

#[test]
fn events_of_the_kernel_are_measured_one_way() {
    let _turn = my_turn();
    if std::thread::available_parallelism().map_or(1, |cpus| cpus.get()) < 2 {
        return; // That this is refused, the test above has seen.
    }
    let unknown = run(&["bench", "ring", "--source", "dtrace"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("choose from: timer, xdp, module"), "{}", unknown.stderr);
    if !std::path::Path::new("/dev/sidestep-ring").exists() {
        let absent = run(&["bench", "ring", "--source", "module"]);
        assert_ne!(absent.code, 0);
        assert!(absent.stderr.contains("kernel/README.md"), "{}", absent.stderr);
    }
    if !sidestep_sys::process::is_root() {
        let refused = run(&["bench", "ring", "--source", "timer"]);
        assert!(refused.code != 0 && refused.stderr.contains("run as root"), "{}", refused.stderr);
        println!("skipped: needs root");
        return;
    }
    for (source, paths) in [
        ("timer", &["bpf-ring", "bpf-ring-awake", "bpf-ring-doorbell", "bpf-ringbuf-epoll", "publish-ring"][..]),
        ("xdp", &["bpf-ring", "bpf-ring-two-readers-awake", "recv-block", "recv-poll-awake", "recv-spin"]),
    ] {
        let how = ["bench", "ring", "--source", source, "--interval", "200us", "--duration", "60ms", "--json", "-"];
        let finished = run(&how);
        assert_eq!(finished.code, 0, "{}", finished.stderr);
        let document = finished.json();
        let refused = document["unavailable"].as_array().expect("a list");
        for path in paths {
            let row = rows(&document).iter().find(|row| row["path"] == *path);
            let row = row.unwrap_or_else(|| panic!("{source} {path}: {refused:?}"));
            let measure = if path.starts_with("publish") { "per_message" } else { "one_way" };
            assert_eq!((row["measure"].as_str(), row["transport"].as_str()), (Some(measure), Some(source)));
            // A socket overflows where its reader is held up for long; a ring of 4096 events at this interval does not.
            assert!(row["lost"] == 0 || !path.starts_with("bpf-ring"), "{row}");
        }
        assert_eq!(document["published"][0]["unit"], "cycles");
    }
}

#[test]
fn paced_messages_count_from_when_they_were_due() {
    let _turn = my_turn();
    if std::thread::available_parallelism().map_or(1, |cpus| cpus.get()) < 2 {
        return; // That this is refused, the test above has seen.
    }
    let ring = ["bench", "ring", "--sizes", "64", "--pace", "1ms", "--no-throughput", "--paths", "floor,ring"];
    let finished = run(&[&ring[..], &["--duration", "120ms", "--json", "-"]].concat());
    if finished.code == 1 && finished.stderr.contains("does not keep up") {
        eprintln!("skipped: this machine is too busy for a message a millisecond: {}", finished.stderr);
        return;
    }
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    for row in rows(&document) {
        assert_eq!((number(row, "rate_offered"), number(row, "size")), (1000.0, 64.0));
        let late = number(&row["rate"]["send_lateness"], "mean") + number(&row["rate"]["from_actual_send"], "mean");
        assert!((number(row, "mean") - late).abs() <= 2.0, "due until sent, sent until back: {row}");
    }
    let ratios = document["ratios"].as_array().expect("a list");
    assert!(ratios.iter().all(|ratio| ratio["rate_offered"] == 1000.0 && ratio["measure"] == "rtt"), "{ratios:?}");
}

#[test]
fn a_lab_measures_and_leaves_nothing() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    for family in ["--place=lab", "-6"] {
        let command =
            ["bench", "rr", family, "--paths", "kernel-pinned,kernel-spin", "--duration", "60ms", "--json", "-"];
        let child = sidestep(&command).spawn().expect("the binary is built");
        let owner = child.id();
        let finished = finish(child);
        assert_eq!(finished.code, 0, "{}", finished.stderr);
        let document = finished.json();
        check_schema(&document);
        assert_eq!((rows(&document).len(), &document["setup"]["place"]), (2, &Value::from("lab")));
        let busy = run(&["lab", "status", "--json"]).stdout;
        assert!(!busy.contains(&format!("\"owned\": {owner}")), "{busy}");
    }
}

#[test]
fn paths_past_the_kernel_are_measured_in_a_lab_and_refused_elsewhere() {
    let _turn = my_turn();
    let arguments = |place| {
        let paths = [
            "--paths",
            "kernel-spin,xdp-raw,xdp,xdp-block",
            "--sizes",
            "64,1472,1473",
            "--duration",
            "60ms",
            "--json",
            "-",
        ];
        [vec!["bench", "sizes", place, "--transport", "udp"], paths.to_vec()].concat()
    };
    let reasons = |document: &Value| {
        let unavailable = document["unavailable"].as_array().expect("a list").iter();
        unavailable.map(|row| row["reason"].as_str().expect("a reason").to_owned()).collect::<Vec<_>>().join("; ")
    };
    let document = run(&arguments("--place=loopback")).json();
    assert_eq!(reasons(&document).matches("in the lab only").count(), 9, "{document}");
    if !is_root() {
        return;
    }
    let finished = run(&arguments("--place=lab"));
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(!finished.stderr.contains("attached to"), "who measures did not ask for the log: {}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    assert!(reasons(&document).contains("up to 1472 bytes"), "{document}");
    assert!(reasons(&document).contains("lab0 has an MTU of 1500"), "{document}");
    for path in ["xdp-raw", "xdp", "xdp-block"] {
        let found: Vec<&Value> = rows(&document).iter().filter(|row| row["path"] == path).collect();
        assert_eq!(found.iter().map(|row| number(row, "size")).collect::<Vec<_>>(), [64.0, 1472.0]);
        for row in found {
            check_row(row);
            assert!(row["transport"] == "udp" && row["notes"].to_string().contains("copy mode"), "{row}");
        }
    }
    let ratios = document["ratios"].as_array().expect("a list");
    let counts = |path: &str, size: f64| {
        rows(&document).iter().any(|row| row["path"] == path && number(row, "size") == size && has_many(row))
    };
    if [64.0, 1472.0].into_iter().any(|size| counts("xdp", size) && counts("xdp-raw", size)) {
        assert!(ratios.iter().any(|ratio| ratio["of"] == "xdp" && ratio["against"] == "xdp-raw"), "{document}");
    }
    let mut talkative = sidestep(&["bench", "rr", "--transport=udp", "--paths=xdp", "--duration=20ms", "--json=-"]);
    let told = finish(talkative.env("SIDESTEP_VERBOSE", "1").spawn().expect("the binary is built"));
    assert!(told.code == 0 && told.stderr.contains("attached to lab0"), "{}", told.stderr);
}

#[test]
fn unmodified_programs_are_measured_at_both_ends() {
    let _turn = my_turn();
    let library = std::env::current_exe().expect("a program knows its file").with_file_name("libsidestep_preload.so");
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let how = ["bench", "rr", "--place=lab", "--transport=tcp,udp", "--paths=xdp,run", "--duration=100ms", "--json=-"];
    let finished = finish(sidestep(&how).env("SIDESTEP_LIBRARY", library).spawn().expect("the binary is built"));
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    let found: Vec<&Value> = rows(&document).iter().filter(|row| row["path"] == "run").collect();
    assert!(found.len() == 2, "over TCP and over UDP: {document}");
    let ratios = document["ratios"].as_array().expect("a list");
    for row in found {
        check_row(row);
        assert!(row["notes"].to_string().contains("both ends accelerated"), "{row}");
        let transport = &row["transport"];
        let over = |path: &str| {
            rows(&document).iter().any(|row| row["path"] == path && row["transport"] == *transport && has_many(row))
        };
        if over("run") && over("xdp") {
            let is_ratio =
                |ratio: &Value| ratio["of"] == "run" && ratio["against"] == "xdp" && ratio["transport"] == *transport;
            assert!(ratios.iter().any(is_ratio), "{document}");
        }
    }
}

/// Sizes that path xdp was measured with over UDP, and why the others were not.
fn of_xdp(document: &Value) -> (Vec<f64>, String) {
    let is_xdp = |row: &&Value| row["path"] == "xdp" && row["transport"] == "udp";
    let sizes = rows(document).iter().filter(is_xdp).map(|row| number(row, "size")).collect();
    let unavailable = document["unavailable"].as_array().expect("a list").iter().filter(is_xdp);
    (sizes, unavailable.map(|row| row["reason"].to_string()).collect())
}

#[test]
fn a_lab_carries_datagrams_as_long_as_its_mtu_and_the_result_says_so() {
    let _turn = my_turn();
    let run_with = |place: &str, options: &[&str]| {
        let how = ["--mtu", "9000", "--duration", "60ms", "--json", "-"];
        run(&[&["bench", "sizes", place][..], options, &how].concat())
    };
    let refused = run_with("--place=loopback", &["--paths", "kernel-spin"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("an MTU of 9000") && refused.stderr.contains("--place lab"), "{}", refused.stderr);
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let finished = run_with("--place=lab", &["--sizes", "64,8972,8973", "--paths", "kernel-spin,xdp,xdp-raw"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    assert_eq!(document["setup"]["mtu"], 9000);
    let (sizes, reasons) = of_xdp(&document);
    assert_eq!(sizes, [64.0, 8972.0], "{reasons}");
    assert!(reasons.contains("up to 8972 bytes") && reasons.contains("lab0 has an MTU of 9000"), "{reasons}");
    let raw = document["unavailable"].to_string();
    assert!(raw.contains("frames of one buffer"), "{raw}");
    for row in rows(&document) {
        check_row(row);
        let is_cut = row["transport"] == "udp" && number(row, "size") > 8972.0;
        assert_eq!(row["notes"].to_string().contains("into 2 fragments"), is_cut, "{row}");
    }
    let streams = rows(&document).iter().filter(|row| row["path"] == "xdp" && row["transport"] == "tcp");
    assert_eq!(streams.count(), 3, "a stream has no longest message: {}", document["unavailable"]);
    let ipv6 = ["-6", "--transport", "udp", "--sizes", "8952,8953", "--paths", "kernel-spin,xdp"];
    let (sizes, reasons) = of_xdp(&run_with("--place=lab", &ipv6).json());
    assert_eq!(sizes, [8952.0], "{reasons}");
    assert!(reasons.contains("up to 8952 bytes"), "{reasons}");
}

#[test]
fn the_ladder_has_five_rungs() {
    let _turn = my_turn();
    let finished = run(&["bench", "rr", "--place", "loopback", "--ladder", "--duration", "60ms", "--json", "-"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    let unavailable = document["unavailable"].as_array().expect("a list");
    let mut rungs: Vec<_> = rows(&document).iter().chain(unavailable).map(|row| row["rung"].to_string()).collect();
    rungs.sort();
    assert_eq!(rungs, ["\"1 default\"", "\"2 CPU pinned\"", "\"3 IRQ pinned\"", "\"4 CPU isolated\"", "\"5 polling\""]);
    let irq = unavailable.iter().find(|row| row["rung"] == "3 IRQ pinned").expect("loopback has no interrupt");
    assert!(irq["reason"].as_str().is_some_and(|reason| reason.contains("lo has no interrupt")));
}

#[test]
fn sizes_are_half_round_trips() {
    let _turn = my_turn();
    let finished = run(&[
        "bench",
        "sizes",
        "--place",
        "loopback",
        "--sizes",
        "16,1472",
        "--paths",
        "kernel-spin",
        "--duration",
        "60ms",
        "--json",
        "-",
    ]);
    let document = finished.json();
    check_schema(&document);
    assert_eq!(rows(&document).len(), 4);
    assert!(rows(&document).iter().all(|row| row["measure"] == "half_rtt" && row["scenario"] == "sizes"));
}

#[test]
fn rates_count_what_arrives() {
    let _turn = my_turn();
    let finished =
        run(&["bench", "rates", "--place", "loopback", "--rates", "1k,5k", "--duration", "200ms", "--json", "-"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    // What does not keep up at the first rate, on a busy machine, is not asked for the second.
    let slow = || rows(&document).iter().filter(|row| number(row, "rate_offered") == 1000.0);
    assert_eq!((slow().count(), slow().filter(|row| row["transport"] == "multicast").count()), (4, 2));
    for row in rows(&document) {
        let detail = &row["rate"];
        assert_eq!(number(row, "lost"), number(detail, "sent") - number(detail, "received"), "{row}");
        assert!(number(detail, "received") > 0.0 && number(&detail["from_actual_send"], "n") > 0.0, "{row}");
        assert!(number(&detail["send_lateness"], "min") >= 0.0 && detail["reordered"] == 0, "{row}");
    }
}

/// Groups of 16 leave and come by one call each, on every path that can; the number is no multiple of what a slice sends.
#[test]
fn batches_arrive_whole() {
    let _turn = my_turn();
    let words = "bench rates --place loopback --rates 5k --duration 200ms --batch 16 --json - --paths";
    let paths = "kernel-pinned,kernel-busypoll,kernel-spin,kernel-epoll,uring";
    let finished = run(&words.split(' ').chain([paths]).collect::<Vec<_>>());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    assert_eq!(rows(&document).len(), 6, "{document}");
    for row in rows(&document) {
        let detail = &row["rate"];
        assert!(detail["batch"] == 16 && detail["reordered"] == 0 && detail["duplicates"] == 0, "{row}");
        assert!(number(detail, "received") > 0.0 && number(&detail["from_actual_send"], "n") > 0.0, "{row}");
    }
    let refused = document["unavailable"].as_array().expect("it is a list");
    assert!(
        refused.len() == 4
            && refused.iter().all(|row| row["reason"].as_str().is_some_and(|why| why.contains("sendmmsg")))
    );
}

#[test]
fn a_service_time_is_seen() {
    let _turn = my_turn();
    let p50 = |service: &str| {
        let finished = run(&[
            "bench",
            "rr",
            "--place",
            "loopback",
            "--paths",
            "uds-spin",
            "--duration",
            "100ms",
            "--service-time",
            service,
            "--json",
            "-",
        ]);
        number(&rows(&finished.json())[0], "min")
    };
    assert!(p50("300us") >= 300_000.0, "the peer worked for 300 us before each answer");
}

#[test]
fn shared_memory_stands_beside_sockets_and_the_floor() {
    let _turn = my_turn();
    let paths = "shm,shm-block,uds-spin,kernel-spin,floor";
    let measure = ["bench", "rr", "--place", "loopback", "--duration", "200ms", "--json", "-"];
    let finished = run(&[&measure[..], &["--transport", "tcp,udp", "--paths", paths]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    let mut found: Vec<_> = rows(&document).iter().map(|row| (row["path"].clone(), row["transport"].clone())).collect();
    found.sort_by_key(|row| format!("{row:?}"));
    let expected = [
        ("floor", "memory"),
        ("kernel-spin", "tcp"),
        ("kernel-spin", "udp"),
        ("shm", "shm"),
        ("shm-block", "shm"),
        ("uds-spin", "uds"),
    ];
    assert_eq!(found, expected.map(|(path, transport)| (path.into(), transport.into())));
    assert!(rows(&document).iter().all(|row| number(row, "n") > 0.0 && row["lost"] == 0));
    let waiting = |name: &str| {
        let paths = document["paths"].as_array().expect("a list");
        paths.iter().find(|path| path["name"] == name).expect("it was measured")["waiting"].clone()
    };
    assert_eq!([waiting("shm"), waiting("shm-block")], ["spin", "block"]);
}

#[test]
fn shared_memory_carries_every_size() {
    let _turn = my_turn();
    let sizes = ["--transport", "tcp", "--sizes", "16,1472,65536", "--paths", "shm,shm-block"];
    let finished =
        run(&[&["bench", "sizes", "--place", "loopback", "--duration", "50ms", "--json", "-"], &sizes[..]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(rows(&finished.json()).len(), 6);
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_nothing() {
    let _turn = my_turn();
    let interrupted = |wait_s| {
        let client = sidestep(&["bench", "rr", "--paths", "kernel-spin,uds-spin", "--duration", "90s", "--json", "-"])
            .spawn()
            .expect("the binary is built");
        let pid = client.id();
        std::thread::sleep(Duration::from_secs(wait_s));
        send_signal(pid, "INT");
        (pid, finish(client))
    };
    // How long it takes until something is measured depends on who else runs.
    let runs = [3, 15, 45].into_iter().map(interrupted);
    let is_measured = |finished: &Finished| finished.code == 130 && !rows(&finished.json()).is_empty();
    let (pid, finished) = { runs }.find(|(_, finished)| is_measured(finished)).expect("rows, and exit code 130");
    let document = finished.json();
    assert_eq!(document["interrupted"], true);
    check_schema(&document);
    let status = run(&["lab", "status", "--json"]).stdout;
    assert!(!status.contains(&format!("\"owned\": {pid}")), "{status}");
}

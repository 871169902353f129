//! `sidestep watch`: what it tells of a host, to whom, and how it ends.

mod support;
mod watch {
    pub(crate) mod daemon;
    mod files;
    mod hostile;
    mod prometheus;
    mod service;
}

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use support::{copy_program, finish, is_root, my_turn, run, send_signal, sidestep};
use watch::daemon::{Process, Series, Watch, get, parse, rounds, value, wait};

const PINNED: &[&str] = &["path=\"kernel-pinned\"", "transport=\"tcp\"", "place=\"loopback\""];
const SPIN: &[&str] = &["path=\"kernel-spin\"", "transport=\"tcp\"", "place=\"loopback\""];

/// Whether a line may never fall while the watch runs.
fn only_rises(key: &str) -> bool {
    let name = key.split('{').next().unwrap_or_default();
    ["_total", "_bucket", "_sum", "_count"].iter().any(|ending| name.ends_with(ending))
}

fn assert_monotone(before: &Series, after: &Series) {
    for (key, value) in before.iter().filter(|(key, _)| only_rises(key)) {
        assert!(after.get(key).is_some_and(|later| later >= value), "{key}: {value} and later {:?}", after.get(key));
    }
}

/// Buckets rise, and the last one holds everything.
fn assert_histogram(series: &Series, name: &str, labels: &[&str]) {
    let bucket = |key: &&String| key.starts_with(&format!("{name}_bucket{{")) && labels.iter().all(|l| key.contains(l));
    let bound = |key: &str| key.split_once("le=\"").and_then(|(_, rest)| rest.split('"').next()?.parse::<f64>().ok());
    let mut buckets: Vec<(f64, f64)> =
        series.keys().filter(bucket).map(|key| (bound(key).expect("a bound"), series[key])).collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(buckets.len() > 10 && buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name}: {buckets:?}");
    let (last, count) = (buckets.last().expect("some"), value(series, &format!("{name}_count"), labels));
    assert_eq!(*last, (f64::INFINITY, count), "{name} {labels:?}");
    let mean = value(series, &format!("{name}_sum"), labels) / count;
    assert!(count > 0.0 && (1e-7..10.0).contains(&mean), "{name} {labels:?}: a mean of {mean} s");
}

#[test]
fn metrics_are_sensible_and_counters_only_rise() {
    let _turn = my_turn();
    let watch = Watch::serving(&["--tune-every", "1s"]);
    let is_seen = |series: &Series| {
        let audited = series.get("sidestep_tune_last_timestamp_seconds").is_some_and(|time| *time > 0.0);
        let woken = series.iter().any(|(key, count)| key.starts_with("sidestep_hiccup_seconds_count") && *count > 0.0);
        audited && woken && rounds(series) >= 3.0
    };
    let first = watch.series_where("three rounds", is_seen);
    for labels in [PINNED, SPIN] {
        assert_eq!(value(&first, "sidestep_probe_up", labels), 1.0);
        assert_histogram(&first, "sidestep_rtt_seconds", labels);
        let max = value(&first, "sidestep_rtt_max_seconds", labels);
        let mean =
            value(&first, "sidestep_rtt_seconds_sum", labels) / value(&first, "sidestep_rtt_seconds_count", labels);
        assert!(max >= mean, "the longest is {max} s, the mean {mean} s");
    }
    let cpu =
        first.keys().find_map(|key| key.strip_prefix("sidestep_cpu_watched{").map(|rest| rest.trim_end_matches('}')));
    let cpu = cpu.expect("a CPU is watched").to_owned();
    let woken =
        first.clone().into_iter().find(|(key, count)| key.starts_with("sidestep_hiccup_seconds_count") && *count > 0.0);
    let (woken, _) = woken.expect("it was waited for");
    let labels = woken.split_once('{').expect("labels").1.trim_end_matches('}');
    assert_histogram(&first, "sidestep_hiccup_seconds", &[labels]);
    assert!(value(&first, "sidestep_cpu_interrupts_total", &[&cpu]) > 0.0);
    let verdicts: f64 =
        first.iter().filter(|(key, _)| key.starts_with("sidestep_tune_checks{")).map(|(_, count)| count).sum();
    assert!(verdicts > 50.0, "{verdicts} checks");
    assert!(value(&first, "sidestep_watch_cpu_seconds_total", &["process=\"peer\""]) >= 0.0, "the peer is a process");

    send_signal(watch.pid(), "HUP");
    let later = watch.series_where("three more rounds", |series| rounds(series) >= rounds(&first) + 3.0);
    assert_monotone(&first, &later);
    assert!(value(&later, "sidestep_rtt_seconds_count", SPIN) > value(&first, "sidestep_rtt_seconds_count", SPIN));
    assert_eq!(first.len(), later.len(), "no line more, whatever happens");
    let lines = watch.lines();
    assert!(lines.iter().any(|line| line.contains("tune: profile latency: ")), "{lines:?}");
    let is_stamped = |line: &String| line.len() > 20 && line.as_bytes()[10] == b'T' && line.as_bytes()[19] == b'Z';
    assert!(lines.iter().all(is_stamped), "{lines:?}");
    assert_eq!(watch.end("TERM"), 0);
}

#[test]
fn a_signal_at_any_time_is_an_end_in_order() {
    let _turn = my_turn();
    for signal in ["INT", "TERM"] {
        let watch = Watch::serving(&["--tune-every", "never", "--hiccup-cpus", "none"]);
        watch.address();
        assert_eq!(watch.end(signal), 0, "{signal}");
    }
}

#[test]
fn a_look_is_printed_once() {
    let _turn = my_turn();
    let looked =
        run(&["watch", "--once", "--slice", "2ms", "--transport", "tcp,udp", "--paths", "kernel-spin,uds-spin"]);
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    let series = parse(&looked.stdout);
    assert_eq!(rounds(&series), 1.0);
    for (path, transport) in [("kernel-spin", "tcp"), ("kernel-spin", "udp"), ("uds-spin", "uds")] {
        let labels = [format!("path=\"{path}\""), format!("transport=\"{transport}\"")];
        assert_histogram(&series, "sidestep_rtt_seconds", &[&labels[0], &labels[1]]);
    }
    let nothing = run(&["watch", "--once", "--slice", "2ms", "--paths", "xdp", "--tune-every", "never"]);
    assert_eq!(nothing.code, 1, "{}", nothing.stdout);
    assert!(
        nothing.stderr.contains("loopback has no device") && nothing.stderr.contains("next:"),
        "{}",
        nothing.stderr
    );
    assert_eq!(value(&parse(&nothing.stdout), "sidestep_probe_failures_total", &["reason=\"refused\""]), 1.0);
}

#[test]
fn what_cannot_be_is_refused_at_once() {
    for (arguments, why) in [
        (&["--every", "1ms"][..], "100 ms to 1 h"),
        (&["--tune-every", "2h"], "100 ms to 1 h"),
        (&["--size", "7"], "8"),
        (&["--slice", "0ms"], "--slice from 1ms to"),
        (&["--profile", "fast"], "choose from"),
        (&["--hiccup-cpus", "1021"], "CPU"),
        (&["--file", "/proc/no/such.prom", "--once"], "cannot write"),
        (&["--once", "--listen", "127.0.0.1:0"], "cannot be used with"),
    ] {
        let refused = run(&[&["watch"], arguments].concat());
        assert!([1, 2].contains(&refused.code) && refused.stderr.contains(why), "{arguments:?}: {}", refused.stderr);
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = taken.local_addr().expect("bound").to_string();
    let refused = run(&["watch", "--listen", &address]);
    assert!(refused.code == 1 && refused.stderr.contains("cannot listen on"), "{}", refused.stderr);
}

#[test]
fn a_user_without_rights_sees_less_and_no_error() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let program = folder.path().join("sidestep");
    copy_program(std::path::Path::new(env!("CARGO_BIN_EXE_sidestep")), &program);
    let mut command = Command::new(&program);
    command.args(["watch", "--once", "--slice", "2ms"]).uid(65_534).gid(65_534);
    let looked = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is there"));
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    let series = parse(&looked.stdout);
    assert_eq!(value(&series, "sidestep_probe_up", SPIN), 1.0);
    assert!(value(&series, "sidestep_tune_checks", &["verdict=\"needs_root\""]) > 0.0, "{}", looked.stdout);
}

/// A serving peer on this address; port 0 for any.
fn serve(address: &str) -> (Process, String) {
    let mut child = sidestep(&["bench", "serve", "--listen", address]).spawn().expect("the binary is built");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("it says where it listens");
    let at = line.split_whitespace().nth(3).unwrap_or_else(|| panic!("{line}")).trim_end_matches(';').to_owned();
    (Process(child), at)
}

#[test]
fn a_peer_that_goes_away_is_missed_and_welcomed_back() {
    let _turn = my_turn();
    let (server, address) = serve("127.0.0.1:0");
    let watch = Watch::serving(&["--to", &address, "--paths", "kernel-pinned", "--tune-every", "never"]);
    let labels = &["place=\"remote\"", "path=\"kernel-pinned\""];
    let up =
        |is_up: f64| move |series: &Series| rounds(series) > 0.0 && value(series, "sidestep_probe_up", labels) == is_up;
    let first = watch.series_where("a probe", up(1.0));
    // Between the rounds the peer is free for others.
    let other = run(&["bench", "rr", "--to", &address, "--paths", "kernel-spin", "--duration", "50ms", "--json", "-"]);
    assert!(other.code == 0 || other.stderr.contains("busy") || other.stderr.contains("session"), "{}", other.stderr);
    drop(server);
    let down = watch.series_where("a missing peer", up(0.0));
    assert_monotone(&first, &down);
    let _server = serve(&address);
    let again = watch.series_where("the peer again", up(1.0));
    assert_monotone(&down, &again);
    let failed: f64 = again.iter().filter(|(key, _)| key.starts_with("sidestep_probe_failures")).map(|(_, n)| n).sum();
    assert!(failed > 0.0);
    let lines = watch.lines();
    assert!(lines.iter().filter(|line| line.contains("probe kernel-pinned tcp (remote)")).count() >= 2, "{lines:?}");
    assert_eq!(watch.end("TERM"), 0);
}

#[test]
fn a_peer_that_hangs_holds_up_neither_the_rest_nor_the_end() {
    let _turn = my_turn();
    // It accepts, by the kernel's backlog, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = silent.local_addr().expect("bound").to_string();
    let watch = Watch::serving(&["--to", &address]);
    let woken = |series: &Series| {
        series.iter().any(|(key, count)| key.starts_with("sidestep_hiccup_seconds_count") && *count >= 40.0)
    };
    let series = watch.series_where("wake-ups", woken);
    assert_eq!(value(&series, "sidestep_probe_up", &["path=\"kernel-spin\""]), 0.0);
    assert_eq!(watch.end("TERM"), 0);
}

#[test]
fn memory_does_not_grow() {
    let _turn = my_turn();
    let watch = Watch::serving(&["--every", "100ms", "--slice", "1ms", "--paths", "kernel-spin", "--tune-every", "1s"]);
    let resident = |series: &Series| value(series, "sidestep_watch_resident_memory_bytes", &[]);
    let warm = watch.series_where("twenty rounds", |series| rounds(series) >= 20.0);
    let late = watch.series_where("a hundred rounds", |series| rounds(series) >= 100.0);
    assert_eq!(warm.len(), late.len());
    assert!(resident(&late) - resident(&warm) < 1e6, "{} and then {} bytes", resident(&warm), resident(&late));
    let descriptors = fs::read_dir(format!("/proc/{}/fd", watch.pid())).expect("it runs").count();
    assert!(descriptors < 40, "{descriptors} open files");
}

#[test]
fn the_control_plane_is_seen_when_it_comes_and_goes() {
    if !is_root() {
        return;
    }
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("control.sock");
    let path = socket.to_str().expect("UTF-8");
    let watch = Watch::serving(&["--socket", path, "--tune-every", "never", "--paths", "kernel-spin"]);
    let is_up = |up: f64| move |series: &Series| series.get("sidestep_control_up") == Some(&up);
    let before = watch.series_where("no control plane", is_up(0.0));
    assert!(!before.contains_key("sidestep_control_programs"));
    let mut command = Command::new("unshare");
    // With mounts of its own: what it pins ends with it.
    command.args(["--net", "--mount", env!("CARGO_BIN_EXE_sidestep"), "control", "--socket", path]);
    command.env("SIDESTEP_STATE_DIR", folder.path()).stderr(Stdio::null());
    let control = Process(command.spawn().expect("unshare is there"));
    let there = watch.series_where("a control plane", is_up(1.0));
    assert_eq!(there["sidestep_control_programs"], 0.0, "the watch itself is none");
    drop(control);
    watch.series_where("its end", is_up(0.0));
    wait("the events", || {
        let told = |what: &str| watch.lines().iter().any(|line| line.contains(what));
        (told("control plane: answers") && told("control plane: cannot reach")).then_some(())
    });
    assert!(get(&watch.address(), "/").contains("sidestep_build_info"), "whatever the path");
}

#[test]
fn slices_that_do_not_fit_into_a_round_are_refused() {
    for (slice, every) in [("0", "1s"), ("600ms", "1s"), ("1h", "100ms")] {
        let refused = run(&["watch", "--slice", slice, "--every", every]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("--slice from 1ms to"), "{}", refused.stderr);
    }
}

#[test]
fn a_single_look_ends_at_a_signal_and_names_it() {
    let _turn = my_turn();
    // Accepts, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = silent.local_addr().expect("it is bound").to_string();
    let look = sidestep(&["watch", "--once", "--to", &to]).spawn().expect("the binary is built");
    let _peer = silent.accept().expect("it connects");
    send_signal(look.id(), "TERM");
    let finished = finish(look);
    assert_eq!(finished.code, 130, "{}", finished.stderr);
    assert!(finished.stderr.contains("stopped: SIGTERM"), "{}", finished.stderr);
}

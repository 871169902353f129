//! Settings of a host without other users: read, checked, changed, put back.

use crate::support::{run, sidestep};
use serde_json::Value;
use sidestep_sys::cpu;
use sidestep_testkit::wait_until;
use sidestep_tune::host::{Host, Live};
use sidestep_tune::location::Location;
use std::fs;
use std::process::{Child, Command};

/// Coalescing and rings of an emulated Intel NIC, channels of a veth: over netlink, by the drivers' own code.
pub(crate) fn settings_of_a_device_are_read_and_set() {
    let veth =
        ["link", "add", "many0", "numrxqueues", "4", "numtxqueues", "4", "type", "veth", "peer", "name", "many1"];
    assert!(Command::new("ip").args(veth).status().expect("ip is in the machine").success());
    for (name, value) in [
        ("eth0/coalesce/rx-usecs", "50"),
        ("eth0/coalesce/rx-usecs", "0"),
        ("eth0/rings/rx", "512"),
        ("eth0/rings/tx", "1024"),
        ("many0/channels/rx", "3"),
    ] {
        let location = Location::parse(&format!("ethtool:{name}")).expect("a location");
        let before = Live::new().read(&location).unwrap_or_else(|absence| panic!("{name}: {absence:?}"));
        Live::new().write(&location, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Live::new().read(&location).expect("it was there"), value, "{name}");
        Live::new().write(&location, &before).unwrap_or_else(|error| panic!("{name} {before}: {error}"));
    }
    assert!(Command::new("ip").args(["link", "del", "many0"]).status().expect("ip is in the machine").success());
}

pub(crate) fn check_looks_at_all_of_the_host() {
    let told = run(&["tune", "check", "--fail-on", "never", "--interface", "eth0", "--cpus", "1", "--json", "-"]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    let text = told.json().to_string();
    for id in ["busy-read", "nic-rx-usecs", "cpu-governor", "mem-swap"] {
        assert!(text.contains(id), "{id}: {text}");
    }
}

/// What the plan is about, with its present values.
fn plan() -> Value {
    let told = run(&["tune", "plan", "--interface", "eth0", "--cpus", "1", "--json", "-"]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    told.json()
}

pub(crate) fn apply_and_revert_leave_every_byte_as_it_was() {
    let before = plan();
    let wanted = before["changes"].as_array().expect("there are changes").len();
    assert!(wanted > 10, "a stock host is not tuned: {before}");
    let applied = run(&["tune", "apply", "--interface", "eth0", "--cpus", "1", "--keep-going"]);
    assert!([0, 6].contains(&applied.code), "{} {}", applied.code, applied.stderr);
    let left = plan()["changes"].as_array().expect("a list").len();
    assert!(left < wanted / 2, "{left} of {wanted} are left: {}", applied.stderr);
    let reverted = run(&["tune", "revert"]);
    assert_eq!(reverted.code, 0, "{}", reverted.stderr);
    assert_eq!(plan()["changes"], before["changes"]);
}

/// Settings of the whole host, which show as pauses: tried for seconds, judged, put back.
pub(crate) fn daemons_are_judged_by_pauses_and_put_back() {
    let before = plan();
    let only = "mem-huge-daemon,mem-compaction,iso-stat-interval,iso-timer-migration";
    let verify =
        ["tune", "verify", "--change-host", "--place", "loopback", "--interface", "lo", "--cpus", "1", "--only", only];
    let told = run(&[&verify[..], &["--duration", "60ms", "--pause-time", "2s", "--json", "-"]].concat());
    assert_eq!(told.code, 0, "{}", told.stderr);
    let document = told.json();
    let steps = document["steps"].as_array().expect("steps were tried");
    for check in only.split(',') {
        let step = steps.iter().find(|step| step["name"] == check).unwrap_or_else(|| panic!("{check}: {document}"));
        let decision = step["decision"].as_str().expect("a word");
        assert!(["kept", "dropped", "unseen"].contains(&decision), "{step}");
        assert!(step["ratios"].as_array().is_some_and(Vec::is_empty), "no round trip judges it: {step}");
        let watched = |side: usize| step["hiccups"][side]["watched_ms"].as_f64().expect("a time");
        assert!(watched(0) >= 2000.0 && watched(1) >= 2000.0, "{step}");
    }
    assert_eq!(plan()["changes"], before["changes"]);
    assert!(run(&["tune", "status"]).stdout.contains("nothing is changed"));
}

/// What is written of this host gets the findings of the host itself.
pub(crate) fn a_host_in_a_file_is_the_host() {
    let file = "/tmp/host.json";
    let taken = run(&["tune", "snapshot", "--cpus", "1", "--out", file]);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    let policy = run(&["tune", "policy", "--root", file, "--name", "here"]);
    fs::write("/tmp/here.toml", &policy.stdout).expect("it can be written");
    let checked = run(&["tune", "check", "--policy", "/tmp/here.toml", file, file]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    let drift = run(&["tune", "drift", file]);
    assert_eq!(drift.code, 0, "{}{}", drift.stdout, drift.stderr);
    fs::write("/proc/sys/vm/swappiness", "33").expect("root may");
    let drift = run(&["tune", "drift", file]);
    fs::write("/proc/sys/vm/swappiness", "60").expect("root may");
    // The verdict is the same as before: not worse.
    assert!(drift.code == 0 && drift.stdout.contains("60 -> 33"), "{}{}", drift.stdout, drift.stderr);
}

/// The groups of `tune run --isolate` that are there.
fn groups() -> Vec<String> {
    let entries = fs::read_dir("/sys/fs/cgroup").expect("the machine has cgroups").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("sidestep-isolated-")).collect()
}

/// A program that has CPU 1 for itself; it runs when this comes back.
fn alone() -> Child {
    let arguments = ["tune", "run", "--cpu", "1", "--isolate", "--", "sleep", "1000"];
    let child = sidestep(&arguments).spawn().expect("the binary is there");
    let name = format!("/proc/{}/comm", child.id());
    wait_until("the program runs", || fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n"));
    child
}

/// Returns the process that removes the only partition.
fn partition_remover() -> String {
    let entries = fs::read_dir("/proc").expect("proc is mounted").flatten();
    let mut pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_remover = |pid: &String| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("remove-partition") && line.contains("--here"))
    };
    pids.find(is_remover).expect("a remover runs")
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-KILL", pid]).status().expect("kill is in the machine").success());
}

pub(crate) fn cpus_are_a_programs_alone_while_it_runs() {
    assert_eq!(cpu::allowed(), [0, 1]);
    let mut program = alone();
    wait_until("nobody else may run there", || cpu::allowed() == [0]);
    let checked = run(&["tune", "check", "--cpus", "1", "--json", "-"]).json();
    let findings = checked["findings"].as_array().expect("a list");
    let isolation = findings.iter().find(|finding| finding["id"] == "iso-domain").expect("it is a check");
    assert_eq!(isolation["verdict"], "pass", "{isolation}");
    let second = run(&["tune", "run", "--cpu", "1", "--isolate", "--", "sleep", "0"]);
    assert!(second.code == 1 && second.stderr.contains("the kernel says"), "{} {}", second.code, second.stderr);
    assert_eq!(groups().len(), 1, "what was refused leaves nothing");
    program.kill().expect("it runs");
    program.wait().expect("it is ours");
    wait_until("the CPU is everybody's again", || groups().is_empty() && cpu::allowed() == [0, 1]);

    let all = run(&["tune", "run", "--cpu", "0-1", "--isolate", "--", "sleep", "0"]);
    assert!(all.code == 1 && all.stderr.contains("leave a CPU"), "{} {}", all.code, all.stderr);
    let missing = run(&["tune", "run", "--cpu", "1", "--isolate", "--", "/no/such/program"]);
    assert_eq!(missing.code, 127, "{}", missing.stderr);
    wait_until("it is given back where there was no program", || groups().is_empty());

    // The remover is killed, then the program: revert removes the partition.
    let mut program = alone();
    kill(&partition_remover());
    program.kill().expect("it runs");
    program.wait().expect("it is ours");
    assert_eq!(groups().len(), 1);
    let reverted = run(&["tune", "revert"]);
    assert!(reverted.code == 0 && reverted.stdout.contains("left behind"), "{} {}", reverted.stdout, reverted.stderr);
    assert!(groups().is_empty());
    // The kernel gives the CPU back to each thread a moment after the partition is gone.
    wait_until("the CPU is everybody's again", || cpu::allowed() == [0, 1]);
}

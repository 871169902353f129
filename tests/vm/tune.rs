//! Settings of a host nobody else uses: read, checked, changed, put back.

use crate::support::run;
use serde_json::Value;
use sidestep_tune::host::{Host, Live};
use sidestep_tune::place::Place;
use std::process::Command;

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
        let place = Place::parse(&format!("ethtool:{name}")).expect("a place");
        let before = Live::new().read(&place).unwrap_or_else(|absence| panic!("{name}: {absence:?}"));
        Live::new().write(&place, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(Live::new().read(&place).expect("it was there"), value, "{name}");
        Live::new().write(&place, &before).unwrap_or_else(|error| panic!("{name} {before}: {error}"));
    }
    assert!(Command::new("ip").args(["link", "del", "many0"]).status().expect("ip is in the machine").success());
}

pub(crate) fn check_looks_at_all_of_the_host() {
    let told = run(&["tune", "check", "--interface", "eth0", "--cpus", "1", "--json", "-"]);
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

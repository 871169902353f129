//! Remains of a killed owner or a damaged record are found and removed; a lab that may be in use is not.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use sidestep_lab::{Condition, Lifetime};
use sidestep_lab::{Lab, Options, Removal, Side};

use crate::children::Owner;
use crate::support::{Scratch, assert_gone, can_run, namespaces_of, state_directory, unique};

#[test]
fn the_lab_of_a_killed_owner_is_removed_by_the_next() {
    if !can_run() {
        return;
    }
    let owner = Owner::start(None);
    let name = owner.lab.clone();
    Lab::sweep_stale().unwrap();
    assert_eq!(namespaces_of(&name).len(), 2, "its owner lives");
    owner.kill();
    drop(Lab::up(&Options::default()).unwrap());
    assert_gone(&name);
}

#[test]
fn an_owner_killed_at_any_moment_leaves_nothing_for_long() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new("killed");
    let all = (0..120).step_by(6).chain((200..20_000).step_by(200));
    for delay_ms in all.take_while(|delay_ms| *delay_ms < 120 || labs_in(&scratch.0).is_empty()) {
        let mut child = Owner::begin(Some(&scratch.0));
        thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let left = labs_in(&scratch.0);
    assert!(!left.is_empty(), "some were killed after they had begun");
    Owner::start(Some(&scratch.0)).end();
    assert_eq!(labs_in(&scratch.0), Vec::<String>::new());
    for name in left {
        assert_eq!(namespaces_of(&name), Vec::<String>::new());
    }
}

/// The names that have a record, complete or partial.
fn labs_in(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("labs")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.filter_map(|name| Some(name.to_str()?.split_once(".json")?.0.to_owned()));
    names.collect()
}

#[test]
fn the_namespaces_tell_of_a_killed_owner_whose_record_is_elsewhere() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new("elsewhere");
    let owner = Owner::start(Some(&scratch.0));
    let name = owner.lab.clone();
    Lab::sweep_stale().unwrap();
    assert_eq!(namespaces_of(&name).len(), 2, "its owner lives");
    owner.kill();
    Lab::sweep_stale().unwrap();
    assert_gone(&name);
}

#[test]
fn a_lab_whose_record_is_damaged_is_removed_unless_somebody_is_inside() {
    if !can_run() {
        return;
    }
    let name = unique("damaged");
    let lifetime = Lifetime::Persistent;
    let lab = Lab::up(&Options { name: Some(name.clone()), lifetime, ..Options::default() }).unwrap();
    let mut child = lab.host(Side::A).spawn(Command::new("sleep").arg("1000")).unwrap();
    fs::write(state_directory().join(format!("labs/{name}.json")), "{\"schema\":1,").unwrap();

    let problem = Lab::open(&name).unwrap_err().to_string();
    assert!(problem.contains("damaged") && problem.contains("lab down"), "{problem}");
    let listing = Lab::list().unwrap().into_iter().find(|listing| listing.name == name).unwrap();
    assert!(matches!(listing.condition, Condition::Damaged(_)));
    Lab::sweep_stale().unwrap();
    assert_eq!(namespaces_of(&name).len(), 2, "somebody is inside");
    assert!(Lab::down_by_name(&name, Removal::Careful).is_err());

    child.kill().unwrap();
    child.wait().unwrap();
    Lab::sweep_stale().unwrap();
    assert_gone(&name);
}

#[test]
fn a_damaged_record_of_a_living_owner_costs_it_nothing() {
    if !can_run() {
        return;
    }
    let owner = Owner::start(None);
    let record = state_directory().join(format!("labs/{}.json", owner.lab));
    fs::write(&record, [0xff; 100]).unwrap();
    Lab::sweep_stale().unwrap();
    assert_eq!(namespaces_of(&owner.lab).len(), 2);
    let name = owner.lab.clone();
    owner.end();
    assert_gone(&name);
}

#[test]
fn a_record_without_namespaces_is_forgotten() {
    if !can_run() {
        return;
    }
    let name = unique("rebooted");
    let lifetime = Lifetime::Persistent;
    drop(Lab::up(&Options { name: Some(name.clone()), lifetime, ..Options::default() }).unwrap());
    for namespace in namespaces_of(&name) {
        assert!(Command::new("ip").args(["netns", "delete", &namespace]).status().unwrap().success());
    }
    Lab::sweep_stale().unwrap();
    assert_gone(&name);
}

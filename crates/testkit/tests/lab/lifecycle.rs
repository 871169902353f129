//! Making, finding and removing labs.

use std::fs;
use std::process::Command;

use sidestep_lab::{Checksums, Lab, Options, Removal, Side};
use sidestep_lab::{Condition, Lifetime};
use sidestep_sys::netns::Namespace;

use crate::children::Owner;
use crate::support::{assert_gone, can_run, files_of, namespaces_of, state_directory, unique};

fn persistent(name: &str) -> Options {
    Options { name: Some(name.to_owned()), lifetime: Lifetime::Persistent, ..Options::default() }
}

#[test]
fn a_dropped_lab_leaves_nothing() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let name = lab.name().to_owned();
    assert_eq!(namespaces_of(&name).len(), 2);
    assert_eq!(files_of(&state_directory(), &name).len(), 1);
    assert!(!fs::exists("/sys/class/net/lab0").unwrap(), "nothing appears in the machine's own namespace");
    drop(lab);
    assert_gone(&name);
}

#[test]
fn a_host_has_its_own_interfaces_with_the_queues_and_the_mtu_asked_for() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options { queues: 2, mtu: 9_000, ..Options::default() }).unwrap();
    for side in [Side::A, Side::B] {
        let told = |program: &str, path: &str| {
            let output = lab.host(side).command(program).unwrap().arg(path).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let list = |path: &str| told("ls", path);
        assert_eq!(list("/sys/class/net"), "lab0\nlo\n");
        assert_eq!(list("/sys/class/net/lab0/queues"), "rx-0\nrx-1\ntx-0\ntx-1\n");
        assert_eq!(told("cat", "/sys/class/net/lab0/mtu"), "9000\n");
    }
}

#[test]
fn a_thread_that_enters_a_host_is_there_and_no_other() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let host = lab.host(Side::A);
    let before = Namespace::current().unwrap();
    let inside = || {
        host.enter().unwrap();
        let here = Namespace::current().unwrap();
        assert!(here.is_same(&Namespace::open(&host.namespace_path).unwrap()).unwrap());
        assert!(!here.is_same(&before).unwrap());
    };
    std::thread::scope(|scope| scope.spawn(inside).join()).unwrap();
    assert!(Namespace::current().unwrap().is_same(&before).unwrap());
}

#[test]
fn a_persistent_lab_stays_and_is_found() {
    if !can_run() {
        return;
    }
    let name = unique("persistent");
    drop(Lab::up(&Options { checksums: Checksums::True, ..persistent(&name) }).unwrap());
    let listing = Lab::list().unwrap().into_iter().find(|listing| listing.name == name).unwrap();
    assert_eq!(listing.condition, Condition::Persistent);
    let again = Lab::up(&persistent(&name)).unwrap_err().to_string();
    assert!(again.contains(&name) && again.contains("lab down"), "{again}");
    let mut lab = Lab::open(&name).unwrap();
    assert_eq!(lab.checksums(), Checksums::True);
    assert_eq!(lab.down(Removal::Careful).unwrap(), None);
    assert_gone(&name);
    let missing = Lab::open(&name).unwrap_err().to_string();
    assert!(missing.contains("there is no such lab"), "{missing}");
    assert!(Lab::down_by_name(&name, Removal::Careful).is_err());
}

#[test]
fn a_lab_with_a_process_inside_is_not_taken_from_under_it() {
    if !can_run() {
        return;
    }
    let name = unique("held");
    let mut lab = Lab::up(&persistent(&name)).unwrap();
    let mut child = lab.host(Side::B).spawn(Command::new("sleep").arg("1000")).unwrap();
    let pid = format!("{} (sleep)", child.id());
    let refused = lab.down(Removal::Careful).unwrap_err().to_string();
    assert!(refused.contains(&pid) && refused.contains("--force"), "{refused}");
    assert_eq!(namespaces_of(&name).len(), 2, "a refusal changes nothing");
    let remark = Lab::down_by_name(&name, Removal::Forced).unwrap().unwrap();
    assert!(remark.contains(&pid), "{remark}");
    assert!(child.try_wait().unwrap().is_none(), "the user's process lives on");
    assert_gone(&name);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_lab_of_a_living_process_is_refused() {
    if !can_run() {
        return;
    }
    let owner = Owner::start(None);
    let refused = Lab::down_by_name(&owner.lab, Removal::Careful).unwrap_err().to_string();
    assert!(refused.contains(&format!("process {}", owner.child.id())), "{refused}");
    let listing = Lab::list().unwrap().into_iter().find(|listing| listing.name == owner.lab).unwrap();
    assert_eq!(listing.condition, Condition::Owned(owner.child.id()));
    owner.end();
}

#[test]
fn four_processes_at_once_do_not_hurt_each_other() {
    if !can_run() {
        return;
    }
    let children: Vec<_> = (0..4).map(|_| Owner::begin(None)).collect();
    let owners: Vec<_> = children.into_iter().map(Owner::finish).collect();
    let mut names: Vec<_> = owners.iter().map(|owner| owner.lab.clone()).collect();
    for name in &names {
        assert_eq!(namespaces_of(name).len(), 2);
    }
    owners.into_iter().for_each(Owner::end);
    names.iter().for_each(|name| assert_gone(name));
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[test]
fn a_namespace_that_is_not_ours_is_left_alone() {
    if !can_run() {
        return;
    }
    let name = unique("foreign");
    let namespace = format!("sidestep-{name}-a");
    let ip = |action: &str| Command::new("ip").args(["netns", action, &namespace]).status().unwrap().success();
    assert!(ip("add"));
    let refused = Lab::up(&Options { name: Some(name.clone()), ..Options::default() }).unwrap_err();
    Lab::sweep_stale().unwrap();
    assert_eq!(namespaces_of(&name), std::slice::from_ref(&namespace));
    assert!(ip("delete"));
    assert!(refused.to_string().contains(&name), "{refused}");
    assert_gone(&name);
}

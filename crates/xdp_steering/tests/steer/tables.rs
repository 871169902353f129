//! Ownership of entries: idempotent, exclusive, bounded, swept.

use sidestep_xdp_steering::{
    GROUPS_MAX, LISTENERS_MAX, Protocol, Rehearsal, STACKS_MAX, StackId, StackOptions, Vlan, VlanMatch,
};

use crate::frames::OWN_MAC;
use crate::support::{bare_socket, can_run, flow, group, listener, stack};
use std::fs::File;
use std::os::fd::AsFd;

#[test]
fn an_entry_has_one_owner_and_a_second_is_told_whom() {
    if !can_run() {
        return;
    }
    let rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let tables = rehearsal.tables();
    let (first, _) = stack(tables, "pid 7 feed");
    let (second, _) = stack(tables, "pid 8 other");
    let entries = [
        flow(Protocol::Tcp, "10.0.0.1:1", "10.0.0.2:2", Vlan::Tagged(3)),
        listener(Protocol::Udp, "[::]:1", VlanMatch::Any),
        group("239.1.2.3:1", Some("10.0.0.2"), VlanMatch::Any),
    ];
    for entry in &entries {
        assert!(!tables.remove(first, entry).unwrap());
        tables.add(first, entry).unwrap();
        tables.add(first, entry).unwrap();
        let problem = tables.add(second, entry).unwrap_err().to_string();
        assert!(problem.contains("stack 0 (pid 7 feed)") && problem.contains(&entry.to_string()), "{problem}");
        assert!(tables.remove(second, entry).is_err());
        assert_eq!(tables.owner(entry).unwrap(), Some(first));
    }
    let mut listed = tables.entries().unwrap();
    listed.sort_by_key(|(entry, _)| entries.iter().position(|known| known == entry));
    assert_eq!(listed, entries.map(|entry| (entry, first)));
    for entry in &entries {
        assert!(tables.remove(first, entry).unwrap());
        tables.add(second, entry).unwrap();
    }
    let swept = tables.stack_remove(second).unwrap();
    assert_eq!((swept.flows, swept.listeners, swept.groups), (1, 1, 1));
    assert_eq!(tables.entries().unwrap(), []);
}

#[test]
fn the_same_port_of_another_vlan_protocol_or_family_is_another_entry() {
    if !can_run() {
        return;
    }
    let rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let tables = rehearsal.tables();
    let (first, _) = stack(tables, "first");
    let (second, _) = stack(tables, "second");
    tables.add(first, &listener(Protocol::Udp, "0.0.0.0:1", VlanMatch::Any)).unwrap();
    for entry in [
        listener(Protocol::Tcp, "0.0.0.0:1", VlanMatch::Any),
        listener(Protocol::Udp, "[::]:1", VlanMatch::Any),
        listener(Protocol::Udp, "10.0.0.1:1", VlanMatch::Any),
        listener(Protocol::Udp, "0.0.0.0:1", VlanMatch::Only(Vlan::Untagged)),
        listener(Protocol::Udp, "0.0.0.0:1", VlanMatch::Only(Vlan::Tagged(1))),
    ] {
        tables.add(second, &entry).unwrap();
    }
    assert_eq!(tables.stack_remove(first).unwrap().listeners, 1);
    assert_eq!(tables.entries().unwrap().len(), 5);
}

#[test]
fn a_full_table_names_its_limit_and_keeps_what_it_has() {
    if !can_run() {
        return;
    }
    let rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let tables = rehearsal.tables();
    let (owner, _) = stack(tables, "greedy");
    let port = |number: u32| format!("10.{}.{}.1:7", number >> 8, number & 0xff);
    for number in 0..LISTENERS_MAX {
        tables.add(owner, &listener(Protocol::Udp, &port(number), VlanMatch::Any)).unwrap();
    }
    let problem = tables.add(owner, &listener(Protocol::Udp, "0.0.0.0:9", VlanMatch::Any)).unwrap_err().to_string();
    assert!(problem.contains(&format!("all {LISTENERS_MAX} listeners")), "{problem}");
    for number in 0..GROUPS_MAX {
        let to = format!("239.0.{}.{}:7", number >> 8, number & 0xff);
        tables.add(owner, &group(&to, None, VlanMatch::Any)).unwrap();
    }
    assert!(tables.add(owner, &group("239.255.0.1:7", None, VlanMatch::Any)).is_err());
    let swept = tables.stack_remove(owner).unwrap();
    assert_eq!((swept.listeners, swept.groups), (LISTENERS_MAX, GROUPS_MAX));
}

#[test]
fn stacks_are_numbered_labelled_and_bounded() {
    if !can_run() {
        return;
    }
    let rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let tables = rehearsal.tables();
    let long = StackOptions { label: "x".repeat(100), frame_bytes_max: 9, first_queue: 0, tcp_deadlines: 0 };
    let made: Vec<_> = (0..STACKS_MAX).map(|_| tables.stack_create(&long).unwrap().0).collect();
    let problem = tables.stack_create(&long).unwrap_err().to_string();
    assert!(problem.contains("at most 64 stacks"), "{problem}");
    let facts = tables.stacks().unwrap();
    assert_eq!(facts.iter().map(|facts| facts.id).collect::<Vec<_>>(), made);
    assert!(facts.iter().all(|facts| facts.label == "x".repeat(48) && facts.frame_bytes_max == 9));
    assert!(facts.iter().all(|facts| facts.heartbeat_ns == 0));
    tables.stack_remove(made[7]).unwrap();
    assert_eq!(tables.stack_remove(made[7]).unwrap(), sidestep_xdp_steering::Swept::default());
    let (again, _) = stack(tables, "again");
    assert_eq!(again, made[7]);
    assert_eq!(tables.stack(again).unwrap().to_string(), "stack 7 (again)");
}

#[test]
fn what_does_not_exist_is_refused() {
    if !can_run() {
        return;
    }
    let rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let tables = rehearsal.tables();
    assert_eq!(StackId::from_number(STACKS_MAX), None);
    let nobody = StackId::from_number(5).unwrap();
    assert!(tables.add(nobody, &listener(Protocol::Udp, "0.0.0.0:1", VlanMatch::Any)).is_err());
    assert!(tables.stack(nobody).is_err());
    assert!(tables.heartbeat(nobody).is_err());
    assert!(tables.beat(nobody).is_err());
    assert!(tables.set_socket(nobody, 0, bare_socket().as_fd()).is_err());
    let (somebody, _) = stack(tables, "somebody");
    let problem = tables.set_socket(somebody, 0, File::open("/dev/null").unwrap().as_fd()).unwrap_err();
    assert!(problem.to_string().contains("AF_XDP"), "{problem}");
    // An invalid entry is refused before the kernel is asked.
    assert!(tables.add(somebody, &listener(Protocol::Udp, "239.1.2.3:1", VlanMatch::Any)).is_err());
}

#[test]
fn counters_have_names_and_add_up() {
    if !can_run() {
        return;
    }
    let mut rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    rehearsal.run(&[0; 60], 1000).unwrap();
    let counters = rehearsal.tables().counters().unwrap();
    assert_eq!(counters.iter().map(|counter| counter.value).sum::<u64>(), 1000);
    assert!(counters.iter().all(|counter| counter.value == 0 || counter.name() == "pass-not-ip"));
}

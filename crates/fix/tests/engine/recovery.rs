//! What happens when connections, processes and hosts go away.

use crate::support::{client, exchange, metric, order, plan, until};
use sidestep_fix::engine::{Destinations, Endpoint};
use sidestep_fix::session::Role;
use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{Durability, Options, SEGMENT_BYTES_MIN};
use tempfile::tempdir;

fn local() -> Endpoint {
    Endpoint::parse("127.0.0.1:0").unwrap()
}

#[test]
fn what_was_sent_while_the_client_was_dead_is_resent_when_it_comes_back() {
    let (ours, theirs) = (tempdir().unwrap(), tempdir().unwrap());
    let mut accepting = plan(Role::Acceptor, Some(ours.path()));
    accepting.settings.send_when_logged_off = true;
    let (mut server, acceptor, accepted) = exchange(&local(), None, accepting);
    let to = Destinations::one(server.endpoint(acceptor).clone());
    let connecting = plan(Role::Initiator, Some(theirs.path()));
    let (mut first, handle) = client(to.clone(), &connecting);
    until(&mut server, &mut first, |_, client| client.session(handle).is_logged_on());
    order(&mut first, handle, 1);
    until(&mut server, &mut first, |_, client| client.app().seen.len() == 2);
    // Gone without a Logout, as by SIGKILL.
    drop(first);
    while server.session(accepted).is_logged_on() {
        server.poll();
    }
    for number in 0..3u64 {
        server
            .send(accepted, b"B", |builder| {
                builder.unsigned(148, number);
            })
            .unwrap();
    }
    let (mut second, handle) = client(to, &connecting);
    until(&mut server, &mut second, |_, client| client.app().seen.len() == 3);
    let numbers: Vec<(u64, bool)> = second.app().seen.iter().map(|(seq, dup, _)| (*seq, *dup)).collect();
    assert_eq!(numbers, [(4, true), (5, true), (6, true)]);
    order(&mut second, handle, 2);
    until(&mut server, &mut second, |_, client| client.app().seen.len() == 5);
    assert!(second.app().seen[3..].iter().all(|(_, dup, _)| !dup));
    assert_eq!(second.session(handle).store().next_inbound(), server.session(accepted).store().next_outbound());
}

#[test]
fn an_engine_that_died_goes_on_with_its_numbers() {
    let (ours, theirs) = (tempdir().unwrap(), tempdir().unwrap());
    let connecting = plan(Role::Initiator, Some(theirs.path()));
    let mut orders = 0;
    for round in 1..=3u64 {
        let (mut server, acceptor, accepted) = exchange(&local(), None, plan(Role::Acceptor, Some(ours.path())));
        let (mut client, handle) = client(Destinations::one(server.endpoint(acceptor).clone()), &connecting);
        until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
        order(&mut client, handle, round);
        orders += 1;
        until(&mut server, &mut client, |_, client| client.app().seen.len() >= 2);
        assert_eq!(client.session(handle).store().next_outbound(), 2 * orders + 1);
        assert_eq!(server.session(accepted).store().next_outbound(), 3 * orders + 1);
    }
}

#[test]
fn both_numbers_are_reset_while_connected() {
    let (mut server, acceptor, accepted) = exchange(&local(), None, plan(Role::Acceptor, None));
    let (mut client, handle) =
        client(Destinations::one(server.endpoint(acceptor).clone()), &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    order(&mut client, handle, 1);
    until(&mut server, &mut client, |_, client| client.app().seen.len() == 2);
    client.act(handle, |session, now, app| session.reset(now, app)).unwrap();
    until(&mut server, &mut client, |server, client| {
        client.session(handle).store().next_inbound() == 2 && server.session(accepted).store().next_inbound() == 2
    });
    order(&mut client, handle, 2);
    until(&mut server, &mut client, |_, client| client.app().seen.len() == 4);
    assert_eq!(client.app().seen[2].0, 2);
    assert!(client.app().resets >= 1);
}

#[test]
fn the_next_host_is_tried_when_one_fails() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = Endpoint::parse(&dead.local_addr().unwrap().to_string()).unwrap();
    drop(dead);
    let (mut server, acceptor, _) = exchange(&local(), None, plan(Role::Acceptor, None));
    let mut to = Destinations::one(nobody);
    to.endpoints.push(server.endpoint(acceptor).clone());
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    assert!(client.last_connect_error(handle).contains("refused"), "{}", client.last_connect_error(handle));
}

#[test]
fn a_host_that_takes_connections_but_no_logon_is_passed_over() {
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut to = Destinations::one(Endpoint::parse(&deaf.local_addr().unwrap().to_string()).unwrap());
    let (mut server, acceptor, _) = exchange(&local(), None, plan(Role::Acceptor, None));
    to.endpoints.push(server.endpoint(acceptor).clone());
    let mut connecting = plan(Role::Initiator, None);
    connecting.settings.logon_timeout = std::time::Duration::from_millis(300);
    let (mut client, handle) = client(to, &connecting);
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
}

#[test]
fn with_group_commit_everything_is_answered_once_the_disk_has_it() {
    let folder = tempdir().unwrap();
    let mut accepting = plan(Role::Acceptor, None);
    let options = Options { durability: Durability::Disk, segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };
    accepting.store = sidestep_fix::engine::StorePlan::Journal { folder: folder.path().to_owned(), options };
    let (mut server, acceptor, accepted) = exchange(&local(), None, accepting);
    let (mut client, handle) =
        client(Destinations::one(server.endpoint(acceptor).clone()), &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    for number in 1..=200 {
        order(&mut client, handle, number);
    }
    until(&mut server, &mut client, |server, client| {
        // The Logon's answer was a write without a sample; every sample after it comes behind a write of its own.
        let (writes, samples) = (metric(server, "writes_total"), metric(server, "turnaround_seconds_count"));
        assert!(samples < writes.max(1.0), "{samples} answers are timed, {writes} writes have left");
        client.app().seen.len() == 400
    });
    assert!(metric(&server, "turnaround_seconds_count") > 0.0);
    assert_eq!(server.session(accepted).store().next_outbound(), 402);
}

//! Thousands of orders at once: every one gets its acknowledgement and its fill, whatever carries them.

use crate::support::{Client, client, exchange, plan, until};
use crate::tls::{setup, trusting};
use sidestep_fix::engine::{Destinations, Endpoint, Engine, Handle, SessionPlan, TlsSettings};
use sidestep_fix::exchange::Exchange;
use sidestep_fix::session::{Role, SendError};
use std::path::Path;
use tempfile::tempdir;

const ORDERS: u64 = 5000;

/// As many orders as are taken now; the number of the next one.
fn pour(client: &mut Engine<Client>, handle: Handle, from: u64) -> u64 {
    client.act(handle, |session, now, _| {
        for number in from..=ORDERS {
            let sent = session.send(b"D", now, |order| {
                order.unsigned(11, number).str(38, "100").str(40, "2").str(44, "10.25").str(54, "1").str(55, "TEST");
                order.timestamp(60, now.utc());
            });
            match sent {
                Ok(_) => {}
                Err(SendError::Full) => return number,
                Err(error) => panic!("{error:?}"),
            }
        }
        ORDERS + 1
    })
}

fn all_are_answered(endpoint: &Endpoint, tls: Option<(&TlsSettings, TlsSettings)>, accepting: SessionPlan) {
    let (server_tls, client_tls) = tls.map_or((None, None), |(server, client)| (Some(server), Some(client)));
    let (mut server, door, accepted) = exchange(endpoint, server_tls, accepting);
    let to = Destinations { tls: client_tls, ..Destinations::one(server.endpoint(door).clone()) };
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    let mut next = 1;
    while next <= ORDERS {
        next = pour(&mut client, handle, next);
        let (told, seen) = (client.app().rooms, client.app().seen.len());
        // The client goes on when it is told of room, or has seen something: both come.
        until(&mut server, &mut client, |_: &Engine<Exchange>, client| {
            next > ORDERS || client.app().rooms > told || client.app().seen.len() > seen
        });
    }
    until(&mut server, &mut client, |_, client| client.app().seen.len() as u64 >= 2 * ORDERS);
    let mut numbers: Vec<u64> = client.app().seen.iter().map(|(number, ..)| *number).collect();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, 2 * ORDERS, "each once");
    assert_eq!((server.app().orders(), server.app().unanswered()), (ORDERS, 0));
    assert!(client.app().ends.is_empty() && client.app().problems.is_empty());
    assert_eq!(server.session(accepted).counters().full, 0);
}

/// Small limits, so that everything has to wait.
fn narrow(store: Option<&Path>) -> SessionPlan {
    let mut accepting = plan(Role::Acceptor, store);
    accepting.settings.output_bytes_max = 1000;
    accepting
}

fn local() -> Endpoint {
    Endpoint::parse("127.0.0.1:0").unwrap()
}

#[test]
fn over_tcp() {
    all_are_answered(&local(), None, plan(Role::Acceptor, None));
    all_are_answered(&local(), None, narrow(None));
}

#[test]
fn over_tcp_with_a_journal() {
    let folder = tempdir().unwrap();
    all_are_answered(&local(), None, narrow(Some(folder.path())));
}

#[test]
fn over_unix_sockets() {
    let folder = tempdir().unwrap();
    all_are_answered(&Endpoint::Unix(folder.path().join("fix.sock")), None, plan(Role::Acceptor, None));
}

#[test]
fn over_shared_memory() {
    let folder = tempdir().unwrap();
    all_are_answered(&Endpoint::Shm(folder.path().join("fix.shm")), None, plan(Role::Acceptor, None));
}

#[test]
fn over_tls() {
    let setup = setup();
    all_are_answered(&local(), Some((&setup.server, trusting(&setup.authority))), plan(Role::Acceptor, None));
}

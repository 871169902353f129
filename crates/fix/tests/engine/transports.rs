//! The same conversation over every transport.

use crate::support::{Client, client, exchange, metric, order, plan, until};
use sidestep_fix::engine::{Destinations, Endpoint, Engine};
use sidestep_fix::session::Role;
use sidestep_fix::store::Store;
use sidestep_socket::stream::Waiting;
use sidestep_sys::idle::IdleStrategy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::tempdir;

/// Logs on, sends orders, gets both reports of each, logs out.
fn converse(endpoint: &Endpoint) {
    let (mut server, acceptor, accepted) = exchange(endpoint, None, plan(Role::Acceptor, None));
    let to = Destinations::one(server.endpoint(acceptor).clone());
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |server, client| {
        server.session(accepted).is_logged_on() && client.session(handle).is_logged_on()
    });
    let before = metric(&server, "writes_total");
    for number in 1..=10 {
        order(&mut client, handle, number);
        until(&mut server, &mut client, |_, client| client.app().seen.len() == 2 * number as usize);
    }
    let writes = metric(&server, "writes_total") - before;
    assert!((writes - 10.0).abs() < 0.5, "acknowledgement and fill leave in one write: {writes} writes for 10 orders");
    let kinds: Vec<&str> = client.app().seen.iter().map(|(_, _, kind)| kind.as_str()).collect();
    assert_eq!(kinds, ["0", "F"].repeat(10));
    client.log_out(handle, "");
    until(&mut server, &mut client, |server, _| !server.session(accepted).is_logged_on());
    assert_eq!(server.session(accepted).store().next_inbound(), 13);
    assert_eq!(server.app().orders(), 10);
}

#[test]
fn tcp() {
    converse(&Endpoint::parse("127.0.0.1:0").unwrap());
}

#[test]
fn tcp_over_ipv6_by_name() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("skipped: needs IPv6");
    }
    converse(&Endpoint::parse("[::1]:0").unwrap());
}

#[test]
fn unix_sockets() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("fix.sock");
    converse(&Endpoint::Unix(path.clone()));
    // The name is gone with the engine, and one left by a crash is taken over.
    assert!(!path.exists());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    converse(&Endpoint::Unix(path));
}

#[test]
fn shared_memory() {
    let folder = tempdir().unwrap();
    converse(&Endpoint::Shm(folder.path().join("fix.shm")));
}

/// Both sides on threads of their own, asleep while nothing happens.
fn asleep(endpoint: &Endpoint) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut server = Engine::new(sidestep_fix::exchange::Exchange::default());
    let options = sidestep_fix::engine::SocketOptions::default().for_idle(IdleStrategy::PARK);
    let acceptor = server.listen(endpoint, None, &options).unwrap();
    server.add_acceptor(acceptor, plan(Role::Acceptor, None)).unwrap();
    let mut to = Destinations::one(server.endpoint(acceptor).clone());
    to.options = options;
    assert_eq!(to.options.waiting, Waiting::Epoll);
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&stopped, IdleStrategy::PARK).map(|()| server.app().orders()));
    let mut client: Engine<Client> = Engine::new(Client::default());
    let handle = client.add_initiator(&plan(Role::Initiator, None), to).unwrap();
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut sent = 0;
    while client.app().seen.len() < 200 {
        if client.session(handle).is_logged_on() && client.app().seen.len() == 2 * sent && sent < 100 {
            sent += 1;
            order(&mut client, handle, sent as u64);
        }
        if client.poll() == 0 {
            client.sleep(std::time::Duration::from_millis(50)).unwrap();
        }
        assert!(std::time::Instant::now() < patience, "it takes too long: {}", client.app().seen.len());
    }
    stop.store(true, Ordering::Relaxed);
    let orders = loop {
        client.poll();
        if thread.is_finished() {
            break thread.join().unwrap().unwrap();
        }
    };
    assert_eq!(orders, 100);
}

#[test]
fn engines_that_sleep_are_woken() {
    let folder = tempdir().unwrap();
    asleep(&Endpoint::parse("127.0.0.1:0").unwrap());
    asleep(&Endpoint::Unix(folder.path().join("fix.sock")));
    asleep(&Endpoint::Shm(folder.path().join("fix.shm")));
}

//! Thousands of orders at once: every one gets its acknowledgement and its fill, whatever carries them.

use crate::support::{Client, bytes_of, client, exchange, logon, order, plan, until};
use crate::tls::{setup, trusting};
use sidestep_fix::engine::{Destinations, Endpoint, Engine, Handle, SessionPlan, SocketOptions, TlsSettings};
use sidestep_fix::exchange::Exchange;
use sidestep_fix::session::{Role, SendError};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
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
    let (mut server, acceptor, accepted) = exchange(endpoint, server_tls, accepting);
    let to = Destinations { tls: client_tls, ..Destinations::one(server.endpoint(acceptor).clone()) };
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    let mut next = 1;
    while next <= ORDERS {
        next = pour(&mut client, handle, next);
        let (told, seen) = (client.app().rooms, client.app().seen.len());
        // The client goes on when it is notified of room, or has received something: both happen.
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

/// Writes all orders before it reads one report, as a simple program does; whether all came.
fn writes_first(path: &Path) -> bool {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&bytes_of(&logon("FIX.4.4", "49=CLIENT|56=EXCHANGE"))).unwrap();
    for number in 2..ORDERS + 2 {
        let order = "49=CLIENT|56=EXCHANGE|52=<TIME>|11=A|55=TEST|54=1|38=100|40=1|60=<TIME>";
        stream.write_all(&bytes_of(&format!("8=FIX.4.4|35=D|34={number}|{order}|"))).unwrap();
    }
    let (mut seen, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let last = format!("\u{1}34={}\u{1}", 2 * ORDERS + 1).into_bytes();
    loop {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => seen.extend_from_slice(&buffer[..count]),
            _ => return false,
        }
        let tail = &seen[seen.len().saturating_sub(buffer.len() + last.len())..];
        if tail.windows(last.len()).any(|window| window == last) {
            return true;
        }
    }
}

#[test]
fn who_writes_everything_before_reading_is_answered() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("fix.sock");
    // The kernel has room for a fraction of it.
    let (mut server, _, accepted) = exchange(&Endpoint::Unix(path.clone()), None, plan(Role::Acceptor, None));
    let counterparty = std::thread::spawn(move || writes_first(&path));
    let end = Instant::now() + Duration::from_secs(60);
    while !counterparty.is_finished() {
        server.poll();
        assert!(Instant::now() < end, "it takes too long");
    }
    let all_came = counterparty.join().unwrap();
    let counters = server.session(accepted).counters();
    assert!(all_came && counters.gave_way > 0, "{counters:?}");
    assert_eq!((server.app().orders(), server.app().unanswered()), (ORDERS, 0));
}

/// Bytes that TLS has taken and the socket has not are in no session's output any more, and are sent all the same.
#[test]
fn the_last_record_leaves_without_another_reason() {
    let (setup, folder) = (setup(), tempdir().unwrap());
    let options = SocketOptions { send_buffer: Some(4096), ..SocketOptions::default() };
    let mut server = Engine::new(Exchange::default());
    let acceptor =
        server.listen(&Endpoint::Unix(folder.path().join("fix.sock")), Some(&setup.server), &options).unwrap();
    server.add_acceptor(acceptor, plan(Role::Acceptor, None)).unwrap();
    let tls = TlsSettings { server_name: Some("exchange.example".into()), ..trusting(&setup.authority) };
    let to = Destinations { tls: Some(tls), ..Destinations::one(server.endpoint(acceptor).clone()) };
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    let mut orders = 0;
    for batch in 1..80 {
        (0..batch).for_each(|number| order(&mut client, handle, orders + number));
        orders += batch;
        // The socket is filled, and its peer does not read.
        while server.app().orders() < orders || server.poll() > 0 {
            server.poll();
        }
        until(&mut server, &mut client, |_, client| client.app().seen.len() as u64 == 2 * orders);
    }
}

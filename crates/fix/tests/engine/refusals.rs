//! Who is not let in, and what an operator may do.

use crate::support::{bytes_of, client, exchange, logon, order, plan, poll_until, until};
use sidestep_fix::engine::{
    AdminSocket, AllowedAddress, Destinations, Endpoint, Engine, PENDING_MAX, SocketOptions, ask,
};
use sidestep_fix::exchange::{Exchange, anyone};
use sidestep_fix::session::{Role, SendError, SessionId, SessionSettings};
use sidestep_fix::store::Store;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::tempdir;

fn local() -> Endpoint {
    Endpoint::parse("127.0.0.1:0").unwrap()
}

fn connect(engine: &Engine<Exchange>, acceptor: sidestep_fix::engine::AcceptorId) -> TcpStream {
    TcpStream::connect(engine.endpoint(acceptor).to_string()).unwrap()
}

#[test]
fn hosts_that_are_not_on_the_list_are_closed_at_once() {
    let mut accepting = plan(Role::Acceptor, None);
    accepting.allowed = vec![AllowedAddress::parse("192.0.2.0/24").unwrap()];
    let (mut server, acceptor, _) = exchange(&local(), None, accepting);
    let mut stranger = connect(&server, acceptor);
    poll_until(&mut server, |server| server.refusals().address == 1);
    assert_eq!(stranger.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn what_is_no_logon_or_for_nobody_is_closed_without_an_answer() {
    let (mut server, acceptor, accepted) = exchange(&local(), None, plan(Role::Acceptor, None));
    let logon = |fields: &str| bytes_of(&logon("FIX.4.4", fields));
    let garbage = b"GET / HTTP/1.1\r\nHost: exchange.example\r\n\r\n".to_vec();
    for (text, count) in [(garbage, 1), (logon("49=OTHER|56=EXCHANGE"), 2), (logon("49=CLIENT|56=ELSEWHERE"), 3)] {
        let mut stranger = connect(&server, acceptor);
        stranger.write_all(&text).unwrap();
        poll_until(&mut server, |server| {
            let refusals = server.refusals();
            refusals.no_logon + refusals.unknown == count
        });
        assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    assert!(!server.session(accepted).is_logged_on());
}

#[test]
fn a_host_has_a_share_of_the_places_and_the_oldest_gives_up_its_own() {
    let (mut server, acceptor, _) = exchange(&local(), None, plan(Role::Acceptor, None));
    let share = PENDING_MAX / 4;
    let mut crowd: Vec<TcpStream> = (0..share + 8).map(|_| connect(&server, acceptor)).collect();
    poll_until(&mut server, |server| server.refusals().crowd == 8);
    assert_eq!(server.pending(), share);
    for (number, stranger) in crowd.iter_mut().enumerate() {
        stranger.set_nonblocking(true).unwrap();
        let is_closed = matches!(stranger.read(&mut [0; 1]), Ok(0));
        assert_eq!(is_closed, number < 8, "stranger {number}");
    }
    let text = server.metrics();
    assert!(text.contains("sidestep_fix_connections_refused_total{reason=\"crowd\"} 8\n"), "{text}");
    assert!(text.contains(&format!("sidestep_fix_connections_pending {share}\n")), "{text}");
    crowd.clear();
    poll_until(&mut server, |server| server.refusals().silent == share as u64);
    let (mut client, handle) =
        client(Destinations::one(server.endpoint(acceptor).clone()), &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
}

#[test]
fn a_second_connection_of_the_same_session_is_closed() {
    let (mut server, acceptor, _) = exchange(&local(), None, plan(Role::Acceptor, None));
    let to = Destinations::one(server.endpoint(acceptor).clone());
    let (mut first, handle) = client(to.clone(), &plan(Role::Initiator, None));
    until(&mut server, &mut first, |_, client| client.session(handle).is_logged_on());
    let (mut second, other) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut second, |server, _| server.refusals().taken >= 1);
    assert!(!second.session(other).is_logged_on());
    order(&mut first, handle, 1);
    until(&mut server, &mut first, |_, client| client.app().seen.len() == 2);
}

#[test]
fn sessions_are_made_from_a_template_when_they_are_asked_for() {
    let mut server = Engine::new(Exchange::default());
    let acceptor = server.listen(&local(), None, &SocketOptions::default()).unwrap();
    server
        .add_template(acceptor, sidestep_fix::engine::SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone())));
    let to = Destinations::one(server.endpoint(acceptor).clone());
    for (begin, name) in [("FIX.4.2", "FIRST"), ("FIX.4.4", "SECOND"), ("FIXT.1.1", "THIRD")] {
        let mut connecting = plan(Role::Initiator, None);
        connecting.settings = SessionSettings::new(Role::Initiator, SessionId::new(begin, name, "ANYBODY"));
        let (mut client, handle) = client(to.clone(), &connecting);
        until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
        order(&mut client, handle, 1);
        until(&mut server, &mut client, |_, client| client.app().seen.len() == 2);
    }
    assert_eq!(server.handles().count(), 3);
    assert!(server.find(&SessionId::new("FIX.4.2", "ANYBODY", "FIRST")).is_some());
}

#[test]
fn a_consumer_that_does_not_read_is_refused_more_and_then_disconnected() {
    let mut accepting = plan(Role::Acceptor, None);
    accepting.settings.slow_consumer_after = Duration::from_millis(200);
    let (mut server, acceptor, accepted) = exchange(&local(), None, accepting);
    let (mut client, handle) =
        client(Destinations::one(server.endpoint(acceptor).clone()), &plan(Role::Initiator, None));
    until(&mut server, &mut client, |server, client| {
        client.session(handle).is_logged_on() && server.session(accepted).is_logged_on()
    });
    // The client is not polled any more: it reads nothing.
    let text = "x".repeat(8000);
    let mut refused = false;
    poll_until(&mut server, |server| {
        for _ in 0..100 {
            let sent = server.send(accepted, b"B", |builder| {
                builder.str(148, &text);
            });
            refused |= matches!(sent, Err(SendError::Full));
        }
        !server.session(accepted).is_logged_on()
    });
    assert!(refused, "the application is told before the connection ends");
}

#[test]
fn an_operator_sees_and_resets_numbers() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let (mut server, acceptor, accepted) = exchange(&local(), None, plan(Role::Acceptor, None));
    server.serve(AdminSocket::unix(&path).unwrap());
    let (mut client, handle) =
        client(Destinations::one(server.endpoint(acceptor).clone()), &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    let mut asked = |client: &mut Engine<crate::support::Client>, request: &str| {
        let (path, request) = (path.clone(), request.to_owned());
        let thread = std::thread::spawn(move || ask(&path, &request));
        until(&mut server, client, |_, _| thread.is_finished());
        thread.join().unwrap()
    };
    let name = "FIX.4.4:EXCHANGE->CLIENT";
    let list = asked(&mut client, "sessions").unwrap();
    assert!(list.contains(&format!("\"session\":\"{name}\"")) && list.contains("\"phase\":\"logged on\""), "{list}");
    assert!(list.contains("\"next_outbound\":2,\"next_inbound\":2"), "{list}");
    assert!(asked(&mut client, "metrics").unwrap().contains("sidestep_fix_logged_on"));
    let refused = asked(&mut client, &format!("set {name} 10 20")).unwrap_err().to_string();
    assert!(refused.contains("log out first"), "{refused}");
    assert!(asked(&mut client, "sing").is_err());
    assert!(asked(&mut client, "reset NOBODY").unwrap_err().to_string().contains("no session NOBODY"));
    asked(&mut client, &format!("logout {name}")).unwrap();
    drop(client);
    let mut nobody = Engine::new(Exchange::default());
    until(&mut server, &mut nobody, |server, _| !server.session(accepted).is_logged_on());
    let mut alone = |request: &str| {
        let (path, request) = (path.clone(), request.to_owned());
        let thread = std::thread::spawn(move || ask(&path, &request));
        until(&mut server, &mut nobody, |_, _| thread.is_finished());
        thread.join().unwrap().unwrap()
    };
    assert!(alone(&format!("set {name} 10 20")).contains("\"next_outbound\":10,\"next_inbound\":20"));
    assert!(alone(&format!("reset {name}")).contains("\"next_outbound\":1,\"next_inbound\":1"));
    assert_eq!(server.session(accepted).store().next_outbound(), 1);
}

#[test]
fn a_file_in_the_place_of_a_unix_socket_is_not_taken_for_a_dead_one() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.fix");
    std::fs::write(&path, "somebody's").unwrap();
    let mut server = Engine::new(Exchange::default());
    assert!(server.listen(&Endpoint::Unix(path.clone()), None, &SocketOptions::default()).is_err());
    assert!(AdminSocket::unix(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's");
    let dead = folder.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    assert!(server.listen(&Endpoint::Unix(dead), None, &SocketOptions::default()).is_ok(), "a dead one is taken over");
}

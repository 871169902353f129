//! The end of an engine: each session that is logged on gets a Logout; no other connection delays it.

use crate::support::{Client, bytes_of, client, exchange, logon, plan, poll_until, until};
use sidestep_fix::engine::{Destinations, Endpoint, Engine, SocketOptions};
use sidestep_fix::session::{End, Role};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn local() -> Endpoint {
    Endpoint::parse("127.0.0.1:0").unwrap()
}

/// Reads whole messages until one of this type comes.
fn read_until(stream: &mut TcpStream, msg_type: &str) {
    let (mut text, mut buffer) = (String::new(), [0; 512]);
    while !text.contains(&format!("\u{1}35={msg_type}\u{1}")) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "it ends after {text:?}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}

#[test]
fn a_logon_that_comes_while_the_engine_ends_does_not_break_it() {
    let (mut server, acceptor, accepted) = exchange(&local(), None, plan(Role::Acceptor, None));
    let address = server.endpoint(acceptor).to_string();
    let mut first = TcpStream::connect(&address).unwrap();
    first.write_all(&bytes_of(&logon("FIX.4.4", "49=CLIENT|56=EXCHANGE"))).unwrap();
    poll_until(&mut server, |server| server.session(accepted).is_logged_on());
    let mut second = TcpStream::connect(&address).unwrap();
    let (woken, wake) = std::sync::mpsc::channel();
    // It is accepted and says nothing yet: a third connection behind it is what the engine has seen to the end.
    let mut third = TcpStream::connect(&address).unwrap();
    third.write_all(b"GET / HTTP/1.1\r\nHost: exchange.example\r\n\r\n").unwrap();
    poll_until(&mut server, |server| server.refusals().no_logon == 1);
    let peers = std::thread::spawn(move || {
        read_until(&mut first, "5");
        let _ = second.write_all(&bytes_of(&logon("FIX.4.4", "49=CLIENT|56=EXCHANGE")));
        // Whether it is closed or reset: it is not taken up.
        let mut rest = Vec::new();
        let _ = second.read_to_end(&mut rest);
        let logout = bytes_of("8=FIX.4.4|35=5|34=2|49=CLIENT|52=<TIME>|56=EXCHANGE|");
        first.write_all(&logout).unwrap();
        woken.send(rest).unwrap();
    });
    server.shut_down("", Duration::from_secs(20));
    assert!(wake.recv().unwrap().is_empty(), "no engine answers a Logon any more");
    peers.join().unwrap();
    assert!(!server.session(accepted).is_logged_on());
}

#[test]
fn who_does_not_answer_the_logout_is_cut_and_the_application_told() {
    let mut quiet = Engine::new(Client::default());
    let acceptor = quiet.listen(&local(), None, &SocketOptions::default()).unwrap();
    let accepted = quiet.add_acceptor(acceptor, plan(Role::Acceptor, None)).unwrap();
    let to = Destinations::one(quiet.endpoint(acceptor).clone());
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut quiet, &mut client, |server, client| {
        client.session(handle).is_logged_on() && server.session(accepted).is_logged_on()
    });
    // The client is not polled meanwhile.
    quiet.shut_down("", Duration::from_millis(1));
    assert_eq!(quiet.app().ends, [End::Disconnected]);
}

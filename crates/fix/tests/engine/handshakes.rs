//! A flood of TLS handshakes that begin as they should, from one host: a counterparty that is known is served before it.

use crate::support::{exchange, log_on, plan};
use crate::tls::{setup, trusting};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sidestep_fix::engine::{Destinations, Endpoint};
use sidestep_fix::session::Role;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

const STRANGERS: usize = 1000;
/// The first byte of a record that carries a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// What a client says first. The same again is as good for a flood, whose handshakes never go on.
fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from("exchange.example").unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut hello).unwrap();
    hello
}

/// Connections from another host than the counterparty's, each with its ClientHello sent.
fn flood(to: SocketAddr, hello: &[u8]) -> Vec<Socket> {
    let knock = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        (&socket).write_all(hello).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    (0..STRANGERS).map(knock).collect()
}

fn is_answered(mut socket: &Socket) -> bool {
    let mut first = [0];
    socket.read(&mut first).is_ok_and(|count| count == 1) && first[0] == HANDSHAKE
}

#[test]
fn a_flood_of_handshakes_does_not_go_before_a_known_counterparty() {
    let setup = setup();
    let local = Endpoint::parse("127.0.0.1:0").unwrap();
    let (mut server, acceptor, _) = exchange(&local, Some(&setup.server), plan(Role::Acceptor, None));
    let endpoint = server.endpoint(acceptor).clone();
    let address = endpoint.to_string().parse().unwrap();
    let to = Destinations { tls: Some(trusting(&setup.authority)), ..Destinations::one(endpoint) };
    log_on(&mut server, &to);
    let hello = client_hello();
    for _ in 0..3 {
        // All of them wait in the backlog when the counterparty comes: it is behind them there.
        let strangers = flood(address, &hello);
        log_on(&mut server, &to);
        let answered = strangers.iter().filter(|stranger| is_answered(stranger)).count();
        assert!(answered < STRANGERS / 4, "{answered} handshakes went before");
    }
}

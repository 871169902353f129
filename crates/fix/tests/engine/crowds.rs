//! A thousand strangers at the acceptor, silent or with a byte now and then: who is known gets in at the first attempt.

use crate::support::{client, exchange, log_on, plan, until};
use crate::tls::{setup, trusting};
use sidestep_fix::engine::{Destinations, Endpoint, Engine, PENDING_MAX, TlsSettings};
use sidestep_fix::exchange::Exchange;
use sidestep_fix::session::Role;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::tempdir;

const STRANGERS: usize = 1000;

/// What strangers do.
#[derive(Clone, Copy)]
struct Manner {
    /// Sent at once.
    first: &'static [u8],
    /// Whether a byte follows now and then.
    dribbles: bool,
    /// Whether each comes from an address of its own.
    from_everywhere: bool,
}

const SILENT: Manner = Manner { first: b"", dribbles: false, from_everywhere: false };
const DRIBBLING: Manner = Manner { first: b"8=FIX.4.4\x019=100\x0135=A\x01", dribbles: true, from_everywhere: false };
/// The front of a ClientHello of 512 bytes. Where a flood comes from the counterparty's own host, its handshake may need a second attempt.
const SLOW_HANDSHAKE: Manner = Manner { first: b"\x16\x03\x01\x02\x00\x01", dribbles: true, from_everywhere: true };

/// Strangers, each of whom comes again when it is sent away.
struct Crowd {
    stop: Arc<AtomicBool>,
    came: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    fn gather(to: &Endpoint, manner: Manner) -> Self {
        let (stop, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (asked, counted, to) = (Arc::clone(&stop), Arc::clone(&came), to.clone());
        let thread = std::thread::spawn(move || {
            let mut strangers: Vec<Option<Socket>> = (0..STRANGERS).map(|_| None).collect();
            while !asked.load(Ordering::Relaxed) {
                for (number, stranger) in strangers.iter_mut().enumerate() {
                    if stranger.as_ref().is_none_or(|socket| !stays(socket, manner.dribbles)) {
                        *stranger = knock(&to, manner, number);
                        counted.fetch_add(u64::from(stranger.is_some()), Ordering::Relaxed);
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { stop, came, thread: Some(thread) }
    }

    /// How many connections there were so far.
    fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn knock(to: &Endpoint, manner: Manner, number: usize) -> Option<Socket> {
    let (domain, kind, address) = match to {
        Endpoint::Tcp { host, port } => {
            (Domain::IPV4, Type::STREAM, SockAddr::from(SocketAddr::new(host.parse().ok()?, *port)))
        }
        Endpoint::Unix(path) => (Domain::UNIX, Type::STREAM, SockAddr::unix(path).ok()?),
        Endpoint::Shm(path) => (Domain::UNIX, Type::SEQPACKET, SockAddr::unix(path).ok()?),
        Endpoint::Xdp { .. } => return None,
    };
    let socket = Socket::new(domain, kind, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    if manner.from_everywhere {
        let network = u8::try_from(number % 250).ok()?;
        let from = Ipv4Addr::new(127, 1 + network, u8::try_from(number / 250).ok()?, 1);
        socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    }
    match socket.connect(&address) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(_) => return None,
    }
    let _ = (&socket).write(manner.first);
    Some(socket)
}

/// Whether the stranger is still connected.
fn stays(mut socket: &Socket, dribbles: bool) -> bool {
    let would_block = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    if dribbles && socket.write(b"x").is_err_and(|error| !would_block(error)) {
        return false;
    }
    socket.read(&mut [0; 64]).map_or_else(would_block, |count| count > 0)
}

/// The counterparty logs on once while it is quiet, then again while strangers come.
fn gets_in(endpoint: &Endpoint, manner: Manner, tls: Option<(&TlsSettings, TlsSettings)>) {
    let (server_tls, client_tls) = tls.map_or((None, None), |(server, client)| (Some(server), Some(client)));
    let (mut server, acceptor, _) = exchange(endpoint, server_tls, plan(Role::Acceptor, None));
    let to = Destinations { tls: client_tls, ..Destinations::one(server.endpoint(acceptor).clone()) };
    log_on(&mut server, &to);
    let crowd = Crowd::gather(server.endpoint(acceptor), manner);
    let mut nobody = Engine::new(Exchange::default());
    for round in 1..=3 {
        let enough = STRANGERS as u64 * round;
        until(&mut server, &mut nobody, |server, _| {
            server.pending() > 0 && crowd.came() >= enough.min(3 * STRANGERS as u64 / 2)
        });
        log_on(&mut server, &to);
    }
    assert!(server.pending() > 0 && server.pending() <= PENDING_MAX, "{} wait", server.pending());
    drop(crowd);
}

fn local() -> Endpoint {
    Endpoint::parse("127.0.0.1:0").unwrap()
}

#[test]
fn past_a_thousand_silent_strangers() {
    gets_in(&local(), SILENT, None);
}

#[test]
fn past_a_thousand_dribbling_strangers() {
    gets_in(&local(), DRIBBLING, None);
}

#[test]
fn past_strangers_from_a_thousand_hosts() {
    gets_in(&local(), Manner { from_everywhere: true, ..SILENT }, None);
    gets_in(&local(), Manner { from_everywhere: true, ..DRIBBLING }, None);
}

#[test]
fn past_a_thousand_tls_handshakes_that_stall() {
    let setup = setup();
    gets_in(&local(), SLOW_HANDSHAKE, Some((&setup.server, trusting(&setup.authority))));
}

#[test]
fn past_a_thousand_strangers_at_a_unix_socket() {
    let folder = tempdir().unwrap();
    gets_in(&Endpoint::Unix(folder.path().join("fix.sock")), SILENT, None);
}

#[test]
fn past_a_thousand_silent_connectors_of_shared_memory() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("fix.shm");
    let (mut server, acceptor, _) = exchange(&Endpoint::Shm(path), None, plan(Role::Acceptor, None));
    let to = Destinations::one(server.endpoint(acceptor).clone());
    let crowd = Crowd::gather(server.endpoint(acceptor), SILENT);
    let mut nobody = Engine::new(Exchange::default());
    until(&mut server, &mut nobody, |_, _| crowd.came() >= 200);
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
}

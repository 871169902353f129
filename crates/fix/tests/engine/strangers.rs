//! The effects of unknown counterparties on an acceptor where templates make sessions.

use crate::support::{Client, Passwords, bytes_of, client, logon, plan, poll_until};
use sidestep_fix::engine::{AcceptorId, Destinations, Endpoint, Engine, SessionPlan, SocketOptions, StorePlan};
use sidestep_fix::exchange::anyone;
use sidestep_fix::session::{Role, SessionId, SessionSettings};
use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{Options, SEGMENT_BYTES_MIN};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use tempfile::tempdir;

fn server(folder: &Path) -> (Engine<Passwords>, AcceptorId) {
    let mut server = Engine::new(Passwords::default());
    let acceptor = server.listen(&Endpoint::parse("127.0.0.1:0").unwrap(), None, &SocketOptions::default()).unwrap();
    let mut template = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
    let options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::default() };
    template.store = StorePlan::Journal { folder: folder.to_owned(), options };
    server.add_template(acceptor, template);
    (server, acceptor)
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_logon_that_is_refused_leaves_nothing_behind() {
    let folder = tempdir().unwrap();
    let (mut server, acceptor) = server(folder.path());
    let long = format!("49={}|56=X", "N".repeat(150));
    let lines = [
        logon("FIX.9.9", "49=A|56=X"),
        logon("FIX.4.4", &long),
        logon("FIX.4.4", "49=A|56=X").replace("52=<TIME>", "52=20250101-00:00:00"),
        logon("FIX.4.4", "49=A|56=X|554=wrong"),
        logon("FIXT.1.1", "49=A|56=X"),
    ];
    for (at, line) in lines.iter().enumerate() {
        let mut stranger = TcpStream::connect(server.endpoint(acceptor).to_string()).unwrap();
        stranger.write_all(&bytes_of(line)).unwrap();
        poll_until(&mut server, |server| {
            let refusals = server.refusals();
            refusals.unknown + refusals.refused > at as u64
        });
        assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0, "no answer to {line}");
        assert_eq!((server.handles().count(), entries(folder.path())), (0, 0), "after {line}");
    }
    let refusals = server.refusals();
    assert_eq!((refusals.unknown, refusals.refused), (2, 3));
    assert_eq!((server.app().created, server.app().discarded), (3, 3), "what was begun for them can go");
}

#[test]
fn a_session_that_a_logon_makes_is_kept_from_its_first_message_on() {
    let folder = tempdir().unwrap();
    let own = tempdir().unwrap();
    let mut connecting = plan(Role::Initiator, Some(own.path()));
    connecting.settings.id = SessionId::new("FIX.4.4", "NEW", "X");
    for round in 1..=3 {
        let (mut server, acceptor) = server(folder.path());
        let to = Destinations::one(server.endpoint(acceptor).clone());
        let (mut client, handle) = client(to, &connecting);
        crate::support::until(&mut server, &mut client, |_, client: &Engine<Client>| {
            client.session(handle).is_logged_on()
        });
        let made = server.find(&SessionId::new("FIX.4.4", "X", "NEW")).expect("it exists now");
        let store = server.session(made).store();
        assert_eq!((store.next_outbound(), store.next_inbound()), (round + 1, round + 1), "numbers go on");
        assert!(client.app().seen.is_empty() && entries(folder.path()) == 1);
    }
}

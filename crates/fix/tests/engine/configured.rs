//! Engines made from files of settings.

use crate::support::{client, order, plan, until};
use sidestep_fix::config::Config;
use sidestep_fix::engine::{Destinations, Endpoint, Engine};
use sidestep_fix::exchange::Exchange;
use sidestep_fix::session::{Role, SessionId, SessionSettings};
use sidestep_sys::idle::IdleStrategy;
use tempfile::tempdir;

#[test]
fn a_template_for_any_version_holds_each_against_its_own_dictionary() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("acceptor");
    let front = format!("[DEFAULT]\nConnectionType=acceptor\nTransport=unix\nSocketAcceptPath={}\n", path.display());
    let config = Config::parse_cfg(&format!("{front}[SESSION]\nAcceptorTemplate=Y\n"), "test.cfg").unwrap();
    let mut server = Engine::new(Exchange::default());
    server.configure(&config, IdleStrategy::PARK).unwrap();
    // Rule80A (47) stands in an order of FIX 4.2 and not in one of 4.4; ApplVerID (1128) in FIXT's header alone.
    for (begin, tag, value) in [("FIX.4.2", 47, "A"), ("FIXT.1.1", 1128, "9")] {
        let mut connecting = plan(Role::Initiator, None);
        connecting.settings = SessionSettings::new(Role::Initiator, SessionId::new(begin, "C", "E"));
        let (mut client, handle) = client(Destinations::one(Endpoint::Unix(path.clone())), &connecting);
        until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
        let sent = client.send(handle, b"D", |builder| {
            builder.str(tag, value).str(11, "1").str(21, "1").str(38, "100").str(40, "2").str(44, "10").str(54, "1");
            builder.str(55, "TEST").timestamp(60, sidestep_fix::Now::system().utc());
        });
        sent.unwrap();
        until(&mut server, &mut client, |server, client| {
            let made = server.find(&SessionId::new(begin, "E", "C")).expect("it has logged on");
            assert_eq!(server.session(made).counters().rejects, 0, "{begin}");
            client.app().seen.len() == 2
        });
    }
    // And 4.4 is still held against 4.4.
    let mut connecting = plan(Role::Initiator, None);
    connecting.settings = SessionSettings::new(Role::Initiator, SessionId::new("FIX.4.4", "C", "E"));
    let (mut client, handle) = client(Destinations::one(Endpoint::Unix(path)), &connecting);
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    let sent = client.send(handle, b"D", |builder| {
        builder.str(11, "1").str(1128, "9");
    });
    sent.unwrap();
    order(&mut client, handle, 2);
    until(&mut server, &mut client, |_, client| client.app().seen.len() == 2);
    let made = server.find(&SessionId::new("FIX.4.4", "E", "C")).expect("it has logged on");
    assert_eq!(server.session(made).counters().rejects, 1);
}

#[test]
fn a_dictionary_of_ones_own_is_for_one_version() {
    let folder = tempdir().unwrap();
    let text = format!(
        "[SESSION]\nConnectionType=acceptor\nTransport=unix\nSocketAcceptPath={}\nAcceptorTemplate=Y\n\
         DataDictionary=own.xml\n",
        folder.path().join("acceptor").display()
    );
    let config = Config::parse_cfg(&text, "test.cfg").unwrap();
    let problem = Engine::new(Exchange::default()).configure(&config, IdleStrategy::PARK).unwrap_err().to_string();
    assert!(problem.contains("set BeginString"), "{problem}");
}

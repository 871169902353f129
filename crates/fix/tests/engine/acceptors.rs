//! Sessions made from templates, by several acceptors; messages with data fields of a dictionary of one's own.

use crate::support::{client, order, plan, until};
use sidestep_fix::decode::Message;
use sidestep_fix::dictionary::Dictionary;
use sidestep_fix::engine::{AcceptorId, Destinations, Endpoint, Engine, SessionPlan, SocketOptions, StorePlan};
use sidestep_fix::exchange::{Exchange, anyone};
use sidestep_fix::session::{Application, Outbox, Refusal, Role, Rules, SessionSettings, Validate};
use sidestep_fix::store::Store;
use sidestep_fix::store::journal::{Options, SEGMENT_BYTES_MIN};
use sidestep_fix::validate::ValidationOptions;
use std::path::Path;
use std::sync::Arc;
use tempfile::tempdir;

fn template(folder: &Path) -> SessionPlan {
    let mut plan = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
    let options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };
    plan.store = StorePlan::Journal { folder: folder.to_owned(), options };
    plan
}

fn local() -> Endpoint {
    Endpoint::parse("127.0.0.1:0").unwrap()
}

/// Logs on at `acceptor`, sends an order, logs out; the numbers that the server is at then.
fn visit(server: &mut Engine<Exchange>, acceptor: AcceptorId, client_store: &Path) -> (u64, u64) {
    let to = Destinations::one(server.endpoint(acceptor).clone());
    let (mut client, handle) = client(to, &plan(Role::Initiator, Some(client_store)));
    until(server, &mut client, |_, client| client.session(handle).is_logged_on());
    order(&mut client, handle, 1);
    until(server, &mut client, |_, client| client.app().seen.len() == 2);
    client.log_out(handle, "");
    until(server, &mut client, |server, client| {
        !client.app().ends.is_empty() && server.handles().all(|handle| !server.session(handle).is_logged_on())
    });
    let session = server.handles().next().map(|handle| server.session(handle)).expect("one was made");
    (session.store().next_outbound(), session.store().next_inbound())
}

#[test]
fn a_session_is_the_same_whichever_door_it_comes_by() {
    let (kept, theirs) = (tempdir().unwrap(), tempdir().unwrap());
    let mut server = Engine::new(Exchange::default());
    let acceptors = [0, 1].map(|_| server.listen(&local(), None, &SocketOptions::default()).unwrap());
    acceptors.iter().for_each(|acceptor| server.add_template(*acceptor, template(kept.path())));
    // Logon, two reports, Logout.
    assert_eq!(visit(&mut server, acceptors[0], theirs.path()), (5, 4));
    assert_eq!(visit(&mut server, acceptors[1], theirs.path()), (9, 7));
    assert_eq!(visit(&mut server, acceptors[0], theirs.path()), (13, 10));
    assert_eq!(server.handles().count(), 1);
    assert_eq!(server.app().orders(), 3);
}

#[test]
fn sessions_that_are_kept_in_different_places_are_different_ones() {
    let (kept, theirs) = ([tempdir().unwrap(), tempdir().unwrap()], [tempdir().unwrap(), tempdir().unwrap()]);
    let mut server = Engine::new(Exchange::default());
    for (place, client) in kept.iter().zip(&theirs) {
        let acceptor = server.listen(&local(), None, &SocketOptions::default()).unwrap();
        server.add_template(acceptor, template(place.path()));
        assert_eq!(visit(&mut server, acceptor, client.path()), (5, 4));
    }
    assert_eq!(server.handles().count(), 2);
}

/// With a pair of its own, which no standard has.
const DICTIONARY: &str = "<fix type='FIX' major='4' minor='4'>
 <header><field name='BeginString' required='Y'/><field name='BodyLength' required='Y'/><field name='MsgType' required='Y'/>
  <field name='SenderCompID' required='Y'/><field name='TargetCompID' required='Y'/><field name='MsgSeqNum' required='Y'/>
  <field name='SendingTime' required='Y'/></header>
 <trailer><field name='CheckSum' required='Y'/></trailer><components/>
 <messages>
  <message name='Logon' msgtype='A' msgcat='admin'><field name='EncryptMethod' required='Y'/>
   <field name='HeartBtInt' required='Y'/></message>
  <message name='Blob' msgtype='U1' msgcat='app'><field name='BlobLength' required='Y'/><field name='Blob' required='Y'/>
   <field name='Text' required='N'/></message></messages>
 <fields><field number='8' name='BeginString' type='STRING'/><field number='9' name='BodyLength' type='LENGTH'/>
  <field number='35' name='MsgType' type='STRING'/><field number='49' name='SenderCompID' type='STRING'/>
  <field number='56' name='TargetCompID' type='STRING'/><field number='34' name='MsgSeqNum' type='SEQNUM'/>
  <field number='52' name='SendingTime' type='UTCTIMESTAMP'/><field number='10' name='CheckSum' type='STRING'/>
  <field number='98' name='EncryptMethod' type='INT'/><field number='108' name='HeartBtInt' type='INT'/>
  <field number='9001' name='BlobLength' type='LENGTH'/><field number='9002' name='Blob' type='DATA'/>
  <field number='58' name='Text' type='STRING'/></fields></fix>";

/// What came: the data, the text behind it.
#[derive(Default)]
struct Reader(Vec<(Vec<u8>, Vec<u8>)>);

impl Application for Reader {
    fn from_app(&mut self, message: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        self.0.push((message.required(9002)?.to_vec(), message.get(58).unwrap_or_default().to_vec()));
        Ok(())
    }
}

/// Sends data with delimiters in it, and text behind it; what the server read.
fn blob(dictionary: Option<Arc<Dictionary>>, data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut accepting = plan(Role::Acceptor, None);
    accepting.validator = dictionary.map(|dictionary| {
        Arc::new(Rules { dictionary, transport: None, options: ValidationOptions::default() }) as Arc<dyn Validate>
    });
    let mut server = Engine::new(Reader::default());
    let acceptor = server.listen(&local(), None, &SocketOptions::default()).unwrap();
    server.add_acceptor(acceptor, accepting).unwrap();
    let to = Destinations::one(server.endpoint(acceptor).clone());
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |_, client| client.session(handle).is_logged_on());
    let sent = client.send(handle, b"U1", |builder| {
        builder.data(9001, 9002, data).str(58, "behind");
    });
    sent.unwrap();
    until(&mut server, &mut client, |server, _| !server.app().0.is_empty());
    server.app().0[0].clone()
}

#[test]
fn delimiters_in_data_fields_of_ones_own_dictionary_are_data() {
    let dictionary = Arc::new(Dictionary::from_quickfix_xml(DICTIONARY.as_bytes()).unwrap());
    for data in [&b"a\x0158=inside\x01b"[..], b"\x01\x01\x01", b"\x0110=000\x01", b"plain"] {
        let read = blob(Some(Arc::clone(&dictionary)), data);
        assert_eq!(read, (data.to_vec(), b"behind".to_vec()));
    }
    // Who does not know the pair takes the first delimiter for the end.
    assert_eq!(blob(None, b"a\x0158=inside").0, b"a");
}

#[test]
fn a_unix_door_leaves_the_socket_of_its_successor() {
    let folder = tempdir().unwrap();
    let endpoint = Endpoint::Unix(folder.path().join("fix.sock"));
    let open = || {
        let mut engine = Engine::new(Exchange::default());
        engine.listen(&endpoint, None, &SocketOptions::default()).unwrap();
        engine
    };
    let Endpoint::Unix(path) = &endpoint else { unreachable!() };
    let first = open();
    std::fs::remove_file(path).unwrap();
    let second = open();
    drop(first);
    assert!(path.exists(), "it is another file");
    drop(second);
    assert!(!path.exists(), "this one was its own");
}

//! FIX sessions: two engines over a socket, one session without any transport, and the stores.

use crate::{failed, until};
use sidestep::error::Problem;
use sidestep::fix::Now;
use sidestep::fix::decode::Message;
use sidestep::fix::engine::{
    AcceptorId, AdminSocket, AllowedAddress, Asker, CertificateFiles, CertificateName, Destinations,
};
use sidestep::fix::engine::{Endpoint, Engine, Handle, Refusals, SessionPlan, SocketOptions, StorePlan, TlsSettings};
use sidestep::fix::engine::{ask, session_folder};
use sidestep::fix::session::{
    Application, BusinessReason, CancelOn, Counters, End, Outbox, Phase, Refusal, RejectReason,
};
use sidestep::fix::session::{Role, Rules, SendError, Session, SessionId, SessionSettings, Throttle, Validate};
use sidestep::fix::store::journal::{self, Durability, Journal, Recovery, Writing, needed_segments, read_segment};
use sidestep::fix::store::{AnyStore, MEMORY_BYTES_DEFAULT, MemoryStore, Store, Visit};
use sidestep::idle::IdleStrategy;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(Default)]
struct Counting {
    orders: u64,
}

impl Application for Counting {
    fn from_app(&mut self, message: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        if message.msg_type() != b"D" {
            return Err(Refusal::Business { reason: BusinessReason::UnsupportedMessageType, text: None });
        }
        self.orders += 1;
        Ok(())
    }

    fn on_logout(&mut self, _: &SessionId, _: End) {}
}

pub fn run() -> Result<(), Problem> {
    two_engines()?;
    without_transport()?;
    on_disk()
}

fn settings(role: Role, sender: &str, target: &str) -> SessionSettings {
    let mut settings = SessionSettings::new(role, SessionId::new("FIX.4.4", sender, target));
    settings.throttle = Some(Throttle { messages: 1000, window: Duration::from_secs(1) });
    settings.cancel_on = CancelOn::Disconnect;
    settings
}

fn two_engines() -> Result<(), Problem> {
    let mut venue = Engine::new(Counting::default());
    let acceptor: AcceptorId = venue.listen(&Endpoint::parse("127.0.0.1:0")?, None, &SocketOptions::default())?;
    let to = venue.endpoint(acceptor).clone();
    let mut plan = SessionPlan::new(settings(Role::Acceptor, "VENUE", "CLIENT"));
    let rules: Arc<dyn Validate> = Arc::new(Rules::standard("FIX.4.4", "").expect("a version of FIX"));
    plan.validator = Some(rules);
    plan.allowed = vec![AllowedAddress::parse("127.0.0.0/8").expect("a network")];
    venue.add_acceptor(acceptor, plan)?;
    let (admin, asker): (AdminSocket, Asker) = AdminSocket::local();
    venue.serve(admin);
    drop(asker);

    let mut client = Engine::new(Counting::default());
    let plan = SessionPlan::new(settings(Role::Initiator, "CLIENT", "VENUE"));
    let session: Handle = client.add_initiator(&plan, Destinations::one(to))?;
    until("a Logon", || {
        (client.poll(), venue.poll());
        Ok(client.session(session).is_logged_on().then_some(()))
    })?;
    let sent: Result<u64, SendError> = client.send(session, b"D", |order| {
        order.unsigned(11, 1).str(55, "TEST").char(54, b'1').timestamp(60, Now::system().utc());
        order.unsigned(38, 100).char(40, b'1');
    });
    assert!(matches!(sent, Ok(2)));
    until("an order", || {
        (client.poll(), venue.poll());
        Ok((venue.app().orders == 1).then_some(()))
    })?;
    let Refusals { .. } = venue.refusals();
    let running: &Session<AnyStore> = client.session(session);
    assert_eq!(running.phase(), Phase::LoggedOn);
    let Counters { .. } = running.counters();
    venue.run(&AtomicBool::new(true), IdleStrategy::SPIN)?;
    client.shut_down("", Duration::from_secs(1));
    assert!(ask("/nowhere/admin".as_ref(), "sessions").is_err());
    Ok(())
}

fn without_transport() -> Result<(), Problem> {
    let mut store = MemoryStore::with_bytes(0, MEMORY_BYTES_DEFAULT);
    store.record_outbound(1, b"8=FIX.4.4")?;
    let mut kept = 0;
    let visit: &mut Visit<'_> = &mut |_, message| {
        kept += message.len();
        ControlFlow::Continue(())
    };
    store.outbound(1, 1, visit)?;
    assert_eq!(kept, 9);
    let (now, store) = (Now::system(), MemoryStore::new(0));
    let mut session = Session::new(settings(Role::Initiator, "CLIENT", "VENUE"), store, None, now)?;
    session.connected(now, &mut Counting::default());
    assert!(session.output().starts_with(b"8=FIX.4.4\x019="), "a Logon is to be sent");
    assert_eq!(RejectReason::RequiredTagMissing.code(), 1);
    Ok(())
}

fn on_disk() -> Result<(), Problem> {
    let folder = std::env::temp_dir().join(format!("outside-journal-{}", std::process::id()));
    let id = SessionId::new("FIX.4.4", "CLIENT", "VENUE");
    let path = session_folder(&folder, &id);
    let options = journal::Options {
        durability: Durability::PageCache,
        writing: Writing::Call,
        segment_bytes: journal::SEGMENT_BYTES_MIN,
        ..journal::Options::DEFAULT
    };
    assert!(journal::SEGMENT_BYTES_DEFAULT <= journal::SEGMENT_BYTES_MAX);
    std::fs::create_dir_all(&path).map_err(|error| failed("make a folder", error))?;
    let (mut kept, Recovery { .. }): (Journal, Recovery) = Journal::open(&path, &id.to_string(), options, 0)?;
    kept.record_outbound(1, b"8=FIX.4.4")?;
    drop(kept);
    let mut entries = Vec::new();
    for segment in needed_segments(&path) {
        let journal::Segment { .. } =
            read_segment(&segment, &mut |entry: journal::Entry<'_>| entries.push(entry.kind))?;
    }
    let kinds: Vec<journal::Kind> = entries;
    assert!(!kinds.is_empty());
    std::fs::remove_dir_all(&folder).map_err(|error| failed("remove a folder", error))
}

/// Types that only rarer calls name.
const _: Option<(CertificateFiles, CertificateName, StorePlan, TlsSettings)> = None;

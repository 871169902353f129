//! Two engines in one thread, and what they say to each other.

use sidestep_fix::decode::Message;
use sidestep_fix::engine::{
    AcceptorId, Destinations, Endpoint, Engine, Handle, SessionPlan, SocketOptions, StorePlan, TlsSettings,
};
use sidestep_fix::exchange::Exchange;
use sidestep_fix::session::{Application, End, Outbox, Phase, Refusal, Role, SessionId, SessionSettings};
use sidestep_fix::store::journal::{Options, SEGMENT_BYTES_MIN};
use sidestep_fix::value::Precision;
use sidestep_sys::Problem;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a client saw.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Application messages: MsgSeqNum, PossDupFlag, ExecType or nothing.
    pub(crate) seen: Vec<(u64, bool, String)>,
    pub(crate) resets: u64,
    /// The number of notifications of room.
    pub(crate) rooms: u64,
    pub(crate) ends: Vec<End>,
    pub(crate) problems: Vec<String>,
}

impl Application for Client {
    fn from_app(&mut self, message: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        let text = |tag| String::from_utf8_lossy(message.get(tag).unwrap_or_default()).into_owned();
        self.seen.push((message.seq_num()?, text(43) == "Y", text(150)));
        Ok(())
    }

    fn on_reset(&mut self, _: &SessionId) {
        self.resets += 1;
    }

    fn on_room(&mut self, _: &mut dyn Outbox) {
        self.rooms += 1;
    }

    fn on_logout(&mut self, _: &SessionId, why: End) {
        self.ends.push(why);
    }

    fn on_problem(&mut self, _: &SessionId, problem: &Problem) {
        self.problems.push(problem.to_string());
    }
}

pub(crate) fn plan(role: Role, store: Option<&Path>) -> SessionPlan {
    let (ours, theirs) = if role == Role::Acceptor { ("EXCHANGE", "CLIENT") } else { ("CLIENT", "EXCHANGE") };
    let settings = SessionSettings::new(role, SessionId::new("FIX.4.4", ours, theirs));
    let mut plan = SessionPlan::new(settings);
    if let Some(folder) = store {
        let options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::DEFAULT };
        plan.store = StorePlan::Journal { folder: folder.to_owned(), options };
    }
    plan
}

pub(crate) fn exchange(
    endpoint: &Endpoint,
    tls: Option<&TlsSettings>,
    plan: SessionPlan,
) -> (Engine<Exchange>, AcceptorId, Handle) {
    let mut engine = Engine::new(Exchange::default());
    let acceptor = engine.listen(endpoint, tls, &SocketOptions::default()).unwrap();
    let handle = engine.add_acceptor(acceptor, plan).unwrap();
    (engine, acceptor, handle)
}

pub(crate) fn client(destinations: Destinations, plan: &SessionPlan) -> (Engine<Client>, Handle) {
    let mut engine = Engine::new(Client::default());
    let destinations = Destinations { reconnect_interval: Duration::from_millis(20), ..destinations };
    let handle = engine.add_initiator(plan, destinations).unwrap();
    (engine, handle)
}

/// The counterparty logs on at its first attempt, and out again. Its Logon is sent before the server runs again, as by a counterparty
/// with a CPU of its own: from the host of a flood it has some milliseconds for that (decision 0020), which a thread that is shared
/// with the server may lose to the scheduler.
pub(crate) fn log_on(server: &mut Engine<Exchange>, to: &Destinations) {
    let mut connecting = plan(Role::Initiator, None);
    connecting.settings.reset_on_logon = true;
    let (mut client, handle) = client(to.clone(), &connecting);
    poll_until(&mut client, |client| client.session(handle).phase() == Phase::LogonSent);
    until(server, &mut client, |_, client| client.session(handle).is_logged_on());
    assert_eq!(client.last_connect_error(handle), "", "at the first attempt");
    client.log_out(handle, "");
    until(server, &mut client, |_, client| !client.session(handle).is_logged_on());
}

/// Polls both until `done`.
pub(crate) fn until<A: Application, B: Application>(
    one: &mut Engine<A>,
    other: &mut Engine<B>,
    mut done: impl FnMut(&Engine<A>, &Engine<B>) -> bool,
) {
    let end = Instant::now() + PATIENCE;
    while !done(one, other) {
        if one.poll() + other.poll() == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        assert!(Instant::now() < end, "it takes too long");
    }
}

pub(crate) fn order(client: &mut Engine<Client>, handle: Handle, number: u64) {
    let sent = client.send(handle, b"D", |builder| {
        builder.unsigned(11, number).str(38, "100").str(40, "2").str(44, "10.25").str(54, "1").str(55, "TEST");
        builder.timestamp(60, sidestep_fix::Now::system().utc());
    });
    sent.unwrap();
}

/// One number out of an engine's metrics.
pub(crate) fn metric<A: Application>(engine: &Engine<A>, name: &str) -> f64 {
    let text = engine.metrics();
    let line = text.lines().find(|line| line.starts_with(&format!("sidestep_fix_{name}{{"))).expect("it is there");
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// Polls until `done`, alone.
pub(crate) fn poll_until<A: Application>(engine: &mut Engine<A>, mut done: impl FnMut(&mut Engine<A>) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done(engine) {
        engine.poll();
        assert!(Instant::now() < end, "it takes too long");
    }
}

/// A Logon with these parties and fields, to be completed by [`bytes_of`].
pub(crate) fn logon(begin: &str, fields: &str) -> String {
    format!("8={begin}|35=A|34=1|{fields}|52=<TIME>|98=0|108=30|")
}

/// A line of fields made into a message: `|` is SOH, `<TIME>` is now, BodyLength and CheckSum are added.
pub(crate) fn bytes_of(line: &str) -> Vec<u8> {
    let mut time = [0; 27];
    let length = sidestep_fix::Now::system().utc().write(Precision::Seconds, &mut time);
    let line = line.replace("<TIME>", &String::from_utf8_lossy(&time[..length])).replace('|', "\u{1}");
    let (front, body) = line.split_once('\u{1}').expect("it has fields");
    let text = format!("{front}\u{1}9={}\u{1}{body}", body.len());
    let sum = text.bytes().fold(0u8, u8::wrapping_add);
    format!("{text}10={sum:03}\u{1}").into_bytes()
}

/// Accepts every Logon whose Password (554) is not the wrong one, and counts the sessions that begin and those that do not.
#[derive(Debug, Default)]
pub(crate) struct Passwords {
    pub(crate) created: u64,
    pub(crate) discarded: u64,
}

impl Application for Passwords {
    fn on_create(&mut self, _: &SessionId) {
        self.created += 1;
    }

    fn on_discard(&mut self, _: &SessionId) {
        self.discarded += 1;
    }

    fn from_admin(&mut self, _: &SessionId, message: &Message<'_, '_>) -> Result<(), Refusal> {
        if message.get(554) == Some(b"wrong") { Err(Refusal::Logout("who are you?")) } else { Ok(()) }
    }

    fn from_app(&mut self, _: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        Ok(())
    }
}

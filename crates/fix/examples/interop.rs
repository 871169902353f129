//! The initiator of `peers/fix/interop` on our engine: orders; orders while a proxy discards the answers and cuts the
//! connection; orders after a gap that is filled by SequenceReset; orders after a Logon that resets.
//!
//! `interop HOST:PORT [CA.pem]`. Prints a line for each step and "cut" when the connection is to be cut; ends with 0 if
//! every order was filled, once.

use sidestep_fix::clock::Now;
use sidestep_fix::decode::Message;
use sidestep_fix::engine::{Destinations, Endpoint, Engine, Handle, SessionPlan, TlsSettings};
use sidestep_fix::session::{Application, Outbox, Refusal, Role, SessionId, SessionSettings};
use sidestep_fix::store::Store;
use sidestep_sys::Problem;
use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const ORDERS: u64 = 10;
const WITHIN: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Orders {
    sent: u64,
    logons: u64,
    filled: HashSet<Vec<u8>>,
    twice: u64,
}

impl Application for Orders {
    fn on_logon(&mut self, _: &mut dyn Outbox) {
        self.logons += 1;
    }

    fn from_app(&mut self, report: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        let id = report.get(11).unwrap_or_default().to_vec();
        if report.get(150) == Some(b"F") && !self.filled.insert(id) {
            self.twice += 1;
        }
        Ok(())
    }
}

impl Orders {
    fn are_filled(&self) -> bool {
        self.filled.len() as u64 == self.sent
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first() {
        Some(address) => run(address, arguments.get(1)),
        None => Err(Problem::usage("no address", "usage: interop HOST:PORT [CA.pem]")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            sidestep_sys::problem::say(problem);
            ExitCode::from(2)
        }
    }
}

fn run(address: &str, authorities: Option<&String>) -> Result<bool, Problem> {
    let id = SessionId::new("FIX.4.4", "BENCH001", "EXCHANGE");
    let plan = SessionPlan::new(SessionSettings::new(Role::Initiator, id));
    let mut destinations = Destinations::one(Endpoint::parse(address)?);
    destinations.reconnect_interval = Duration::from_millis(200);
    destinations.tls = authorities.map(|file| TlsSettings {
        authorities: Some(file.into()),
        server_name: Some("localhost".into()),
        ..TlsSettings::default()
    });
    let mut engine = Engine::new(Orders::default());
    let session = engine.add_initiator(&plan, destinations)?;
    steps(&mut engine, session)
}

fn steps(engine: &mut Engine<Orders>, session: Handle) -> Result<bool, Problem> {
    let is_up =
        |engine: &Engine<Orders>, logons| engine.app().logons >= logons && engine.session(session).is_logged_on();
    if !step(engine, "logon", |engine| is_up(engine, 1)) {
        return Ok(false);
    }
    send(engine, session)?;
    if !step(engine, "orders", |engine| engine.app().are_filled()) {
        return Ok(false);
    }
    println!("cut");
    let end = Instant::now() + Duration::from_millis(500);
    poll_until(engine, |_| Instant::now() >= end);
    send(engine, session)?;
    if !step(engine, "reconnect", |engine| is_up(engine, 2))
        || !step(engine, "resend after a cut connection", |engine| engine.app().are_filled())
    {
        return Ok(false);
    }
    // Numbers that were never used: the counterparty requests them and gets a gap fill.
    engine.act(session, |session, _, _| {
        let next = session.store().next_outbound() + 25;
        session.store_mut().set_next_outbound(next)
    })?;
    send(engine, session)?;
    if !step(engine, "sequence reset", |engine| engine.app().are_filled()) {
        return Ok(false);
    }
    engine.act(session, |session, now: Now, app| session.reset(now, app))?;
    if !step(engine, "logon with reset", |engine| engine.session(session).store().next_inbound() == 2) {
        return Ok(false);
    }
    send(engine, session)?;
    let good = step(engine, "orders after reset", |engine| engine.app().are_filled());
    engine.shut_down("", Duration::from_secs(2));
    Ok(good && engine.app().twice == 0)
}

fn send(engine: &mut Engine<Orders>, session: Handle) -> Result<(), Problem> {
    for _ in 0..ORDERS {
        engine.app_mut().sent += 1;
        let id = format!("R{}", engine.app().sent);
        let sent = engine.send(session, b"D", |order| {
            order.bytes(11, id.as_bytes()).char(21, b'1').bytes(38, b"100").char(40, b'1').char(54, b'1');
            order.bytes(55, b"EURUSD").timestamp(60, Now::system().utc());
        });
        sent.map_err(|error| Problem::failed("cannot send an order", format!("{error:?}")))?;
    }
    Ok(())
}

fn step(engine: &mut Engine<Orders>, name: &str, done: impl Fn(&Engine<Orders>) -> bool) -> bool {
    let end = Instant::now() + WITHIN;
    poll_until(engine, |engine| done(engine) || Instant::now() >= end);
    let passed = done(engine);
    println!("step {name}: {}", if passed { "passed" } else { "FAILED" });
    passed
}

fn poll_until(engine: &mut Engine<Orders>, done: impl Fn(&Engine<Orders>) -> bool) {
    while !done(engine) {
        if engine.poll() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

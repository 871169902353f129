//! A FIX initiator: logs on, sends ten orders one after the other, and prints the time of each answer.
//!
//! cargo run --release --example fix_initiator -- 127.0.0.1:9876

use sidestep::fix::decode::Message;
use sidestep::fix::engine::{Destinations, Endpoint, Engine, Handle, SessionPlan};
use sidestep::fix::session::{Application, Outbox, Refusal, Role, SendError, SessionId, SessionSettings};
use sidestep::fix::{Now, value::Decimal};
use std::time::{Duration, Instant};

/// Counts the answers.
#[derive(Default)]
struct Client {
    reports: u64,
}

impl Application for Client {
    fn from_app(&mut self, message: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        self.reports += u64::from(message.msg_type() == b"8");
        Ok(())
    }
}

// ANCHOR: send
fn order(engine: &mut Engine<Client>, session: Handle, number: u64) -> Result<u64, SendError> {
    let price = Decimal::parse(b"10.25").unwrap_or_default();
    engine.send(session, b"D", |order| {
        order.unsigned(11, number).unsigned(38, 100).char(40, b'2').decimal(44, price);
        order.char(54, b'1').str(55, "TEST").timestamp(60, Now::system().utc());
    })
}
// ANCHOR_END: send

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9876".into());
    // ANCHOR: engine
    let mut settings = SessionSettings::new(Role::Initiator, SessionId::new("FIX.4.4", "CLIENT", "VENUE"));
    settings.reset_on_logon = true;
    let mut engine = Engine::new(Client::default());
    let to = Destinations::one(Endpoint::parse(&address)?);
    let session = engine.add_initiator(&SessionPlan::new(settings), to)?;
    // ANCHOR_END: engine

    let patience = Instant::now() + Duration::from_secs(5);
    while !engine.session(session).is_logged_on() {
        engine.poll();
        if Instant::now() > patience {
            return Err(format!("no Logon: {}", engine.last_connect_error(session)).into());
        }
    }
    for number in 1..=10 {
        let begin = Instant::now();
        let before = engine.app().reports;
        order(&mut engine, session, number).map_err(|error| format!("{error:?}"))?;
        while engine.app().reports == before {
            engine.poll();
        }
        println!("order {number}: {:?}", begin.elapsed());
    }
    engine.shut_down("", Duration::from_secs(2));
    Ok(())
}

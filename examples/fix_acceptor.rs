//! A FIX acceptor: whoever connects and logs on has his orders acknowledged.
//!
//! cargo run --release --example fix_acceptor -- 127.0.0.1:9876, and beside it:
//! cargo run --release --example fix_initiator -- 127.0.0.1:9876

use sidestep::fix::decode::Message;
use sidestep::fix::engine::{Endpoint, Engine, SessionPlan, SocketOptions};
use sidestep::fix::session::{Application, End, Outbox, Refusal, Role, SessionId, SessionSettings};
use sidestep::idle::IdleStrategy;
use std::sync::atomic::AtomicBool;

// ANCHOR: application
/// The program's side of its sessions: what QuickFIX calls Application.
#[derive(Default)]
struct Venue {
    orders: u64,
}

impl Application for Venue {
    fn on_logon(&mut self, out: &mut dyn Outbox) {
        println!("{} is logged on", out.id());
    }

    fn on_logout(&mut self, id: &SessionId, why: End) {
        println!("{id} is gone: {why}");
    }

    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        if message.msg_type() != b"D" {
            return Err(Refusal::UNSUPPORTED);
        }
        // A field that is missing, or cannot be read, becomes the Reject that FIX wants.
        let (order, quantity) = (message.required(11)?, message.decimal(38)?);
        let (symbol, side) = (message.required(55)?, message.character(54)?);
        self.orders += 1;
        let number = self.orders;
        // What is sent in a callback leaves in one write with whatever else this message causes.
        let sent = out.send(b"8", &mut |report| {
            report.unsigned(6, 0).bytes(11, order).unsigned(14, 0).unsigned(17, number).unsigned(37, number);
            report.char(39, b'0').char(54, side).bytes(55, symbol).char(150, b'0').decimal(151, quantity);
        });
        if let Err(error) = sent {
            println!("order {number} is not acknowledged: {error:?}");
        }
        Ok(())
    }
}
// ANCHOR_END: application

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9876".into());
    // ANCHOR: engine
    let mut engine = Engine::new(Venue::default());
    let acceptor = engine.listen(&Endpoint::parse(&address)?, None, &SocketOptions::default())?;
    // A session is made for every client that asks for VENUE.
    let anyone = SessionId::new("FIX.4.4", "VENUE", "*");
    engine.add_template(acceptor, SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone)));
    println!("listening on {}", engine.endpoint(acceptor));
    engine.run(&AtomicBool::new(false), IdleStrategy::PARK)?;
    // ANCHOR_END: engine
    Ok(())
}

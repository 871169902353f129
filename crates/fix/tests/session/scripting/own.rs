//! The steps that need a session in this process: the application's, the clock's, and checks of its state.

use super::parse::Action;
use super::run::{Host, show};
use super::world::World;
use sidestep_fix::store::Store;

/// How long a script waits for what it expects. QuickFIX's runner waits for ever for messages, and 10 s for the end; a
/// heartbeat interval in the suite is 30 s at most.
const WAIT_NS: u64 = 40_000_000_000;

impl Host for World {
    fn connect(&mut self, id: u8) {
        self.open(id);
    }

    fn disconnect(&mut self, id: u8) {
        self.cut(id);
    }

    fn send(&mut self, id: u8, bytes: &[u8]) {
        self.deliver_bytes(id, bytes);
    }

    fn is_open(&mut self, id: u8) -> bool {
        self.has_open(id)
    }

    fn time(&self, shift: i64) -> String {
        self.clock(shift)
    }

    fn wait_message(&mut self, id: u8) -> Option<Vec<u8>> {
        let limit_ns = self.now.mono_ns + WAIT_NS;
        loop {
            let message = self.next_message(id);
            if message.is_some() || !self.has_open(id) || !self.pass_to_deadline(limit_ns) {
                return message;
            }
        }
    }

    fn set_number(&mut self, outbound: bool, next: u64) {
        for session in &mut self.sessions {
            let store = session.store_mut();
            let set = if outbound { store.set_next_outbound(next) } else { store.record_inbound(next) };
            set.expect("memory does not fail");
        }
    }

    fn own(&mut self, id: u8, action: &Action) -> Result<(), String> {
        match action {
            Action::Wait(seconds) => wait(self, (*seconds * 1e9) as u64),
            Action::App(message) => return app(message, self),
            Action::Full(message) => {
                return match app(message, self) {
                    Err(why) if why == "Full" => Ok(()),
                    other => Err(format!("it should be refused: {other:?}")),
                };
            }
            Action::Logout(text) => self.act(|session, now, echo| session.logout(text, now, echo)),
            Action::Reset => self.act(|session, now, echo| session.reset(now, echo).expect("it can be reset")),
            Action::Read(bytes) => self.read(id, *bytes),
            Action::ExpectNothing => return expect_nothing(self, id),
            Action::ExpectSeq(outbound, inbound) => return expect_seq(self, (*outbound, *inbound)),
            Action::ExpectCount(name, value) => return expect_count(self, name, *value),
            Action::ExpectEvents(events) => return expect_events(self, events),
            _ => unreachable!("every host knows {action:?}"),
        }
        Ok(())
    }
}

fn expect_nothing(world: &mut World, id: u8) -> Result<(), String> {
    match world.next_message(id) {
        Some(message) => Err(format!("instead of nothing came {}", show(&message))),
        None if world.has_open(id) => Ok(()),
        None => Err("the connection ended".to_owned()),
    }
}

/// Everything that is due meanwhile happens when it is due.
fn wait(world: &mut World, ns: u64) {
    let end_ns = world.now.mono_ns + ns;
    while world.pass_to_deadline(end_ns) {}
    world.pass(end_ns - world.now.mono_ns);
}

/// `D|11=ID|...`
fn app(message: &[u8], world: &mut World) -> Result<(), String> {
    let mut fields = message.split(|byte| *byte == 1).filter(|field| !field.is_empty());
    let msg_type = fields.next().ok_or("a message has a type")?;
    let pair = |field: &[u8]| {
        let at = field.iter().position(|byte| *byte == b'=').expect("tag=value");
        let tag: u32 = std::str::from_utf8(&field[..at]).expect("a tag").parse().expect("a tag");
        (tag, field[at + 1..].to_vec())
    };
    let body: Vec<(u32, Vec<u8>)> = fields.map(pair).collect();
    let mut result = Ok(());
    world.act(|session, now, _| {
        let sent = session.send(msg_type, now, |builder| {
            for (tag, value) in &body {
                builder.bytes(*tag, value);
            }
        });
        result = sent.map(|_| ()).map_err(|error| format!("{error:?}"));
    });
    result
}

fn expect_seq(world: &World, expected: (u64, u64)) -> Result<(), String> {
    let store = world.sessions[0].store();
    let got = (store.next_outbound(), store.next_inbound());
    if got == expected { Ok(()) } else { Err(format!("numbers should be {expected:?}, are {got:?}")) }
}

fn expect_count(world: &World, name: &str, expected: u64) -> Result<(), String> {
    let all = format!("{:?}", world.sessions[0].counters());
    let value = all.split([' ', '{', ',']).skip_while(|word| *word != format!("{name}:")).nth(1);
    match value.and_then(|value| value.trim_end_matches('}').parse::<u64>().ok()) {
        Some(got) if got == expected => Ok(()),
        got => Err(format!("{name} should be {expected}, is {got:?}: {all}")),
    }
}

fn expect_events(world: &mut World, expected: &str) -> Result<(), String> {
    let got = std::mem::take(&mut world.echo.events).join(" ");
    if got == expected { Ok(()) } else { Err(format!("events should be {expected:?}, are {got:?}")) }
}

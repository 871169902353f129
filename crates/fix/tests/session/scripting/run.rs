//! A script, step by step.

use super::compare::{Mode, compare};
use super::parse::{Action, Step, complete};
use super::world::World;

/// How long a script waits for what it expects. QuickFIX's runner waits for ever for messages, and 10 s for the end; a
/// heartbeat interval in the suite is 30 s at most.
const WAIT_NS: u64 = 40_000_000_000;

/// Runs the steps; says what went otherwise.
pub(crate) fn run(steps: &[Step], world: &mut World, mode: Mode) -> Result<(), String> {
    for step in steps {
        one(step, world, mode).map_err(|reason| format!("line {}: {reason}", step.line))?;
    }
    Ok(())
}

fn one(step: &Step, world: &mut World, mode: Mode) -> Result<(), String> {
    let id = step.connection;
    match &step.action {
        Action::Connect => world.connect(id),
        Action::Disconnect => world.disconnect(id),
        Action::ExpectConnect => return if world.is_open(id) { Ok(()) } else { Err("not connected".to_owned()) },
        Action::ExpectDisconnect => return expect_end(world, id),
        Action::Send(template) => {
            let message = complete(template, &|shift| world.time(shift));
            world.send(id, &message);
        }
        Action::Expect(template) => return expect(template, world, id, mode),
        Action::SetSession { outbound, next } => set_number(world, *outbound, *next),
        Action::Wait(seconds) => wait(world, (*seconds * 1e9) as u64),
        Action::App(message) => return app(message, world),
        Action::Logout(text) => world.act(|session, now, echo| session.logout(text, now, echo)),
        Action::Reset => world.act(|session, now, echo| session.reset(now, echo).expect("it can be reset")),
        Action::ExpectNothing => return expect_nothing(world, id),
        Action::ExpectSeq(outbound, inbound) => return expect_seq(world, (*outbound, *inbound)),
        Action::ExpectCount(name, value) => return expect_count(world, name, *value),
        Action::ExpectEvents(events) => return expect_events(world, events),
    }
    Ok(())
}

fn expect(template: &[u8], world: &mut World, id: u8, mode: Mode) -> Result<(), String> {
    let limit_ns = world.now.mono_ns + WAIT_NS;
    let got = loop {
        if let Some(message) = world.next_message(id) {
            break message;
        }
        if !world.is_open(id) {
            return Err(format!("the connection ended instead of {}", show(template)));
        }
        if !world.pass_to_deadline(limit_ns) {
            return Err(format!("nothing came instead of {}", show(template)));
        }
    };
    let expected = complete(template, &|shift| world.time(shift));
    compare(&expected, &got, mode)
        .map_err(|why| format!("{why}\n  expected {}\n  got      {}", show(&expected), show(&got)))
}

fn expect_end(world: &mut World, id: u8) -> Result<(), String> {
    let limit_ns = world.now.mono_ns + WAIT_NS;
    loop {
        if let Some(message) = world.next_message(id) {
            return Err(format!("instead of the end came {}", show(&message)));
        }
        if !world.is_open(id) {
            return Ok(());
        }
        if !world.pass_to_deadline(limit_ns) {
            return Err("the connection did not end".to_owned());
        }
    }
}

fn expect_nothing(world: &mut World, id: u8) -> Result<(), String> {
    match world.next_message(id) {
        Some(message) => Err(format!("instead of nothing came {}", show(&message))),
        None if world.is_open(id) => Ok(()),
        None => Err("the connection ended".to_owned()),
    }
}

/// Everything that is due meanwhile happens when it is due.
fn wait(world: &mut World, ns: u64) {
    let end_ns = world.now.mono_ns + ns;
    while world.pass_to_deadline(end_ns) {}
    world.pass(end_ns - world.now.mono_ns);
}

fn set_number(world: &mut World, outbound: bool, next: u64) {
    use sidestep_fix::store::Store;
    for session in &mut world.sessions {
        let store = session.store_mut();
        let set = if outbound { store.set_next_outbound(next) } else { store.record_inbound(next) };
        set.expect("memory does not fail");
    }
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
    use sidestep_fix::store::Store;
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

pub(crate) fn show(message: &[u8]) -> String {
    String::from_utf8_lossy(message).replace('\x01', "|")
}

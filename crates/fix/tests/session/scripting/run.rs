//! A script, step by step.

use super::compare::{Mode, compare};
use super::parse::{Action, Step, complete};

/// What a script is run against: our session in process, or an engine at the other end of a socket.
pub(crate) trait Host {
    fn connect(&mut self, id: u8);
    fn disconnect(&mut self, id: u8);
    fn send(&mut self, id: u8, bytes: &[u8]);
    fn is_open(&mut self, id: u8) -> bool;
    /// UTC by the host's clock, `shift` seconds away.
    fn time(&self, shift: i64) -> String;
    /// The next message, waited for as long as a script waits. `None` if none came, or the connection ended.
    fn wait_message(&mut self, id: u8) -> Option<Vec<u8>>;
    /// Sets the next number out, or in, by hand.
    fn set_number(&mut self, outbound: bool, next: u64);
    /// A step that only some hosts know.
    fn own(&mut self, id: u8, action: &Action) -> Result<(), String>;
}

/// Runs the steps; says what went otherwise.
pub(crate) fn run(steps: &[Step], host: &mut impl Host, mode: Mode) -> Result<(), String> {
    for step in steps {
        one(step, host, mode).map_err(|reason| format!("line {}: {reason}", step.line))?;
    }
    Ok(())
}

fn one(step: &Step, host: &mut impl Host, mode: Mode) -> Result<(), String> {
    let id = step.connection;
    match &step.action {
        Action::Connect => host.connect(id),
        Action::Disconnect => host.disconnect(id),
        Action::ExpectConnect => return if host.is_open(id) { Ok(()) } else { Err("not connected".to_owned()) },
        Action::ExpectDisconnect => return expect_end(host, id),
        Action::Send(template) => {
            let message = complete(template, &|shift| host.time(shift));
            host.send(id, &message);
        }
        Action::Expect(template) => return expect(template, host, id, mode),
        Action::SetSession { outbound, next } => host.set_number(*outbound, *next),
        other => return host.own(id, other),
    }
    Ok(())
}

fn expect(template: &[u8], host: &mut impl Host, id: u8, mode: Mode) -> Result<(), String> {
    let Some(got) = host.wait_message(id) else {
        let what = if host.is_open(id) { "nothing came" } else { "the connection ended" };
        return Err(format!("{what} instead of {}", show(template)));
    };
    let expected = complete(template, &|shift| host.time(shift));
    compare(&expected, &got, mode)
        .map_err(|why| format!("{why}\n  expected {}\n  got      {}", show(&expected), show(&got)))
}

fn expect_end(host: &mut impl Host, id: u8) -> Result<(), String> {
    match host.wait_message(id) {
        Some(message) => Err(format!("instead of the end came {}", show(&message))),
        None if host.is_open(id) => Err("the connection did not end".to_owned()),
        None => Ok(()),
    }
}

pub(crate) fn show(message: &[u8]) -> String {
    String::from_utf8_lossy(message).replace('\x01', "|")
}

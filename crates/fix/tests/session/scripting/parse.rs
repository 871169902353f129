//! Lines into steps.

use std::fmt;

/// One line of a script.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) line: usize,
    /// Connection 1 to 9.
    pub(crate) connection: u8,
    pub(crate) action: Action,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Connect,
    Disconnect,
    ExpectConnect,
    ExpectDisconnect,
    /// A message with macros in it, not yet completed.
    Send(Vec<u8>),
    Expect(Vec<u8>),
    /// A number set by hand: outbound or inbound.
    SetSession {
        outbound: bool,
        next: u64,
    },
    Wait(f64),
    App(Vec<u8>),
    /// The same, which is to be refused because too much waits.
    Full(Vec<u8>),
    Logout(String),
    Reset,
    /// Takes so many bytes and then no more; `usize::MAX` for all from now on.
    Read(usize),
    ExpectNothing,
    ExpectSeq(u64, u64),
    ExpectCount(String, u64),
    ExpectEvents(String),
}

/// A script that cannot be read.
#[derive(Debug)]
pub(crate) struct Bad {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// Reads a script; `|` separates fields where there is no 0x01.
pub(crate) fn script(bytes: &[u8]) -> Result<Vec<Step>, Bad> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let mut steps = Vec::new();
    for (at, line) in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let bad = |reason: &str| Bad { line: at + 1, reason: format!("{reason}: {}", String::from_utf8_lossy(line)) };
        let Some((letter, rest)) = line.split_first() else { continue };
        if *letter == b'#' || line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (connection, rest) = connection(rest);
        let action = match letter {
            b'I' => Action::Send(separated(rest)),
            b'E' => Action::Expect(separated(rest)),
            b'i' => inward(rest).ok_or_else(|| bad("no such action"))?,
            b'e' => expected(rest).ok_or_else(|| bad("no such expectation"))?,
            _ => return Err(bad("a line begins with I, E, i, e or #")),
        };
        steps.push(Step { line: at + 1, connection, action });
    }
    Ok(steps)
}

/// The settings line of our own scripts: pairs of name and value.
pub(crate) fn settings(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().find_map(|line| line.strip_prefix("# settings:")).unwrap_or("");
    let pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// `2,` in front.
fn connection(rest: &[u8]) -> (u8, &[u8]) {
    match rest {
        [digit @ b'1'..=b'9', b',', rest @ ..] => (digit - b'0', rest),
        _ => (1, rest),
    }
}

fn separated(message: &[u8]) -> Vec<u8> {
    if message.contains(&1) {
        return message.to_vec();
    }
    message.iter().map(|byte| if *byte == b'|' { 1 } else { *byte }).collect()
}

fn inward(rest: &[u8]) -> Option<Action> {
    let text = std::str::from_utf8(rest).ok()?.trim();
    let (word, argument) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "CONNECT" => Action::Connect,
        "DISCONNECT" => Action::Disconnect,
        "SET_SESSION" => {
            let (name, value) = argument.rsplit(' ').next()?.split_once('=')?;
            let outbound = match name {
                "NEXTSENDERSEQNUM" => true,
                "NEXTTARGETSEQNUM" => false,
                _ => return None,
            };
            Action::SetSession { outbound, next: value.parse().ok()? }
        }
        "WAIT" => Action::Wait(argument.parse().ok()?),
        "APP" => Action::App(separated(argument.as_bytes())),
        "FULL" => Action::Full(separated(argument.as_bytes())),
        "LOGOUT" => Action::Logout(argument.to_owned()),
        "RESET" => Action::Reset,
        "STALL" => Action::Read(0),
        "READ" if argument.is_empty() => Action::Read(usize::MAX),
        "READ" => Action::Read(argument.parse().ok()?),
        _ => return None,
    })
}

fn expected(rest: &[u8]) -> Option<Action> {
    let text = std::str::from_utf8(rest).ok()?.trim();
    let (word, argument) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "CONNECT" => Action::ExpectConnect,
        "DISCONNECT" => Action::ExpectDisconnect,
        "NOTHING" => Action::ExpectNothing,
        "SEQ" => {
            let (outbound, inbound) = argument.split_once(' ')?;
            Action::ExpectSeq(outbound.parse().ok()?, inbound.parse().ok()?)
        }
        "COUNT" => {
            let (name, value) = argument.split_once(' ')?;
            Action::ExpectCount(name.to_owned(), value.parse().ok()?)
        }
        "EVENT" => Action::ExpectEvents(argument.to_owned()),
        _ => return None,
    })
}

/// A message as it is sent or expected: macros filled in, BodyLength and CheckSum added where they are missing.
pub(crate) fn complete(template: &[u8], time: &dyn Fn(i64) -> String) -> Vec<u8> {
    let message = with_times(template, time);
    if !message.starts_with(b"8=") {
        return message;
    }
    let mut fields: Vec<Vec<u8>> = message.split_inclusive(|byte| *byte == 1).map(<[u8]>::to_vec).collect();
    if let Some(last) = fields.last_mut().filter(|last| last.last() != Some(&1)) {
        last.push(1);
    }
    if !fields.iter().any(|field| field.starts_with(b"9=")) {
        let body = fields[1..].iter().filter(|field| !field.starts_with(b"10="));
        let length: usize = body.map(Vec::len).sum();
        fields.insert(1, format!("9={length}\x01").into_bytes());
    }
    if !fields.iter().any(|field| field.starts_with(b"10=")) {
        let sum = fields.iter().flatten().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        fields.push(format!("10={sum:03}\x01").into_bytes());
    }
    fields.concat()
}

fn with_times(template: &[u8], time: &dyn Fn(i64) -> String) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.windows(5).position(|window| window == b"<TIME") {
        out.extend_from_slice(&rest[..at]);
        let end = at + rest[at..].iter().position(|byte| *byte == b'>').expect("a macro ends");
        let shift = std::str::from_utf8(&rest[at + 5..end]).expect("a macro is text");
        let seconds = if shift.is_empty() { 0 } else { shift.parse().expect("a macro's seconds") };
        out.extend_from_slice(time(seconds).as_bytes());
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(rest);
    out
}

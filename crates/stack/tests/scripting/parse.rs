//! The language of packet scripts: one event per line, `#` begins a remark.
//!
//! ```text
//! set rto_min_us 200000            a setting of the stack, before anything else
//! use established                  what stands in common/established.txt
//! +10ms < P. 1:101 ack 1 win 500   10 ms later the peer sends bytes 1 to 100 of its stream
//! <+ . 101:111 ack 1               and more in the same burst, before the next poll
//! +0    > . 1 ack 111              and we answer at once
//! send 100                         the application sends 100 bytes; `= error` if it must not succeed
//! +1s   quiet                      for a second nothing leaves
//! ```
//!
//! Numbers are relative: the SYN of each side is 0. Flags as tcpdump writes them: `S F R P . U`, `.` is ACK.
//! Options stand in angle brackets: `<mss 1000, ws 7, sackok, ts 100/0, sack 11:21 31:41>`; of an expectation those that
//! are named must be there, `<>` demands that there is none, without brackets anything goes; `ts */100` checks the echo.

use sidestep_stack::tcp::{Config, Value};
use sidestep_wire::tcp::Flags;

/// Limits of a script: more is not written by hand, and a runner stays fast with garbage.
pub const LINES_MAX: usize = 1000;
pub const LINE_BYTES_MAX: usize = 300;
const WAIT_NS_MAX: u64 = 60 * 24 * 3600 * 1_000_000_000;
pub const PAYLOAD_BYTES_MAX: u32 = 60_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: usize,
    pub text: String,
    /// Time that passes before.
    pub wait_ns: u64,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Use(String),
    Set(String, Value),
    /// From the peer.
    Inject(Packet),
    /// The same, in one burst with the line before: no poll between them.
    Join(Packet),
    /// From us.
    Expect(Packet),
    Quiet,
    /// A call: its words, and the result that is wanted.
    Call(Vec<String>, Option<String>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    pub flags: Flags,
    pub seq: u32,
    pub bytes: u32,
    pub ack: Option<u32>,
    pub window: Option<u16>,
    pub options: Option<Vec<Choice>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    SegmentSize(u16),
    WindowScale(u8),
    SackPermitted,
    /// Value, if it matters, and echo.
    Timestamps(Option<u32>, u32),
    Sack(Vec<(u32, u32)>),
}

/// The script's lines. `Err`: number and reason of the first line that is wrong.
pub fn parse(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let mut lines = Vec::new();
    for (number, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text)) {
        if number > LINES_MAX {
            return Err((number, format!("more than {LINES_MAX} lines")));
        }
        if text.len() > LINE_BYTES_MAX {
            return Err((number, format!("more than {LINE_BYTES_MAX} bytes")));
        }
        let code = text.split('#').next().unwrap_or_default().trim();
        if !code.is_empty() {
            let (wait_ns, event) = line(code).map_err(|reason| (number, reason))?;
            lines.push(Line { number, text: code.to_owned(), wait_ns, event });
        }
    }
    Ok(lines)
}

fn line(code: &str) -> Result<(u64, Event), String> {
    let (wait_ns, rest) = match code.strip_prefix('+') {
        Some(rest) => {
            let (time, rest) = rest.split_once(char::is_whitespace).ok_or("a time without an event")?;
            (duration_ns(time)?, rest.trim_start())
        }
        None => (0, code),
    };
    if let Some(rest) = rest.strip_prefix("<+") {
        return if wait_ns == 0 {
            Ok((0, Event::Join(packet(rest)?)))
        } else {
            Err("a burst has no time in it".into())
        };
    }
    if let Some(rest) = rest.strip_prefix('<') {
        return Ok((wait_ns, Event::Inject(packet(rest)?)));
    }
    if let Some(rest) = rest.strip_prefix('>') {
        return Ok((wait_ns, Event::Expect(packet(rest)?)));
    }
    let (call, wanted) = match rest.split_once('=') {
        Some((call, wanted)) => (call, Some(wanted.trim().to_owned())),
        None => (rest, None),
    };
    let words: Vec<String> = call.split_whitespace().map(str::to_owned).collect();
    let event = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["quiet"] => Event::Quiet,
        ["use", name] if name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_') => {
            Event::Use(name.to_owned())
        }
        ["set", name, text] => setting(name, text)?,
        [] => return Err("nothing is to happen".into()),
        _ => Event::Call(words, wanted),
    };
    Ok((wait_ns, event))
}

fn setting(name: &str, text: &str) -> Result<Event, String> {
    let value = match text {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => text.replace('_', "").parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer),
    };
    Config::default().set(name, &value).map_err(|error| format!("{name} {text}: {error:?}"))?;
    Ok(Event::Set(name.to_owned(), value))
}

/// `10ms`, `1.5s`, `0`, in ns.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        "" if number == "0" => 1.0,
        _ => return Err(format!("no time: {text}")),
    };
    let number: f64 = number.parse().map_err(|_| format!("no time: {text}"))?;
    let time_ns = (number * unit_ns).round() as u64;
    if time_ns > WAIT_NS_MAX { Err(format!("too long: {text}")) } else { Ok(time_ns) }
}

pub fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

fn packet(text: &str) -> Result<Packet, String> {
    let (head, options) = match text.split_once('<') {
        Some((head, rest)) => {
            let inner = rest.trim_end().strip_suffix('>').ok_or("options without an end")?;
            (head, Some(choices(inner)?))
        }
        None => (text, None),
    };
    let mut words = head.split_whitespace();
    let flags = flags(words.next().ok_or("no flags")?)?;
    let place = words.next().ok_or("no sequence number")?;
    let (seq, bytes) = match place.split_once(':') {
        Some((start, end)) => {
            let (start, end) = (number(start)?, number(end)?);
            (start, end.checked_sub(start).filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX).ok_or("no such length")?)
        }
        None => (number(place)?, 0),
    };
    let mut packet = Packet { flags, seq, bytes, options, ..Packet::default() };
    while let Some(word) = words.next() {
        let value = number(words.next().ok_or_else(|| format!("{word} without a number"))?)?;
        match word {
            "ack" => packet.ack = Some(value),
            "win" => packet.window = Some(value.try_into().map_err(|_| "a window has 16 bits")?),
            _ => return Err(format!("what is {word}?")),
        }
    }
    if packet.flags.has(Flags::ACK) != packet.ack.is_some() {
        return Err("`.` and `ack` go together".into());
    }
    Ok(packet)
}

fn flags(text: &str) -> Result<Flags, String> {
    text.chars().try_fold(Flags::NONE, |flags, letter| {
        Ok(flags
            | match letter {
                'S' => Flags::SYN,
                'F' => Flags::FIN,
                'R' => Flags::RST,
                'P' => Flags::PSH,
                '.' => Flags::ACK,
                'U' => Flags::URG,
                'E' => Flags::ECE,
                'W' => Flags::CWR,
                '-' => Flags::NONE,
                _ => return Err(format!("no flag: {letter}")),
            })
    })
}

fn choices(text: &str) -> Result<Vec<Choice>, String> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(choice).collect()
}

fn choice(text: &str) -> Result<Choice, String> {
    let small = |text: &str| number(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["mss", bytes] => Ok(Choice::SegmentSize(small(bytes)?.try_into().map_err(|_| "mss has 16 bits")?)),
        ["ws", shift] => Ok(Choice::WindowScale(small(shift)?.try_into().map_err(|_| "ws has 8 bits")?)),
        ["sackok"] => Ok(Choice::SackPermitted),
        ["ts", pair] => {
            let (value, echo) = pair.split_once('/').ok_or("ts VALUE/ECHO")?;
            let value = if value == "*" { None } else { Some(number(value)?) };
            Ok(Choice::Timestamps(value, number(echo)?))
        }
        ["sack", ref blocks @ ..] if (1..=4).contains(&blocks.len()) => {
            let block = |text: &&str| {
                let (start, end) = text.split_once(':').ok_or("sack START:END")?;
                Ok((number(start)?, number(end)?))
            };
            Ok(Choice::Sack(blocks.iter().map(block).collect::<Result<_, String>>()?))
        }
        _ => Err(format!("no option: {text}")),
    }
}

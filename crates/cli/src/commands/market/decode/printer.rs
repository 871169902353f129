//! Messages as lines: of text, or JSON.

use serde_json::{Map, Value as Json, json};
use sidestep_market::itch::{Message, Value};
use sidestep_market::units::{Sequence, Symbol};
use sidestep_sys::Problem;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

/// Bytes of output that are kept before they are written.
const OUTPUT_BYTES: usize = 64 << 10;

/// Lines for standard output.
pub(super) struct Printer {
    pub(super) json: bool,
    buffer: String,
    /// The reader of standard output has closed it (`| head`).
    pub(super) is_closed: bool,
}

/// The place of a message in its input.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Its number, if the framing tells one.
    pub(super) sequence: Option<Sequence>,
    /// Receipt of its datagram, ns since 1970.
    pub(super) received_ns: Option<u64>,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self { json, buffer: String::with_capacity(OUTPUT_BYTES + 4096), is_closed: false }
    }

    /// Prints a message.
    pub(super) fn message(
        &mut self,
        place: Place,
        message: &Message<'_>,
        symbol: Option<Symbol>,
    ) -> Result<(), Problem> {
        if self.json {
            let line = as_json(place, message, symbol);
            let _ = writeln!(self.buffer, "{line}");
        } else {
            as_text(&mut self.buffer, place, message, symbol);
        }
        self.flush_if(OUTPUT_BYTES)
    }

    /// Prints a line.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Problem> {
        self.buffer.push_str(text);
        self.buffer.push('\n');
        self.flush_if(OUTPUT_BYTES)
    }

    /// Writes what is kept.
    pub(super) fn flush(&mut self) -> Result<(), Problem> {
        self.flush_if(1)
    }

    fn flush_if(&mut self, bytes: usize) -> Result<(), Problem> {
        if self.buffer.len() < bytes || self.is_closed {
            return Ok(());
        }
        let mut output = io::stdout().lock();
        let written = output.write_all(self.buffer.as_bytes()).and_then(|()| output.flush());
        self.buffer.clear();
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => Err(Problem::failed("cannot print", error).next("check where standard output goes")),
            Ok(()) => Ok(()),
        }
    }
}

/// ns since midnight as a time of day.
pub(super) fn time_of_day(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!("{:02}:{:02}:{:02}.{:09}", seconds / 3600, seconds / 60 % 60, seconds % 60, ns % 1_000_000_000)
}

/// ns since 1970 as seconds with their decimals, as `tcpdump -tt` has them.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn as_text(out: &mut String, place: Place, message: &Message<'_>, symbol: Option<Symbol>) {
    if let Some(Sequence(number)) = place.sequence {
        let _ = write!(out, "#{number:<9} ");
    }
    let _ =
        write!(out, "{} {} {:<25}", time_of_day(message.timestamp_ns()), message.kind().escape_ascii(), message.name());
    let locate = message.locate().0;
    let symbol = symbol.map_or_else(String::new, |symbol| symbol.as_str().escape_default().to_string());
    let _ = write!(out, " {:<14}", if locate == 0 { String::new() } else { format!("{symbol}({locate})") });
    if let Message::Unknown(bytes) = message {
        let _ = write!(out, " {} bytes: {}", bytes.len(), bytes.escape_ascii());
    }
    message.fields(&mut |name, value| {
        let _ = write!(out, " {name}={value}");
    });
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

fn as_json(place: Place, message: &Message<'_>, symbol: Option<Symbol>) -> Json {
    let mut fields = Map::new();
    message.fields(&mut |name, value| {
        let value = match value {
            Value::Number(number) => json!(number),
            other => json!(other.to_string()),
        };
        fields.insert(name.to_owned(), value);
    });
    let mut line = json!({
        "type": message.kind().escape_ascii().to_string(),
        "name": message.name(),
        "locate": message.locate().0,
        "symbol": symbol.map(|symbol| symbol.as_str().to_owned()),
        "timestamp_ns": message.timestamp_ns(),
        "fields": fields,
    });
    if let Some(Sequence(number)) = place.sequence {
        line["sequence"] = json!(number);
    }
    if let Some(received) = place.received_ns {
        line["received_ns"] = json!(received);
    }
    if let Message::Unknown(bytes) = message {
        line["bytes"] = json!(bytes.escape_ascii().to_string());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: &[u8] =
        b"A\x00\x07\x00\x02\x1f\x1a\xce\xd9\xf0\x40\0\0\0\0\0\0\x01\x00S\0\0\0\xe1CVLT    \x00\x09\x9d\xb8";

    #[test]
    fn a_message_is_one_line_with_its_fields_by_name() {
        let mut text = String::new();
        let place = Place { sequence: Some(Sequence(12)), ..Place::default() };
        as_text(&mut text, place, &Message::parse(ADD).unwrap(), Symbol::new("CVLT"));
        assert_eq!(
            text,
            "#12        09:30:00.000000064 A AddOrder                  CVLT(7)        \
             order_reference=256 side=S shares=225 stock=CVLT price=63.0200\n"
                .replace("09:30:00.000000064", &time_of_day(0x1f1a_ced9_f040))
        );
    }

    #[test]
    fn a_type_of_a_later_version_shows_its_bytes() {
        let mut text = String::new();
        as_text(&mut text, Place::default(), &Message::parse(b"~\x1b[2J").unwrap(), None);
        assert!(text.contains(" ~ Unknown ") && text.ends_with(" 5 bytes: ~\\x1b[2J\n"), "{text}");
    }

    #[test]
    fn json_has_numbers_as_numbers_and_prices_as_written() {
        let place = Place { sequence: Some(Sequence(12)), received_ns: Some(5) };
        let line = as_json(place, &Message::parse(ADD).unwrap(), None);
        assert_eq!((&line["sequence"], &line["received_ns"], &line["symbol"]), (&json!(12), &json!(5), &Json::Null));
        assert_eq!((&line["fields"]["shares"], &line["fields"]["price"]), (&json!(225), &json!("63.0200")));
    }

    #[test]
    fn times_are_of_the_day() {
        assert_eq!(time_of_day(34_200_000_000_001), "09:30:00.000000001");
        assert_eq!(time_of_day(0xFFFF_FFFF_FFFF), "78:11:14.976710655", "no day has it, and it is shown all the same");
        assert_eq!(seconds(1_500_000_000_000_000_007), "1500000000.000000007");
    }
}

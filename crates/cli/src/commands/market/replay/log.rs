//! The log of a replay: a line for each message, and for each change of the feed. Its hash is that of all its bytes.

use sidestep_feed_handler::{Application, Update};
use sidestep_market::book::{Book, Books};
use sidestep_market::feed::Action;
use sidestep_market::itch::PRICE_DECIMALS;
use sidestep_market::mold64::Session;
use sidestep_market::units::Side;
use std::fmt::Write as _;
use std::io::{self, Write};

/// FNV-1a, 64 bits: tells one log from another, and protects from nothing.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The log.
pub(super) struct Log {
    out: Option<Box<dyn Write>>,
    line: String,
    hash: u64,
    pub(super) messages: u64,
    /// The first error of writing.
    pub(super) error: Option<io::Error>,
}

impl Log {
    pub(super) fn new(out: Option<Box<dyn Write>>) -> Self {
        Self { out, line: String::with_capacity(512), hash: FNV_BASIS, messages: 0, error: None }
    }

    /// The hash of the lines so far.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Writes what is kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match (self.error.take(), &mut self.out) {
            (Some(error), _) => Err(error),
            (None, Some(out)) => out.flush(),
            (None, None) => Ok(()),
        }
    }

    fn end_line(&mut self) {
        self.line.push('\n');
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if let (Some(out), None) = (&mut self.out, &self.error) {
            self.error = out.write_all(self.line.as_bytes()).err();
        }
        self.line.clear();
    }
}

impl Application for Log {
    fn message(&mut self, update: &Update<'_>) {
        self.messages += 1;
        let Update { sequence, origin, arrived, message, change, books, .. } = update;
        let line = &mut self.line;
        let recovered = if origin.recovered { "r" } else { "" };
        let _ = write!(line, "{} {}{recovered} {} {}", sequence.0, origin.line.0, arrived.0, message.name());
        let _ = write!(line, " locate={} timestamp_ns={}", message.locate().0, message.timestamp_ns());
        message.fields(&mut |name, value| {
            let _ = write!(line, " {name}={value}");
        });
        match change {
            Err(refusal) => _ = write!(line, " refused: {refusal}"),
            Ok(Some(_)) => {
                books.book(message.locate()).into_iter().for_each(|book| best(line, &book));
            }
            Ok(None) => {}
        }
        self.end_line();
    }

    fn notice(&mut self, action: &Action<Session>, _: &Books) {
        let _ = write!(self.line, "{action:?}");
        self.end_line();
    }
}

fn best(line: &mut String, book: &Book<'_>) {
    for (name, side) in [("bid", Side::Buy), ("offer", Side::Sell)] {
        let _ = match book.best(side) {
            Some(level) => write!(line, " {name}={}x{}", level.price.display(PRICE_DECIMALS), level.shares),
            None => write!(line, " {name}=none"),
        };
    }
}

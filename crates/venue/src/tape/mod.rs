//! A tape: the datagrams of a line, made before they are sent, so that an exchange that is measured does no matching.
//!
//! ```
//! use sidestep_venue::load::LoadSettings;
//! use sidestep_venue::tape::{Tape, TapeSettings, TriggerAt};
//!
//! let load = LoadSettings { symbols: 10, live_orders: 100, ..LoadSettings::default() };
//! let tape = Tape::generate(&TapeSettings { load, messages: 1_000, ..TapeSettings::default() });
//! let trigger = &tape.triggers[0];
//! let datagram = tape.datagrams[trigger.datagram].bytes(&tape.bytes);
//! assert_eq!(&datagram[trigger.end - 12..trigger.end - 4], &trigger.symbol.0);
//! ```
//!
//! # The trigger rule
//!
//! A trigger is an Add Order of the sell side whose price is below the best offer before it, and at most one cent
//! ([`crate::units::TICK`]) above the best bid. No other message of a tape fulfils that. The answer is a buy order at that price for
//! those shares, which names the order reference of the add.

mod make;

pub use make::{TapeSettings, TriggerAt};

use crate::mold::{self, Session};
use crate::units::{Side, Symbol};

/// Messages of a datagram at most: so many of the longest type fit [`mold::PAYLOAD_MAX`].
pub const MESSAGES_PER_PACKET_MAX: u16 =
    ((mold::PAYLOAD_MAX - mold::HEADER) / (mold::LENGTH + crate::itch::MESSAGE_MAX)) as u16;

/// One datagram of a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Where its bytes begin in [`Tape::bytes`].
    pub start: usize,
    /// Its bytes, MoldUDP64's header included.
    pub length: u16,
    /// Its messages.
    pub count: u16,
    /// The sequence number of the first one.
    pub first: u64,
    /// ns since the start of trading at which it is due; 0 for datagrams of the prologue.
    pub due_ns: u64,
    /// The index in [`Tape::triggers`] of the trigger that it holds; a datagram holds one at most.
    pub trigger: Option<u32>,
}

impl Datagram {
    /// Its bytes, given those of the tape.
    pub fn bytes<'a>(&self, tape: &'a [u8]) -> &'a [u8] {
        &tape[self.start..self.start + usize::from(self.length)]
    }
}

/// A message that has to be answered, and the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trigger {
    /// Its sequence number.
    pub sequence: u64,
    /// The index of its datagram in [`Tape::datagrams`].
    pub datagram: usize,
    /// The offset behind its last byte in that datagram.
    pub end: usize,
    /// Its instrument.
    pub locate: u16,
    /// The symbol of the order that answers.
    pub symbol: Symbol,
    /// The side of the order that answers.
    pub side: Side,
    /// The limit of the order that answers, four decimals.
    pub price: u32,
    /// The shares of the order that answers.
    pub shares: u32,
    /// The order reference of the add, which the answer echoes.
    pub reference: u64,
}

/// The datagrams of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tape {
    /// All datagrams, one behind the other.
    pub bytes: Vec<u8>,
    /// Where each one is, in the order of their sequence numbers.
    pub datagrams: Vec<Datagram>,
    /// How many of them build the books before trading, to be sent before time counts.
    pub prologue: usize,
    /// The messages that have to be answered, in the order of their sequence numbers.
    pub triggers: Vec<Trigger>,
    /// MoldUDP64's session.
    pub session: Session,
    /// Messages; the first one is number 1.
    pub messages: u64,
}

impl Tape {
    /// All messages with their numbers.
    pub fn messages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.datagrams.iter().flat_map(|datagram| (datagram.first..).zip(blocks(datagram.bytes(&self.bytes))))
    }

    /// The datagram that a line sends in silence and, with [`mold::END_OF_SESSION`], at the end.
    pub fn empty(&self, count: u16) -> [u8; mold::HEADER] {
        mold::empty(self.session, self.messages + 1, count)
    }

    /// The same messages in other datagrams, as another line has them; due when the last of their messages was.
    pub fn recut(&self, messages_per_packet: u16) -> Self {
        let mut other = make::Cutter::new(self.session, messages_per_packet);
        let mut triggers = self.triggers.iter().peekable();
        for (at, datagram) in self.datagrams.iter().enumerate() {
            if at == self.prologue {
                other.end_prologue();
            }
            for (sequence, message) in (datagram.first..).zip(blocks(datagram.bytes(&self.bytes))) {
                let trigger = triggers.next_if(|trigger| trigger.sequence == sequence);
                if trigger.is_some() && other.has_trigger() {
                    other.cut(datagram.due_ns);
                }
                other.push(message, datagram.due_ns);
                if let Some(trigger) = trigger {
                    other.mark(*trigger);
                }
                other.cut_if_full(datagram.due_ns);
            }
        }
        if self.prologue == self.datagrams.len() {
            other.end_prologue();
        }
        other.finish(self.datagrams.last().map_or(0, |datagram| datagram.due_ns))
    }
}

/// The messages of one of our own datagrams.
fn blocks(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = &datagram[mold::HEADER..];
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk::<2>()?;
        let (message, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = behind;
        Some(message)
    })
}

#[cfg(test)]
mod tests;

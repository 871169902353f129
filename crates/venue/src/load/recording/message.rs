//! Messages of TotalView-ITCH 5.0 that are about orders and instruments, read. Offsets are those of the specification of
//! 2026-02-19, section 1; they are typed once more here, as crate `venue` shares nothing with the decoders of `market`.

use super::file::FaultKind;
use crate::itch::ANONYMOUS;
use crate::units::{Side, Symbol};

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// S: an event of the system, by its code.
    Event(u8),
    /// R: an instrument.
    Directory { locate: u16, symbol: Symbol },
    /// A, F: an order.
    Add(Add),
    /// E, C: shares of an order were traded.
    Executed { reference: u64, shares: u32 },
    /// X: shares of an order were cancelled.
    Cancelled { reference: u64, shares: u32 },
    /// D: an order is gone.
    Deleted { reference: u64 },
    /// U: an order has another reference, size and price.
    Replaced { old: u64, new: u64, shares: u32, price: u32 },
    /// No change of a displayed order.
    Other,
}

/// An order that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Add {
    pub(super) locate: u16,
    pub(super) reference: u64,
    pub(super) side: Side,
    pub(super) shares: u32,
    pub(super) symbol: Symbol,
    pub(super) price: u32,
    pub(super) attribution: [u8; 4],
}

/// A message with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    /// ns since midnight.
    pub(super) time_ns: u64,
    pub(super) said: Said,
}

/// Types of ITCH 5.0.
const TYPES: &[u8] = b"SRHYLVWKJhAFECXDUPQBINO";

/// Bytes of a type as far as it is read here.
fn needs(kind: u8) -> usize {
    match kind {
        b'S' => 12,
        b'R' => 39,
        b'A' => 36,
        b'F' => 40,
        b'E' => 31,
        b'C' => 36,
        b'X' => 23,
        b'D' => 19,
        b'U' => 35,
        _ => 11,
    }
}

/// True for a type of ITCH 5.0.
pub(super) fn is_known(kind: u8) -> bool {
    TYPES.contains(&kind)
}

/// Reads a message. One that is longer than its type is read as far as that goes; a type of another version says nothing.
pub(super) fn parse(message: &[u8]) -> Result<Recorded, FaultKind> {
    let kind = message.first().copied().unwrap_or_default();
    let (length, needs) = (message.len(), needs(kind));
    if length < needs {
        return if is_known(kind) { Err(FaultKind::Short { kind, length, needs }) } else { Ok(silent(0)) };
    }
    let reference = number(message, 11, 8);
    let shares_at = |at| number(message, at, 4) as u32;
    let said = match kind {
        b'S' => Said::Event(message[11]),
        b'R' => match symbol(message, 11) {
            Some(symbol) => Said::Directory { locate: number(message, 1, 2) as u16, symbol },
            None => Said::Other,
        },
        b'A' | b'F' => add(message),
        b'E' | b'C' => Said::Executed { reference, shares: shares_at(19) },
        b'X' => Said::Cancelled { reference, shares: shares_at(19) },
        b'D' => Said::Deleted { reference },
        b'U' => Said::Replaced {
            old: reference,
            new: number(message, 19, 8),
            shares: shares_at(27),
            price: number(message, 31, 4) as u32,
        },
        _ => Said::Other,
    };
    Ok(Recorded { said, ..silent(number(message, 5, 6)) })
}

fn silent(time_ns: u64) -> Recorded {
    Recorded { time_ns, said: Said::Other }
}

fn add(message: &[u8]) -> Said {
    let side = match message[19] {
        b'B' => Side::Buy,
        b'S' => Side::Sell,
        _ => return Said::Other,
    };
    let Some(symbol) = symbol(message, 24) else { return Said::Other };
    let attribution = if message[0] == b'F' { (number(message, 36, 4) as u32).to_be_bytes() } else { ANONYMOUS };
    Said::Add(Add {
        locate: number(message, 1, 2) as u16,
        reference: number(message, 11, 8),
        side,
        shares: number(message, 20, 4) as u32,
        symbol,
        price: number(message, 32, 4) as u32,
        attribution,
    })
}

fn symbol(message: &[u8], at: usize) -> Option<Symbol> {
    Symbol::from_text(&message[at..at + 8])
}

fn number(message: &[u8], at: usize, length: usize) -> u64 {
    message.iter().skip(at).take(length).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::itch::{self, Header, Shown};
    use proptest::prelude::*;

    const SYMBOL: Symbol = Symbol(*b"CVLT    ");
    const HEADER: Header = Header { time_ns: 34_200_000_000_001, locate: 7 };

    fn said(message: &[u8]) -> Said {
        let recorded = parse(message).unwrap();
        assert_eq!(recorded.time_ns, HEADER.time_ns);
        recorded.said
    }

    #[test]
    fn messages_say_what_was_written() {
        let shown =
            |attribution| Shown { reference: 9, side: Side::Sell, shares: 225, symbol: SYMBOL, price: 63, attribution };
        for attribution in [ANONYMOUS, *b"LIME"] {
            let (locate, reference, side, shares) = (7, 9, Side::Sell, 225);
            let add = Add { locate, reference, side, shares, symbol: SYMBOL, price: 63, attribution };
            itch::add(HEADER, &shown(attribution), |message| assert_eq!(said(message), Said::Add(add)));
        }
        assert_eq!(said(&itch::directory(HEADER, SYMBOL)), Said::Directory { locate: 7, symbol: SYMBOL });
        assert_eq!(said(&itch::executed(HEADER, 9, 3, 1)), Said::Executed { reference: 9, shares: 3 });
        assert_eq!(said(&itch::executed_in_cross(HEADER, 9, 3, 1, 5)), Said::Executed { reference: 9, shares: 3 });
        assert_eq!(said(&itch::cancelled(HEADER, 9, 3)), Said::Cancelled { reference: 9, shares: 3 });
        assert_eq!(said(&itch::deleted(HEADER, 9)), Said::Deleted { reference: 9 });
        let replaced = Said::Replaced { old: 9, new: 10, shares: 3, price: 5 };
        assert_eq!(said(&itch::replaced(HEADER, 9, 10, 3, 5)), replaced);
        assert_eq!(said(&itch::trade(HEADER, 3, SYMBOL, 5, 9)), Said::Other);
        let event = itch::system_event(HEADER.time_ns, itch::SystemEvent::StartOfMarketHours);
        assert_eq!(said(&event), Said::Event(b'Q'));
    }

    #[test]
    fn a_message_that_is_cut_short_is_refused_and_an_unknown_type_is_not() {
        let deleted = itch::deleted(HEADER, 9);
        assert!(matches!(parse(&deleted[..18]), Err(FaultKind::Short { kind: b'D', length: 18, needs: 19 })));
        assert_eq!(parse(b"~").unwrap().said, Said::Other);
        let mut unsided = [0; 36];
        unsided[0] = b'A';
        assert_eq!(parse(&unsided).unwrap().said, Said::Other);
    }

    proptest! {
        #[test]
        fn garbage_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 1..60), kind in 0..TYPES.len()) {
            let _ = parse(&bytes);
            let _ = parse(&[&TYPES[kind..=kind], &bytes].concat());
        }
    }
}

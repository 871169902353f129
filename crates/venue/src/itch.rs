//! Messages of TotalView-ITCH 5.0, written: the types that a matching engine brings about.
//!
//! Offsets are those of the specification of 2026-02-19. Big-endian; alpha fields are left-justified, filled with spaces;
//! prices have four implied decimals; timestamps are ns since midnight in 6 bytes. Nothing here is shared with a decoder.

use crate::units::{DAY_NS, Side, Symbol};

/// The longest message of this module: P, 44 bytes.
pub const MESSAGE_MAX: usize = 44;

/// Attribution of an order that names no market participant: it is published by `A`, not by `F`.
pub const ANONYMOUS: [u8; 4] = [0; 4];

/// Events of the system (message S).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemEvent {
    /// `O`: the first message of a day.
    StartOfMessages,
    /// `S`: orders are accepted.
    StartOfSystemHours,
    /// `Q`: the market is open.
    StartOfMarketHours,
    /// `M`: the market has closed.
    EndOfMarketHours,
    /// `E`: no order is accepted any more.
    EndOfSystemHours,
    /// `C`: the last message of a day.
    EndOfMessages,
}

impl SystemEvent {
    /// The event code.
    pub const fn letter(self) -> u8 {
        match self {
            Self::StartOfMessages => b'O',
            Self::StartOfSystemHours => b'S',
            Self::StartOfMarketHours => b'Q',
            Self::EndOfMarketHours => b'M',
            Self::EndOfSystemHours => b'E',
            Self::EndOfMessages => b'C',
        }
    }
}

/// The fields that every message begins with, and the writer of what follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// ns since midnight; reduced to it.
    pub(crate) time_ns: u64,
    /// 0 for messages that are not about one instrument.
    pub(crate) locate: u16,
}

/// A message of `N` bytes with its type, stock locate, tracking number (0) and timestamp.
fn begin<const N: usize>(kind: u8, header: Header) -> [u8; N] {
    let mut message = [0; N];
    message[0] = kind;
    put(&mut message, 1, header.locate.to_be_bytes());
    let time = (header.time_ns % DAY_NS).to_be_bytes();
    message[5..11].copy_from_slice(&time[2..]);
    message
}

fn put<const N: usize, const M: usize>(message: &mut [u8; N], at: usize, value: [u8; M]) {
    message[at..at + M].copy_from_slice(&value);
}

/// S, system event.
pub(crate) fn system_event(time_ns: u64, event: SystemEvent) -> [u8; 12] {
    let mut message = begin(b'S', Header { time_ns, locate: 0 });
    message[11] = event.letter();
    message
}

/// R, stock directory: a common share of the Nasdaq Global Select Market in round lots of 100.
pub(crate) fn directory(header: Header, symbol: Symbol) -> [u8; 39] {
    let mut message = begin(b'R', header);
    put(&mut message, 11, symbol.0);
    message[19] = b'Q'; // market category: Global Select
    message[20] = b'N'; // financial status: normal
    put(&mut message, 21, 100_u32.to_be_bytes());
    message[25] = b'N'; // odd lots are accepted
    message[26] = b'C'; // common stock
    put(&mut message, 27, *b"Z "); // no subtype
    message[29] = b'P'; // live, not a test
    message[30] = b'N'; // no short-sale threshold
    message[31] = b'N'; // not an IPO
    message[32] = b'1'; // LULD tier 1
    message[33] = b'N'; // not an ETP
    put(&mut message, 34, 0_u32.to_be_bytes());
    message[38] = b'N'; // not inverse
    message
}

/// H, stock trading action: `T` trading or `H` halted.
pub(crate) fn trading_action(header: Header, symbol: Symbol, is_halted: bool) -> [u8; 25] {
    let mut message = begin(b'H', header);
    put(&mut message, 11, symbol.0);
    message[19] = if is_halted { b'H' } else { b'T' };
    message[20] = b' ';
    put(&mut message, 21, if is_halted { *b"T1  " } else { *b"    " });
    message
}

/// What the messages that show an order tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) reference: u64,
    pub(crate) side: Side,
    pub(crate) shares: u32,
    pub(crate) symbol: Symbol,
    pub(crate) price: u32,
    pub(crate) attribution: [u8; 4],
}

/// F, add order with attribution. Its first 36 bytes with another type are A.
fn add_attributed(header: Header, order: &Shown) -> [u8; 40] {
    let mut message = begin(b'F', header);
    put(&mut message, 11, order.reference.to_be_bytes());
    message[19] = order.side.letter();
    put(&mut message, 20, order.shares.to_be_bytes());
    put(&mut message, 24, order.symbol.0);
    put(&mut message, 32, order.price.to_be_bytes());
    put(&mut message, 36, order.attribution);
    message
}

/// A or F, add order without or with attribution, given to `publish`.
pub(crate) fn add(header: Header, order: &Shown, publish: impl FnOnce(&[u8])) {
    let mut message = add_attributed(header, order);
    if order.attribution == ANONYMOUS {
        message[0] = b'A';
        publish(&message[..36]);
    } else {
        publish(&message);
    }
}

/// E, order executed at its own price.
pub(crate) fn executed(header: Header, reference: u64, shares: u32, match_number: u64) -> [u8; 31] {
    let mut message = begin(b'E', header);
    put(&mut message, 11, reference.to_be_bytes());
    put(&mut message, 19, shares.to_be_bytes());
    put(&mut message, 23, match_number.to_be_bytes());
    message
}

/// C, order executed at another price than its own; not printable, as a cross (Q) tells the whole.
pub(crate) fn executed_in_cross(
    header: Header,
    reference: u64,
    shares: u32,
    match_number: u64,
    price: u32,
) -> [u8; 36] {
    let mut message = begin(b'C', header);
    put(&mut message, 11, reference.to_be_bytes());
    put(&mut message, 19, shares.to_be_bytes());
    put(&mut message, 23, match_number.to_be_bytes());
    message[31] = b'N';
    put(&mut message, 32, price.to_be_bytes());
    message
}

/// X, part of an order cancelled.
pub(crate) fn cancelled(header: Header, reference: u64, shares: u32) -> [u8; 23] {
    let mut message = begin(b'X', header);
    put(&mut message, 11, reference.to_be_bytes());
    put(&mut message, 19, shares.to_be_bytes());
    message
}

/// D, order deleted.
pub(crate) fn deleted(header: Header, reference: u64) -> [u8; 19] {
    let mut message = begin(b'D', header);
    put(&mut message, 11, reference.to_be_bytes());
    message
}

/// U, order replaced.
pub(crate) fn replaced(header: Header, old: u64, new: u64, shares: u32, price: u32) -> [u8; 35] {
    let mut message = begin(b'U', header);
    put(&mut message, 11, old.to_be_bytes());
    put(&mut message, 19, new.to_be_bytes());
    put(&mut message, 27, shares.to_be_bytes());
    put(&mut message, 31, price.to_be_bytes());
    message
}

/// P, execution of an order that is not displayed. Reference 0 and side B, as published since 2010 and 2014.
pub(crate) fn trade(header: Header, shares: u32, symbol: Symbol, price: u32, match_number: u64) -> [u8; 44] {
    let mut message = begin(b'P', header);
    message[19] = b'B';
    put(&mut message, 20, shares.to_be_bytes());
    put(&mut message, 24, symbol.0);
    put(&mut message, 32, price.to_be_bytes());
    put(&mut message, 36, match_number.to_be_bytes());
    message
}

/// Q, the sum of a cross; `H`: of a halted instrument.
pub(crate) fn cross(header: Header, shares: u64, symbol: Symbol, price: u32, match_number: u64) -> [u8; 40] {
    let mut message = begin(b'Q', header);
    put(&mut message, 11, shares.to_be_bytes());
    put(&mut message, 19, symbol.0);
    put(&mut message, 27, price.to_be_bytes());
    put(&mut message, 31, match_number.to_be_bytes());
    message[39] = b'H';
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { time_ns: 0x0102_0304_0506, locate: 0x0a0b };

    /// Typed by hand from the specification: type, locate, tracking number, timestamp.
    const FRONT: [u8; 10] = [0x0a, 0x0b, 0, 0, 1, 2, 3, 4, 5, 6];

    fn shown(attribution: [u8; 4]) -> Shown {
        let symbol = Symbol(*b"CVLT    ");
        Shown { reference: 0x1122_3344_5566_7788, side: Side::Sell, shares: 225, symbol, price: 630_200, attribution }
    }

    #[test]
    fn an_add_is_byte_for_byte_as_specified() {
        let mut expected = vec![b'A'];
        expected.extend(FRONT);
        expected.extend([0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, b'S', 0, 0, 0, 225]);
        expected.extend(*b"CVLT    ");
        expected.extend([0x00, 0x09, 0x9d, 0xb8]);
        add(HEADER, &shown(ANONYMOUS), |message| assert_eq!(message, expected));
        expected[0] = b'F';
        expected.extend(*b"LIME");
        add(HEADER, &shown(*b"LIME"), |message| assert_eq!(message, expected));
    }

    #[test]
    fn messages_about_one_order_have_their_fields_in_place() {
        let front = |kind: u8| [&[kind][..], &FRONT, &[0, 0, 0, 0, 0, 0, 0, 7]].concat();
        assert_eq!(
            executed(HEADER, 7, 3, 9).to_vec(),
            [front(b'E'), vec![0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9]].concat()
        );
        let mut crossed = [front(b'C'), vec![0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9]].concat();
        crossed.extend([b'N', 0, 0, 0, 5]);
        assert_eq!(executed_in_cross(HEADER, 7, 3, 9, 5).to_vec(), crossed);
        assert_eq!(cancelled(HEADER, 7, 3).to_vec(), [front(b'X'), vec![0, 0, 0, 3]].concat());
        assert_eq!(deleted(HEADER, 7).to_vec(), front(b'D'));
        let new = vec![0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 5];
        assert_eq!(replaced(HEADER, 7, 8, 3, 5).to_vec(), [front(b'U'), new].concat());
    }

    #[test]
    fn messages_about_an_instrument_have_their_fields_in_place() {
        let symbol = Symbol(*b"MSFT    ");
        let listed = directory(HEADER, symbol);
        assert_eq!(&listed[11..], b"MSFT    QN\0\0\0dNCZ PNN1N\0\0\0\0N");
        let halted = trading_action(HEADER, symbol, true);
        assert_eq!(&halted[11..], b"MSFT    H T1  ");
        assert_eq!(
            &trade(HEADER, 3, symbol, 5, 9)[11..],
            b"\0\0\0\0\0\0\0\0B\0\0\0\x03MSFT    \0\0\0\x05\0\0\0\0\0\0\0\x09"
        );
        assert_eq!(&cross(HEADER, 3, symbol, 5, 9)[11..], b"\0\0\0\0\0\0\0\x03MSFT    \0\0\0\x05\0\0\0\0\0\0\0\x09H");
        assert_eq!(system_event(DAY_NS + 1, SystemEvent::StartOfMessages), *b"S\0\0\0\0\0\0\0\0\0\x01O");
    }
}

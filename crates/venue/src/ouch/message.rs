//! Messages of OUCH 5.0: those of clients are read, those of the venue are written. Offsets are of the specification.

use crate::itch::ANONYMOUS;
use crate::matching::{CancelReason, Liquidity};
use crate::units::{Side, Symbol};

/// The longest answer: U, replaced.
pub const ANSWER_MAX: usize = 68;

/// Why an order is rejected (OUCH 5.0, appendix of reject reasons).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// 3
    InvalidDisplay = 0x03,
    /// 7
    Halted = 0x07,
    /// 9
    InvalidSide = 0x09,
    /// 10: the tables of the venue are full.
    ProcessingError = 0x0a,
    /// 13: minimum quantities are not supported.
    InvalidMinimum = 0x0d,
    /// 15: a time in force or an option that is not supported.
    Other = 0x0f,
    /// 19
    InvalidQuantity = 0x13,
    /// 20: only continuous orders are taken.
    InvalidCross = 0x14,
    /// 21: the order to be replaced is gone.
    ReplaceNotAllowed = 0x15,
    /// 23
    InvalidSymbol = 0x17,
    /// 29
    InvalidPrice = 0x1d,
}

/// A message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// O
    Enter(Enter),
    /// U
    Replace(Replace),
    /// X: the number of shares that may trade in all, 0 for no more.
    Cancel {
        /// The order.
        user_ref: u32,
        /// Shares of the whole chain.
        quantity: u32,
    },
    /// M
    Modify {
        /// The order.
        user_ref: u32,
        /// Its side from now on.
        side: u8,
        /// Shares of the whole chain, no more than before.
        quantity: u32,
    },
    /// Q
    Query,
}

/// What an order has beside its size and price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// B S T E
    pub side: u8,
    /// The instrument.
    pub symbol: Symbol,
    /// 0 3 5 6 E
    pub time_in_force: u8,
    /// Y N A
    pub display: u8,
    /// A P R O
    pub capacity: u8,
    /// Y N
    pub sweep: u8,
    /// N O C H S R E A
    pub cross: u8,
    /// The client's own name of the order, not checked.
    pub cl_ord_id: [u8; 14],
}

impl Terms {
    /// The side of the book; `None` for a letter that is none.
    pub fn side(&self) -> Option<Side> {
        book_side(self.side)
    }
}

/// The side of the book that a letter means.
pub fn book_side(letter: u8) -> Option<Side> {
    match letter {
        b'B' => Some(Side::Buy),
        b'S' | b'T' | b'E' => Some(Side::Sell),
        _ => None,
    }
}

/// A new order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enter {
    /// The client's number of the order.
    pub user_ref: u32,
    /// Shares.
    pub quantity: u32,
    /// Four decimals.
    pub price: u64,
    /// All else.
    pub terms: Terms,
    /// Its options.
    pub options: Options,
}

/// A replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replace {
    /// The order that is replaced.
    pub old: u32,
    /// The number of the new one.
    pub new: u32,
    /// Shares of the whole chain, those that were executed included.
    pub quantity: u32,
    /// Four decimals.
    pub price: u64,
    /// 0 3 5 6 E
    pub time_in_force: u8,
    /// Y N A
    pub display: u8,
    /// Y N
    pub sweep: u8,
    /// The client's own name of the order.
    pub cl_ord_id: [u8; 14],
    /// Its options.
    pub options: Options,
}

/// Options that stand in the appendage of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Tag 2: the firm, published with an order whose display is `A`.
    pub firm: [u8; 4],
    /// Tag 3: the least quantity of an execution; 0 for any.
    pub minimum: u32,
    /// An option changes how an order trades, and is not supported.
    pub is_unsupported: bool,
}

/// Bytes at a place that the caller has checked to be there; zeros beyond the end.
fn bytes<const N: usize>(message: &[u8], at: usize) -> [u8; N] {
    message.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

fn u32_at(message: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes(message, at))
}

impl Options {
    /// Elements of {length of what follows, tag, value}. `None` if they do not fill the appendage exactly.
    fn parse(mut rest: &[u8]) -> Option<Self> {
        let mut options = Self { firm: ANONYMOUS, minimum: 0, is_unsupported: false };
        while let Some((length, behind)) = rest.split_first() {
            let (element, behind) = behind.split_at_checked(usize::from(*length))?;
            let (tag, value) = element.split_first()?;
            match (tag, value.len()) {
                (2, 4) => options.firm = bytes(value, 0),
                (3, 4) => options.minimum = u32_at(value, 0),
                // Customer type, route, handling, group, shares located: they do not change how an order trades here.
                (4, 1) | (14, 4) | (17, 1) | (24, 2) | (25, 1) => {}
                _ => options.is_unsupported = true,
            }
            rest = behind;
        }
        Some(options)
    }

    /// The appendage behind the fixed part of a message, whose length stands at `at`. None at all is none.
    fn behind(message: &[u8], at: usize) -> Option<Self> {
        let Some(rest) = message.get(at..).filter(|rest| !rest.is_empty()) else { return Self::parse(&[]) };
        let (length, rest) = rest.split_first_chunk::<2>()?;
        (usize::from(u16::from_be_bytes(*length)) == rest.len()).then(|| Self::parse(rest)).flatten()
    }
}

impl Request {
    /// The message of a client; `None` if it is none of OUCH 5.0, or not as long as it says.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let at = |place: usize| message.get(place).copied().unwrap_or(0);
        match (at(0), message.len()) {
            (b'O', 45..) => Some(Self::Enter(Enter {
                user_ref: u32_at(message, 1),
                quantity: u32_at(message, 6),
                price: u64::from_be_bytes(bytes(message, 18)),
                terms: Terms {
                    side: at(5),
                    symbol: Symbol(bytes(message, 10)),
                    time_in_force: at(26),
                    display: at(27),
                    capacity: at(28),
                    sweep: at(29),
                    cross: at(30),
                    cl_ord_id: bytes(message, 31),
                },
                options: Options::behind(message, 45)?,
            })),
            (b'U', 38..) => Some(Self::Replace(Replace {
                old: u32_at(message, 1),
                new: u32_at(message, 5),
                quantity: u32_at(message, 9),
                price: u64::from_be_bytes(bytes(message, 13)),
                time_in_force: at(21),
                display: at(22),
                sweep: at(23),
                cl_ord_id: bytes(message, 24),
                options: Options::behind(message, 38)?,
            })),
            (b'X', 9) => Some(Self::Cancel { user_ref: u32_at(message, 1), quantity: u32_at(message, 5) }),
            (b'M', 10) => {
                let (user_ref, quantity) = (u32_at(message, 1), u32_at(message, 6));
                Some(Self::Modify { user_ref, side: at(5), quantity })
            }
            (b'Q', 1) => Some(Self::Query),
            _ => None,
        }
    }
}

/// An answer that is being written.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    length: u8,
    bytes: [u8; ANSWER_MAX],
}

impl Answer {
    fn begin(kind: u8, time_ns: u64) -> Self {
        Self { length: 0, bytes: [0; ANSWER_MAX] }.put(&[kind]).put(&time_ns.to_be_bytes())
    }

    fn put(mut self, field: &[u8]) -> Self {
        let at = usize::from(self.length);
        self.bytes[at..at + field.len()].copy_from_slice(field);
        self.length += field.len() as u8;
        self
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// S: `S` start of day, `E` end of day.
    pub(super) fn system_event(time_ns: u64, event: u8) -> Self {
        Self::begin(b'S', time_ns).put(&[event])
    }

    /// A, or with the old number U: the order with its reference, which is that of ITCH.
    pub(super) fn accepted(time_ns: u64, old: Option<u32>, order: &Accepted<'_>) -> Self {
        let Accepted { user_ref, quantity, price, reference, terms } = *order;
        let answer = match old {
            None => Self::begin(b'A', time_ns),
            Some(old) => Self::begin(b'U', time_ns).put(&old.to_be_bytes()),
        };
        answer
            .put(&user_ref.to_be_bytes())
            .put(&[terms.side])
            .put(&quantity.to_be_bytes())
            .put(&terms.symbol.0)
            .put(&price.to_be_bytes())
            .put(&[terms.time_in_force, terms.display])
            .put(&reference.to_be_bytes())
            .put(&[terms.capacity, terms.sweep, terms.cross, b'L'])
            .put(&terms.cl_ord_id)
            .put(&[0, 0])
    }

    /// E
    pub(super) fn executed(
        time_ns: u64,
        user_ref: u32,
        shares: u32,
        price: u32,
        liquidity: Liquidity,
        match_number: u64,
    ) -> Self {
        let flag = match liquidity {
            Liquidity::Added => b'A',
            Liquidity::Removed => b'R',
            Liquidity::Cross => b'H',
        };
        let answer = Self::begin(b'E', time_ns).put(&user_ref.to_be_bytes()).put(&shares.to_be_bytes());
        answer.put(&u64::from(price).to_be_bytes()).put(&[flag]).put(&match_number.to_be_bytes()).put(&[0, 0])
    }

    /// C
    pub(super) fn cancelled(time_ns: u64, user_ref: u32, shares: u32, reason: CancelReason) -> Self {
        let reason = match reason {
            CancelReason::User | CancelReason::Modified => b'U',
            CancelReason::Immediate => b'I',
            CancelReason::Supervisory => b'S',
        };
        Self::begin(b'C', time_ns).put(&user_ref.to_be_bytes()).put(&shares.to_be_bytes()).put(&[reason])
    }

    /// M: the shares outstanding, without those that were executed.
    pub(super) fn modified(time_ns: u64, user_ref: u32, side: u8, outstanding: u32) -> Self {
        Self::begin(b'M', time_ns).put(&user_ref.to_be_bytes()).put(&[side]).put(&outstanding.to_be_bytes())
    }

    /// J
    pub(super) fn rejected(time_ns: u64, user_ref: u32, reason: RejectReason, cl_ord_id: &[u8; 14]) -> Self {
        let answer = Self::begin(b'J', time_ns).put(&user_ref.to_be_bytes());
        answer.put(&(reason as u16).to_be_bytes()).put(cl_ord_id)
    }

    /// Q: the next number that is not below one that was used.
    pub(super) fn query(time_ns: u64, next: u32) -> Self {
        Self::begin(b'Q', time_ns).put(&next.to_be_bytes())
    }
}

/// The content of A and U.
#[derive(Debug)]
pub(super) struct Accepted<'a> {
    pub(super) user_ref: u32,
    pub(super) quantity: u32,
    pub(super) price: u64,
    pub(super) reference: u64,
    pub(super) terms: &'a Terms,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Enter Order by hand: sell short 225 CVLT at 63.02 for firm LIME.
    pub(in crate::ouch) fn enter() -> Vec<u8> {
        let mut message = b"O\0\0\0\x07T\0\0\0\xe1CVLT    \0\0\0\0\0\x09\x9d\xb80YANNORDER0000000AB".to_vec();
        assert_eq!(message.len(), 45);
        message.extend(b"\0\x06\x05\x02LIME");
        message
    }

    #[test]
    fn an_order_is_read_from_its_places() {
        let Some(Request::Enter(order)) = Request::parse(&enter()) else { panic!() };
        assert_eq!((order.user_ref, order.quantity, order.price), (7, 225, 630_200));
        assert_eq!((order.terms.side(), order.terms.symbol.text()), (Some(Side::Sell), &b"CVLT"[..]));
        assert_eq!((order.terms.time_in_force, order.terms.display, order.terms.cross), (b'0', b'Y', b'N'));
        assert_eq!((&order.terms.cl_ord_id, order.options.firm), (b"ORDER0000000AB", *b"LIME"));
    }

    #[test]
    fn appendages_that_do_not_add_up_are_refused() {
        for appendage in
            [&b"\0\x01"[..], b"\0", b"\0\x02\x05\x02", b"\0\x01\0", b"\0\x07\x05\x02LIME", b"\0\x05\x05\x02LIME"]
        {
            let message = [&enter()[..45], appendage].concat();
            assert_eq!(Request::parse(&message), None, "{appendage:?}");
        }
        let Some(Request::Enter(order)) = Request::parse(&[&enter()[..45], b"\0\x03\x02\x0cY"].concat()) else {
            panic!()
        };
        assert!(order.options.is_unsupported);
        assert!(Request::parse(&enter()[..45]).is_some(), "no appendage at all");
    }

    #[test]
    fn other_messages_are_read_from_their_places() {
        let mut replace = b"U\0\0\0\x01\0\0\0\x02\0\0\0\x64\0\0\0\0\0\x09\x9d\xb80YNORDER0000000AC".to_vec();
        replace.extend(b"\0\0");
        let Some(Request::Replace(new)) = Request::parse(&replace) else { panic!() };
        assert_eq!((replace.len(), new.old, new.new, new.quantity, new.price), (40, 1, 2, 100, 630_200));
        let cancel = Request::Cancel { user_ref: 1, quantity: 5 };
        assert_eq!(Request::parse(b"X\0\0\0\x01\0\0\0\x05"), Some(cancel));
        let modify = Request::Modify { user_ref: 1, side: b'T', quantity: 5 };
        assert_eq!(Request::parse(b"M\0\0\0\x01T\0\0\0\x05"), Some(modify));
        assert_eq!(Request::parse(b"Q"), Some(Request::Query));
        for wrong in [&b""[..], b"Z", b"X\0\0\0\x01\0\0\0", b"QQ", b"O"] {
            assert_eq!(Request::parse(wrong), None);
        }
    }

    #[test]
    fn answers_are_byte_for_byte_as_specified() {
        let Some(Request::Enter(Enter { terms, .. })) = Request::parse(&enter()) else { panic!() };
        let order = Accepted { user_ref: 7, quantity: 225, price: 630_200, reference: 99, terms: &terms };
        let accepted = Answer::accepted(1, None, &order);
        let expected =
            b"A\0\0\0\0\0\0\0\x01\0\0\0\x07T\0\0\0\xe1CVLT    \0\0\0\0\0\x09\x9d\xb80Y\0\0\0\0\0\0\0\x63ANNLORDER0000000AB\0\0";
        assert_eq!((accepted.bytes(), accepted.bytes().len()), (&expected[..], 64));
        let replaced = Answer::accepted(1, Some(6), &order);
        assert_eq!((replaced.bytes().len(), &replaced.bytes()[9..17]), (68, &b"\0\0\0\x06\0\0\0\x07"[..]));
        let executed = Answer::executed(1, 7, 25, 630_200, Liquidity::Added, 4);
        let expected = b"E\0\0\0\0\0\0\0\x01\0\0\0\x07\0\0\0\x19\0\0\0\0\0\x09\x9d\xb8A\0\0\0\0\0\0\0\x04\0\0";
        assert_eq!((executed.bytes(), executed.bytes().len()), (&expected[..], 36));
        assert_eq!(
            Answer::cancelled(1, 7, 200, CancelReason::Immediate).bytes(),
            b"C\0\0\0\0\0\0\0\x01\0\0\0\x07\0\0\0\xc8I"
        );
        let rejected = Answer::rejected(1, 7, RejectReason::InvalidSymbol, b"ORDER0000000AB");
        assert_eq!(rejected.bytes(), b"J\0\0\0\0\0\0\0\x01\0\0\0\x07\0\x17ORDER0000000AB");
        assert_eq!(Answer::modified(1, 7, b'S', 200).bytes().len(), 18);
        assert_eq!(Answer::query(1, 8).bytes(), b"Q\0\0\0\0\0\0\0\x01\0\0\0\x08");
        assert_eq!(Answer::system_event(1, b'S').bytes().len(), 10);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(message in proptest::collection::vec(any::<u8>(), 0..300)) {
            for kind in *b"OUXMQ" {
                let _ = Request::parse(&[&[kind], &message[..]].concat());
            }
        }
    }
}

//! Orders as bytes: written for a trader without work of its own, and read by the exchange.
//!
//! Nothing here comes from the codecs of crates `fix` and `market`, which the trader uses: offsets and tags are typed a second time, so
//! that a codec is not judged by its own mistakes.

use super::OrderForm;
use super::judge::Order;
use std::fmt::Write;
use std::ops::Range;

/// The delimiter of fields in FIX.
const SOH: u8 = 0x01;
/// `10=nnn` and its delimiter.
const TRAILER_BYTES: usize = 7;
/// The longest message of FIX that the exchange reads, bytes: several times that of an order.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024;
/// A packet of SoupBinTCP with EnterOrder of OUCH 5.0: length 2, type 1, message 47.
const ENTER_ORDER_BYTES: usize = 50;
/// An order in the form `raw`.
pub(crate) const RAW_BYTES: usize = 16;

/// The symbol of an order that is read in a form that has none.
pub(crate) const NO_SYMBOL: [u8; 8] = [0; 8];

/// CompIDs of the session.
pub(crate) const TRADER: &str = "TRADER";
/// Of the exchange.
pub(crate) const EXCHANGE: &str = "EXCHANGE";
/// BeginString of the session.
pub(crate) const BEGIN_STRING: &str = "FIX.4.4";

/// SendingTime of messages that are written before they are sent. Nobody checks it.
const TIME: &[u8] = b"20260101-00:00:00.000";

/// Appends a message of FIX.
pub(crate) fn fix_message(
    out: &mut Vec<u8>,
    msg_type: &[u8],
    sequence: u64,
    from_trader: bool,
    fields: &[(u32, &[u8])],
) {
    let (sender, target) = if from_trader { (TRADER, EXCHANGE) } else { (EXCHANGE, TRADER) };
    let mut body = Vec::new();
    put(&mut body, 35, msg_type);
    put(&mut body, 34, sequence.to_string().as_bytes());
    put(&mut body, 49, sender.as_bytes());
    put(&mut body, 52, TIME);
    put(&mut body, 56, target.as_bytes());
    fields.iter().for_each(|(tag, value)| put(&mut body, *tag, value));
    let begin = out.len();
    put(out, 8, BEGIN_STRING.as_bytes());
    put(out, 9, body.len().to_string().as_bytes());
    out.extend(body);
    let sum = out[begin..].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    put(out, 10, format!("{sum:03}").as_bytes());
}

fn put(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    out.extend(tag.to_string().bytes());
    out.push(b'=');
    out.extend(value);
    out.push(SOH);
}

/// Appends an order. `number` counts the orders of a session from 1.
pub(crate) fn write(out: &mut Vec<u8>, form: OrderForm, order: &Order, number: u32) {
    match form {
        OrderForm::Raw => out.extend(raw_order(order)),
        OrderForm::Fix => {
            let mut price = String::new();
            let _ = write!(price, "{}.{:04}", order.price / 10_000, order.price % 10_000);
            let symbol = order.symbol.trim_ascii_end();
            let (reference, quantity) = (order.reference.to_string(), order.quantity.to_string());
            let side: &[u8] = if order.buys { b"1" } else { b"2" };
            let fields: &[(u32, &[u8])] = &[
                (11, reference.as_bytes()),
                (38, quantity.as_bytes()),
                (40, b"2"),
                (44, price.as_bytes()),
                (54, side),
                (55, symbol),
                (59, b"3"),
                (60, TIME),
            ];
            // Logon was 1.
            fix_message(out, b"D", u64::from(number) + 1, true, fields);
        }
        OrderForm::Ouch => {
            out.extend([0, ENTER_ORDER_BYTES as u8 - 2, b'U', b'O']);
            out.extend(number.to_be_bytes());
            out.push(if order.buys { b'B' } else { b'S' });
            out.extend(order.quantity.to_be_bytes());
            out.extend(order.symbol);
            out.extend(u64::from(order.price).to_be_bytes());
            out.extend(*b"3YANN");
            let mut id = [b' '; 14];
            let text = order.reference.to_string();
            let digits = text.as_bytes();
            id[..digits.len().min(14)].copy_from_slice(&digits[..digits.len().min(14)]);
            out.extend(id);
            out.extend([0, 0]);
        }
    }
}

/// An order of 16 bytes: reference, price, shares with the side in the top bit. The symbol is not in it.
#[inline]
pub(crate) fn raw_order(order: &Order) -> [u8; RAW_BYTES] {
    let mut bytes = [0; RAW_BYTES];
    bytes[..8].copy_from_slice(&order.reference.to_le_bytes());
    bytes[8..12].copy_from_slice(&order.price.to_le_bytes());
    bytes[12..].copy_from_slice(&(order.quantity | u32::from(order.buys) << 31).to_le_bytes());
    bytes
}

/// A login of SoupBinTCP to the current session, from its newest message on.
pub(crate) fn login_request() -> Vec<u8> {
    let mut packet = vec![0, 47, b'L'];
    packet.extend(b"TRADER          ");
    packet.extend(b"          ");
    packet.extend(b"                   0");
    packet
}

/// What stands at the front of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// The beginning of a message.
    Incomplete,
    /// A message of a session, such as Heartbeat, of so many bytes.
    Session(usize),
    /// An order, of so many bytes.
    Order(Order, usize),
}

/// The reader of a session's orders, in the order of their coming.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    form: OrderForm,
    /// MsgSeqNum that the next message of FIX must have; of OUCH, the UserRefNum of the last order.
    number: u64,
    /// Numbers of FIX may be left out.
    has_gaps: bool,
}

impl Reader {
    /// Of a session that is logged on.
    pub(crate) fn new(form: OrderForm) -> Self {
        Self { form, number: if form == OrderForm::Fix { 2 } else { 0 }, has_gaps: false }
    }

    /// Of a session of FIX whose Logon is awaited.
    pub(crate) fn logon() -> Self {
        Self { form: OrderForm::Fix, number: 1, has_gaps: false }
    }

    /// Of orders that were written before: the numbers of those whose tick was lost are left out.
    pub(crate) fn of_written(form: OrderForm) -> Self {
        Self { has_gaps: true, ..Self::new(form) }
    }

    /// Reads what stands at the front of `bytes`. An error says what is wrong with it.
    pub(crate) fn front(&mut self, bytes: &[u8]) -> Result<Front, String> {
        match self.form {
            OrderForm::Raw => Ok(raw(bytes)),
            OrderForm::Fix => self.fix(bytes),
            OrderForm::Ouch => self.ouch(bytes),
        }
    }

    fn fix(&mut self, bytes: &[u8]) -> Result<Front, String> {
        let Some(length) = fix_length(bytes)? else { return Ok(Front::Incomplete) };
        let message = &bytes[..length];
        let field = |tag: &[u8]| fix_field(message, tag);
        let number = |tag: &[u8]| field(tag).and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
        let sequence = number(b"34").unwrap_or_default();
        if sequence < self.number || (sequence > self.number && !self.has_gaps) {
            return Err(format!("MsgSeqNum {sequence} where {} is next", self.number));
        }
        self.number = sequence.saturating_add(1);
        if field(b"35") != Some(b"D") {
            return Ok(Front::Session(length));
        }
        let lacks = |tag: &str| format!("an order without a valid field {tag}");
        let order = Order {
            reference: number(b"11").ok_or_else(|| lacks("11"))?,
            symbol: field(b"55").and_then(symbol).ok_or_else(|| lacks("55"))?,
            buys: match field(b"54") {
                Some(b"1") => true,
                Some(b"2") => false,
                _ => return Err(lacks("54")),
            },
            price: field(b"44").and_then(price).ok_or_else(|| lacks("44"))?,
            quantity: number(b"38").and_then(|shares| u32::try_from(shares).ok()).ok_or_else(|| lacks("38"))?,
        };
        Ok(Front::Order(order, length))
    }

    fn ouch(&mut self, bytes: &[u8]) -> Result<Front, String> {
        let [high, low, rest @ ..] = bytes else { return Ok(Front::Incomplete) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(packet) = rest.get(..length) else { return Ok(Front::Incomplete) };
        match packet {
            [b'U', b'O', message @ ..] if length == ENTER_ORDER_BYTES - 2 => {
                let order = self.enter_order(message)?;
                Ok(Front::Order(order, length + 2))
            }
            [b'R' | b'+' | b'L' | b'O', ..] => Ok(Front::Session(length + 2)),
            other => Err(format!("a packet of {length} bytes that begins with {:?}", &other[..other.len().min(2)])),
        }
    }

    /// EnterOrder behind its type: offsets are one less than the specification's.
    fn enter_order(&mut self, message: &[u8]) -> Result<Order, String> {
        let bytes = |range: Range<usize>| message[range].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let number = bytes(0..4);
        if number <= self.number {
            return Err(format!("UserRefNum {number} after {}", self.number));
        }
        self.number = number;
        let id = std::str::from_utf8(&message[30..44]).ok().and_then(|id| id.trim_end().parse().ok());
        let buys = match message[4] {
            b'B' => true,
            b'S' | b'T' | b'E' => false,
            side => return Err(format!("side {side}")),
        };
        let mut symbol = [0; 8];
        symbol.copy_from_slice(&message[9..17]);
        Ok(Order {
            reference: id.ok_or("a ClOrdID that is no number")?,
            symbol,
            buys,
            price: u32::try_from(bytes(17..25)).map_err(|_| "a price beyond all")?,
            quantity: bytes(5..9) as u32,
        })
    }
}

/// An order of 16 bytes; its symbol is that of its tick, which the reference names.
fn raw(bytes: &[u8]) -> Front {
    let Some(bytes) = bytes.first_chunk::<RAW_BYTES>() else { return Front::Incomplete };
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let order = Order {
        reference: u64::from(word(0)) | u64::from(word(4)) << 32,
        symbol: NO_SYMBOL,
        buys: word(12) >> 31 == 1,
        price: word(8),
        quantity: word(12) & (u32::MAX >> 1),
    };
    Front::Order(order, RAW_BYTES)
}

/// The length of the message at the front of `bytes`, whose checksum is right; none as long as it has not come whole.
fn fix_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    let wrong = || "bytes that are no message of FIX".to_owned();
    let Some(first) = bytes.iter().position(|byte| *byte == SOH) else {
        return if bytes.len() > MESSAGE_BYTES_MAX { Err(wrong()) } else { Ok(None) };
    };
    let Some(second) = bytes[first + 1..].iter().position(|byte| *byte == SOH) else {
        return if bytes.len() > MESSAGE_BYTES_MAX { Err(wrong()) } else { Ok(None) };
    };
    let begin = first + 1 + second + 1;
    let body = bytes[first + 1..begin - 1].strip_prefix(b"9=").and_then(|digits| std::str::from_utf8(digits).ok());
    let body: usize =
        body.and_then(|digits| digits.parse().ok()).filter(|body| *body <= MESSAGE_BYTES_MAX).ok_or_else(wrong)?;
    let length = begin + body + TRAILER_BYTES;
    if bytes.len() < length {
        return Ok(None);
    }
    let sum = bytes[..begin + body].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    if bytes[begin + body..length] != format!("10={sum:03}\u{1}").into_bytes()[..] {
        return Err("a message of FIX with a wrong checksum".into());
    }
    Ok(Some(length))
}

/// The value of a field.
pub(crate) fn fix_field<'a>(message: &'a [u8], tag: &[u8]) -> Option<&'a [u8]> {
    let mut fields = message.split(|byte| *byte == SOH);
    fields.find_map(|field| field.strip_prefix(tag)?.strip_prefix(b"="))
}

fn symbol(value: &[u8]) -> Option<[u8; 8]> {
    let mut symbol = [b' '; 8];
    symbol.get_mut(..value.len())?.copy_from_slice(value);
    Some(symbol)
}

/// A price with at most four decimals.
fn price(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 4 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = format!("{fraction:0<4}").parse::<u32>().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMS: [OrderForm; 3] = [OrderForm::Fix, OrderForm::Ouch, OrderForm::Raw];

    const ORDER: Order =
        Order { reference: 12_345_678_901, symbol: *b"SIDE    ", buys: true, price: 1_230_400, quantity: 200 };

    /// The order as it is read.
    fn read(form: OrderForm, order: Order) -> Order {
        if form == OrderForm::Raw { Order { symbol: NO_SYMBOL, ..order } } else { order }
    }

    #[test]
    fn an_order_is_the_message_that_the_specification_says() {
        let mut fix = Vec::new();
        write(&mut fix, OrderForm::Fix, &ORDER, 1);
        let shown = String::from_utf8_lossy(&fix).replace('\u{1}', "|");
        assert!(shown.starts_with("8=FIX.4.4|9=139|35=D|34=2|49=TRADER|52="), "{shown}");
        assert!(shown.contains("|56=EXCHANGE|11=12345678901|38=200|40=2|44=123.0400|54=1|55=SIDE|59=3|60="), "{shown}");
        let mut ouch = Vec::new();
        write(&mut ouch, OrderForm::Ouch, &ORDER, 7);
        assert_eq!(ouch.len(), ENTER_ORDER_BYTES);
        assert_eq!(ouch[..8], [0, 48, b'U', b'O', 0, 0, 0, 7]);
        assert_eq!(ouch[8..21], *b"B\0\0\0\xc8SIDE    ");
        assert_eq!(ouch[34..48], *b"12345678901   ");
    }

    #[test]
    fn an_order_that_comes_in_pieces_is_read_when_it_is_whole() {
        for form in FORMS {
            let mut bytes = Vec::new();
            write(&mut bytes, form, &ORDER, 1);
            for cut in 0..bytes.len() {
                assert_eq!(Reader::new(form).front(&bytes[..cut]), Ok(Front::Incomplete), "{form:?} cut at {cut}");
            }
            let length = bytes.len();
            bytes.extend(b"8=");
            assert_eq!(Reader::new(form).front(&bytes), Ok(Front::Order(read(form, ORDER), length)), "{form:?}");
        }
    }

    #[test]
    fn a_message_out_of_sequence_is_wrong() {
        for form in [OrderForm::Fix, OrderForm::Ouch] {
            let mut bytes = Vec::new();
            write(&mut bytes, form, &ORDER, 1);
            let mut reader = Reader::new(form);
            assert!(reader.front(&bytes).is_ok());
            assert!(reader.front(&bytes).is_err(), "{form:?}: the same number again");
        }
        let mut later = Vec::new();
        write(&mut later, OrderForm::Fix, &ORDER, 9);
        assert!(Reader::new(OrderForm::Fix).front(&later).unwrap_err().contains("where 2 is next"));
        assert!(Reader::of_written(OrderForm::Fix).front(&later).is_ok());
    }

    #[test]
    fn a_changed_byte_is_seen_by_the_checksum() {
        let mut bytes = Vec::new();
        write(&mut bytes, OrderForm::Fix, &ORDER, 1);
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        assert!(Reader::new(OrderForm::Fix).front(&bytes).unwrap_err().contains("checksum"));
    }

    #[test]
    fn messages_of_the_session_are_passed_over() {
        let mut heartbeat = Vec::new();
        fix_message(&mut heartbeat, b"0", 2, true, &[]);
        assert_eq!(Reader::new(OrderForm::Fix).front(&heartbeat), Ok(Front::Session(heartbeat.len())));
        assert_eq!(Reader::new(OrderForm::Ouch).front(&[0, 1, b'R', 9]), Ok(Front::Session(3)));
        assert!(Reader::new(OrderForm::Ouch).front(&[0, 1, b'X']).is_err());
        assert!(Reader::new(OrderForm::Ouch).front(&[0, 0]).is_err());
    }

    #[test]
    fn prices_have_at_most_four_decimals() {
        let told = |text: &str| price(text.as_bytes());
        assert_eq!(
            (told("1.5"), told("1"), told("0.0001"), told("200000")),
            (Some(15_000), Some(10_000), Some(1), Some(2_000_000_000))
        );
        for wrong in ["", "1.00001", "-1", "1.-1", "x", "500000", "1.+1"] {
            assert_eq!(told(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            reference in 1_u64..100_000_000_000_000,
            price in 1_u32..2_000_000_000,
            quantity in 1_u32..1_000_000,
            buys: bool,
            number in 1_u32..1_000_000,
        ) {
            let order = Order { reference, price, quantity, buys, ..ORDER };
            for form in FORMS {
                let mut bytes = Vec::new();
                write(&mut bytes, form, &order, number);
                let mut reader = Reader::new(form);
                if form == OrderForm::Fix {
                    reader.number = u64::from(number) + 1;
                }
                prop_assert_eq!(reader.front(&bytes), Ok(Front::Order(read(form, order), bytes.len())));
            }
        }

        /// Whatever comes, a reader ends: with an error, or with some bytes less.
        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for form in FORMS {
                let (mut reader, mut at) = (Reader::new(form), 0);
                while let Ok(Front::Order(_, length) | Front::Session(length)) = reader.front(&bytes[at..]) {
                    prop_assert!(length > 0);
                    at += length;
                }
            }
        }
    }
}

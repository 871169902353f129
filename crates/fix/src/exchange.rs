//! An exchange that takes every order and fills it at once: for trying a client, for measuring, for learning.
//!
//! A NewOrderSingle (35=D) is answered by two ExecutionReports (35=8), New and Filled, which leave in one write. One that cannot
//! be filled as it stands is rejected, also where no dictionary is used. Anything else is refused as unsupported.

use crate::SOH;
use crate::clock::Now;
use crate::decode::FieldError;
use crate::decode::Message;
use crate::encode::Builder;
use crate::session::{Application, Outbox, Refusal, RejectReason, SendError, SessionId};
use crate::tag;
use crate::value::{self, is_float};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;

const ACCOUNT: u32 = 1;
const AVG_PX: u32 = 6;
const CL_ORD_ID: u32 = 11;
const CUM_QTY: u32 = 14;
const EXEC_ID: u32 = 17;
const EXEC_TRANS_TYPE: u32 = 20;
const LAST_PX: u32 = 31;
const LAST_QTY: u32 = 32;
const ORDER_ID: u32 = 37;
const ORDER_QTY: u32 = 38;
const ORD_TYPE: u32 = 40;
const ORD_STATUS: u32 = 39;
const PRICE: u32 = 44;
const SIDE: u32 = 54;
const SYMBOL: u32 = 55;
const TRANSACT_TIME: u32 = 60;
const EXEC_TYPE: u32 = 150;
const LEAVES_QTY: u32 = 151;

/// The price of an order that names none.
const MARKET_PRICE: &[u8] = b"100";

/// Takes orders and fills them.
#[derive(Debug)]
pub struct Exchange {
    /// OrderID (37) of the order before the first one: one for each ns since 2020. An exchange that is started
    /// anew begins beyond all that it gave before, as an order takes more than a ns.
    before_first: u64,
    orders: u64,
    /// Orders of which an answer could not be sent.
    unanswered: u64,
}

/// 2020-01-01, ns since 1970.
const EPOCH_UTC_NS: i64 = 1_577_836_800_000_000_000;

impl Default for Exchange {
    fn default() -> Self {
        Self::started(Now::system().utc_ns)
    }
}

impl Exchange {
    /// One that is started at this moment, ns since 1970, UTC.
    pub fn started(utc_ns: i64) -> Self {
        let before_first = u64::try_from(utc_ns - EPOCH_UTC_NS).unwrap_or(0);
        Self { before_first, orders: 0, unanswered: 0 }
    }

    /// Orders taken so far.
    pub fn orders(&self) -> u64 {
        self.orders
    }

    /// Orders of which an answer could not be sent.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }
}

/// The fields of an order that the exchange reads, each where it stands first.
#[derive(Default)]
struct Fields<'a> {
    account: Option<&'a [u8]>,
    cl_ord_id: Option<&'a [u8]>,
    quantity: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    price: Option<&'a [u8]>,
    side: Option<&'a [u8]>,
    symbol: Option<&'a [u8]>,
    time: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn of(message: &Message<'a, '_>) -> Self {
        let mut fields = Self::default();
        for (tag, value) in message.fields() {
            let place = match tag {
                ACCOUNT => &mut fields.account,
                CL_ORD_ID => &mut fields.cl_ord_id,
                ORDER_QTY => &mut fields.quantity,
                ORD_TYPE => &mut fields.kind,
                PRICE => &mut fields.price,
                SIDE => &mut fields.side,
                SYMBOL => &mut fields.symbol,
                TRANSACT_TIME => &mut fields.time,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        fields
    }

    /// Checks the fields that the exchange uses, also where no dictionary has.
    fn check(&self) -> Result<(), Refusal> {
        let wrong = |tag| Refusal::Session { reason: RejectReason::ValueIncorrect, tag: Some(tag) };
        if !is_positive(number(self.quantity, ORDER_QTY)?) {
            return Err(wrong(ORDER_QTY));
        }
        if !matches!(character(self.side, SIDE)?, b'1'..=b'9' | b'A'..=b'H') {
            return Err(wrong(SIDE));
        }
        let kind = self.kind.map(|_| character(self.kind, ORD_TYPE)).transpose()?;
        if kind.is_some_and(|kind| !matches!(kind, b'1'..=b'9' | b'A'..=b'Z')) {
            return Err(wrong(ORD_TYPE));
        }
        // Limit and stop limit: an order that has no price is none of them.
        if self.price.is_some() || matches!(kind, Some(b'2' | b'4')) {
            number(self.price, PRICE)?;
        }
        Ok(())
    }
}

/// The value of a field that has to be there and not empty.
fn required(value: Option<&[u8]>, tag: u32) -> Result<&[u8], FieldError> {
    match value {
        None => Err(FieldError::Missing(tag)),
        Some([]) => Err(FieldError::Empty(tag)),
        Some(value) => Ok(value),
    }
}

/// A number that the field has to hold: no more is asked where no dictionary is.
fn number(value: Option<&[u8]>, tag: u32) -> Result<&[u8], FieldError> {
    required(value, tag).and_then(|value| if is_float(value) { Ok(value) } else { Err(FieldError::Format(tag)) })
}

fn character(value: Option<&[u8]>, tag: u32) -> Result<u8, FieldError> {
    required(value, tag).and_then(|value| value::character(value).ok_or(FieldError::Format(tag)))
}

fn is_positive(number: &[u8]) -> bool {
    number[0] != b'-' && number.iter().any(|digit| (b'1'..=b'9').contains(digit))
}

/// The content of an order, where it stands in the message.
struct Order<'a> {
    number: u64,
    begin_string: &'a [u8],
    account: Option<&'a [u8]>,
    cl_ord_id: &'a [u8],
    symbol: &'a [u8],
    side: &'a [u8],
    quantity: &'a [u8],
    price: &'a [u8],
    time: Option<&'a [u8]>,
}

impl<'a> Order<'a> {
    fn read(message: &Message<'a, '_>, number: u64) -> Result<Self, Refusal> {
        let fields = Fields::of(message);
        fields.check()?;
        Ok(Self {
            number,
            begin_string: message.begin_string(),
            account: fields.account,
            cl_ord_id: required(fields.cl_ord_id, CL_ORD_ID)?,
            symbol: required(fields.symbol, SYMBOL)?,
            side: required(fields.side, SIDE)?,
            quantity: required(fields.quantity, ORDER_QTY)?,
            price: fields.price.unwrap_or(MARKET_PRICE),
            time: fields.time,
        })
    }

    /// ExecTransType (20) went, and fills became trades, with FIX 4.3.
    fn is_old(&self) -> bool {
        self.begin_string < b"FIX.4.3".as_slice()
    }

    fn report(&self, builder: &mut Builder<'_>, is_fill: bool) {
        let (status, kind) = match (is_fill, self.is_old()) {
            (false, _) => (b'0', b'0'),
            (true, true) => (b'2', b'2'),
            (true, false) => (b'2', b'F'),
        };
        let (done, left, price) =
            if is_fill { (self.quantity, &b"0"[..], self.price) } else { (&b"0"[..], self.quantity, &b"0"[..]) };
        if let Some(account) = self.account {
            builder.bytes(ACCOUNT, account);
        }
        builder.bytes(AVG_PX, price).bytes(CL_ORD_ID, self.cl_ord_id).bytes(CUM_QTY, done);
        builder.unsigned(EXEC_ID, 2 * self.number + u64::from(is_fill));
        if self.is_old() {
            builder.char(EXEC_TRANS_TYPE, b'0');
        }
        if is_fill {
            builder.bytes(LAST_PX, self.price).bytes(LAST_QTY, self.quantity);
        }
        builder.unsigned(ORDER_ID, self.number).bytes(ORDER_QTY, self.quantity).char(ORD_STATUS, status);
        builder.bytes(SIDE, self.side).bytes(SYMBOL, self.symbol);
        if let Some(time) = self.time {
            builder.bytes(TRANSACT_TIME, time);
        }
        // FIX 4.0 knows neither.
        if self.begin_string != b"FIX.4.0" {
            builder.char(EXEC_TYPE, kind).bytes(LEAVES_QTY, left);
        }
    }
}

impl Application for Exchange {
    fn on_problem(&mut self, id: &SessionId, problem: &Problem) {
        say(format!("{id}: {problem}"));
    }

    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        if message.msg_type() != b"D" {
            return Err(Refusal::UNSUPPORTED);
        }
        let order = Order::read(message, self.before_first + self.orders + 1)?;
        self.orders += 1;
        for is_fill in [false, true] {
            match out.send(b"8", &mut |builder| order.report(builder, is_fill)) {
                Ok(_) => {}
                Err(SendError::Rejected(_)) => return Err(Refusal::UNSUPPORTED),
                Err(error) => {
                    // The first one is reported, the others are counted.
                    if self.unanswered == 0 {
                        say(format!("{}: an order could not be answered: {error}", out.id()));
                    }
                    self.unanswered += 1;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A message for people: `|` instead of SOH.
pub fn readable(message: &[u8]) -> String {
    let bytes: Vec<u8> = message.iter().map(|byte| if *byte == SOH { b'|' } else { *byte }).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fields that a session writes itself: those of a message that is sent anew are left out.
pub fn is_session_field(number: u32) -> bool {
    use tag::{
        BEGIN_STRING, BODY_LENGTH, CHECK_SUM, LAST_MSG_SEQ_NUM_PROCESSED, MSG_SEQ_NUM, MSG_TYPE, ORIG_SENDING_TIME,
        POSS_DUP_FLAG, SENDER_COMP_ID, SENDER_LOCATION_ID, SENDER_SUB_ID, SENDING_TIME, TARGET_COMP_ID,
        TARGET_LOCATION_ID, TARGET_SUB_ID,
    };
    [
        BEGIN_STRING,
        BODY_LENGTH,
        CHECK_SUM,
        LAST_MSG_SEQ_NUM_PROCESSED,
        MSG_SEQ_NUM,
        MSG_TYPE,
        ORIG_SENDING_TIME,
        POSS_DUP_FLAG,
        SENDER_COMP_ID,
        SENDER_LOCATION_ID,
        SENDER_SUB_ID,
        SENDING_TIME,
        TARGET_COMP_ID,
        TARGET_LOCATION_ID,
        TARGET_SUB_ID,
    ]
    .contains(&number)
}

/// The session of `sidestep fix exchange` without a file: whoever asks for any name.
pub fn anyone() -> SessionId {
    SessionId { sender_sub_id: "*".into(), target_sub_id: "*".into(), ..SessionId::new("*", "*", "*") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Index;
    use crate::encode::{Encoder, Parties};
    use crate::value::Precision;
    use std::collections::HashSet;

    /// Takes what is sent, and keeps OrderID and ExecID.
    struct Kept {
        encoder: Encoder,
        id: SessionId,
        ids: Vec<(String, String)>,
    }

    impl Outbox for Kept {
        fn id(&self) -> &SessionId {
            &self.id
        }

        fn send(&mut self, msg_type: &[u8], fill: &mut dyn FnMut(&mut Builder<'_>)) -> Result<u64, SendError> {
            let mut builder = self.encoder.message(msg_type);
            fill(&mut builder);
            let raw = builder.finish(1, Now::default()).map_err(SendError::Rejected)?.to_vec();
            let mut index = Index::default();
            let report = index.decode(&raw).expect("our own message");
            let text = |tag| String::from_utf8_lossy(report.get(tag).unwrap_or_default()).into_owned();
            self.ids.push((text(ORDER_ID), text(EXEC_ID)));
            self.encoder.clear();
            Ok(1)
        }

        fn logout(&mut self, _: &str) {}
    }

    #[test]
    fn numbers_are_used_once_whenever_the_exchange_is_started_again() {
        let parties =
            Parties { begin_string: "FIX.4.4".into(), sender: "A".into(), target: "B".into(), ..Parties::default() };
        let mut encoder = Encoder::new(&parties, Precision::Millis).unwrap();
        let mut order = encoder.message(b"D");
        order.str(CL_ORD_ID, "1").str(SYMBOL, "X").str(SIDE, "1").str(ORDER_QTY, "1");
        let raw = order.finish(1, Now::default()).unwrap().to_vec();
        encoder.clear();
        let mut out = Kept { encoder, id: anyone(), ids: Vec::new() };
        let (mut index, start_ns) = (Index::default(), 1_800_000_000_000_000_000);
        for restart in 0..50 {
            let mut exchange = Exchange::started(start_ns + restart * 100);
            for _ in 0..100 {
                exchange.from_app(&index.decode(&raw).unwrap(), &mut out).unwrap();
            }
        }
        let orders: HashSet<&String> = out.ids.iter().map(|(order, _)| order).collect();
        let executions: HashSet<&String> = out.ids.iter().map(|(_, execution)| execution).collect();
        assert_eq!((orders.len(), executions.len()), (5_000, 10_000));
        assert_ne!(Exchange::default().before_first, 0);
    }
}

//! One message of every type of the exchange, its offsets typed from the specification, "Outbound Messages".

use crate::layout::{Field, message};
use proptest::prelude::*;
use sidestep_market::ouch::*;
use sidestep_market::units::{OrderReference, Price, Symbol};

const TIMESTAMP: Field<'_> = (1, b"\0\0\x11\x12\x13\x14\x15\x16");

/// The message, after the tests that every type has to pass.
fn parse(bytes: &[u8]) -> Answer<'_> {
    let answer = Answer::parse(bytes).expect("it is whole");
    for cut in 1..bytes.len() {
        let cut = Answer::parse(&bytes[..cut]);
        assert!(matches!(cut, Err(Malformed::Short { kind, .. } | Malformed::Appendage { kind }) if kind == bytes[0]));
    }
    answer
}

macro_rules! view {
    ($bytes:expr, $name:ident) => {{
        let Answer::$name(view) = parse($bytes) else { panic!("another type") };
        assert_eq!(view.timestamp_ns(), 0x1112_1314_1516);
        let longer = [$bytes.as_slice(), b"later"].concat();
        assert_eq!(Answer::parse(&longer), Ok(Answer::$name(view)), "a later version is read by its first bytes");
        view
    }};
}

fn answer(kind: u8, length: usize, fields: &[Field<'_>]) -> Vec<u8> {
    message(kind, length, &[&[TIMESTAMP], fields].concat())
}

#[test]
fn system_event() {
    let bytes = answer(b'S', 10, &[(9, b"S")]);
    assert_eq!(view!(&bytes, SystemEvent).event_code(), b'S');
}

#[test]
fn accepted() {
    let fields: &[Field<'_>] = &[
        (9, b"\0\0\0\x07"),
        (13, b"T"),
        (14, b"\0\0\0\xE1"),
        (18, b"CVLT    "),
        (26, b"\0\0\0\0\0\x09\x9D\xB8"),
        (34, b"0"),
        (35, b"Y"),
        (36, b"\x21\x22\x23\x24\x25\x26\x27\x28"),
        (44, b"P"),
        (45, b"N"),
        (46, b"C"),
        (47, b"L"),
        (48, b"NAME          "),
        (62, b"\0\x06"),
        (64, b"\x05\x02LIME"),
    ];
    let bytes = answer(b'A', 70, fields);
    let view = view!(&bytes, Accepted);
    assert_eq!((view.user_ref_num(), view.side()), (UserRefNum(7), Some(OrderSide::SellShort)));
    assert_eq!((view.quantity(), view.symbol()), (225, Symbol::new("CVLT").unwrap()));
    assert_eq!((view.price(), view.time_in_force()), (Price(630_200), Some(TimeInForce::Day)));
    assert_eq!((view.display(), view.capacity()), (Some(Display::Visible), Some(Capacity::Principal)));
    assert_eq!(view.order_reference(), OrderReference(0x2122_2324_2526_2728));
    assert_eq!((view.intermarket_sweep(), view.cross_type()), (b'N', Some(CrossType::Closing)));
    assert_eq!((view.order_state(), view.cl_ord_id().as_str()), (b'L', "NAME"));
    let elements: Vec<_> = view.appendage().elements().collect();
    assert!(matches!(elements[..], [Element::Firm(firm)] if firm.as_str() == "LIME"));
}

#[test]
fn replaced() {
    let fields: &[Field<'_>] = &[
        (9, b"\0\0\0\x07"),
        (13, b"\0\0\0\x08"),
        (17, b"B"),
        (18, b"\0\0\0\xE1"),
        (22, b"CVLT    "),
        (30, b"\0\0\0\0\x7F\xFF\xFF\xFF"),
        (38, b"3"),
        (39, b"N"),
        (40, b"\x21\x22\x23\x24\x25\x26\x27\x28"),
        (48, b"A"),
        (49, b"Y"),
        (50, b"?"),
        (51, b"D"),
        (52, b"NAME          "),
        (66, b"\0\x00"),
    ];
    let bytes = answer(b'U', 68, fields);
    let view = view!(&bytes, Replaced);
    assert_eq!((view.old_user_ref_num(), view.user_ref_num()), (UserRefNum(7), UserRefNum(8)));
    assert_eq!((view.side(), view.quantity()), (Some(OrderSide::Buy), 225));
    assert_eq!((view.symbol(), view.price()), (Symbol::new("CVLT").unwrap(), PRICE_MARKET));
    assert_eq!((view.time_in_force(), view.display()), (Some(TimeInForce::ImmediateOrCancel), Some(Display::Hidden)));
    assert_eq!((view.capacity(), view.intermarket_sweep()), (Some(Capacity::Agency), b'Y'));
    assert_eq!(view.order_reference(), OrderReference(0x2122_2324_2526_2728));
    assert_eq!((view.cross_type(), view.order_state(), view.cl_ord_id().as_str()), (None, b'D', "NAME"));
    assert_eq!(view.appendage().elements().count(), 0);
}

#[test]
fn executed() {
    let fields: &[Field<'_>] = &[
        (9, b"\0\0\0\x07"),
        (13, b"\0\0\0\x64"),
        (17, &[0xFF; 8]),
        (25, b"A"),
        (26, b"\0\0\0\0\0\0\x01\x02"),
        (34, b"\0\x03"),
        (36, b"\x02\x14R"),
    ];
    let bytes = answer(b'E', 39, fields);
    let view = view!(&bytes, Executed);
    assert_eq!((view.user_ref_num(), view.quantity(), view.liquidity()), (UserRefNum(7), 100, b'A'));
    assert_eq!((view.price(), view.match_number()), (Price(i64::MAX), 0x102), "a price beyond its range");
    let elements: Vec<_> = view.appendage().elements().collect();
    assert_eq!(elements, [Element::Other { tag: 20, value: b"R" }]);
}

#[test]
fn cancelled() {
    let bytes = answer(b'C', 18, &[(9, b"\0\0\0\x07"), (13, b"\0\0\0\x64"), (17, b"I")]);
    let view = view!(&bytes, Cancelled);
    assert_eq!((view.user_ref_num(), view.quantity(), view.reason()), (UserRefNum(7), 100, b'I'));
}

#[test]
fn rejected() {
    let bytes = answer(b'J', 29, &[(9, b"\0\0\0\x07"), (13, b"\x01\x17"), (15, b"NAME          ")]);
    let view = view!(&bytes, Rejected);
    assert_eq!((view.user_ref_num(), view.reason(), view.cl_ord_id().as_str()), (UserRefNum(7), 279, "NAME"));
}

#[test]
fn broken_trade() {
    let fields: &[Field<'_>] =
        &[(9, b"\0\0\0\x07"), (13, b"\0\0\0\0\0\0\x01\x02"), (21, b"E"), (22, b"NAME          ")];
    let bytes = answer(b'B', 36, fields);
    let view = view!(&bytes, BrokenTrade);
    assert_eq!((view.user_ref_num(), view.match_number()), (UserRefNum(7), 0x102));
    assert_eq!((view.reason(), view.cl_ord_id().as_str()), (b'E', "NAME"));
}

#[test]
fn self_match_cancelled() {
    let fields: &[Field<'_>] = &[
        (9, b"\0\0\0\x07"),
        (13, b"\0\0\0\x64"),
        (17, b"Q"),
        (18, b"\0\0\0\x32"),
        (22, b"\0\0\0\0\0\0\x27\x10"),
        (30, b"R"),
        (31, b"s"),
    ];
    let bytes = answer(b'D', 32, fields);
    let view = view!(&bytes, SelfMatchCancelled);
    assert_eq!((view.user_ref_num(), view.quantity(), view.reason()), (UserRefNum(7), 100, b'Q'));
    assert_eq!((view.prevented_quantity(), view.price()), (50, Price(10_000)));
    assert_eq!((view.liquidity(), view.strategy()), (b'R', b's'));
}

#[test]
fn cancel_pending_and_cancel_rejected() {
    let bytes = answer(b'P', 13, &[(9, b"\0\0\0\x07")]);
    assert_eq!(view!(&bytes, CancelPending).user_ref_num(), UserRefNum(7));
    let bytes = answer(b'I', 13, &[(9, b"\0\0\0\x08")]);
    assert_eq!(view!(&bytes, CancelRejected).user_ref_num(), UserRefNum(8));
}

#[test]
fn priority_update() {
    let fields: &[Field<'_>] =
        &[(9, b"\0\0\0\x07"), (13, b"\0\0\0\0\0\0\x27\x10"), (21, b"A"), (22, b"\0\0\0\0\0\0\x01\x02")];
    let bytes = answer(b'T', 30, fields);
    let view = view!(&bytes, PriorityUpdate);
    assert_eq!((view.user_ref_num(), view.price()), (UserRefNum(7), Price(10_000)));
    assert_eq!((view.display(), view.order_reference()), (Some(Display::Attributable), OrderReference(0x102)));
}

#[test]
fn modified() {
    let bytes = answer(b'M', 18, &[(9, b"\0\0\0\x07"), (13, b"E"), (14, b"\0\0\0\x64")]);
    let view = view!(&bytes, Modified);
    let side = Some(OrderSide::SellShortExempt);
    assert_eq!((view.user_ref_num(), view.side(), view.quantity()), (UserRefNum(7), side, 100));
}

#[test]
fn restated() {
    let fields: &[Field<'_>] = &[(9, b"\0\0\0\x07"), (13, b"R"), (14, b"\0\x06"), (16, b"\x05\x16\0\0\0\x64")];
    let bytes = answer(b'R', 22, fields);
    let view = view!(&bytes, Restated);
    assert_eq!((view.user_ref_num(), view.reason()), (UserRefNum(7), b'R'));
    assert_eq!(view.appendage().elements().next(), Some(Element::DisplayQuantity(100)));
}

#[test]
fn query_response() {
    let bytes = answer(b'Q', 13, &[(9, b"\0\0\0\x2A")]);
    assert_eq!(view!(&bytes, QueryResponse).next_user_ref_num(), UserRefNum(42));
}

#[test]
fn every_other_type_is_unknown_and_never_an_error() {
    let known = b"SAUECJBDPITMRQ";
    for kind in (0..=u8::MAX).filter(|kind| !known.contains(kind)) {
        assert_eq!(Answer::parse(&[kind]), Ok(Answer::Unknown(&[kind])));
    }
    assert_eq!(Answer::parse(b""), Err(Malformed::Empty));
}

#[test]
fn an_appendage_beyond_the_message_is_refused() {
    let with = |appendage: &[u8]| {
        let fields: &[Field<'_>] = &[(9, b"\0\0\0\x07"), (13, b"R")];
        let mut bytes = answer(b'R', 16, &[fields, &[(14, b"\0\x04")]].concat());
        bytes.extend_from_slice(appendage);
        Answer::parse(&bytes).map(|_| ())
    };
    assert_eq!(with(b"\x03\x18\0\0"), Ok(()));
    for damaged in [&b"\x03\x18\0"[..], b"\0\x18\0\0", b"\x04\x18\0\0\0", b"\x02\x18\0\x01"] {
        assert_eq!(with(damaged), Err(Malformed::Appendage { kind: b'R' }), "{damaged:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(kind in prop::sample::select(&b"SAUECJBDPITMRQ?"[..]), mut bytes in prop::collection::vec(any::<u8>(), 1..100)) {
        bytes[0] = kind;
        if let Ok(Answer::Accepted(view)) = Answer::parse(&bytes) {
            prop_assert!(view.appendage().bytes().len() + 64 <= bytes.len());
        }
    }
}

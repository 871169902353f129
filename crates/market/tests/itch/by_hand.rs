//! One packet of every type, its offsets typed from the specification, section 1.

use crate::layout::{Field, message};
use sidestep_market::itch::{MESSAGE_BYTES_MAX, Malformed, Message};
use sidestep_market::units::{Alpha, Locate, OrderReference, Price, Side, Symbol};

const STOCK: &[u8] = b"ZVZZT   ";

/// A message behind the fields that all have: locate 0x1112, tracking number 0x1314, timestamp 0x151617181920.
fn packet(kind: u8, length: usize, fields: &[Field<'_>]) -> Vec<u8> {
    let common: [Field<'_>; 3] = [(1, b"\x11\x12"), (3, b"\x13\x14"), (5, b"\x15\x16\x17\x18\x19\x20")];
    message(kind, length, &[&common[..], fields].concat())
}

/// The message, after the tests that every type has to pass.
fn parse(bytes: &[u8]) -> Message<'_> {
    let message = Message::parse(bytes).expect("it is whole");
    assert_eq!((message.kind(), message.bytes()), (bytes[0], bytes));
    assert_eq!((message.locate(), message.timestamp_ns()), (Locate(0x1112), 0x1516_1718_1920));
    assert!(bytes.len() <= MESSAGE_BYTES_MAX);
    for cut in 1..bytes.len() {
        let short = Malformed::Short { kind: bytes[0], bytes: cut, needs: bytes.len() };
        assert_eq!(Message::parse(&bytes[..cut]), Err(short));
    }
    message
}

/// The view of one variant, with the getters that all views have checked.
macro_rules! view {
    ($bytes:expr, $name:ident) => {{
        let Message::$name(view) = parse($bytes) else { panic!("another type") };
        assert_eq!((view.locate(), view.tracking_number()), (Locate(0x1112), 0x1314));
        assert_eq!(view.timestamp_ns(), 0x1516_1718_1920);
        let longer = [$bytes.as_slice(), b"later"].concat();
        assert_eq!(Message::parse(&longer), Ok(Message::$name(view)), "a later version is read by its first bytes");
        view
    }};
}

fn stock() -> Symbol {
    Symbol::new("ZVZZT").unwrap()
}

#[test]
fn system_event() {
    let bytes = packet(b'S', 12, &[(11, b"Q")]);
    assert_eq!(view!(&bytes, SystemEvent).event_code(), b'Q');
}

#[test]
fn stock_directory() {
    let fields: &[Field<'_>] = &[
        (11, STOCK),
        (19, b"G"),
        (20, b"N"),
        (21, b"\0\0\0\x64"),
        (25, b"Y"),
        (26, b"C"),
        (27, b"Z "),
        (29, b"P"),
        (30, b"n"),
        (31, b"i"),
        (32, b"1"),
        (33, b"e"),
        (34, b"\0\0\0\x03"),
        (38, b"v"),
    ];
    let bytes = packet(b'R', 39, fields);
    let view = view!(&bytes, StockDirectory);
    assert_eq!((view.stock(), view.market_category(), view.financial_status()), (stock(), b'G', b'N'));
    assert_eq!((view.round_lot(), view.round_lots_only()), (100, b'Y'));
    assert_eq!((view.issue_classification(), view.issue_subtype()), (b'C', Alpha(*b"Z ")));
    assert_eq!((view.authenticity(), view.short_sale_threshold(), view.ipo()), (b'P', b'n', b'i'));
    assert_eq!((view.luld_tier(), view.etp(), view.etp_leverage(), view.inverse()), (b'1', b'e', 3, b'v'));
}

#[test]
fn stock_trading_action() {
    let bytes = packet(b'H', 25, &[(11, STOCK), (19, b"T"), (20, b"r"), (21, b"LUDP")]);
    let view = view!(&bytes, StockTradingAction);
    assert_eq!((view.stock(), view.trading_state(), view.reserved()), (stock(), b'T', b'r'));
    assert_eq!(view.reason(), Alpha(*b"LUDP"));
}

#[test]
fn reg_sho_restriction() {
    let bytes = packet(b'Y', 20, &[(11, STOCK), (19, b"2")]);
    let view = view!(&bytes, RegShoRestriction);
    assert_eq!((view.stock(), view.action()), (stock(), b'2'));
}

#[test]
fn market_participant_position() {
    let bytes = packet(b'L', 26, &[(11, b"MPID"), (15, STOCK), (23, b"Y"), (24, b"N"), (25, b"A")]);
    let view = view!(&bytes, MarketParticipantPosition);
    assert_eq!((view.mpid(), view.stock()), (Alpha(*b"MPID"), stock()));
    assert_eq!((view.primary_market_maker(), view.mode(), view.state()), (b'Y', b'N', b'A'));
}

#[test]
fn mwcb_decline_level() {
    let levels: &[Field<'_>] =
        &[(11, b"\0\0\0\x50\0\0\0\x01"), (19, b"\0\0\0\x51\0\0\0\x02"), (27, b"\0\0\0\x52\0\0\0\x03")];
    let bytes = packet(b'V', 35, levels);
    let view = view!(&bytes, MwcbDeclineLevel);
    assert_eq!((view.level_1(), view.level_2(), view.level_3()), (0x50_0000_0001, 0x51_0000_0002, 0x52_0000_0003));
}

#[test]
fn mwcb_status() {
    let bytes = packet(b'W', 12, &[(11, b"3")]);
    assert_eq!(view!(&bytes, MwcbStatus).breached_level(), b'3');
}

#[test]
fn ipo_quoting_period() {
    let bytes = packet(b'K', 28, &[(11, STOCK), (19, b"\0\0\x8C\xA0"), (23, b"A"), (24, b"\0\x02\x71\x10")]);
    let view = view!(&bytes, IpoQuotingPeriod);
    assert_eq!((view.stock(), view.release_time_s(), view.release_qualifier()), (stock(), 36_000, b'A'));
    assert_eq!(view.price(), Price(160_016));
}

#[test]
fn luld_auction_collar() {
    let fields: &[Field<'_>] =
        &[(11, STOCK), (19, b"\0\0\x01\x01"), (23, b"\0\0\x02\x02"), (27, b"\0\0\x03\x03"), (31, b"\0\0\0\x04")];
    let bytes = packet(b'J', 35, fields);
    let view = view!(&bytes, LuldAuctionCollar);
    assert_eq!((view.stock(), view.reference_price(), view.upper_price()), (stock(), Price(0x101), Price(0x202)));
    assert_eq!((view.lower_price(), view.extension()), (Price(0x303), 4));
}

#[test]
fn operational_halt() {
    let bytes = packet(b'h', 21, &[(11, STOCK), (19, b"B"), (20, b"H")]);
    let view = view!(&bytes, OperationalHalt);
    assert_eq!((view.stock(), view.market(), view.action()), (stock(), b'B', b'H'));
}

#[test]
fn add_order() {
    let fields: &[Field<'_>] = &[
        (11, b"\x21\x22\x23\x24\x25\x26\x27\x28"),
        (19, b"B"),
        (20, b"\0\0\x01\x2C"),
        (24, STOCK),
        (32, b"\x77\x35\x94\x00"),
    ];
    let bytes = packet(b'A', 36, fields);
    let view = view!(&bytes, AddOrder);
    assert_eq!((view.order_reference(), view.side()), (OrderReference(0x2122_2324_2526_2728), Some(Side::Buy)));
    assert_eq!((view.shares(), view.stock(), view.price()), (300, stock(), Price(2_000_000_000)));
}

#[test]
fn add_order_mpid() {
    let fields: &[Field<'_>] = &[
        (11, b"\x21\x22\x23\x24\x25\x26\x27\x28"),
        (19, b"S"),
        (20, b"\0\0\x01\x2C"),
        (24, STOCK),
        (32, b"\0\0\x27\x10"),
        (36, b"ABCD"),
    ];
    let bytes = packet(b'F', 40, fields);
    let view = view!(&bytes, AddOrderMpid);
    assert_eq!((view.order_reference(), view.side()), (OrderReference(0x2122_2324_2526_2728), Some(Side::Sell)));
    assert_eq!((view.shares(), view.stock(), view.price()), (300, stock(), Price(10_000)));
    assert_eq!(view.mpid(), Alpha(*b"ABCD"));
}

#[test]
fn order_executed() {
    let bytes =
        packet(b'E', 31, &[(11, &[0, 0, 0, 0, 0, 0, 0, 9]), (19, b"\0\0\0\x05"), (23, &[1, 0, 0, 0, 0, 0, 0, 2])]);
    let view = view!(&bytes, OrderExecuted);
    assert_eq!((view.order_reference(), view.shares()), (OrderReference(9), 5));
    assert_eq!(view.match_number(), 0x0100_0000_0000_0002);
}

#[test]
fn order_executed_with_price() {
    let fields: &[Field<'_>] = &[
        (11, &[0, 0, 0, 0, 0, 0, 0, 9]),
        (19, b"\0\0\0\x05"),
        (23, &[1, 0, 0, 0, 0, 0, 0, 2]),
        (31, b"N"),
        (32, b"\0\0\x4E\x20"),
    ];
    let bytes = packet(b'C', 36, fields);
    let view = view!(&bytes, OrderExecutedWithPrice);
    assert_eq!((view.order_reference(), view.shares()), (OrderReference(9), 5));
    assert_eq!((view.match_number(), view.printable()), (0x0100_0000_0000_0002, b'N'));
    assert_eq!(view.price(), Price(20_000));
}

#[test]
fn order_cancel() {
    let bytes = packet(b'X', 23, &[(11, &[0xFF; 8]), (19, &[0xFF; 4])]);
    let view = view!(&bytes, OrderCancel);
    assert_eq!((view.order_reference(), view.shares()), (OrderReference(u64::MAX), u32::MAX));
}

#[test]
fn order_delete() {
    let bytes = packet(b'D', 19, &[(11, &[0, 0, 0, 1, 0, 0, 0, 0])]);
    assert_eq!(view!(&bytes, OrderDelete).order_reference(), OrderReference(1 << 32));
}

#[test]
fn order_replace() {
    let fields: &[Field<'_>] =
        &[(11, &[0, 0, 0, 0, 0, 0, 0, 1]), (19, &[0, 0, 0, 0, 0, 0, 0, 2]), (27, b"\0\0\0\x03"), (31, b"\0\0\0\x04")];
    let bytes = packet(b'U', 35, fields);
    let view = view!(&bytes, OrderReplace);
    assert_eq!((view.old_order_reference(), view.order_reference()), (OrderReference(1), OrderReference(2)));
    assert_eq!((view.shares(), view.price()), (3, Price(4)));
}

#[test]
fn trade() {
    let fields: &[Field<'_>] = &[
        (11, &[0; 8]),
        (19, b"?"),
        (20, b"\0\0\0\x06"),
        (24, STOCK),
        (32, b"\0\0\0\x07"),
        (36, &[0, 0, 0, 0, 0, 0, 0, 8]),
    ];
    let bytes = packet(b'P', 44, fields);
    let view = view!(&bytes, Trade);
    assert_eq!((view.order_reference(), view.side(), view.shares()), (OrderReference(0), None, 6));
    assert_eq!((view.stock(), view.price(), view.match_number()), (stock(), Price(7), 8));
}

#[test]
fn cross_trade() {
    let fields: &[Field<'_>] = &[
        (11, &[0, 0, 0, 1, 0, 0, 0, 0]),
        (19, STOCK),
        (27, b"\0\0\0\x07"),
        (31, &[0, 0, 0, 0, 0, 0, 0, 8]),
        (39, b"C"),
    ];
    let bytes = packet(b'Q', 40, fields);
    let view = view!(&bytes, CrossTrade);
    assert_eq!((view.shares(), view.stock(), view.price()), (1 << 32, stock(), Price(7)), "its shares have 64 bits");
    assert_eq!((view.match_number(), view.cross_type()), (8, b'C'));
}

#[test]
fn broken_trade() {
    let bytes = packet(b'B', 19, &[(11, &[0, 0, 0, 0, 0, 0, 0, 8])]);
    assert_eq!(view!(&bytes, BrokenTrade).match_number(), 8);
}

#[test]
fn net_order_imbalance() {
    let fields: &[Field<'_>] = &[
        (11, &[0, 0, 0, 0, 0, 0, 0, 1]),
        (19, &[0, 0, 0, 0, 0, 0, 0, 2]),
        (27, b"S"),
        (28, STOCK),
        (36, b"\0\0\0\x03"),
        (40, b"\0\0\0\x04"),
        (44, b"\0\0\0\x05"),
        (48, b"O"),
        (49, b"L"),
    ];
    let bytes = packet(b'I', 50, fields);
    let view = view!(&bytes, NetOrderImbalance);
    assert_eq!((view.paired_shares(), view.imbalance_shares(), view.direction()), (1, 2, b'S'));
    assert_eq!((view.stock(), view.far_price(), view.near_price()), (stock(), Price(3), Price(4)));
    assert_eq!((view.reference_price(), view.cross_type(), view.price_variation()), (Price(5), b'O', b'L'));
}

#[test]
fn retail_interest() {
    let bytes = packet(b'N', 20, &[(11, STOCK), (19, b"A")]);
    let view = view!(&bytes, RetailInterest);
    assert_eq!((view.stock(), view.interest()), (stock(), b'A'));
}

#[test]
fn direct_listing() {
    let fields: &[Field<'_>] = &[
        (11, STOCK),
        (19, b"Y"),
        (20, b"\0\0\0\x01"),
        (24, b"\0\0\0\x02"),
        (28, b"\0\0\0\x03"),
        (32, &[0, 0, 0, 0, 0, 0, 0, 4]),
        (40, b"\0\0\0\x05"),
        (44, b"\0\0\0\x06"),
    ];
    let bytes = packet(b'O', 48, fields);
    let view = view!(&bytes, DirectListing);
    assert_eq!((view.stock(), view.open_eligibility()), (stock(), b'Y'));
    assert_eq!((view.minimum_price(), view.maximum_price()), (Price(1), Price(2)));
    assert_eq!((view.near_execution_price(), view.near_execution_time_ns()), (Price(3), 4));
    assert_eq!((view.lower_collar(), view.upper_collar()), (Price(5), Price(6)));
}

#[test]
fn every_other_type_is_unknown_and_never_an_error() {
    let known = b"SRHYLVWKJhAFECXDUPQBINO";
    assert_eq!(known.len(), 23);
    for kind in (0..=u8::MAX).filter(|kind| !known.contains(kind)) {
        let bytes = [kind, 1, 2, 3];
        assert_eq!(Message::parse(&bytes), Ok(Message::Unknown(&bytes)));
        let message = Message::parse(&bytes[..1]).unwrap();
        assert_eq!((message.kind(), message.locate(), message.timestamp_ns()), (kind, Locate(0), 0));
    }
    assert_eq!(Message::parse(b""), Err(Malformed::Empty));
}

//! Requests of any values, read by offsets that were typed from the specification a second time.

use proptest::prelude::*;
use sidestep_market::ouch::*;
use sidestep_market::units::{Alpha, Price, Symbol};

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

fn name<const BYTES: usize>() -> impl Strategy<Value = Alpha<BYTES>> {
    prop::collection::vec(b'A'..=b'Z', 0..=BYTES)
        .prop_map(|name| Alpha::new(std::str::from_utf8(&name).unwrap()).unwrap())
}

fn side() -> impl Strategy<Value = OrderSide> {
    prop::sample::select(&b"BSTE"[..]).prop_map(|letter| OrderSide::of(letter).unwrap())
}

fn price() -> impl Strategy<Value = Price> {
    prop_oneof![(0..=PRICE_MAX.0).prop_map(Price), Just(PRICE_MARKET), Just(PRICE_MAX)]
}

proptest! {
    #[test]
    fn an_order_is_read_as_it_is_written(
        number: u32,
        side in side(),
        quantity in 1..=QUANTITY_MAX,
        symbol in name::<8>(),
        price in price(),
        letters in (prop::sample::select(&b"0356E"[..]), prop::sample::select(&b"YNA"[..]), prop::sample::select(&b"APRO"[..]), prop::sample::select(&b"NOCHSREA"[..])),
        is_intermarket_sweep: bool,
        cl_ord_id in name::<14>(),
        minimum: u32,
        other in prop::collection::vec(any::<u8>(), 0..255),
    ) {
        let symbol: Symbol = symbol;
        let appendage = [Element::MinQuantity(minimum), Element::Other { tag: 200, value: &other }];
        let order = EnterOrder {
            time_in_force: TimeInForce::of(letters.0).unwrap(),
            display: Display::of(letters.1).unwrap(),
            capacity: Capacity::of(letters.2).unwrap(),
            cross_type: CrossType::of(letters.3).unwrap(),
            is_intermarket_sweep,
            cl_ord_id,
            appendage: &appendage,
            ..EnterOrder::limit(UserRefNum(number), side, quantity, symbol, price)
        };
        let mut out = [0xEE; 400];
        let bytes = order.write(&mut out).unwrap();
        prop_assert_eq!((bytes, out[bytes]), (47 + 6 + 2 + other.len(), 0xEE));
        prop_assert_eq!((out[0], u32_at(&out, 1), out[5], u32_at(&out, 6)), (b'O', number, side.letter(), quantity));
        prop_assert_eq!((&out[10..18], u64_at(&out, 18) as i64), (&symbol.0[..], price.0));
        prop_assert_eq!((out[26], out[27], out[28], out[30]), letters);
        prop_assert_eq!((out[29], &out[31..45]), (if is_intermarket_sweep { b'Y' } else { b'N' }, &cl_ord_id.0[..]));
        prop_assert_eq!(usize::from(out[45]) << 8 | usize::from(out[46]), bytes - 47);
        prop_assert_eq!((out[47], out[48], u32_at(&out, 49)), (5, 3, minimum));
        prop_assert_eq!((usize::from(out[53]), out[54], &out[55..bytes]), (other.len() + 1, 200, &other[..]));
    }

    #[test]
    fn a_replacement_is_read_as_it_is_written(old: u32, number: u32, quantity in 1..=QUANTITY_MAX, price in price(), cl_ord_id in name::<14>()) {
        let replace = ReplaceOrder { cl_ord_id, ..ReplaceOrder::limit(UserRefNum(old), UserRefNum(number), quantity, price) };
        let mut out = [0xEE; 41];
        prop_assert_eq!(replace.write(&mut out), Ok(40));
        prop_assert_eq!((out[0], u32_at(&out, 1), u32_at(&out, 5), u32_at(&out, 9)), (b'U', old, number, quantity));
        prop_assert_eq!((u64_at(&out, 13) as i64, &out[21..24]), (price.0, &b"0YN"[..]));
        prop_assert_eq!((&out[24..38], &out[38..]), (&cl_ord_id.0[..], &b"\0\0\xEE"[..]));
    }

    #[test]
    fn cancels_and_modifications_are_read_as_they_are_written(number: u32, quantity in 1..=QUANTITY_MAX, side in side()) {
        let mut out = [0xEE; 11];
        prop_assert_eq!(CancelOrder { user_ref_num: UserRefNum(number), quantity }.write(&mut out), Ok(9));
        prop_assert_eq!((out[0], u32_at(&out, 1), u32_at(&out, 5), out[9]), (b'X', number, quantity, 0xEE));
        prop_assert_eq!(ModifyOrder { user_ref_num: UserRefNum(number), side, quantity }.write(&mut out), Ok(10));
        prop_assert_eq!((out[0], u32_at(&out, 1), out[5], u32_at(&out, 6)), (b'M', number, side.letter(), quantity));
        prop_assert_eq!(out[10], 0xEE);
    }
}

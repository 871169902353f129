//! The orders that all decode: they differ in what orders differ in, so that no path is learnt by heart.

use sidestep_fix::encode::Parties;
use sidestep_fix::value::{Decimal, Precision};
use sidestep_fix::{Encoder, Now};

const KINDS: usize = 64;
const SYMBOLS: [&str; 8] = ["MSFT", "AAPL", "GOOG", "INTC", "VOD.L", "BMW.DE", "7203.T", "BRK.B"];

/// NewOrderSingle of FIX 4.4, about 200 bytes each.
pub fn orders() -> Vec<Vec<u8>> {
    let parties = Parties {
        begin_string: "FIX.4.4".into(),
        sender: "SENDER".into(),
        target: "TARGET".into(),
        ..Parties::default()
    };
    let mut encoder = Encoder::new(&parties, Precision::Millis).expect("names without control bytes");
    (0..KINDS).map(|number| order(&mut encoder, number)).collect()
}

fn order(encoder: &mut Encoder, number: usize) -> Vec<u8> {
    let now = Now { utc_ns: 1_795_305_600_000_000_000 + number as i64 * 7_654_321, mono_ns: 0 };
    let price = Decimal::new(10_000 + number as i64 * 37, 2).expect("a price");
    let mut message = encoder.message(b"D");
    message.str(11, &format!("ORDER-{number:07}")).str(1, "ACCOUNT-42").char(21, b'1').str(55, SYMBOLS[number % 8]);
    message.char(54, b'1' + (number % 2) as u8).timestamp(60, now.utc()).unsigned(38, 100 * (number as u64 + 1));
    message.char(40, b'2').decimal(44, price).char(59, b'0').str(58, "a note to the desk");
    let bytes = message.finish(number as u64 + 100_000, now).expect("a good order").to_vec();
    encoder.clear();
    bytes
}

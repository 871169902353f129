//! One message: the fast decoder and the slow one read the same, validation and groups take whatever comes, and what is
//! read is written again and reads the same.

#![no_main]

#[path = "../../crates/fix/src/decode/reference.rs"]
mod reference;

use sidestep_fix::dictionary::{Dictionary, Version};
use sidestep_fix::encode::Parties;
use sidestep_fix::validate::{ValidationOptions, validate};
use sidestep_fix::value::Precision;
use sidestep_fix::{Encoder, Index, Message, Now};
use std::sync::OnceLock;

fn dictionary() -> &'static Dictionary {
    static KNOWN: OnceLock<Dictionary> = OnceLock::new();
    KNOWN.get_or_init(|| Dictionary::fixed(Version::Fix44))
}

/// Length and data fields that both decoders get; the fuzzer will not find the others of the standard.
const PAIRS: &[(u32, u32)] = &[(95, 96), (90, 91), (93, 89), (212, 213), (348, 349), (354, 355)];

fn check(raw: &[u8]) {
    let mut index = Index::with_data(64, PAIRS);
    let decoded = index.decode(raw).ok();
    let fast = decoded.map(|message| {
        let place = |value: &[u8]| value.as_ptr() as usize - raw.as_ptr() as usize;
        message.fields().map(|(tag, value)| (tag, place(value), place(value) + value.len())).collect::<Vec<_>>()
    });
    let slow = reference::decode(raw, PAIRS, 64);
    let is_known = |tag: u32| !(360..=50_003).contains(&tag) && ![350, 352, 356, 358].contains(&tag);
    if slow.iter().flatten().all(|field| is_known(field.0)) {
        assert_eq!(fast, slow);
    }
    if let Some(message) = decoded {
        use_it(&message);
    }
}

fn use_it(message: &Message<'_, '_>) {
    let _ = validate(message, dictionary(), &ValidationOptions::default());
    for party in message.group(dictionary(), 453) {
        let _ = (party.get(448), party.group(802).count());
    }
    let _ = (message.seq_num(), message.decimal(44), message.timestamp(52), message.integer(108), message.boolean(43));
    let parties = Parties { begin_string: "FIX.4.4".to_owned(), ..Parties::default() };
    let mut encoder = Encoder::new(&parties, Precision::Nanos).expect("no control bytes");
    let mut builder = encoder.message(message.msg_type());
    let is_body = |tag: u32| ![8, 9, 10, 34, 35, 43, 49, 52, 56].contains(&tag);
    let body: Vec<(u32, &[u8])> = message.fields().filter(|(tag, _)| is_body(*tag)).collect();
    for (tag, value) in &body {
        builder.bytes(*tag, value);
    }
    let Ok(written) = builder.finish(1, Now::default()) else { return };
    let mut again = Index::new(128);
    let read = again.decode(written).expect("what was written is a message");
    let same: Vec<(u32, &[u8])> = read.fields().filter(|(tag, _)| is_body(*tag)).collect();
    assert_eq!(same, body);
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check(input);
    // The same as the body of a message whose length and sum are right.
    let mut whole = format!("8=FIX.4.4\x019={}\x01", input.len()).into_bytes();
    whole.extend_from_slice(input);
    let sum = whole.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    whole.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    check(&whole);
});

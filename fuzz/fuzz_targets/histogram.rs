//! A histogram field from anywhere.

#![no_main]

use sidestep_report::histogram;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(decoded) = histogram::decode(text) {
        let again = histogram::encode(&decoded).expect("what was decoded can be encoded");
        assert_eq!(histogram::decode(&again).expect("ours"), decoded);
    }
});

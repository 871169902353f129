//! How bad a wire should be, as a user types it.

#![no_main]

use sidestep_lab::Impairment;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(parsed) = Impairment::parse(text) {
        let again = Impairment::parse(&parsed.to_string()).expect("what we print can be parsed");
        assert_eq!(again, parsed);
    }
});

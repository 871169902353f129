//! A dictionary file of anyone: it is read or refused, in bounded time and memory, and what is read can be used.

#![no_main]

use sidestep_fix::Index;
use sidestep_fix::dictionary::Dictionary;
use sidestep_fix::validate::{ValidationOptions, validate};

const ORDER: &[u8] = b"8=FIX.4.4\x019=27\x0135=D\x0134=1\x0111=x\x01453=1\x01448=A\x0110=003\x01";

libfuzzer_sys::fuzz_target!(|xml: &[u8]| {
    let Ok(dictionary) = Dictionary::from_quickfix_xml(xml) else { return };
    for field in dictionary.fields() {
        assert_eq!(dictionary.field(field.tag).map(|found| found.tag), Some(field.tag));
        let _ = (field.allows(b"1"), field.kind.accepts(b"1"));
    }
    let mut index = Index::with_data(64, dictionary.data_fields());
    if let Ok(message) = index.decode(ORDER) {
        let _ = validate(&message, &dictionary, &ValidationOptions::default());
    }
    let _ = dictionary.clone().with_transport(&dictionary);
});

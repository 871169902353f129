//! TCP in every state: the input chooses segments, calls, router messages and the time; after each step everything must be
//! consistent and bounded, and in the end nothing may be left (`crates/stack/tests/simulator/hostile.rs`).

#![no_main]

#[path = "../../crates/stack/tests/simulator/mod.rs"]
mod simulator;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(fault) = simulator::hostile::run(simulator::dice::Dice::Bytes(input)) {
        panic!("{fault}");
    }
});

//! A FIX session against any counterparty: messages, bytes, time, cuts (`crates/fix/tests/session/hostile/host.rs`).

#![no_main]

#[path = "../../crates/fix/tests/session/hostile/host.rs"]
mod host;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(reason) = host::run(input) {
        panic!("{reason}");
    }
});

//! A peer that writes anything anywhere into a shared ring.

#![no_main]

#[path = "../../crates/ring/tests/support/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|script: &[u8]| hostile::play(script));

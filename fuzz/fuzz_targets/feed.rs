//! A feed that is given datagrams, answers, snapshots and times in any order: each message is told once and in order, or skipped
//! while stale (`crates/market/tests/feed_simulator/hostile.rs`).

#![no_main]

#[path = "../../crates/market/tests/feed_simulator/mod.rs"]
mod feed_simulator;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(fault) = feed_simulator::hostile::run(feed_simulator::dice::Dice::Bytes(input)) {
        panic!("{fault}");
    }
});

//! Any input at all: `host.rs` says what has to hold. The fuzz target `fix_session` plays the same.

pub(crate) mod host;

/// Inputs of the test; the fuzzer goes on from there.
const INPUTS: u64 = 3000;

#[test]
fn no_counterparty_breaks_a_session() {
    let one = std::env::var("SIDESTEP_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in one.map_or(0..INPUTS, |seed| seed..seed + 1) {
        let mut random = fastrand::Rng::with_seed(seed);
        let input: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(600).collect();
        if let Err(reason) = host::run(&input) {
            panic!("SIDESTEP_SEED={seed}: {reason}");
        }
    }
}

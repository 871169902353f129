//! Two sessions, an initiator and an acceptor, over transports that are cut at random, in virtual time: whatever happens, every
//! application message arrives once and in order, and no number goes back.
//!
//! A schedule that fails names its seed: `SIDESTEP_SEED=n cargo test -p sidestep-fix --test session simulation`.

pub(crate) mod pair;
pub(crate) mod side;

use fastrand::Rng;
use pair::{Pair, Total};

/// Schedules of the test.
const SCHEDULES: u64 = 10_000;

/// Things that happen in one.
const STEPS: usize = 60;

#[test]
fn nothing_is_lost_or_doubled_whatever_is_cut() {
    let one = std::env::var("SIDESTEP_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = one.map_or(0..SCHEDULES, |seed| seed..seed + 1);
    let mut total = Total::default();
    for seed in seeds {
        if let Err(reason) = schedule(seed, &mut total) {
            panic!("SIDESTEP_SEED={seed}: {reason}");
        }
    }
    println!("{total:?}");
    if one.is_none() {
        assert!(total.resent > 1000 && total.cuts > 1000 && total.held > 100, "it must be tested, too: {total:?}");
    }
}

fn schedule(seed: u64, total: &mut Total) -> Result<(), String> {
    let mut random = Rng::with_seed(seed);
    let mut pair = Pair::new(&mut random);
    for _ in 0..STEPS {
        pair.step(&mut random)?;
    }
    pair.finish()?;
    pair.count(total);
    Ok(())
}

//! Schedules of lines, servers and snapshots by seed: as many as fit a test, or as the environment says.
//!
//! `SIDESTEP_SEED=n` runs one schedule and shows each event. `SIDESTEP_SCHEDULES=n` runs n of them (100,000 before a release), from
//! `SIDESTEP_FIRST_SEED` on.

mod feed_simulator;

use feed_simulator::dice::Dice;
use feed_simulator::{Tally, hostile, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Some seconds.
const SCHEDULES: u64 = 10_000;
/// After so many faults the rest would say the same.
const FAULTS_MAX: usize = 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn seeds() -> std::ops::Range<u64> {
    let first = number("SIDESTEP_SEED").or(number("SIDESTEP_FIRST_SEED")).unwrap_or(0);
    let count = if number("SIDESTEP_SEED").is_some() { 1 } else { number("SIDESTEP_SCHEDULES").unwrap_or(SCHEDULES) };
    first..first + count
}

fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    })
}

#[test]
fn every_message_is_delivered_once_in_order_or_skipped_and_told() {
    let (mut sum, mut faults) = (Tally::default(), Vec::new());
    let is_traced = number("SIDESTEP_SEED").is_some();
    for seed in seeds() {
        match guarded(|| run(seed, is_traced)) {
            Ok(tally) => add(&mut sum, &tally),
            Err(fault) => faults.push((seed, fault)),
        }
        if faults.len() >= FAULTS_MAX {
            break;
        }
    }
    println!("{:?}: {sum:?}", seeds());
    for (seed, fault) in &faults {
        println!(
            "SIDESTEP_SEED={seed} cargo test -p sidestep-market --test feed_schedules -- --nocapture\n  {fault:.900}"
        );
    }
    assert!(faults.is_empty(), "{} schedules are wrong", faults.len());
    let counts = [sum.delivered, sum.skipped, sum.requests, sum.snapshots, sum.gaps, sum.sessions];
    assert!(is_traced || counts.iter().all(|count| *count > 0), "{sum:?} proves nothing");
}

fn add(sum: &mut Tally, one: &Tally) {
    sum.delivered += one.delivered;
    sum.skipped += one.skipped;
    sum.requests += one.requests;
    sum.snapshots += one.snapshots;
    sum.gaps += one.gaps;
    sum.sessions += one.sessions;
}

#[test]
fn the_same_seed_tells_the_same_twice() {
    for seed in (0..1_000).map(|at| at * 7) {
        assert_eq!(guarded(|| run(seed, false)), guarded(|| run(seed, false)), "SIDESTEP_SEED={seed}");
    }
}

#[test]
fn whatever_a_feed_is_given_its_rules_hold() {
    for seed in seeds() {
        let outcome = guarded(|| hostile::run(Dice::Seed(seed)));
        assert!(outcome.is_ok(), "SIDESTEP_SEED={seed}: {outcome:?}");
    }
}

//! The simulator's schedules: as many as fit a test, or as the environment says.
//!
//! `SIDESTEP_SEED=n` runs one schedule and shows each segment. `SIDESTEP_SCHEDULES=n` runs n of them, from
//! `SIDESTEP_FIRST_SEED` on, on `SIDESTEP_THREADS` threads.

mod simulator;

use simulator::{Tally, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// About half a minute on two slow processors.
const SCHEDULES: u64 = 100_000;
/// Runs against a peer that violates the protocol: shorter ones.
const HOSTILE_RUNS: u64 = 3_000;
/// Schedules that are run on both paths.
const PATH_RUNS: u64 = 5_000;
/// After so many faults the rest would say the same.
const FAULTS_MAX: usize = 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn guarded(seed: u64, is_traced: bool) -> Result<Tally, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, is_traced)));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    })
}

fn add(sum: &mut Tally, one: &Tally) {
    sum.segments += one.segments;
    sum.steps = sum.steps.max(one.steps);
    sum.bytes += one.bytes;
    sum.dropped += one.dropped;
    sum.retransmitted += one.retransmitted;
    sum.connections += one.connections;
}

#[test]
fn every_schedule_comes_to_its_end() {
    if let Some(seed) = number("SIDESTEP_SEED") {
        match guarded(seed, true) {
            Ok(tally) => return eprintln!("seed {seed}: {tally:?}"),
            Err(fault) => panic!("seed {seed}: {fault}"),
        }
    }
    let (first, count) =
        (number("SIDESTEP_FIRST_SEED").unwrap_or(0), number("SIDESTEP_SCHEDULES").unwrap_or(SCHEDULES));
    let threads = number("SIDESTEP_THREADS").unwrap_or(2).max(1);
    let (next, faults, sum) = (AtomicU64::new(first), Mutex::new(Vec::new()), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Tally::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || faults.lock().expect("no panic").len() >= FAULTS_MAX {
                        break add(&mut sum.lock().expect("no panic"), &own);
                    }
                    match guarded(seed, false) {
                        Ok(tally) => add(&mut own, &tally),
                        Err(fault) => faults.lock().expect("no panic").push((seed, fault)),
                    }
                }
            });
        }
    });
    println!("{count} schedules from {first} on: {:?}", sum.into_inner().expect("no panic"));
    let faults = faults.into_inner().expect("no panic");
    for (seed, fault) in &faults {
        println!(
            "seed {seed}: {fault:.900}\n  SIDESTEP_SEED={seed} cargo test -p sidestep-stack --test schedules -- --nocapture"
        );
    }
    assert!(faults.is_empty(), "{} schedules are wrong", faults.len());
}

/// Each schedule twice: what leaves the hosts, and when, what they have counted and know of their connections does not depend on
/// the path that a segment took.
#[test]
fn both_paths_send_the_same() {
    let first = number("SIDESTEP_SEED").or(number("SIDESTEP_FIRST_SEED")).unwrap_or(0);
    let count = if number("SIDESTEP_SEED").is_some() { 1 } else { number("SIDESTEP_SCHEDULES").unwrap_or(PATH_RUNS) };
    let mut fast_path_counts = [0; 3];
    for seed in first..first + count {
        let [short, long] = [true, false].map(|fast_path| simulator::run_on(seed, false, Some(fast_path)));
        assert!(short.is_ok(), "SIDESTEP_SEED={seed}: {short:?}");
        let here = short.as_ref().map_or([0; 3], |tally| tally.fast_path_counts);
        fast_path_counts.iter_mut().zip(here).for_each(|(sum, more)| *sum += more);
        let [short, long] = [short, long].map(|tally| tally.map(|tally| (tally.segments, tally.steps, tally.digest)));
        assert_eq!(short, long, "SIDESTEP_SEED={seed}");
    }
    println!("{count} schedules: {fast_path_counts:?} segments, segments with an answer, messages took the fast path");
    assert!(
        count < 1000 || fast_path_counts.iter().all(|number| *number > count),
        "{fast_path_counts:?}: too few to prove anything"
    );
}

/// Runs against a peer that violates the protocol in every way; `SIDESTEP_SEED` and the others as above.
#[test]
fn a_peer_that_breaks_the_rules_breaks_nothing() {
    let (first, count) = match number("SIDESTEP_SEED") {
        Some(seed) => (seed, 1),
        None => (number("SIDESTEP_FIRST_SEED").unwrap_or(0), number("SIDESTEP_SCHEDULES").unwrap_or(HOSTILE_RUNS)),
    };
    for seed in first..first + count {
        let outcome = catch_unwind(|| simulator::hostile::run(simulator::dice::Dice::Seed(seed)));
        let outcome = outcome.unwrap_or_else(|_| Err("it has panicked".into()));
        assert!(outcome.is_ok(), "SIDESTEP_SEED={seed}: {outcome:?}");
    }
}

/// The same peers on both paths.
#[test]
fn a_peer_that_breaks_the_rules_finds_no_difference() {
    for seed in 0..number("SIDESTEP_SCHEDULES").unwrap_or(HOSTILE_RUNS) {
        let [short, long] =
            [true, false].map(|short| simulator::hostile::run_on(simulator::dice::Dice::Seed(seed), Some(short)));
        assert_eq!(short, long, "SIDESTEP_SEED={seed}");
    }
}

/// Inputs of the fuzz target `tcp_segments` that violated an invariant once. The first was the test's own
/// fault: where an input ended, its link had no room for anything any more.
#[test]
fn what_a_fuzzer_found_breaks_nothing_any_more() {
    let ends_early = [
        24, 24, 13, 0, 33, 14, 14, 14, 14, 33, 255, 255, 255, 226, 0, 0, 22, 0, 226, 226, 0, 126, 33, 33, 126, 22, 33,
        33, 33, 228, 228, 230, 2, 0, 0, 0, 0, 0, 0, 0, 33, 33, 33, 33, 33, 33, 33,
    ];
    let outcome = simulator::hostile::run(simulator::dice::Dice::Bytes(&ends_early));
    assert!(outcome.is_ok(), "{outcome:?}");
}

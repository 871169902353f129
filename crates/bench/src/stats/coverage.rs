//! How often the 95 % intervals hold the truth, by simulation: slices that drift, and slices that switch between two modes.
//!
//! `cargo test -p sidestep-bench coverage -- --nocapture` prints the table of SPEC.md, "What is estimated"; seeds are fixed.

use super::estimate::{Located, Statistic};
use super::mixture::Mixture;
use super::serial::MeanError;
use super::slice::Slice;
use super::student;

/// Runs simulated for each line; few without optimisation, which takes ten times as long: the limits below are for either.
const RUNS: u64 = if cfg!(debug_assertions) { 40 } else { 200 };
/// What few runs may miss by chance, in percent.
const CHANCE: f64 = if cfg!(debug_assertions) { 9.0 } else { 0.0 };
/// Samples of a slice, and of a run, at the least.
const SAMPLES: usize = 260;
const SAMPLES_MIN: usize = 10_400;
/// The standard deviation of the logarithm of samples within a slice.
const WITHIN: f64 = 0.15;
/// The level of a path, ns.
const LEVEL_NS: f64 = 10_000.0;

/// How the levels of slices follow each other.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// An autoregression of the first order: correlation, standard deviation of the logarithm.
    Drift(f64, f64),
    /// Two modes, a factor of 7.4 apart: share of the slow one, correlation.
    Modes(f64, f64),
}

struct Source(fastrand::Rng);

impl Source {
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.0.f64()).sum::<f64>() - 6.0
    }

    /// Levels (logarithms) of the slices of a run.
    fn levels(&mut self, noise: Noise, slices: usize) -> Vec<f64> {
        match noise {
            Noise::Drift(correlation, deviation) => {
                let (mut level, fresh) = (self.normal(), (1.0 - correlation * correlation).sqrt());
                let mut next = || {
                    level = correlation * level + fresh * self.normal();
                    deviation * level
                };
                (0..slices).map(|_| next()).collect()
            }
            Noise::Modes(share, correlation) => {
                let mut is_slow = self.0.f64() < share;
                let mut next = || {
                    is_slow = if self.0.f64() < correlation { is_slow } else { self.0.f64() < share };
                    if is_slow { 2.0 } else { 0.0 }
                };
                (0..slices).map(|_| next()).collect()
            }
        }
    }

    fn slices(&mut self, levels: &[f64]) -> Vec<Slice> {
        let samples = SAMPLES_MIN.div_ceil(levels.len()).max(SAMPLES);
        let mut sample = |level: f64| (LEVEL_NS * (level + WITHIN * self.normal()).exp()) as u64;
        levels
            .iter()
            .map(|level| Slice::of((0..samples).map(|_| sample(*level)).collect::<Vec<_>>().into_iter()))
            .collect()
    }
}

/// The true quantile of the mixture, as the logarithm over the level.
fn truth(noise: Noise, quantile: f64) -> f64 {
    let below = |value: f64, level: f64, deviation: f64| {
        let z = (value - level) / deviation;
        let tail = student::p_value(z, 1e7) / 2.0;
        if z > 0.0 { 1.0 - tail } else { tail }
    };
    let share = |value: f64| match noise {
        Noise::Drift(_, deviation) => below(value, 0.0, deviation.hypot(WITHIN)),
        Noise::Modes(slow, _) => (1.0 - slow) * below(value, 0.0, WITHIN) + slow * below(value, 2.0, WITHIN),
    };
    let (mut low, mut high) = (-3.0, 5.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if share(middle) < quantile { low = middle } else { high = middle }
    }
    low
}

/// Runs whose interval holds the truth, in percent: of p50, of p99, and of a p50 whose slices are taken as independent.
fn covered(noise: Noise, slices: usize) -> [f64; 3] {
    let [p50, p99] = [0.5, 0.99].map(|quantile| LEVEL_NS * truth(noise, quantile).exp());
    let mut covered = [0_u64; 3];
    for run in 0..RUNS {
        let mut source = Source(fastrand::Rng::with_seed(run));
        let levels = source.levels(noise, slices);
        let slices = source.slices(&levels);
        let mixture = Mixture::of(slices.iter().collect()).expect("samples");
        let interval = |quantile| {
            Located::of(&mixture, Statistic::Quantile(quantile)).expect("enough samples").ci95.expect("slices")
        };
        let shares: Vec<f64> = slices.iter().map(|slice| slice.share_up_to(mixture.value(0.5) as u64)).collect();
        let reach = independent_reach(&shares);
        let naive = [mixture.value(0.5 - reach), mixture.value(0.5 + reach)];
        for (count, ([low, high], truth)) in
            covered.iter_mut().zip([(interval(0.5), p50), (interval(0.99), p99), (naive, p50)])
        {
            // A bucket of the histogram is 0.1 % wide.
            *count += u64::from(low * 0.999 <= truth && truth <= high * 1.001);
        }
    }
    covered.map(|count| 100.0 * count as f64 / RUNS as f64)
}

fn independent_reach(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    student::t95(n - 1.0) * (squares / (n - 1.0) / n).sqrt()
}

const NOISES: [(&str, Noise); 6] = [
    ("independent slices", Noise::Drift(0.0, 0.1)),
    ("drift, correlation 0.5", Noise::Drift(0.5, 0.1)),
    ("drift, correlation 0.7", Noise::Drift(0.7, 0.1)),
    ("drift, correlation 0.8", Noise::Drift(0.8, 0.1)),
    ("two modes, slow 30 %, correlation 0.5", Noise::Modes(0.3, 0.5)),
    ("two modes, slow 30 %, correlation 0.8", Noise::Modes(0.3, 0.8)),
];

#[test]
fn the_coverage_of_percentiles() {
    println!("| noise | slices | p50 | p99 | p50, slices taken as independent |");
    for (name, noise) in NOISES {
        for slices in if cfg!(debug_assertions) { &[12, 40][..] } else { &[12, 40, 120] } {
            let slices = *slices;
            let [p50, p99, naive] = covered(noise, slices);
            println!("| {name} | {slices} | {p50:.0} % | {p99:.0} % | {naive:.0} % |");
            // A short run that seldom switches has not seen its modes often enough to know their shares.
            let least = match (noise, slices) {
                (Noise::Modes(_, correlation), 12) if correlation > 0.5 => 45.0,
                (Noise::Modes(..), 12) => 60.0,
                (Noise::Modes(_, correlation), _) if correlation > 0.5 => 74.0,
                (Noise::Modes(..), _) => 84.0,
                (Noise::Drift(..), 12) => 76.0,
                (Noise::Drift(..), _) => 90.0,
            };
            let least = least - CHANCE;
            assert!(p50 >= least && p99 >= least - 4.0, "{name}, {slices} slices: {p50} {p99}");
            let is_correlated = !matches!(noise, Noise::Drift(0.0, _));
            assert!(!is_correlated || naive < p50 - 8.0 + CHANCE, "{name}: {naive} is not below {p50}");
        }
    }
}

#[test]
fn the_coverage_of_ratios() {
    println!("| noise of each | in common | slices | ratio of p50 | ratio of p99 |");
    for (name, noise) in NOISES {
        for common in [0.0, 0.1] {
            let [p50, p99] = covered_ratio(noise, common);
            println!(
                "| {name} | {} | 40 | {p50:.0} % | {p99:.0} % |",
                if common > 0.0 { "drift of the host" } else { "nothing" }
            );
            assert!(p50 >= 85.0 - CHANCE && p99 >= 82.0 - CHANCE, "{name}, {common}: {p50} {p99}");
        }
    }
}

/// The ratios of two alike paths, measured in turn, with a drift of the host in both: of p50 and of p99.
fn covered_ratio(noise: Noise, common: f64) -> [f64; 2] {
    let mut covered = [0_u64; 2];
    for run in 0..RUNS {
        let mut source = Source(fastrand::Rng::with_seed(run));
        let host = source.levels(Noise::Drift(0.8, common), 40);
        let mut path = || {
            let own = source.levels(noise, 40);
            let levels: Vec<f64> = own.iter().zip(&host).map(|(own, host)| own + host).collect();
            source.slices(&levels)
        };
        let (one, two) = (path(), path());
        let [one, two] = [&one, &two].map(|slices| Mixture::of(slices.iter().collect()).expect("samples"));
        let located = |mixture, quantile| Located::of(mixture, Statistic::Quantile(quantile)).expect("enough samples");
        for (count, quantile) in covered.iter_mut().zip([0.5, 0.99]) {
            let [low, high] = located(&one, quantile).over(&located(&two, quantile)).expect("slices").ci95;
            *count += u64::from(low * 0.998 <= 1.0 && 1.0 <= high * 1.002);
        }
    }
    covered.map(|count| 100.0 * count as f64 / RUNS as f64)
}

#[test]
fn the_mean_of_a_drift_is_covered() {
    let covers = |run: &u64| {
        let series = Source(fastrand::Rng::with_seed(*run)).levels(Noise::Drift(0.8, 1.0), 40);
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        mean.abs() <= MeanError::of(&series).expect("long enough").reach95()
    };
    let covered = (0..2_000).filter(covers).count();
    assert!((1_780..=1_940).contains(&covered), "{covered} of 2000");
}

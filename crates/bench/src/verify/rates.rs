//! Two rates of rare events, compared exactly.
//!
//! Estimated: the ratio of the rate of pauses with a step to that without it. Assumed: pauses of one arm come independently, or in
//! clusters that are short against a turn. Of `n` pauses in all, those with the step are then binomial (Przyborowski and Wilenski,
//! 1940), and the interval of their share is Clopper and Pearson's (1934). Clusters widen it: counts are divided by their dispersion
//! over the turns (quasi-Poisson).

use crate::stats::student::t95;

/// The quantile of the normal distribution at 97.5 %.
const NORMAL: f64 = 1.96;

/// The counts of one arm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Pauses of each turn.
    pub(super) turns: Vec<u64>,
    /// The time watched, seconds.
    pub(super) seconds: f64,
}

/// The comparison of an arm with another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateRatio {
    /// The ratio; NaN if no pause came at all.
    pub(super) value: f64,
    /// Its interval.
    pub(super) interval: [f64; 2],
    /// Pauses of both arms.
    pub(super) count: u64,
    /// The factor by which the counts of the turns vary more than independent ones do; at least 1.
    pub(super) dispersion: f64,
}

impl Counts {
    pub(super) fn total(&self) -> u64 {
        self.turns.iter().sum()
    }

    /// Returns pauses per hour.
    pub(super) fn per_hour(&self) -> f64 {
        self.total() as f64 * 3600.0 / self.seconds
    }
}

/// Compares two arms at a level of significance such as 0.05.
pub(super) fn compare(without: &Counts, with: &Counts, level: f64) -> RateRatio {
    let dispersion = dispersion(without, with);
    let [before, after] = [without, with].map(|counts| counts.total() as f64 / dispersion);
    let interval =
        share_interval(after, before, level).map(|share| share / (1.0 - share) * without.seconds / with.seconds);
    let value = with.per_hour() / without.per_hour();
    RateRatio { value, interval, count: without.total() + with.total(), dispersion }
}

/// Returns the least number of pauses without a step from which a step that ends all of them can be told.
pub(super) fn pauses_needed(level: f64) -> f64 {
    // With none of n pauses the upper end of the share is 1 - (level / 2)^(1 / n), which must be below a half.
    ((level / 2.0).ln() / 0.5_f64.ln()).floor() + 1.0
}

/// Returns the greatest ratio below 1 that half of the runs with so many pauses in each arm tell.
pub(super) fn visible_ratio(pauses: f64, level: f64) -> Option<f64> {
    let is_told = |ratio: f64| share_interval(pauses * ratio, pauses, level)[1] < 0.5;
    is_told(0.0).then(|| bisect(0.0, 1.0, |ratio| !is_told(ratio)))
}

/// Pearson's statistic of the turns over its degrees of freedom; 1 where there is too little to tell. Above 1 it is itself
/// an estimate, from few turns: it is raised by the square of Student's t against the normal quantile.
fn dispersion(without: &Counts, with: &Counts) -> f64 {
    let arms = [without, with];
    let excess = |counts: &&Counts| {
        let mean = counts.total() as f64 / counts.turns.len().max(1) as f64;
        let squares: f64 = counts.turns.iter().map(|turn| (*turn as f64 - mean).powi(2)).sum();
        if mean > 0.0 { squares / mean } else { 0.0 }
    };
    let freedom: usize = arms.iter().filter(|arm| arm.total() > 0).map(|arm| arm.turns.len().saturating_sub(1)).sum();
    let statistic: f64 = arms.iter().map(excess).sum();
    match statistic / freedom as f64 {
        estimate if freedom > 0 && estimate > 1.0 => estimate * (t95((freedom) as f64) / NORMAL).powi(2),
        _ => 1.0,
    }
}

/// Clopper and Pearson's interval of the share `of / (of + rest)`; counts need not be whole.
fn share_interval(of: f64, rest: f64, level: f64) -> [f64; 2] {
    let tail = level / 2.0;
    let low = if of > 0.0 { bisect(0.0, 1.0, |share| incomplete_beta(of, rest + 1.0, share) > tail) } else { 0.0 };
    let high =
        if rest > 0.0 { bisect(0.0, 1.0, |share| incomplete_beta(of + 1.0, rest, share) > 1.0 - tail) } else { 1.0 };
    [low, high]
}

/// Returns the place between `low` and `high` from which on `holds` is true.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    f64::midpoint(low, high)
}

/// The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22), evaluated by Lentz's method.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side alone.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    const SMALL: f64 = 1e-300;
    const TERMS_MAX: u32 = 10_000;
    let keep = |value: f64| if value.abs() < SMALL { SMALL } else { value };
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let (mut fraction, mut c, mut d) = (1.0, 1.0, 0.0);
    for term in 0..TERMS_MAX {
        let m = f64::from(term / 2);
        let numerator = match term {
            0 => 1.0,
            _ if term % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 / keep(1.0 + numerator * d);
        c = keep(1.0 + numerator / c);
        fraction *= c * d;
        if (1.0 - c * d).abs() < 1e-12 {
            break;
        }
    }
    (front * (fraction - 1.0)).clamp(0.0, 1.0)
}

/// The logarithm of the gamma function for positive numbers: Stirling's series (DLMF 5.11.1) after the argument is raised above 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: f64 = 0.05;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-4
    }

    /// Values of R: pbeta(0.3, 2, 5), binom.test(...)$conf.int, lgamma.
    #[test]
    fn the_functions_are_those_of_the_tables() {
        assert!(close(incomplete_beta(2.0, 5.0, 0.3), 0.579_825));
        assert!(close(incomplete_beta(0.5, 0.5, 0.5), 0.5) && close(incomplete_beta(1.0, 1.0, 0.25), 0.25));
        assert!(close(ln_gamma(5.0), 24.0_f64.ln()) && close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln()));
        let [low, high] = share_interval(3.0, 7.0, LEVEL);
        assert!(close(low, 0.066_740) && close(high, 0.652_453), "{low} {high}");
        let [low, high] = share_interval(0.0, 10.0, LEVEL);
        assert!(low == 0.0 && close(high, 0.308_497), "{high}");
        assert_eq!(share_interval(0.0, 0.0, LEVEL), [0.0, 1.0]);
        let [low, high] = share_interval(50_000.0, 50_000.0, LEVEL);
        assert!((0.495..0.5).contains(&low) && (0.5..0.505).contains(&high), "{low} {high}");
    }

    #[test]
    fn few_pauses_tell_nothing_and_say_so() {
        assert_eq!(pauses_needed(LEVEL), 6.0);
        let counts = |count: u64| Counts { turns: vec![count], seconds: 60.0 };
        assert!(compare(&counts(5), &counts(0), LEVEL).interval[1] >= 1.0);
        assert!(compare(&counts(6), &counts(0), LEVEL).interval[1] < 1.0);
        assert!(compare(&counts(0), &counts(0), LEVEL).value.is_nan());
        assert_eq!((visible_ratio(5.0, LEVEL), visible_ratio(0.0, LEVEL)), (None, None));
        let some = visible_ratio(20.0, LEVEL).unwrap();
        let many = visible_ratio(2000.0, LEVEL).unwrap();
        assert!((0.3..0.6).contains(&some) && (0.9..1.0).contains(&many), "{some} {many}");
    }

    #[test]
    fn unequal_times_are_rates() {
        let long = Counts { turns: vec![100, 100], seconds: 200.0 };
        let short = Counts { turns: vec![50, 50], seconds: 100.0 };
        let ratio = compare(&long, &short, LEVEL);
        assert!(close(ratio.value, 1.0) && ratio.interval[0] < 1.0 && ratio.interval[1] > 1.0, "{ratio:?}");
        assert!(close(long.per_hour(), 3600.0));
    }

    /// A generator of numbers for the simulation (splitmix64).
    struct Random(u64);

    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = self.0;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// A Poisson number, by the times between events.
        fn poisson(&mut self, mean: f64) -> u64 {
            let (mut time, mut count) = (-self.unit().ln(), 0);
            while time < mean {
                time -= self.unit().ln();
                count += 1;
            }
            count
        }

        /// An arm of eight turns; each event is a cluster of pauses.
        fn arm(&mut self, mean: f64, cluster: u64) -> Counts {
            let turn =
                |random: &mut Self| (0..random.poisson(mean)).map(|_| 1 + random.poisson(cluster as f64 - 1.0)).sum();
            Counts { turns: (0..8).map(|_| turn(self)).collect(), seconds: 120.0 }
        }
    }

    /// The share of 2,000 pairs in which a difference is told.
    fn told(mean: f64, ratio: f64, cluster: u64, level: f64) -> f64 {
        const PAIRS: u32 = 2000;
        let mut random = Random(7);
        let differs = |random: &mut Random| {
            let (without, with) = (random.arm(mean, cluster), random.arm(mean * ratio, cluster));
            let [low, high] = compare(&without, &with, level).interval;
            high < 1.0 || low > 1.0
        };
        f64::from((0..PAIRS).filter(|_| differs(&mut random)).count() as u32) / f64::from(PAIRS)
    }

    #[test]
    fn equal_arms_differ_as_seldom_as_promised_and_others_are_told() {
        for (mean, cluster) in [(0.5, 1), (4.0, 1), (40.0, 1), (1.0, 5), (10.0, 5), (10.0, 20)] {
            for level in [LEVEL, LEVEL / 3.0] {
                let share = told(mean, 1.0, cluster, level);
                // The number of pairs leaves 0.01 of uncertainty.
                assert!(share <= level + 0.01, "equal arms, {mean} clusters of {cluster} a turn: {share} at {level}");
            }
        }
        let told = |mean, ratio, cluster| told(mean, ratio, cluster, LEVEL);
        let half = told(40.0, visible_ratio(320.0, LEVEL).unwrap(), 1);
        assert!((0.3..0.7).contains(&half), "{half}");
        assert!(told(4.0, 0.0, 1) > 0.99 && told(40.0, 0.5, 1) > 0.99 && told(40.0, 0.5, 5) > 0.95);
    }
}

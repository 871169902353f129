//! The rule by which a host differs from the others.
//!
//! The middle of the hosts is the median of the logarithms, their spread 1.4826 times the median absolute deviation (MAD), corrected for
//! few hosts (Croux and Rousseeuw 1992): hosts that differ, if they are fewer than half, move neither. The distance of a host, beyond the
//! floor of `compare`, in such spreads is a robust z-score; it is judged by Student's t, since the spread is itself estimated. A MAD of N
//! values is worth 37 % of them (its efficiency at the normal distribution), hence 0.37 (N - 1) degrees of freedom. Probabilities are
//! corrected for all that is judged (Holm).

use super::rows::{Estimate, RowOfHosts, Spread};
use crate::compare::difference::holm;
use crate::compare::{SIGNIFICANCE, middle};
use crate::stats::student;
use serde::Serialize;

/// Fewer hosts have no verdict: a spread that two of five hosts can move by half says nothing.
pub const HOSTS_MIN: usize = 6;
/// The chance that any host of a fleet of equal hosts is marked: one half for its rows, one for its overall figures.
pub(super) const LEVEL: f64 = SIGNIFICANCE / 2.0;
/// A difference that would be found in this share of fleets is one that can be detected.
const POWER: f64 = 0.8;
/// Where so large a difference (a factor of two) would not be seen, "no difference" says nothing.
const USELESS: f64 = 1.0;
/// The MAD of a normal distribution is this part of its standard deviation.
const MAD_OF_NORMAL: f64 = 1.4826;
/// The efficiency of the MAD at the normal distribution.
const EFFICIENCY: f64 = 0.37;
/// Corrections of the MAD of 6 to 9 values; of more it is n / (n - 0.8).
const FEW: [f64; 4] = [1.200, 1.140, 1.129, 1.107];

/// The standing of a host among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Slower than the others, beyond the noise.
    Slower,
    /// Faster than the others, beyond the noise.
    Faster,
    /// None was seen; [`Spread::detectable`] tells which would have been.
    NoMeasurableDifference,
    /// The same, but a factor of two would not have been seen.
    TooNoisy,
    /// Fewer than [`HOSTS_MIN`] hosts have the row.
    TooFewHosts,
    /// A run of the host has too few slices or samples.
    NotEnoughData,
}

impl Standing {
    /// Returns the words for it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::NoMeasurableDifference => "no measurable difference",
            Self::TooNoisy => "too noisy to tell",
            Self::TooFewHosts => "too few hosts",
            Self::NotEnoughData => "not enough data",
        }
    }

    /// Returns whether it says something.
    pub fn is_judged(self) -> bool {
        matches!(self, Self::Slower | Self::Faster | Self::NoMeasurableDifference)
    }

    /// Returns whether the host differs.
    pub fn is_outlier(self) -> bool {
        matches!(self, Self::Slower | Self::Faster)
    }
}

/// The middle and the spread of hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) middle: f64,
    pub(super) scale: f64,
    /// The error of the measurements, in the middle: a part of the scale.
    measured: f64,
    freedom: f64,
    floor: f64,
    count: f64,
}

impl Rule {
    /// Of at least [`HOSTS_MIN`] hosts. Hosts that agree better than they were measured do so by chance.
    pub(super) fn of(hosts: &[Estimate]) -> Option<Self> {
        let count = hosts.len();
        if count < HOSTS_MIN {
            return None;
        }
        let centre = middle(hosts.iter().map(|host| host.log).collect())?;
        let mad = middle(hosts.iter().map(|host| (host.log - centre).abs()).collect())?;
        let few = FEW.get(count - HOSTS_MIN).copied().unwrap_or(count as f64 / (count as f64 - 0.8));
        let measured = middle(hosts.iter().map(|host| host.error).collect())?;
        let floor = middle(hosts.iter().map(|host| host.floor).collect())?;
        let scale = (MAD_OF_NORMAL * few * mad).max(measured);
        Some(Self { middle: centre, scale, measured, freedom: freedom(count), floor, count: count as f64 })
    }

    /// The probability that a host of a fleet of equal ones lies as far beyond the floor. The scale holds what hosts differ by and the error
    /// of the middle host; one that was measured worse is judged by its own error in the place of that.
    pub(super) fn p_value(&self, host: &Estimate) -> f64 {
        let beyond = (host.log - self.middle).abs() - host.floor;
        let between = (self.scale.powi(2) - self.measured.powi(2)).max(0.0);
        let error = (between + host.error.powi(2)).sqrt().max(self.scale);
        let freedom = if host.error > self.scale { self.freedom.min(host.freedom) } else { self.freedom };
        if beyond <= 0.0 { 1.0 } else { student::p_value(beyond / error.max(f64::MIN_POSITIVE), freedom) }
    }

    /// The smallest difference, as a share, that would be found in four of five such fleets beside `tests` others. A host that differs is
    /// among those whose spread is taken: of few hosts it widens the MAD (by simulation; the test holds it).
    pub(super) fn detectable(&self, tests: usize) -> f64 {
        let level = LEVEL / tests.max(1) as f64;
        let scale = self.scale * (1.0 + 2.0 / (self.count - 1.6));
        (self.floor + student::detectable(level, POWER, self.freedom) * scale).exp_m1()
    }

    /// The standing by a corrected probability.
    pub(super) fn standing(&self, host: &Estimate, p_value: f64, detectable: f64, more_is_better: bool) -> Standing {
        match p_value < LEVEL {
            true if (host.log > self.middle) == more_is_better => Standing::Faster,
            true => Standing::Slower,
            false if detectable < USELESS => Standing::NoMeasurableDifference,
            false => Standing::TooNoisy,
        }
    }
}

fn freedom(hosts: usize) -> f64 {
    (EFFICIENCY * (hosts as f64 - 1.0)).max(1.0)
}

/// Gives every host its standing in every row, corrected for all of them together.
pub(super) fn judge(rows: &mut [RowOfHosts]) {
    let rules: Vec<Option<Rule>> = rows.iter().map(|row| Rule::of(&estimates(row))).collect();
    let judged = rows.iter().zip(&rules).filter_map(|(row, rule)| Some((row, (*rule)?)));
    let p_values: Vec<f64> = judged
        .flat_map(|(row, rule)| estimates(row).into_iter().map(move |host| rule.p_value(&host)).collect::<Vec<_>>())
        .collect();
    let mut corrected = holm(&p_values).into_iter();
    for (row, rule) in rows.iter_mut().zip(rules) {
        let all = estimates(row);
        let centre = middle(all.iter().map(|host| host.log).collect());
        let detectable = rule.map(|rule| rule.detectable(p_values.len()));
        row.spread = centre.map(|centre| spread(row, centre, rule, detectable));
        for host in &mut row.hosts {
            let Some(estimate) = host.estimate else { continue };
            host.factor = centre.map(|centre| (estimate.log - centre).exp());
            host.standing = Standing::TooFewHosts;
            let Some((rule, p_value)) = rule.and_then(|rule| Some((rule, corrected.next()?))) else { continue };
            host.p_value = Some(p_value);
            let is_gain = row.statistic.is_gain();
            host.standing = rule.standing(&estimate, p_value, detectable.unwrap_or(f64::INFINITY), is_gain);
        }
    }
}

fn estimates(row: &RowOfHosts) -> Vec<Estimate> {
    row.hosts.iter().filter_map(|host| host.estimate).collect()
}

fn spread(row: &RowOfHosts, centre: f64, rule: Option<Rule>, detectable: Option<f64>) -> Spread {
    let logs = || row.hosts.iter().filter_map(|host| host.estimate).map(|host| host.log);
    let mad = middle(logs().map(|log| (log - centre).abs()).collect()).unwrap_or(0.0);
    let deviation = rule.map_or(MAD_OF_NORMAL * mad, |rule| rule.scale).exp_m1();
    let median = middle(row.hosts.iter().filter_map(|host| host.value).collect()).unwrap_or(0.0);
    Spread { median, deviation, detectable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn normal(random: &mut Rng) -> f64 {
        (-2.0 * random.f64().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
    }

    /// Hosts that differ by 3 %, of which the first `slow` are slower by a share.
    fn fleet(random: &mut Rng, count: usize, slow: usize, share: f64) -> Vec<Estimate> {
        let host = |at| {
            let log = 0.03 * normal(random) + if at < slow { f64::ln_1p(share) } else { 0.0 };
            Estimate { log, error: 0.01, freedom: 9.0, floor: 0.02_f64.ln_1p() }
        };
        (0..count).map(host).collect()
    }

    /// Hosts that are equal, of which one of four was measured with an error of four times that of the others.
    fn mixed_fleet(random: &mut Rng, count: usize) -> Vec<Estimate> {
        let host = |at: usize| {
            let error = if at.is_multiple_of(4) { 0.08 } else { 0.02 };
            Estimate { log: 0.015 * normal(random) + error * normal(random), error, freedom: 9.0, floor: 0.0 }
        };
        (0..count).map(host).collect()
    }

    fn marked(hosts: &[Estimate]) -> Vec<bool> {
        let rule = Rule::of(hosts).expect("enough hosts");
        let p_values: Vec<f64> = hosts.iter().map(|host| rule.p_value(host)).collect();
        holm(&p_values).into_iter().map(|p_value| p_value < LEVEL).collect()
    }

    #[test]
    fn equal_hosts_are_marked_in_less_than_one_fleet_of_forty() {
        let mut random = Rng::with_seed(11);
        for (count, fleets) in [(6, 2000), (8, 2000), (20, 2000), (300, 200)] {
            let wrong = (0..fleets).filter(|_| marked(&fleet(&mut random, count, 0, 0.0)).contains(&true)).count();
            assert!(wrong as f64 <= 0.03 * f64::from(fleets), "{count} hosts: {wrong} of {fleets}");
        }
    }

    #[test]
    fn a_host_that_was_measured_badly_is_judged_by_its_own_error() {
        let mut random = Rng::with_seed(14);
        for (count, fleets) in [(8, 2000), (20, 2000), (60, 1000)] {
            let wrong = (0..fleets).filter(|_| marked(&mixed_fleet(&mut random, count)).contains(&true)).count();
            assert!(wrong as f64 <= 0.03 * f64::from(fleets), "{count} hosts: {wrong} of {fleets}");
        }
    }

    #[test]
    fn what_would_be_seen_is_seen_in_four_of_five_fleets() {
        let mut random = Rng::with_seed(12);
        for (count, fleets) in [(6, 300), (8, 300), (20, 300), (300, 60)] {
            let share = Rule::of(&fleet(&mut Rng::with_seed(5), 300, 0, 0.0)).map(|rule| {
                let rule = Rule { freedom: freedom(count), count: count as f64, ..rule };
                rule.detectable(count)
            });
            let share = share.expect("enough hosts");
            let seen = (0..fleets).filter(|_| marked(&fleet(&mut random, count, 1, share))[0]).count();
            assert!(seen as f64 >= 0.7 * f64::from(fleets), "{count} hosts, {share}: {seen} of {fleets}");
        }
    }

    #[test]
    fn a_third_of_the_hosts_hides_nothing_and_is_marked() {
        let hosts = fleet(&mut Rng::with_seed(13), 60, 18, 0.8);
        let found = marked(&hosts);
        assert!(found[..18].iter().all(|one| *one) && !found[18..].contains(&true), "{found:?}");
    }

    #[test]
    fn too_few_hosts_have_no_rule_and_hosts_without_a_spread_no_panic() {
        let same = Estimate { log: 1.0, error: 0.0, freedom: 1.0, floor: 0.0 };
        assert!(Rule::of(&[same; HOSTS_MIN - 1]).is_none());
        let mut hosts = [same; HOSTS_MIN];
        hosts[0].log = 1.5;
        let rule = Rule::of(&hosts).expect("enough hosts");
        assert!(rule.p_value(&hosts[0]) < 1e-6 && rule.p_value(&same) == 1.0);
        assert!(rule.detectable(12).is_finite());
    }
}

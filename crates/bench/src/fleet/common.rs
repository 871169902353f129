//! Facts that go with slow hosts: what all of them have and few others have, or the other way round. It is no proof of a cause; the
//! probability says how often chance would give such a fact.

use super::files::Found;
use super::outlier::Standing;
use super::overall::Overall;
use super::rows::{self, RowOfHosts};
use crate::compare::difference::holm;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The share of the other hosts that may have the fact, too.
const OTHERS_MAX: f64 = 0.25;
/// The most facts that are listed.
const LISTED_MAX: usize = 20;

/// A fact that goes with slow hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Common {
    /// "kernel: 6.1.0".
    pub fact: String,
    /// True if the slow hosts have it, false if they lack it.
    pub have: bool,
    /// Slow hosts that have it, of how many.
    pub slower: [usize; 2],
    /// Other hosts that have it, of how many.
    pub others: [usize; 2],
    /// Probability that as many hosts picked by chance are as alike (Fisher's exact test), corrected for the number of facts that
    /// differ between hosts (Holm).
    pub p_value: f64,
}

/// Compares the facts of slow hosts with those of the others. None where there is no slow host.
pub(super) fn of(found: &Found, hosts: &[Overall], rows: &[RowOfHosts]) -> Vec<Common> {
    let slow = slow(hosts, rows);
    let count = [slow.len(), hosts.len() - slow.len()];
    if count.contains(&0) {
        return Vec::new();
    }
    let mut having: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for host in hosts {
        let side = usize::from(!slow.contains(host.host.as_str()));
        for fact in rows::facts(found, &host.host) {
            having.entry(fact).or_default()[side] += 1;
        }
    }
    having.retain(|_, have| *have != count);
    let mut all: Vec<Common> = having.into_iter().map(|(fact, have)| common(fact, have, count)).collect();
    let corrected = holm(&all.iter().map(|one| one.p_value).collect::<Vec<_>>());
    all.iter_mut().zip(corrected).for_each(|(one, p_value)| one.p_value = p_value);
    all.retain(goes_with);
    all.sort_by(|a, b| a.p_value.total_cmp(&b.p_value).then_with(|| a.fact.cmp(&b.fact)));
    all.truncate(LISTED_MAX);
    all
}

/// The hosts that are slower as a whole; if there is none, those that are in some row.
fn slow<'h>(hosts: &'h [Overall], rows: &'h [RowOfHosts]) -> HashSet<&'h str> {
    let is_slow = |host: &&Overall| host.figures.iter().any(|figure| figure.standing == Standing::Slower);
    let whole: HashSet<&str> = hosts.iter().filter(is_slow).map(|host| host.host.as_str()).collect();
    if !whole.is_empty() {
        return whole;
    }
    let in_rows = rows.iter().flat_map(|row| &row.hosts).filter(|host| host.standing == Standing::Slower);
    let names: BTreeSet<&str> = in_rows.map(|host| host.host.as_str()).collect();
    names.into_iter().collect()
}

fn common(fact: &str, have: [usize; 2], count: [usize; 2]) -> Common {
    let is_had = have[0] * count[1] >= have[1] * count[0];
    // Those that are alike: that have it, or that lack it.
    let alike = if is_had { have } else { [count[0] - have[0], count[1] - have[1]] };
    // Twice, because the direction is chosen by what was seen.
    let p_value = (2.0 * chance(alike, count)).min(1.0);
    Common { fact: fact.to_owned(), have: is_had, slower: [have[0], count[0]], others: [have[1], count[1]], p_value }
}

/// The probability that, of hosts picked by chance, at least as many are alike (the hypergeometric distribution).
fn chance(alike: [usize; 2], count: [usize; 2]) -> f64 {
    let (picked, total, alike_all) = (count[0], count[0] + count[1], alike[0] + alike[1]);
    let log_choose = |n: usize, k: usize| -> f64 {
        if k > n { f64::NEG_INFINITY } else { (0..k).map(|i| ((n - i) as f64 / (k - i) as f64).ln()).sum() }
    };
    let whole = log_choose(total, picked);
    let of = |k: usize| (log_choose(alike_all, k) + log_choose(total - alike_all, picked - k) - whole).exp();
    (alike[0]..=picked.min(alike_all)).map(of).sum::<f64>().min(1.0)
}

/// All slow hosts have it and few of the others, or none and most of the others. A value that is lacked is told only of boot options: of
/// other facts the value that is there instead is told.
fn goes_with(one: &Common) -> bool {
    let few = |share: usize| share as f64 <= OTHERS_MAX * one.others[1] as f64;
    if one.have {
        return one.slower[0] == one.slower[1] && few(one.others[0]);
    }
    one.fact.starts_with("boot option: ") && one.slower[0] == 0 && few(one.others[1] - one.others[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_fishers() {
        // Three of twenty picked, all of the three that have it.
        assert!((chance([3, 0], [3, 17]) - 1.0 / 1140.0).abs() < 1e-12);
        assert!((chance([0, 5], [3, 17]) - 1.0).abs() < 1e-12);
        assert!((chance([1, 0], [1, 19]) - 0.05).abs() < 1e-12);
    }

    #[test]
    fn a_fact_goes_with_slow_hosts_if_all_have_it_and_few_others() {
        let of = |have, fact: &str| goes_with(&common(fact, have, [3, 16]));
        assert!(of([3, 0], "kernel: 6.1") && of([3, 4], "kernel: 6.1"));
        assert!(!of([3, 5], "kernel: 6.1") && !of([2, 0], "kernel: 6.1"));
        assert!(of([0, 16], "boot option: nohz_full=2") && !of([0, 16], "kernel: 6.12"));
    }
}

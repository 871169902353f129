//! The rates of a sweep for one path: those asked for, or a search of the knee.

use sidestep_report::knee::broken;
use sidestep_report::schema::Row;

/// The lowest rate of a search.
const FIRST: f64 = 1_000.0;
/// The next rate of a search, while the path keeps up.
const STEP: f64 = 2.0;
/// Rates between the last that held and the first that did not.
const REFINEMENTS: u32 = 3;
/// The highest rate of a search.
const LAST: f64 = 8e6;

/// The rates to offer.
#[derive(Clone, Debug, PartialEq)]
pub enum Offered {
    /// These, ascending; all of them, whether a path keeps up or not.
    Listed(Vec<f64>),
    /// Twice as much each time until the knee is passed, then rates between.
    Auto,
}

/// One path on its way up.
#[derive(Clone, Debug)]
pub(crate) struct Climb {
    offered: Offered,
    step: usize,
    lowest: Option<Row>,
    held: f64,
    broke: Option<f64>,
    refined: u32,
    is_over: bool,
}

impl Climb {
    /// At the bottom.
    pub(crate) fn new(offered: Offered) -> Self {
        Self { offered, step: 0, lowest: None, held: 0.0, broke: None, refined: 0, is_over: false }
    }

    /// Returns the next rate; none when it is done.
    pub(crate) fn next(&self) -> Option<f64> {
        if self.is_over {
            return None;
        }
        match (&self.offered, self.broke) {
            (Offered::Listed(rates), _) => rates.get(self.step).copied(),
            (Offered::Auto, None) => Some(FIRST * STEP.powi(self.step as i32)).filter(|rate| *rate <= LAST),
            // In equal ratios.
            (Offered::Auto, Some(broke)) => (self.refined < REFINEMENTS).then(|| (self.held * broke).sqrt()),
        }
    }

    /// The most rates that are still to come, for the estimate.
    pub(crate) fn rates_max(&self) -> usize {
        match &self.offered {
            Offered::Listed(rates) => rates.len() - self.step.min(rates.len()),
            Offered::Auto => ((LAST / FIRST).log(STEP)) as usize + 1,
        }
    }

    /// Goes on after the row of a rate.
    pub(crate) fn measured(&mut self, row: &Row) {
        self.step += 1;
        let rate = row.rate_offered.unwrap_or(0.0);
        let holds = broken(row, self.lowest.as_ref().unwrap_or(row)).is_none();
        self.lowest.get_or_insert_with(|| row.clone());
        match self.offered {
            Offered::Listed(_) => {}
            Offered::Auto => {
                self.refined += u32::from(self.broke.is_some());
                match holds {
                    true => self.held = rate,
                    false => self.broke = Some(rate),
                }
                // What does not hold at the lowest rate has no knee to be found.
                self.is_over = self.held == 0.0;
            }
        }
    }

    /// The rates of a list above the present one.
    pub(crate) fn above(&self) -> &[f64] {
        match &self.offered {
            Offered::Listed(rates) => rates.get(self.step + 1..).unwrap_or_default(),
            Offered::Auto => &[],
        }
    }

    /// Ends it.
    pub(crate) fn give_up(&mut self) {
        self.is_over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_report::schema::{Distribution, RateDetail};

    /// A path that answers up to `most` messages a second.
    fn row(rate: f64, most: f64) -> Row {
        let distribution = Distribution { n: 1_000, p50: Some(10.0), ..Distribution::default() };
        let detail = Some(RateDetail { received: 1_000, ..RateDetail::default() });
        Row {
            rate_offered: Some(rate),
            rate_achieved: Some(rate.min(most)),
            distribution,
            rate: detail,
            ..Row::default()
        }
    }

    fn offered(climb: &mut Climb, most: f64) -> Vec<f64> {
        let mut rates = Vec::new();
        while let Some(rate) = climb.next() {
            rates.push(rate.round());
            climb.measured(&row(rate, most));
            assert!(rates.len() < 50, "it ends");
        }
        rates
    }

    #[test]
    fn a_search_doubles_and_then_looks_between() {
        let rates = offered(&mut Climb::new(Offered::Auto), 5_000.0);
        assert_eq!(rates, [1_000.0, 2_000.0, 4_000.0, 8_000.0, 5_657.0, 4_757.0, 5_187.0]);
    }

    #[test]
    fn a_search_ends_at_the_top_and_at_the_bottom() {
        let all = offered(&mut Climb::new(Offered::Auto), f64::INFINITY);
        assert_eq!((all.len(), all.last()), (13, Some(&4_096_000.0)));
        assert!(all.len() <= Climb::new(Offered::Auto).rates_max());
        assert_eq!(offered(&mut Climb::new(Offered::Auto), 10.0), [1_000.0]);
    }

    #[test]
    fn a_list_is_gone_through_to_its_end() {
        let list = || Climb::new(Offered::Listed(vec![1e3, 2e3, 4e3, 8e3]));
        assert_eq!(offered(&mut list(), 3_900.0), [1e3, 2e3, 4e3, 8e3]);
        assert_eq!(offered(&mut list(), 500.0), [1e3, 2e3, 4e3, 8e3], "far behind, though it was asked for by name");
        let mut given_up = list();
        assert_eq!(given_up.above(), [2e3, 4e3, 8e3]);
        given_up.give_up();
        assert_eq!(given_up.next(), None);
    }
}

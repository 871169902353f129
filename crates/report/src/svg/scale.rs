//! From values to places on the drawing.

/// Beyond this ratio of the largest to the smallest value a linear axis would press the small ones flat.
const LINEAR_UP_TO: f64 = 10.0;

/// One axis: values between `low` and `high` lie between `from` and `to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// Set if it is logarithmic.
    pub(crate) log: bool,
}

impl Scale {
    /// An axis for `values`, logarithmic where their range asks for it; none where no value can be drawn.
    pub(crate) fn fit(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let (low, high) = range(values)?;
        Some(if high / low > LINEAR_UP_TO { Self::log(low, high, from, to) } else { Self::linear(high, from, to) })
    }

    /// A logarithmic axis for `values`; none where no value can be drawn.
    pub(crate) fn fit_log(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let (low, high) = range(values)?;
        Some(Self::log(low, high, from, to))
    }

    /// From exactly `low` to exactly `high`.
    pub(crate) fn exact(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, from, to, log: false }
    }

    fn linear(high: f64, from: f64, to: f64) -> Self {
        let step = step(high * 1.04);
        Self { low: 0.0, high: (high * 1.04 / step).ceil() * step, from, to, log: false }
    }

    /// Opens a little around the values, so that no mark lies on the frame.
    fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let room = (high / low).powf(0.04).max(1.1);
        Self { low: low / room, high: high * room, from, to, log: true }
    }

    /// Returns the position of `value`; values beyond the axis are at its end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// The value at `share` of the way, 0 at the low end.
    pub(crate) fn value_at(&self, share: f64) -> f64 {
        match self.log {
            true => self.low * (self.high / self.low).powf(share),
            false => self.low + (self.high - self.low) * share,
        }
    }

    /// About so many round values to mark.
    pub(crate) fn ticks(&self, wanted: f64) -> Vec<f64> {
        if !self.log {
            return self.linear_ticks();
        }
        let ticks = self.log_ticks(wanted);
        if ticks.len() < 2 { self.linear_ticks() } else { ticks }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = step(self.high - self.low);
        let first = (self.low / step).ceil();
        (0..12)
            .map(|i| (first + f64::from(i)) * step)
            .filter(|tick| *tick <= self.high * 1.000_001 && *tick >= self.low)
            .collect()
    }

    /// Returns as many round steps of each decade as fit; with little room, ticks every few decades.
    fn log_ticks(&self, wanted: f64) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (self.high / self.low).log10().max(1.0);
        let within = |tick: &f64| (self.low..=self.high).contains(tick);
        for steps in [&[1.0, 2.0, 3.0, 4.0, 6.0, 8.0][..], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]] {
            if decades * steps.len() as f64 <= wanted * 1.3 || steps.len() == 1 {
                let every = if steps.len() == 1 { (decades / wanted).ceil().max(1.0) as usize } else { 1 };
                let powers = (first..=last).step_by(every).map(|power| 10_f64.powi(power));
                return powers.flat_map(|power| steps.iter().map(move |step| step * power)).filter(within).collect();
            }
        }
        Vec::new()
    }
}

/// The smallest and the largest value that a chart can show.
fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    // Between a picosecond and the age of a histogram's limit: what is outside has no meaning as a time or a rate.
    let shown = values.into_iter().filter(|value| (1e-3..=1e19).contains(value));
    shown.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// A round step that divides `span` into three to six.
fn step(span: f64) -> f64 {
    let rough = span / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    power * steps.into_iter().find(|step| step * power >= rough).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn logarithmic_only_where_the_range_asks_for_it() {
        assert!(!Scale::fit([70.0, 80.0], 0.0, 100.0).unwrap().log);
        assert!(Scale::fit([0.3, 80.0], 0.0, 100.0).unwrap().log);
        assert!(Scale::fit([f64::NAN, 0.0, -1.0, f64::INFINITY], 0.0, 100.0).is_none());
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::fit([5.0, 46.0], 0.0, 300.0).unwrap().ticks(5.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(Scale::fit([0.9, 1_100.0], 0.0, 300.0).unwrap().ticks(4.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Scale::fit_log([3.6, 4.2], 0.0, 300.0).unwrap().ticks(6.0), [3.5, 3.75, 4.0, 4.25, 4.5]);
    }

    proptest! {
        #[test]
        fn every_value_lies_on_the_drawing(values in proptest::collection::vec(any::<f64>(), 0..9), other: f64) {
            if let Some(scale) = Scale::fit(values.iter().copied(), 10.0, 200.0) {
                for value in values.into_iter().chain(scale.ticks(6.0)).chain([other]).filter(|v| !v.is_nan()) {
                    prop_assert!((9.99..=200.01).contains(&scale.at(value)), "{value} {scale:?}");
                }
                prop_assert!(scale.ticks(6.0).len() < 40);
            }
        }
    }
}

//! Modes: a path that is at 9 us in some slices and at 70 us in others has no typical latency.

/// Medians of slices that differ by at least this factor, with none between them, are of two modes.
const GAP: f64 = 1.5;
/// A mode holds at least this share of the slices, and two of them: less is an outlier.
const SHARE_MIN: f64 = 0.1;
/// A path with more modes than this has none.
const MODES_MAX: usize = 4;

/// Returns the places of the values of each mode, from the lowest to the highest; one mode where there are no two.
pub(crate) fn modes(medians: &[f64]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..medians.len()).filter(|at| medians[*at] > 0.0).collect();
    order.sort_by(|a, b| medians[*a].total_cmp(&medians[*b]));
    let least = ((SHARE_MIN * order.len() as f64).ceil() as usize).max(2);
    let mut modes = vec![order];
    while modes.len() < MODES_MAX {
        let widest = modes.iter().enumerate().filter_map(|(mode, places)| {
            let (gap, at) = widest_gap(places, medians, least)?;
            Some((gap, mode, at))
        });
        let Some((_, mode, at)) = widest.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        let upper = modes[mode].split_off(at);
        modes.insert(mode + 1, upper);
    }
    modes
}

/// The widest gap of a mode that parts it in two, and the number of values below it.
fn widest_gap(places: &[usize], medians: &[f64], least: usize) -> Option<(f64, usize)> {
    let cuts = least..=places.len().checked_sub(least)?;
    let gaps = cuts.map(|at| (medians[places[at]] / medians[places[at - 1]], at));
    gaps.filter(|(gap, _)| *gap >= GAP).max_by(|a, b| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(medians: &[f64]) -> Vec<usize> {
        modes(medians).iter().map(Vec::len).collect()
    }

    #[test]
    fn two_modes_are_told_apart_and_an_outlier_is_none() {
        let two: Vec<f64> = (0..20).map(|i| if i % 3 == 0 { 9.0 + 0.1 * f64::from(i) } else { 70.0 }).collect();
        assert_eq!(sizes(&two), [7, 13]);
        assert_eq!(modes(&two)[0], [0, 3, 6, 9, 12, 15, 18]);
        let mut outlier = vec![9.0; 20];
        outlier[4] = 500.0;
        assert_eq!(sizes(&outlier), [20]);
    }

    #[test]
    fn a_wide_path_without_a_gap_has_one_mode() {
        let wide: Vec<f64> = (0..40).map(|i| 10.0 * 1.1_f64.powi(i)).collect();
        assert_eq!(sizes(&wide), [40]);
    }

    #[test]
    fn three_modes_and_too_little() {
        let three: Vec<f64> = [5.0, 20.0, 80.0].into_iter().cycle().take(30).collect();
        assert_eq!(sizes(&three), [10, 10, 10]);
        assert_eq!(sizes(&[5.0, 80.0, 80.0]), [3]);
        assert_eq!(sizes(&[]), [0]);
        assert_eq!(sizes(&[f64::NAN, 0.0]), [0]);
    }
}

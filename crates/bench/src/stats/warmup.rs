//! Detection of a settled path: its medians have stopped moving.

/// Medians compared: the newest must lie within the band of those before it.
const WINDOWS: usize = 4;
/// Width of the band beyond the smallest and largest of them.
const BAND: f64 = 0.05;

/// Watches the medians of successive windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warmup {
    medians: Vec<f64>,
}

impl Warmup {
    /// Takes the median of the next window; true once the path has settled.
    pub(crate) fn settled(&mut self, median_ns: f64) -> bool {
        self.medians.push(median_ns);
        let Some(from) = self.medians.len().checked_sub(WINDOWS) else { return false };
        let recent = &self.medians[from..];
        let (newest, before) = (recent[WINDOWS - 1], &recent[..WINDOWS - 1]);
        let low = before.iter().copied().fold(f64::INFINITY, f64::min);
        let high = before.iter().copied().fold(0.0, f64::max);
        // Both ways: the newest inside the band of the earlier ones, and the earlier ones not still falling.
        newest >= low * (1.0 - BAND) && newest <= high * (1.0 + BAND) && high <= low * (1.0 + 2.0 * BAND)
    }
}

#[cfg(test)]
mod tests {
    use super::Warmup;

    fn settles_at(medians: &[f64]) -> Option<usize> {
        let mut warmup = Warmup::default();
        medians.iter().position(|median| warmup.settled(*median))
    }

    #[test]
    fn steady_from_the_start_takes_four_windows() {
        assert_eq!(settles_at(&[100.0; 8]), Some(3));
    }

    #[test]
    fn a_falling_path_waits_for_its_floor() {
        let falling = [400.0, 300.0, 200.0, 150.0, 120.0, 101.0, 100.0, 99.0, 100.0, 100.0];
        assert_eq!(settles_at(&falling), Some(8));
    }

    #[test]
    fn what_never_settles_never_does() {
        let growing: Vec<f64> = (0..50).map(|step| 100.0 * 1.2_f64.powi(step)).collect();
        assert_eq!(settles_at(&growing), None);
    }
}

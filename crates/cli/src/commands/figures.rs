//! Figures in few characters, for columns.

/// Formats a number in at most five characters.
pub(super) fn count(value: f64) -> String {
    match value {
        ..=9_999.4 => format!("{value:.0}"),
        ..=999_499.0 => format!("{:.0}k", value / 1e3),
        ..=99_949_999.0 => format!("{:.1}M", value / 1e6),
        ..=999_499_999.0 => format!("{:.0}M", value / 1e6),
        ..=999_499_999_999.0 => format!("{:.0}G", value / 1e9),
        _ => "many".to_owned(),
    }
}

/// Formats a time.
pub(super) fn time(ns: u64) -> String {
    match ns as f64 {
        ns @ ..=99_949.0 => format!("{:.1}us", ns / 1e3),
        ns @ ..=999_499.0 => format!("{:.0}us", ns / 1e3),
        ns @ ..=999_499_999.0 => format!("{:.1}ms", ns / 1e6),
        ns @ ..=999_499_999_999.0 => format!("{:.1}s", ns / 1e9),
        _ => "long".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_column() {
        let values = [0.0, 12.4, 9_999.0, 9_999.5, 12_345.0, 999_500.0, 1.5e6, 2e8, 1e9, 3e11, f64::MAX];
        for value in values {
            assert!(count(value).len() <= 5, "{value}: {}", count(value));
        }
        let times = [1, 12_345, 99_950, 999_500, 12_345_678, 1_000_000_000, u64::MAX];
        assert_eq!(times.map(time), ["0.0us", "12.3us", "100us", "1.0ms", "12.3ms", "1.0s", "long"]);
    }
}

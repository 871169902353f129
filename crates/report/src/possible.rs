//! Figures that no measurement has: a file with such was damaged, or made up.

use crate::schema::{Distribution, Document, Row};

/// Larger counts are no exact numbers for a reader that has 64-bit floats.
const COUNT_MAX: u64 = 1 << 53;

/// Checks the figures of a result; returns the reason why they cannot be.
pub(crate) fn check(document: &Document) -> Result<(), String> {
    for (at, row) in document.results.iter().enumerate() {
        check_row(row).map_err(|why| format!("row {} has {why}", at + 1))?;
    }
    let reversed = document.ratios.iter().position(|ratio| is_reversed(ratio.ci95));
    reversed.map_or(Ok(()), |at| Err(format!("ratio {} has an interval that ends before it begins", at + 1)))
}

fn check_row(row: &Row) -> Result<(), String> {
    check_distribution(&row.distribution)?;
    check_count("lost", row.lost)?;
    check_time("rate_offered", row.rate_offered)?;
    check_time("rate_achieved", row.rate_achieved)?;
    if let Some(rate) = &row.rate {
        check_count("sent", rate.sent)?;
        check_count("received", rate.received)?;
    }
    for block in &row.blocks {
        check_count("a block of n", block.n)?;
        check_count("a block that lost", block.lost.unwrap_or_default())?;
        for (name, time) in [("p50", block.p50), ("p99", block.p99), ("mean", block.mean)] {
            check_time(&format!("a block with {name}"), Some(time))?;
        }
    }
    Ok(())
}

fn check_distribution(distribution: &Distribution) -> Result<(), String> {
    let Distribution { n, min, mean, stddev, p50, p90, p99, p99_9, p99_99, max, ci95, .. } = distribution;
    check_count("n", *n)?;
    let times = [("min", min), ("mean", mean), ("stddev", stddev), ("p50", p50), ("p90", p90), ("p99", p99)];
    for (name, time) in times.into_iter().chain([("p99_9", p99_9), ("p99_99", p99_99), ("max", max)]) {
        check_time(name, *time)?;
    }
    let reversed = [ci95.p50, ci95.p99, ci95.p99_9, ci95.mean].into_iter().flatten().any(is_reversed);
    if reversed { Err("an interval (ci95) that ends before it begins".into()) } else { Ok(()) }
}

fn check_count(name: &str, count: u64) -> Result<(), String> {
    if count <= COUNT_MAX { Ok(()) } else { Err(format!("{name} {count}, more than can be counted")) }
}

fn check_time(name: &str, value: Option<f64>) -> Result<(), String> {
    match value {
        Some(value) if value < 0.0 => Err(format!("{name} {value}, less than nothing")),
        _ => Ok(()),
    }
}

fn is_reversed([low, high]: [f64; 2]) -> bool {
    low > high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Block;
    use crate::{json, sample};

    #[test]
    fn what_no_measurement_has_is_refused() {
        type Change = fn(&mut Row);
        let changes: [(&str, Change); 7] = [
            ("p50 -5", |row| row.distribution.p50 = Some(-5.0)),
            ("ci95", |row| row.distribution.ci95.p50 = Some([2.0, 1.0])),
            ("ci95", |row| row.distribution.ci95.p99_9 = Some([2.0, 1.0])),
            ("n 18446744073709551615", |row| row.distribution.n = u64::MAX),
            ("lost 18446744073709551615", |row| row.lost = u64::MAX),
            ("rate_achieved -1", |row| row.rate_achieved = Some(-1.0)),
            ("a block of n", |row| row.blocks.push(Block { n: u64::MAX, ..Block::default() })),
        ];
        for (words, change) in changes {
            let mut document = sample::document();
            change(&mut document.results[0]);
            let refused = json::parse(json::to_string(&document).as_bytes(), "a.json").unwrap_err().to_string();
            assert!(refused.contains(words) && refused.contains("next:"), "{refused}");
        }
        let mut document = sample::document();
        document.ratios[0].ci95 = [1.1, 0.9];
        assert!(check(&document).unwrap_err().contains("ratio 1"));
        assert!(check(&sample::document()).is_ok());
    }
}

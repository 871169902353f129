//! Runs and rows that would count twice, or hide each other.

use super::name;
use sidestep_report::schema::Document;
use sidestep_sys::Problem;
use std::collections::BTreeMap;

/// Checks that no run of a side is given twice: its copy would count as a second measurement that agrees perfectly.
///
/// # Errors
/// Names the two places, counted from 1.
pub fn check_distinct(side: &[Document]) -> Result<(), Problem> {
    for (second, run) in side.iter().enumerate() {
        if let Some(first) = side[..second].iter().position(|other| is_copy(other, run)) {
            let why =
                format!("results {} and {} of a side are the same run, of {}", first + 1, second + 1, run.started);
            return Err(Problem::usage("cannot compare", why).next("give each result once"));
        }
    }
    Ok(())
}

/// Returns whether some run is on both sides: between it and itself there is no difference.
pub fn is_on_both(before: &[Document], after: &[Document]) -> bool {
    before.iter().any(|one| after.iter().any(|other| is_copy(one, other)))
}

fn is_copy(one: &Document, other: &Document) -> bool {
    one.started == other.started && one.command == other.command && one.results == other.results
}

/// Rows that are not compared, because another of the same name in the same result comes first.
pub(super) fn hidden(before: &[Document], after: &[Document]) -> Vec<String> {
    let mut most = BTreeMap::new();
    for run in before.iter().chain(after) {
        let mut counts = BTreeMap::<String, usize>::new();
        run.results.iter().for_each(|row| *counts.entry(name(row)).or_default() += 1);
        for (name, count) in counts {
            let known = most.entry(name).or_insert(0);
            *known = count.max(*known);
        }
    }
    let many = most.into_iter().filter(|(_, count)| *count > 1);
    many.map(|(name, count)| format!("{name} ({} more of this name in one result; the first is compared)", count - 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Comparison;
    use sidestep_report::schema::Row;

    fn run(started: &str, rows: usize) -> Document {
        let row = Row { scenario: "rr".into(), ..Row::default() };
        Document { started: started.into(), results: vec![row; rows], ..Document::default() }
    }

    #[test]
    fn a_copy_of_a_run_is_no_second_run() {
        let (one, other) = (run("2026-01-01T00:00:00Z", 1), run("2026-01-01T00:00:09Z", 1));
        check_distinct(&[one.clone(), other.clone()]).unwrap();
        let refused = check_distinct(&[one.clone(), other.clone(), one.clone()]).unwrap_err().to_string();
        assert!(refused.contains("results 1 and 3") && refused.contains("2026-01-01T00:00:00Z"), "{refused}");
        assert!(is_on_both(std::slice::from_ref(&one), &[other.clone(), one.clone()]) && !is_on_both(&[one], &[other]));
    }

    #[test]
    fn rows_of_one_name_do_not_hide_each_other() {
        let unmatched = |before, after| Comparison::of(&run("", before), &run("", after)).unmatched;
        assert!(unmatched(1, 1).is_empty());
        for (before, after) in [(3, 1), (1, 3)] {
            let told = unmatched(before, after);
            assert!(told.len() == 1 && told[0].contains("2 more of this name"), "{told:?}");
        }
    }
}

//! The tests that this run of the harness selects: a machine that boots for one of them must not run all.

use std::collections::HashSet;

/// Options of the harness that are followed by a value.
const WITH_VALUE: [&str; 7] = ["--skip", "--test-threads", "--format", "--logfile", "--color", "--shuffle-seed", "-Z"];

/// Selects the `names` that match the harness's arguments. Unknown arguments select all, which is never wrong.
pub(super) fn of(names: Vec<String>, arguments: impl Iterator<Item = String>) -> Vec<String> {
    let (mut filters, mut skips, mut is_exact) = (Vec::new(), HashSet::new(), false);
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--exact" => is_exact = true,
            "--skip" => skips.extend(arguments.next()),
            option if WITH_VALUE.contains(&option) => drop(arguments.next()),
            option if option.starts_with('-') => {}
            _ => filters.push(argument),
        }
    }
    let matches = |name: &str, filter: &String| if is_exact { name == filter } else { name.contains(filter.as_str()) };
    let is_chosen = |name: &String| {
        (filters.is_empty() || filters.iter().any(|filter| matches(name, filter)))
            && !skips.iter().any(|skip| matches(name, skip))
    };
    names.into_iter().filter(is_chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(arguments: &str) -> Vec<String> {
        let names = ["v1::vlan", "v1::vlans", "v1::bond"].map(str::to_owned).to_vec();
        of(names, arguments.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn as_the_harness_chooses() {
        assert_eq!(chosen("").len(), 3);
        assert_eq!(chosen("--nocapture --test-threads 1 --color=always").len(), 3);
        assert_eq!(chosen("vlan --nocapture"), ["v1::vlan", "v1::vlans"]);
        assert_eq!(chosen("--exact v1::vlan"), ["v1::vlan"]);
        assert_eq!(chosen("--skip vlan"), ["v1::bond"]);
        assert_eq!(chosen("--skip bond vlans v1::bond"), ["v1::vlans"]);
        assert!(chosen("nothing").is_empty());
    }
}

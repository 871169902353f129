//! Output of results: for people ([`text`]), for scripts ([`json`]), in documents ([`document`]).

pub mod document;
pub mod fleet;
pub mod json;
pub mod text;

use crate::cpus::CpuSet;
use crate::host::Absence;
use crate::reading::Reading;
use sidestep_sys::printable::is_printable;

/// The most characters of a value that are shown: a file may hold anything.
const VALUE_LETTERS_MAX: usize = 160;
/// The most subjects that are named for one value.
const SUBJECTS_SHOWN_MAX: usize = 4;

/// Returns a value without control characters, and cut.
fn clean(text: &str) -> String {
    let letters = text.chars().map(|c| if is_printable(c) { c } else { ' ' });
    let shown: String = letters.clone().take(VALUE_LETTERS_MAX).collect();
    if letters.count() > VALUE_LETTERS_MAX { format!("{shown}...") } else { shown }
}

/// Returns the text of one reading.
fn value_words(reading: &Reading) -> String {
    match (&reading.shown, &reading.value) {
        (Some(shown), Ok(_)) => clean(shown),
        (None, Ok(value)) if value.is_empty() => "nothing".into(),
        (None, Ok(value)) => clean(value),
        (_, Err(Absence::Missing)) => "missing".into(),
        (_, Err(Absence::Denied)) => "only root may read it".into(),
        (_, Err(Absence::Unreadable(why))) => clean(why),
    }
}

/// Returns several readings in one line: equal values once, with their subjects.
pub(crate) fn values_words<'a>(readings: impl Iterator<Item = &'a Reading>) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for reading in readings {
        let words = value_words(reading);
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, subjects)) => subjects.push(&reading.subject),
            None => groups.push((words, vec![&reading.subject])),
        }
    }
    let more = groups.len().saturating_sub(SUBJECTS_SHOWN_MAX);
    let mut shown: Vec<String> = groups.iter().take(SUBJECTS_SHOWN_MAX).map(group_words).collect();
    if more > 0 {
        shown.push(format!("{more} other values"));
    }
    shown.join("; ")
}

fn group_words((value, subjects): &(String, Vec<&str>)) -> String {
    let named: Vec<&str> = subjects.iter().copied().filter(|subject| !subject.is_empty()).collect();
    if named.is_empty() {
        return value.clone();
    }
    let numbers: Option<CpuSet> = named.iter().map(|subject| subject.strip_prefix("cpu")?.parse().ok()).collect();
    let who = match numbers {
        Some(cpus) if named.len() > 1 => format!("cpu{cpus}"),
        _ if named.len() > SUBJECTS_SHOWN_MAX => {
            format!("{} and {} more", named[..SUBJECTS_SHOWN_MAX].join(", "), named.len() - SUBJECTS_SHOWN_MAX)
        }
        _ => named.join(", "),
    };
    format!("{value} ({})", clean(&who))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_told_once() {
        let cpu = |number: u32, value: &str| Reading::of(format!("cpu{number}"), value);
        let readings = [cpu(0, "powersave"), cpu(1, "powersave"), cpu(2, "powersave"), cpu(7, "ondemand")];
        assert_eq!(values_words(readings.iter()), "powersave (cpu0-2); ondemand (cpu7)");
        assert_eq!(values_words([Reading::of("", "\u{1b}[31mx")].iter()), " [31mx");
        let long = Reading::of("", "x".repeat(5000));
        assert!(values_words([long].iter()).len() < 200);
    }
}

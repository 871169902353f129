//! Steps of `tune verify` and their effect on the host.

use super::{Line, Table, numbers, words};
use crate::number::{self, MISSING};
use crate::schema::{Document, Ratio, Step};

/// Returns the table of the steps, in their order; none if there are no steps.
pub(crate) fn table(document: &Document) -> Option<Table> {
    let columns = vec![
        words("step"),
        words("here"),
        numbers("p50 ratio", 0),
        numbers("interval", 1),
        numbers("p99 ratio", 2),
        numbers("time lost % without", 4),
        numbers("with", 3),
        words("step, and reason"),
    ];
    let lines: Vec<_> = document.steps.iter().filter(|step| step.decision != NOT_TRIED).map(line).collect();
    let notes = not_tried(document).into_iter().map(|group| format!("not tried, {group}")).collect();
    (!document.steps.is_empty()).then_some(Table { columns, lines, notes })
}

/// The decision on a step that lacks a flag.
const NOT_TRIED: &str = "not tried";

/// The steps that were not tried, once for each reason ("needs --change-host: a, b").
fn not_tried(document: &Document) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for step in document.steps.iter().filter(|step| step.decision == NOT_TRIED) {
        match groups.iter_mut().find(|(reason, _)| *reason == step.reason) {
            Some((_, names)) => names.push(&step.name),
            None => groups.push((&step.reason, vec![&step.name])),
        }
    }
    groups.into_iter().map(|(reason, names)| format!("{reason}: {}", names.join(", "))).collect()
}

/// How many steps were tried, where that is not all of them, and that none of these helped.
fn tried(document: &Document) -> String {
    let of = document.steps.len();
    let is_tried = |step: &&Step| !["impossible", NOT_TRIED].contains(&step.decision.as_str());
    let tried = document.steps.iter().filter(is_tried).count();
    let has_helped = document.steps.iter().any(|step| step.decision == "kept");
    match (tried, has_helped) {
        (0, _) => format!("None of {of} steps could be tried. "),
        (tried, true) if tried < of => format!("{tried} of {of} steps tried. "),
        (_, true) => String::new(),
        (tried, false) => format!("{tried} of {of} steps tried, none helped. "),
    }
}

fn line(step: &Step) -> Line {
    let ratio = |stat: &str| step.ratios.iter().find(|ratio| ratio.stat == stat);
    let value = |ratio: Option<&Ratio>| ratio.map_or_else(|| MISSING.into(), |ratio| number::ratio(ratio.value));
    let lost =
        |side: usize| step.hiccups.get(side).map_or_else(|| "-".into(), |heard| number::percent(heard.lost_share));
    Line::plain(vec![
        step.name.clone(),
        step.decision.clone(),
        value(ratio("p50")),
        ratio("p50").map_or_else(|| MISSING.into(), |ratio| number::ratio_interval(ratio.ci95)),
        value(ratio("p99")),
        lost(0),
        lost(1),
        [step.what.as_str(), step.reason.as_str()].join("; "),
    ])
}

/// Returns the outcome in a sentence or two; none if there are no steps.
pub(crate) fn summary(document: &Document) -> Option<String> {
    let names = |decision: &str| {
        let of = document.steps.iter().filter(|step| step.decision == decision).map(|step| step.name.as_str());
        of.collect::<Vec<_>>().join(", ")
    };
    let part = |decision: &str, words: &str| {
        let names = names(decision);
        if names.is_empty() { String::new() } else { format!("{words} {names}. ") }
    };
    let not_tried: String = not_tried(document).into_iter().map(|group| format!("Not tried, {group}. ")).collect();
    let text = tried(document)
        + &part("kept", "Helped here:")
        + &part("dropped", "Did not help:")
        + &part("unseen", "Could not have been seen in this time:")
        + &part("impossible", "Not possible:")
        + &not_tried;
    (!document.steps.is_empty()).then(|| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Hiccups;

    #[test]
    fn every_step_has_its_line_and_the_summary_sorts_them() {
        assert!(table(&Document::default()).is_none() && summary(&Document::default()).is_none());
        let step =
            |name: &str, decision: &str| Step { name: name.into(), decision: decision.into(), ..Step::default() };
        let ratio = Ratio { stat: "p50".into(), value: 0.5, ci95: [0.4, 0.6], ..Ratio::default() };
        let hiccups = vec![Hiccups { lost_share: 0.02, ..Hiccups::default() }, Hiccups::default()];
        let helped = Step { ratios: vec![ratio], hiccups, ..step("pinned", "kept") };
        let steps = vec![helped, step("polling", "kept"), step("busy-read", "dropped"), step("isolated", "impossible")];
        let nothing = Document { steps: steps[2..].to_vec(), ..Document::default() };
        assert!(
            summary(&nothing)
                .is_some_and(|text| text.starts_with("1 of 2 steps tried, none helped. Did not help: busy-read."))
        );
        let needs = |name: &str| Step { reason: "needs --change-host".into(), ..step(name, "not tried") };
        let withheld =
            Document { steps: vec![step("pinned", "dropped"), needs("a"), needs("b")], ..Document::default() };
        let told = "1 of 3 steps tried, none helped. Did not help: pinned. Not tried, needs --change-host: a, b.";
        assert_eq!(summary(&withheld).as_deref(), Some(told));
        let grouped = table(&withheld).expect("three steps");
        assert_eq!((grouped.lines.len(), grouped.notes), (1, vec!["not tried, needs --change-host: a, b".to_owned()]));
        let document = Document { steps, ..Document::default() };
        assert_eq!(table(&document).map(|table| table.lines.len()), Some(4));
        assert_eq!(
            summary(&document).as_deref(),
            Some("3 of 4 steps tried. Helped here: pinned, polling. Did not help: busy-read. Not possible: isolated.")
        );
    }
}

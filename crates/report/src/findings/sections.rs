//! The sections of a report: question and finding of each.

use super::headline::{against, capital};
use super::panels::{Compared, Panel, compared, ladders, median};
use super::quantity::{brief, samples};
use super::{Section, load, tail};
use crate::schema::{Document, Row};
use crate::tables::{steps, tick};
use crate::view::{label, words};

/// Most panels that a heading names.
const NAMED_MAX: usize = 3;

/// All sections that have data, in the order of a report.
pub(super) fn all(document: &Document) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(tried(document));
    let compared = compared(document);
    sections.extend(compared.iter().enumerate().map(|(i, one)| paths(document, one, i)));
    sections.extend(tail::modes(document));
    sections.extend(tail::tail(document, &compared));
    sections.extend(tail::causes(document));
    sections.extend(tail::stages(document));
    sections.extend(load::streams(document));
    sections.extend(load::sizes(document));
    sections.extend(load::load(document));
    sections.extend(load::rates(document));
    sections.extend(ladder(document));
    sections.extend(published(document));
    sections.extend(numbers(document));
    sections.push(section("host", "Host", "On what, and under which conditions?", "What was measured where"));
    if !document.command.is_empty() {
        sections.push(section("repeat", "Repeat", "How can it be repeated?", "The exact command"));
    }
    sections
}

pub(super) fn section(
    id: &str,
    short: &'static str,
    question: impl Into<String>,
    heading: impl Into<String>,
) -> Section {
    Section { id: id.into(), short, question: question.into(), heading: heading.into(), text: Vec::new() }
}

/// The name of the section of the `i`-th scenario.
pub fn paths_id(i: usize) -> String {
    if i == 0 { "paths".into() } else { format!("paths-{}", i + 1) }
}

fn paths(document: &Document, one: &Compared<'_>, i: usize) -> Section {
    let (short, question) = match one.scenario {
        "rr" => ("Paths", "Which path is fastest, and how much does it vary?"),
        "ring" => ("Channels", "Which channel is fastest, and how much does it vary?"),
        "ring-source" => ("Events", "How soon does a program see an event of the kernel?"),
        "connect" => ("Connections", "How long does a connection take?"),
        "fix" => ("Orders", "How long does an order take?"),
        "tick" => ("Ticks", "How soon after a tick does its order come?"),
        _ => ("Latency", "How long does it take, and how much does it vary?"),
    };
    let mut section = section(&paths_id(i), short, question, leaders(document, one));
    section.text.extend(not_judged(document, one));
    section
        .text
        .extend(tick::sentence(&one.panels.iter().flat_map(|panel| panel.rows.iter().copied()).collect::<Vec<_>>()));
    section
}

/// Who has the lowest median in each panel.
fn leaders(document: &Document, one: &Compared<'_>) -> String {
    if !document.steps.is_empty() {
        return "The last arms that were measured, with and without each step".into();
    }
    let leaders: Vec<(&Panel<'_>, &Row)> = one.panels.iter().filter_map(|panel| Some((panel, panel.best()?))).collect();
    let told = |(panel, best): &(&Panel<'_>, &Row)| {
        let time = brief(median(best).unwrap_or_default());
        match panel.over.as_str() {
            "" => format!("{} ({}: {time})", label(best), panel.title),
            over => format!("{} {over} ({time})", label(best)),
        }
    };
    let what = if one.panels.iter().all(|panel| panel.rows.len() == 1) { "Median" } else { "Lowest median" };
    match leaders.len() {
        0 => "No median is known: too few samples".into(),
        n if n <= NAMED_MAX => format!("{what}: {}", words::list(&leaders.iter().map(told).collect::<Vec<_>>())),
        n => format!("{what}: {}", words::list(&counted(&leaders, n))),
    }
}

/// How often each path leads.
fn counted(leaders: &[(&Panel<'_>, &Row)], of: usize) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for (_, best) in leaders {
        match counts.iter_mut().find(|(name, _)| *name == label(best)) {
            Some((_, count)) => *count += 1,
            None => counts.push((label(best), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more: usize = counts.iter().skip(NAMED_MAX).map(|(_, count)| count).sum();
    let mut told: Vec<String> =
        counts.iter().take(NAMED_MAX).map(|(name, count)| format!("{name} in {count} of {of} panels")).collect();
    if more > 0 {
        told.push(format!("others in {more}"));
    }
    told
}

/// Says once why the factors of a section are not judged.
fn not_judged(document: &Document, one: &Compared<'_>) -> Option<String> {
    use super::versus::Kind;
    let rows = one.panels.iter().flat_map(|panel| &panel.rows);
    let mut all = rows.flat_map(|row| against(document, row, "p50"));
    all.any(|one| one.versus.kind == Kind::NotJudged).then(|| {
        "Not judged: a path that is compared has fewer than eight rounds, so that its difference to itself is not known. The interval \
         stands, the claim does not; a longer run (--duration) can make it."
            .into()
    })
}

fn ladder(document: &Document) -> Option<Section> {
    let question = "What does each step of the set-up give?";
    let missing = document.unavailable.iter().filter(|one| one.rung.is_some()).count();
    let panels = ladders(document);
    let heading = match panels.first().and_then(|panel| climbed(document, panel)) {
        Some(told) => told,
        None if missing > 0 || !panels.is_empty() => "No step could be measured".into(),
        None => return None,
    };
    let rest = match missing {
        0 => String::new(),
        n => format!("; {} not possible here", words::counted(n, "step was", "steps were")),
    };
    Some(section("ladder", "Ladder", question, heading + &rest))
}

/// From the first rung to the last one.
fn climbed(document: &Document, panel: &Panel<'_>) -> Option<String> {
    let measured: Vec<&Row> = panel.rows.iter().copied().filter(|row| median(row).is_some()).collect();
    let (first, last) = (*measured.first()?, *measured.last()?);
    let over = words::transport(&first.transport);
    if measured.len() == 1 {
        return Some(format!("{}: a {over} round trip takes {}", label(first), brief(median(first)?)));
    }
    let claim = against(document, last, "p50").into_iter().find(super::headline::Against::is_claim);
    let claim = claim.map(|one| format!(", {} than {}", one.versus.finding, one.versus.against)).unwrap_or_default();
    Some(format!(
        "From {} to {} a {over} round trip goes from {} to {}{claim}",
        label(first),
        label(last),
        brief(median(first)?),
        brief(median(last)?)
    ))
}

fn tried(document: &Document) -> Option<Section> {
    let summary = steps::summary(document)?;
    let names = |decision: &str| -> Vec<String> {
        document.steps.iter().filter(|step| step.decision == decision).map(|step| step.name.clone()).collect()
    };
    let (kept, of) = (names("kept"), words::counted(document.steps.len(), "step", "steps"));
    let heading = match kept.len() {
        0 => format!("None of {of} helped here"),
        n if n <= NAMED_MAX => format!("{n} of {of} helped here: {}", words::list(&kept)),
        n => format!("{n} of {of} helped here"),
    };
    let mut section = section("steps", "Steps", "Which settings help here?", heading);
    section.text.push(summary);
    Some(section)
}

fn published(document: &Document) -> Option<Section> {
    let sources: Vec<String> = document.published.iter().map(|one| one.source.clone()).collect();
    let heading = format!("Figures of {}, which were not measured here", words::list(&sources));
    (!sources.is_empty()).then(|| section("published", "Others", "What do others publish?", heading))
}

fn numbers(document: &Document) -> Option<Section> {
    let rows = document.results.len();
    let distributions = document.results.iter().filter(|row| row.distribution.n > 0).count();
    let of = samples(document.results.iter().fold(0, |sum: u64, row| sum.saturating_add(row.distribution.n)));
    (rows > 0).then(|| {
        let counted = words::counted(distributions, "distribution", "distributions");
        section("numbers", "Numbers", "All numbers", format!("{}, {of} samples", capital(&counted)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::sample;
    use crate::schema::{Published, Step, Unavailable};

    fn ids(document: &Document) -> Vec<String> {
        of(document).sections.iter().map(|section| section.id.clone()).collect()
    }

    #[test]
    fn a_section_without_data_is_left_out() {
        let whole = ids(&sample::document());
        let expected = ["paths", "modes", "tail", "causes", "sizes", "rates", "ladder", "numbers", "host", "repeat"];
        assert_eq!(whole, expected);
        let mut only = sample::document();
        only.results.retain(|row| row.scenario == "sizes");
        only.unavailable.clear();
        assert_eq!(ids(&only), ["sizes", "numbers", "host", "repeat"]);
        assert_eq!(ids(&Document::default()), ["host"]);
    }

    #[test]
    fn the_heading_of_the_only_section_is_said_once() {
        let mut only = sample::document();
        only.results.retain(|row| row.scenario == "sizes");
        only.unavailable.clear();
        let found = of(&only);
        assert!(found.headline.contains("16"), "{}", found.headline);
        assert_ne!(found.sections[0].heading, found.headline);
        assert!(found.sections[0].question.is_empty());
    }

    #[test]
    fn rungs_that_were_not_possible_are_counted() {
        let mut document = sample::document();
        let heading = |document: &Document| of(document).section("ladder").map(|one| one.heading.clone());
        document.unavailable.clear();
        assert!(!heading(&document).unwrap().contains("not possible"));
        let missing = Unavailable { rung: Some("3 IRQ pinned".into()), ..Unavailable::default() };
        document.unavailable = vec![missing.clone(), missing];
        assert!(heading(&document).unwrap().ends_with("2 steps were not possible here"));
        document.results.clear();
        assert!(of(&document).headline.starts_with("No step could be measured"));
    }

    #[test]
    fn steps_and_figures_of_others_have_sections() {
        let step =
            |name: &str, decision: &str| Step { name: name.into(), decision: decision.into(), ..Step::default() };
        let steps = vec![step("CPU pinned", "kept"), step("busy-read", "dropped")];
        let published = vec![Published { source: "a paper".into(), ..Published::default() }];
        let found = of(&Document { steps, published, ..Document::default() });
        assert_eq!(found.headline, "1 of 2 steps helped here: CPU pinned");
        assert!(found.section("published").unwrap().heading.contains("a paper"));
    }
}

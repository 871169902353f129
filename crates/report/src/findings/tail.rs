//! The sections on modes, on the tail, its causes, and on stages.

use super::Section;
use super::curve::{crossing, curve, name};
use super::headline::{Against, against, main_panel};
use super::panels::{Compared, Panel};
use super::quantity::{brief, part};
use super::sections::section;
use crate::number;
use crate::schema::{Document, Mode, Row, Stage};
use crate::tables::{causes as observed, stages as stamped};
use crate::view::{is_stream, label, sentences, words};
use std::cmp::Ordering;

/// From this share of slices on a mode is that of one CPU, or of two.
const MOSTLY: f64 = 0.9;

pub(super) fn modes(document: &Document) -> Option<Section> {
    let rows: Vec<&Row> = document.results.iter().filter(|row| row.modes.len() > 1).collect();
    // The path with the widest modes is the one to explain.
    let first = rows.iter().copied().max_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(Ordering::Equal))?;
    let name = label(first);
    let heading = match first.modes.as_slice() {
        [low, high] if is(low, true) && is(high, false) => format!(
            "{name} takes {} while both ends share a CPU, {} while they do not",
            brief(low.p50),
            brief(high.p50)
        ),
        modes => {
            let told: Vec<String> =
                modes.iter().map(|mode| format!("{} in {} of its slices", brief(mode.p50), part(mode.share))).collect();
            format!("{name} has {} modes: {}", modes.len(), words::list(&told))
        }
    };
    let question = format!("Why is {name} not one number?");
    let mut section = section("modes", "Modes", question, heading);
    section.text = sentences::modes(document);
    section.text.push("The baseline of a comparison is a path without modes; a percentile of a path with modes says which one was met more often.".into());
    Some(section)
}

/// A latency before a throughput, then the wider one.
fn rank(row: &Row) -> (bool, f64) {
    (!is_stream(row), reach(row))
}

fn reach(row: &Row) -> f64 {
    let of = |mode: Option<&Mode>| mode.map_or(1.0, |mode| mode.p50);
    let reach = of(row.modes.last()) / of(row.modes.first());
    if reach.is_finite() { reach } else { 0.0 }
}

/// Returns whether most slices of a mode had both ends on one CPU, or on two.
fn is(mode: &Mode, one_cpu: bool) -> bool {
    mode.one_cpu.is_some_and(|share| if one_cpu { share >= MOSTLY } else { share <= 1.0 - MOSTLY })
}

pub(super) fn tail(document: &Document, compared: &[Compared<'_>]) -> Option<Section> {
    let main = main_panel(compared, document)?;
    let has_curves =
        compared.iter().flat_map(|one| &one.panels).flat_map(|panel| &panel.rows).any(|row| curve(row).len() > 1);
    let heading = lost_lead(document, main).or_else(|| at_p99(document, main))?;
    has_curves.then(|| {
        let mut section = section("tail", "Tail", "How bad does it get, and how often?", heading);
        section.text.push(
            "Go right to a percentile, up to the curve: that share of the samples took at most so long. Each further nine takes the same \
             room. A curve ends where fewer than 100 samples lie beyond."
                .into(),
        );
        section
    })
}

/// Where the curve of the best path crosses that of its baseline.
pub(super) fn lost_lead(document: &Document, panel: &Panel<'_>) -> Option<String> {
    let best = panel.best()?;
    let claimed = against(document, best, "p50").into_iter().filter(Against::is_claim);
    let other = claimed.into_iter().find_map(|one| panel.row(&one.ratio.against))?;
    let beyond = crossing(&curve(best), &curve(other))?;
    Some(format!(
        "From about {} on the samples of {} lie below those of {}; no interval says whether that repeats",
        name(beyond),
        label(other),
        label(best)
    ))
}

fn at_p99(document: &Document, panel: &Panel<'_>) -> Option<String> {
    let best = panel.best()?;
    let Some(p99) = best.distribution.p99 else {
        let known = [("p90", best.distribution.p90), ("p50", best.distribution.p50)];
        let (name, time) = known.into_iter().find_map(|(name, time)| Some((name, time?)))?;
        return Some(format!("{} is known up to {name}, {}: too few samples for its p99", label(best), brief(time)));
    };
    let all = against(document, best, "p99");
    let beside = all.iter().find_map(|one| Some((one, panel.row(&one.ratio.against)?.distribution.p99?)));
    Some(match beside {
        Some((one, other)) if one.is_claim() => {
            format!(
                "At p99 {} takes {}, {} {}: {}",
                label(best),
                brief(p99),
                one.ratio.against,
                brief(other),
                one.versus.finding
            )
        }
        Some((one, other)) => {
            format!("At p99 {} takes {}, {} {}", label(best), brief(p99), one.ratio.against, brief(other))
        }
        None => format!("At p99 {} takes {}", label(best), brief(p99)),
    })
}

pub(super) fn causes(document: &Document) -> Option<Section> {
    let rows = observed::rows(document);
    let told = rows.iter().filter_map(|(row, causes)| {
        let known = causes.causes.iter().filter(|cause| cause.class != "unknown");
        let top = known.max_by_key(|cause| cause.explains).filter(|cause| cause.explains > 0)?;
        Some((top.explains, causes.slowest, &top.what, label(row)))
    });
    let heading =
        match told.max_by(|a, b| (a.0 as f64 / a.1.max(1) as f64).total_cmp(&(b.0 as f64 / b.1.max(1) as f64))) {
            Some((explains, slowest, what, path)) => format!(
                "{what} explains {} of the {} slowest samples of {path}",
                number::count(explains),
                number::count(slowest)
            ),
            None => "No event of the kernel explains most of any slow sample".into(),
        };
    (!rows.is_empty()).then(|| section("causes", "Causes", "What happened during the slowest samples?", heading))
}

pub(super) fn stages(document: &Document) -> Option<Section> {
    stamped::table(document)?;
    let told = document.results.iter().find_map(|row| {
        let all =
            row.stages.as_deref()?.stages.iter().filter(|stage| stage.distribution.p50.is_some_and(f64::is_finite));
        let (whole, parts): (Vec<&Stage>, Vec<&Stage>) = all.partition(|stage| stage.name.starts_with("whole"));
        let p50 = |stage: &Stage| stage.distribution.p50.unwrap_or_default();
        let longest = parts.into_iter().max_by(|a, b| p50(a).total_cmp(&p50(b)))?;
        let of = whole.first().map(|stage| format!(" of {}", brief(p50(stage)))).unwrap_or_default();
        Some(format!(
            "{}: the longest stage is {}, {}{of} at the median",
            label(row),
            longest.name,
            brief(p50(longest))
        ))
    });
    let heading = told.unwrap_or_else(|| "No stage has a median: too few stamps".into());
    Some(section("stages", "Stages", "Where does the time of a round trip go?", heading))
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::sample;

    fn heading(document: &Document, id: &str) -> Option<String> {
        of(document).section(id).map(|section| section.heading.replace('\u{a0}', " "))
    }

    #[test]
    fn modes_are_explained_by_cpus_only_where_these_are_known() {
        let mut document = sample::document();
        let shared = "kernel-default takes 9.1 µs while both ends share a CPU, 76 µs while they do not";
        assert_eq!(heading(&document, "modes").as_deref(), Some(shared));
        document.results[0].modes.iter_mut().for_each(|mode| mode.one_cpu = None);
        let shares = "kernel-default has 2 modes: 9.1 µs in 38 % of its slices and 76 µs in 62 % of its slices";
        assert_eq!(heading(&document, "modes").as_deref(), Some(shares));
        document.results[0].modes.clear();
        assert_eq!(heading(&document, "modes"), None);
    }

    #[test]
    fn the_tail_says_what_is_known() {
        let mut document = sample::document();
        document.results.retain(|row| row.transport == "tcp" && row.scenario == "rr" && row.rung.is_none());
        let told = heading(&document, "tail").unwrap();
        assert!(told.starts_with("At p99 uring-spin takes"), "{told}");
        document.results.iter_mut().for_each(|row| row.distribution.p99 = None);
        assert!(heading(&document, "tail").unwrap().contains("known up to p90"));
        document.results.iter_mut().for_each(|row| row.distribution.histogram.clear());
        assert_eq!(heading(&document, "tail"), None);
    }

    #[test]
    fn a_lead_that_ends_is_said_first() {
        let mut document = sample::document();
        document.results.retain(|row| {
            matches!(row.path.as_str(), "kernel-pinned" | "uring-spin") && row.scenario == "rr" && row.rung.is_none()
        });
        assert!(!heading(&document, "tail").unwrap().contains("lie below"));
        // The baseline becomes a path that is a little slower, without a tail.
        let mut flat = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).unwrap();
        flat.record_n(5_600, 400_000).unwrap();
        for row in &mut document.results {
            if row.path == "kernel-pinned" {
                row.distribution = crate::schema::Distribution {
                    n: 400_000,
                    p50: Some(5_600.0),
                    p90: Some(5_600.0),
                    p99: Some(5_600.0),
                    p99_9: Some(5_600.0),
                    histogram: crate::histogram::encode(&flat).unwrap(),
                    ..Default::default()
                };
            }
        }
        let told = heading(&document, "tail").unwrap();
        assert!(told.starts_with("From about p9") && told.contains("lie below those of uring-spin"), "{told}");
        let caveats = of(&document).caveats;
        assert!(caveats.iter().any(|one| one.section == Some("tail")), "{caveats:?}");
    }

    #[test]
    fn causes_name_what_explains_most_or_that_nothing_does() {
        let mut document = sample::document();
        assert_eq!(
            heading(&document, "causes").as_deref(),
            Some("local timer explains 201 of the 398 slowest samples of kernel-spin")
        );
        for row in &mut document.results {
            row.causes.iter_mut().flat_map(|causes| &mut causes.causes).for_each(|cause| cause.explains = 0);
        }
        assert!(heading(&document, "causes").unwrap().starts_with("No event of the kernel"));
    }
}

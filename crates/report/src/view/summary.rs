//! The result in words: the same sentences for terminal and HTML.

use super::compare::Standing;
use super::path::{Waiting, is_floor, waiting};
use super::{
    Group, by_circumstance, by_curve, by_transport, compare, fastest, label, latency_sections, loss, open_loop, rates,
    streams as view_streams, sweep, words,
};
use crate::number;
use crate::schema::{Document, Mode, Ratio, Row};
use crate::tables::steps;
use crate::tables::streams::fastest as fastest_stream;

/// The summary of a run.
pub(crate) struct Summary {
    /// The subject of the measurement.
    pub(crate) measured: String,
    /// The findings, most important first.
    pub(crate) found: Vec<String>,
    /// Warnings.
    pub(crate) careful: Vec<String>,
}

/// The summary of `document`.
pub(crate) fn summary(document: &Document) -> Summary {
    // With steps, the fastest arm is not a result.
    let mut found: Vec<String> = steps::summary(document).into_iter().collect();
    for section in latency_sections(document).iter().filter(|_| document.steps.is_empty()) {
        for group in by_circumstance(&section.rows) {
            let heading = if section.ladder { format!("Ladder, {}", group.heading) } else { group.heading };
            found.extend(fastest_of(document, &heading, &group.rows));
        }
    }
    found.extend(streams(document));
    found.extend(sizes(document));
    found.extend(open_loop::sentences(document));
    found.extend(rates::sentences(document));
    found.extend(noise_floors(document));
    Summary { measured: measured(document), found, careful: careful(document) }
}

fn measured(document: &Document) -> String {
    let mut parts = Vec::new();
    for section in latency_sections(document) {
        let rows = words::counted(section.rows.len(), "distribution", "distributions");
        let what = if section.ladder { "the ladder of set-ups".into() } else { words::scenario(section.scenario) };
        parts.push(format!("{} ({rows})", lower_first(&what)));
    }
    let streams = view_streams(document).len();
    if streams > 0 {
        parts.push(format!("{} ({})", lower_first(words::STREAMS), words::counted(streams, "row", "rows")));
    }
    for scenario in ["sizes", "open-loop", "rates"] {
        let curves = by_curve(&sweep(document, scenario)).len();
        if curves > 0 {
            let curves = words::counted(curves, "curve", "curves");
            parts.push(format!("{} ({curves})", lower_first(&words::scenario(scenario))));
        }
    }
    if parts.is_empty() {
        return "Nothing was measured.".into();
    }
    let between = match document.setup.place.as_str() {
        "" => String::new(),
        place => format!(", over {}", words::place(place)),
    };
    format!("Measured: {}{between}.", words::list(&parts))
}

fn lower_first(text: &str) -> String {
    let keep = text.chars().nth(1).is_some_and(char::is_uppercase);
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !keep => first.to_lowercase().chain(chars).collect(),
        _ => text.into(),
    }
}

fn fastest_of(document: &Document, heading: &str, rows: &[&Row]) -> Option<String> {
    let row = fastest(rows)?;
    let p50 = number::time(row.distribution.p50?);
    if is_floor(&row.path) {
        return Some(format!(
            "The physical limit of this machine, one cache line bounced between two cores and back: p50 {p50}."
        ));
    }
    let p99 = row.distribution.p99.map(|p99| format!(", p99 {}", number::time(p99))).unwrap_or_default();
    let ratios = compare::against_all(document, row, "p50");
    let tail: String = ratios.into_iter().map(|ratio| format!("; {}", against(document, ratio))).collect();
    let lowest = if rows.len() == 1 { "" } else { lowest(document, row, rows) };
    let unknown: Vec<String> =
        rows.iter().filter(|row| row.distribution.p50.is_none()).map(|row| label(row).to_owned()).collect();
    let unknown = if unknown.is_empty() { String::new() } else { format!("; no p50: {}", words::list(&unknown)) };
    Some(format!("{heading}: {lowest}{}, p50 {p50}{p99}{tail}{unknown}.", label(row)))
}

/// What the row of the lowest median is: the fastest only if no other path is as fast, as far as the ratios tell.
fn lowest(document: &Document, row: &Row, rows: &[&Row]) -> &'static str {
    let next = fastest(&rows.iter().copied().filter(|other| !std::ptr::eq(*other, row)).collect::<Vec<_>>());
    let between = |other: &Row| {
        let mut ratios = compare::against_all(document, row, "p50").into_iter();
        ratios.find(|ratio| ratio.against == label(other))
    };
    let is_apart = |ratio: &Ratio| {
        compare::unsteady(document, ratio).is_none() && compare::judge(document, ratio) == Standing::Below
    };
    let is_fastest = next.is_none_or(|next| between(next).is_some_and(is_apart));
    if is_fastest { "fastest is " } else { "lowest median is that of " }
}

/// A ratio in the sentence of its row.
fn against(document: &Document, ratio: &Ratio) -> String {
    if let Some(reason) = compare::unsteady(document, ratio) {
        return format!("no ratio to {} is given here, as {reason}", ratio.against);
    }
    match compare::judge(document, ratio) {
        Standing::Below => {
            let (times, interval) = (number::times(1.0 / ratio.value), compare::times_interval(ratio));
            format!("{times} times below {} (95 % interval {interval})", ratio.against)
        }
        _ => format!("against {}: {}", ratio.against, compare::reading(document, ratio)),
    }
}

/// What modes mean for a percentile.
pub(crate) const MODES: &str = " A percentile of it says which mode was met more often.";

/// One sentence for each row whose slices have modes.
pub(crate) fn modes(document: &Document) -> Vec<String> {
    let sentence = |row: &Row| {
        let shares = number::parts(row.modes.iter().map(|mode| mode.share));
        let mode = |(mode, share): (&Mode, &String)| {
            let cpu =
                mode.one_cpu.map(|share| format!(", both ends on one CPU in {} % of those", number::percent(share)));
            format!("{} in {share} % of its slices{}", number::time(mode.p50), cpu.unwrap_or_default())
        };
        let modes: Vec<String> = row.modes.iter().zip(&shares).map(mode).collect();
        format!(
            "{} over {}, {}{}{}{}, has {} modes: {}.{MODES}",
            label(row),
            words::transport(&row.transport),
            number::bytes(row.size),
            words::direction(&row.scenario),
            words::pace(row.rate_offered),
            words::sessions(row.sessions),
            row.modes.len(),
            modes.join("; "),
        )
    };
    document.results.iter().filter(|row| !row.modes.is_empty()).map(sentence).collect()
}

/// One sentence per size: what streams fastest there, and next to it.
pub(crate) fn streams(document: &Document) -> Vec<String> {
    let sentence = |group: &Group<'_>| {
        // A loop that does nothing is a floor, and no contestant.
        let rows: Vec<&Row> = group.rows.iter().copied().filter(|row| !row.path.ends_with("-nothing")).collect();
        let best = fastest_stream(&rows)?;
        let others: Vec<&Row> = rows.iter().copied().filter(|row| row.path != best.path).collect();
        let say = |row: &Row| Some(format!("{} with {} messages/s", label(row), number::rate(row.rate_achieved?)));
        let next = fastest_stream(&others).and_then(say).map(|next| format!(", then {next}")).unwrap_or_default();
        Some(format!("{}: most is {}{next}.", group.heading, say(best)?))
    };
    by_circumstance(&view_streams(document)).iter().filter_map(sentence).collect()
}

/// One sentence per transport: each curve from the smallest message to the largest.
pub(crate) fn sizes(document: &Document) -> Vec<String> {
    let sentence = |group: &Group<'_>| {
        let curves: Vec<_> = by_curve(&group.rows).iter().filter_map(|curve| growth(&curve.rows)).collect();
        let heading = &group.heading;
        (!curves.is_empty()).then(|| format!("{heading}, median by message size: {}.", curves.join("; ")))
    };
    by_transport(&sweep(document, "sizes")).iter().filter_map(sentence).collect()
}

/// From the smallest message to the largest.
fn growth(rows: &[&Row]) -> Option<String> {
    let small = rows.iter().min_by_key(|row| row.size)?;
    let large = rows.iter().max_by_key(|row| row.size)?;
    let (low, high) = (number::time(small.distribution.p50?), number::time(large.distribution.p50?));
    let (small_size, large_size) = (number::bytes(small.size), number::bytes(large.size));
    Some(format!("{} {low} at {small_size}, {high} at {large_size}", label(small)))
}

/// Returns the noise floor of the controls: one sentence per scenario.
fn noise_floors(document: &Document) -> Vec<String> {
    let mut scenarios: Vec<&str> = Vec::new();
    let mut sentences = Vec::new();
    for ratio in &document.ratios {
        let scenario = ratio.scenario.as_str();
        if !scenarios.contains(&scenario) {
            scenarios.push(scenario);
            sentences.extend(noise_floor(document, scenario));
        }
    }
    sentences
}

fn noise_floor(document: &Document, scenario: &str) -> Option<String> {
    let of_paths = document.ratios.iter().filter(|ratio| ratio.scenario == scenario && !is_floor(&ratio.of));
    let controls = compare::controls(of_paths.filter(|ratio| ratio.stat == "p50"));
    let (typical, widest) = (controls.get(controls.len() / 2)?, controls.last()?);
    let differs = |ratio: &Ratio| number::difference(compare::noise_floor(ratio));
    let transport = match words::transport(&widest.transport) {
        "" => String::new(),
        transport => format!(" over {transport}"),
    };
    let rest = match controls.len() {
        1 => String::new(),
        n => format!(", the median of {n}, and {}{transport} by {}, the widest", widest.of, differs(widest)),
    };
    Some(format!(
        "Noise floor, {}: a path against itself differs in p50 by {}{rest}. A difference that is smaller than its path's own means nothing.",
        lower_first(&words::scenario(scenario)),
        differs(typical),
    ))
}

fn careful(document: &Document) -> Vec<String> {
    let mut careful = Vec::new();
    if document.interrupted {
        careful.push("The run was interrupted: the rows hold the measurements until then.".into());
    }
    careful.extend(too_noisy(document));
    careful.extend(modes(document));
    careful.extend(virtual_machine(document));
    careful.extend(loss::sentence(document));
    careful.extend(rows_where(document, "had not settled when counting began", |row| {
        row.warmup.messages > 0 && !row.warmup.steady
    }));
    let during = &document.host.noise.during;
    if during.steal_ms > 0.0 {
        let ms = number::up(during.steal_ms, 0);
        careful.push(format!("The hypervisor stole {ms} ms of the measured CPUs during the run."));
    }
    if let Some(reason) = &document.host.clock_reason {
        careful.push(format!("The clock is {}, not the TSC: {reason}.", document.host.clock));
    }
    if !document.unavailable.is_empty() {
        let n = words::counted(document.unavailable.len(), "thing asked for was", "things asked for were");
        careful.push(format!("{n} not measured here; the reasons are listed."));
    }
    careful
}

/// Warns where the typical path is not even within twice of itself.
pub(crate) fn too_noisy(document: &Document) -> Option<String> {
    let noise = compare::typical_noise(document).filter(|noise| *noise > 1.0)?;
    Some(format!(
        "This run can compare nothing: in the middle, a path differs from itself by {}. Measure longer (--duration) or on a quieter machine.",
        number::difference(noise)
    ))
}

/// Explains the advantage of spinning on a virtual machine.
pub(crate) fn virtual_machine(document: &Document) -> Option<String> {
    let hypervisor = document.host.virtualised.as_ref()?;
    let waiting = |path: &str| waiting(document, path);
    let apart = |of: &str, against: &str| waiting(of) == Waiting::Spins && waiting(against) == Waiting::Blocks;
    let compared = document.ratios.iter().any(|r| apart(&r.of, &r.against) || apart(&r.against, &r.of));
    let sections = latency_sections(document);
    let groups: Vec<_> = sections.iter().flat_map(|section| by_circumstance(&section.rows)).collect();
    let beside = groups.iter().any(|group| {
        let has = |kind| group.rows.iter().any(|row| waiting(&row.path) == kind);
        has(Waiting::Spins) && has(Waiting::Blocks)
    });
    (compared || beside).then(|| {
        format!(
            "This host is a virtual machine ({hypervisor}). A path that blocks leaves its vCPU idle, an idle vCPU is \
             given back to the hypervisor, and waking it again is expensive; a path that spins never goes idle. That is why \
             the gap between them is so wide here. On bare metal it is smaller."
        )
    })
}

/// One sentence for all rows that `are` so.
pub(crate) fn rows_where(document: &Document, what: &str, are: impl Fn(&Row) -> bool) -> Option<String> {
    const NAMED_MAX: usize = 4;
    let mut names: Vec<String> = Vec::new();
    for row in document.results.iter().filter(|row| are(row)) {
        let name = format!("{} over {}", label(row), words::transport(&row.transport));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    if more > 0 {
        names.push(words::counted(more, "other", "others"));
    }
    (!names.is_empty()).then(|| format!("{} {what}.", words::list(&names)))
}

//! Sentences about rows, for the findings.

use super::path::{Waiting, waiting};
use super::{
    Group, by_circumstance, by_curve, by_transport, compare, label, latency_sections, streams as view_streams, sweep,
    words,
};
use crate::number;
use crate::schema::{Document, Mode, Row};
use crate::tables::streams::fastest as fastest_stream;

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
            "{} over {}, {}{}{}{}, has {} modes: {}.",
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

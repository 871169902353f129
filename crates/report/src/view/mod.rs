//! The document arranged for a reader; shared by the exporters.

pub(crate) mod compare;
pub(crate) mod facts;
pub(crate) mod loss;
pub(crate) mod open_loop;
pub(crate) mod path;
pub(crate) mod rates;
pub(crate) mod sentences;
pub(crate) mod words;

use crate::number;
use crate::schema::{Document, Row};

/// A part of the report whose rows are whole distributions: the round trips, the ladder, later the rings and FIX.
pub(crate) struct LatencySection<'a> {
    /// Its heading.
    pub(crate) title: String,
    /// Its scenario.
    pub(crate) scenario: &'a str,
    /// True when the rows are rungs of the ladder.
    pub(crate) ladder: bool,
    /// Its rows, in the order of the document.
    pub(crate) rows: Vec<&'a Row>,
}

/// Rows that may be compared with each other.
pub(crate) struct Group<'a> {
    /// Their common properties ("TCP, 64 B, round trip").
    pub(crate) heading: String,
    /// The rows; never empty.
    pub(crate) rows: Vec<&'a Row>,
}

/// The sections of distributions: one per scenario, the ladder apart.
pub(crate) fn latency_sections(document: &Document) -> Vec<LatencySection<'_>> {
    let mut sections: Vec<LatencySection<'_>> = Vec::new();
    for row in document.results.iter().filter(|row| !is_sweep(&row.scenario) && !is_stream(row)) {
        let ladder = row.rung.is_some();
        match sections.iter_mut().find(|section| section.scenario == row.scenario && section.ladder == ladder) {
            Some(section) => section.rows.push(row),
            None => sections.push(LatencySection {
                title: section_title(&row.scenario, ladder),
                scenario: &row.scenario,
                ladder,
                rows: vec![row],
            }),
        }
    }
    sections
}

/// The rows of a sweep (`sizes` or `rates`).
pub(crate) fn sweep<'a>(document: &'a Document, scenario: &str) -> Vec<&'a Row> {
    document.results.iter().filter(|row| row.scenario == scenario).collect()
}

/// Returns the throughput rows.
pub(crate) fn streams(document: &Document) -> Vec<&Row> {
    document.results.iter().filter(|row| is_stream(row)).collect()
}

/// Returns whether a row is a throughput: time per message at full speed, whose percentiles are not latencies.
pub(crate) fn is_stream(row: &Row) -> bool {
    row.measure == "per_message"
}

/// Sweeps have tables and curves of their own.
fn is_sweep(scenario: &str) -> bool {
    scenario == "sizes" || is_sweep_by_rate(scenario)
}

/// Sweeps over message rates, whose tables have their losses.
fn is_sweep_by_rate(scenario: &str) -> bool {
    matches!(scenario, "rates" | "open-loop")
}

fn section_title(scenario: &str, ladder: bool) -> String {
    if ladder { "The ladder of set-ups".into() } else { words::scenario(scenario) }
}

/// Rows of one transport, size, measure, pace and number of sessions together, in the order of their first appearance.
pub(crate) fn by_circumstance<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    group(rows, |row| {
        let transport = words::transport(&row.transport);
        let (pace, sessions) = (words::pace(row.rate_offered), words::sessions(row.sessions));
        let (measure, direction) = (words::measure(&row.measure), words::direction(&row.scenario));
        format!("{transport}, {}, {measure}{direction}{pace}{sessions}", number::bytes(row.size))
    })
}

/// Rows of one transport together.
pub(crate) fn by_transport<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    group(rows, |row| format!("{}, {}", words::transport(&row.transport), words::measure(&row.measure)))
}

/// Rows of one transport and path together: the points of one curve.
pub(crate) fn by_curve<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    group(rows, |row| format!("{} over {}", label(row), words::transport(&row.transport)))
}

/// Rows of one transport, path and size together: the points of one curve of load.
pub(crate) fn by_load_curve<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    group(rows, |row| format!("{} over {}, {}", label(row), words::transport(&row.transport), number::bytes(row.size)))
}

/// Rows of one transport and size together: the curves of one chart of load.
pub(crate) fn by_load_chart<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    group(rows, |row| format!("{}, {}", words::transport(&row.transport), number::bytes(row.size)))
}

fn group<'a>(rows: &[&'a Row], heading: impl Fn(&Row) -> String) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for row in rows {
        let heading = heading(row);
        match groups.iter_mut().find(|group| group.heading == heading) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { heading, rows: vec![row] }),
        }
    }
    groups
}

/// Returns the name of a row among its neighbours.
pub(crate) fn label(row: &Row) -> &str {
    row.rung.as_deref().unwrap_or(&row.path)
}

/// Returns the row with the lowest median; a floor only if there is no path.
pub(crate) fn fastest<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let median = |row: &Row| row.distribution.p50.filter(|p50| p50.is_finite());
    let only_floors = rows.iter().all(|row| path::is_floor(&row.path));
    let ranked = rows.iter().copied().filter(|row| only_floors || !path::is_floor(&row.path));
    let measured = ranked.filter(|row| median(row).is_some());
    measured.min_by(|a, b| median(a).partial_cmp(&median(b)).unwrap_or(std::cmp::Ordering::Equal))
}

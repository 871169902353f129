//! Rows that may be compared, arranged as the panels of a picture.

use super::family::{is_limit, is_local};
use super::quantity::{bytes, pace};
use crate::schema::{Document, Row};
use crate::view::path::is_floor;
use crate::view::{LatencySection, compare, label, latency_sections, words};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Rows that share an axis and may be compared with each other.
#[derive(Clone, Debug)]
pub struct Panel<'a> {
    /// What they share: `TCP, 64 B`.
    pub title: String,
    /// The transport in a sentence: `over TCP`, `on one host`; empty where the title says all.
    pub over: String,
    /// The measure: `round trip`.
    pub measure: &'a str,
    /// The rows, the lowest median first, those without a median last.
    pub rows: Vec<&'a Row>,
    /// The paths that others are compared with, in the order of the document.
    pub baselines: Vec<&'a str>,
}

/// The panels of one scenario.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// The scenario.
    pub scenario: &'a str,
    /// Its panels.
    pub panels: Vec<Panel<'a>>,
}

impl<'a> Panel<'a> {
    /// The row of the lowest median, limits aside; a limit only where there is nothing else.
    pub fn best(&self) -> Option<&'a Row> {
        let only_limits = self.rows.iter().all(|row| is_limit(&row.path));
        let ranked = self.rows.iter().find(|row| (only_limits || !is_limit(&row.path)) && median(row).is_some());
        ranked.copied()
    }

    /// The row of the next median after the best, limits aside.
    pub fn next(&self) -> Option<&'a Row> {
        self.rows.iter().filter(|row| !is_limit(&row.path) && median(row).is_some()).nth(1).copied()
    }

    /// The row of a path.
    pub fn row(&self, name: &str) -> Option<&'a Row> {
        self.rows.iter().find(|row| label(row) == name).copied()
    }
}

/// A median that can be ranked.
pub fn median(row: &Row) -> Option<f64> {
    row.distribution.p50.filter(|p50| p50.is_finite() && *p50 >= 0.0)
}

/// The panels of each scenario whose rows are distributions; ladders apart.
pub fn compared(document: &Document) -> Vec<Compared<'_>> {
    let sections = latency_sections(document).into_iter().filter(|section| !section.ladder);
    sections.map(|section| Compared { scenario: section.scenario, panels: panels(document, &section) }).collect()
}

/// The ladders: one panel for each transport and size, the rungs in their order.
pub fn ladders(document: &Document) -> Vec<Panel<'_>> {
    let sections = latency_sections(document).into_iter().filter(|section| section.ladder);
    sections.flat_map(|section| arranged(document, &section.rows, title_of_row)).collect()
}

fn panels<'a>(document: &'a Document, section: &LatencySection<'a>) -> Vec<Panel<'a>> {
    let (floors, rows): (Vec<&Row>, Vec<&Row>) = section.rows.iter().partition(|row| is_floor(&row.path));
    let title = |row: &Row| match section.scenario {
        "rr" if is_local(&row.transport) => titled("One host", "on one host", row),
        "fix" => {
            let measure = words::measure(&row.measure);
            (format!("{measure}, {}{}", bytes(row.size), words::sessions(row.sessions)), String::new())
        }
        _ => title_of_row(row),
    };
    let mut panels = arranged(document, &rows, title);
    for row in floors {
        let mut local = panels.iter_mut().filter(|panel| is_local(&panel.rows[0].transport));
        let same = |panel: &&mut Panel<'_>| {
            let first = panel.rows[0];
            (first.size, first.rate_offered, &first.measure) == (row.size, row.rate_offered, &row.measure)
        };
        // The floor of round trips has a size of its own: it belongs to the first panel of its host.
        match if section.scenario == "rr" { local.next() } else { local.find(same) } {
            Some(panel) => panel.rows.push(row),
            None => panels.extend(arranged(document, &[row], title)),
        }
    }
    for panel in &mut panels {
        panel.rows.sort_by(|a, b| by_median(a, b));
        panel.baselines = baselines(document, &panel.rows);
    }
    // What goes over a network first.
    panels.sort_by_key(|panel| is_local(&panel.rows[0].transport));
    panels
}

fn by_median(a: &Row, b: &Row) -> Ordering {
    let key = |row: &Row| median(row).unwrap_or(f64::INFINITY);
    key(a).total_cmp(&key(b))
}

fn title_of_row(row: &Row) -> (String, String) {
    let transport = words::transport(&row.transport);
    titled(transport, &format!("over {transport}"), row)
}

fn titled(transport: &str, over: &str, row: &Row) -> (String, String) {
    let (size, pace) = (bytes(row.size), pace(row.rate_offered));
    (
        format!("{transport}, {size}{pace}{}{}", words::direction(&row.scenario), words::sessions(row.sessions)),
        over.into(),
    )
}

/// Rows with the same title and measure together, in the order of their first appearance.
fn arranged<'a>(document: &'a Document, rows: &[&'a Row], title: impl Fn(&Row) -> (String, String)) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel<'a>> = Vec::new();
    let mut places: HashMap<(String, &str), usize> = HashMap::new();
    for row in rows {
        let ((title, over), measure) = (title(row), words::measure(&row.measure));
        let place = *places.entry((title.clone(), measure)).or_insert(panels.len());
        match panels.get_mut(place) {
            Some(panel) => panel.rows.push(row),
            None => panels.push(Panel { title, over, measure, rows: vec![row], baselines: Vec::new() }),
        }
    }
    for panel in &mut panels {
        panel.baselines = baselines(document, &panel.rows);
    }
    panels
}

fn baselines<'a>(document: &'a Document, rows: &[&Row]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        for ratio in compare::against_all(document, row, compare::shown_of(row)) {
            if !names.contains(&ratio.against.as_str()) {
                names.push(&ratio.against);
            }
        }
    }
    // In the order of the document: its first baseline is that of most rows.
    let place = |name: &&str| document.ratios.iter().position(|ratio| ratio.against == *name && ratio.of != *name);
    names.sort_by_key(place);
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn compared_things_share_a_panel() {
        let document = sample::document();
        let compared = compared(&document);
        let titles: Vec<_> = compared[0].panels.iter().map(|panel| panel.title.replace('\u{a0}', " ")).collect();
        assert_eq!(titles, ["TCP, 64 B", "One host, 64 B"]);
        let local = &compared[0].panels[1];
        assert!(local.row("floor").is_some() && local.row("uds").is_some());
        assert_eq!((local.rows[0].path.as_str(), local.best().unwrap().path.as_str()), ("floor", "shm"));
        assert_eq!(ladders(&document)[0].rows.len(), 3);
    }

    #[test]
    fn a_row_without_a_median_is_last_and_never_the_best() {
        let mut document = sample::document();
        document.results.retain(|row| row.scenario == "rr" && row.rung.is_none());
        for row in &mut document.results {
            if row.path == "shm" {
                row.distribution.p50 = None;
            }
        }
        let compared = compared(&document);
        let local = &compared[0].panels[1];
        assert_eq!(local.rows.last().unwrap().path, "shm");
        assert_eq!(local.best().unwrap().path, "uds-spin");
    }
}

//! The sections on stages, and on the tail and its causes.

use super::element::{figure, legend_of, section, table};
use crate::schema::Document;
use crate::svg::causes::{CLASSES, timeline, worst};
use crate::svg::palette::Palette;
use crate::tables::{causes, stages};

const TIMELINE: &str =
    "Each dot is one of the slowest samples; its colour is the kind of the cause that explains at least half of it.";

const WORST: &str = "Each strip is one sample from its beginning to its end, scaled to its own length, with what the host did on the CPUs \
                     of its ends; rings have no known duration.";

/// The section on stages; empty if nothing was stamped.
pub(super) fn stages(document: &Document, palette: &Palette) -> String {
    let found = stages::table(document).map(|found| section("stages", stages::TITLE, &table(&found, palette)));
    found.unwrap_or_default()
}

/// The section on causes; empty if nothing was observed.
pub(super) fn tail(document: &Document, palette: &Palette) -> String {
    let Some(found) = causes::table(document, usize::MAX) else { return String::new() };
    let mut body = table(&found, palette);
    let kinds = legend_of(CLASSES.map(|(name, class)| (class.to_owned(), name)));
    for (row, causes) in causes::rows(document) {
        let heading = causes::heading(row);
        body += &figure(&format!("Slowest samples, {heading}"), TIMELINE, &kinds, |shape| timeline(causes, shape));
        body += &figure(&format!("The worst of them, {heading}"), WORST, &kinds, |shape| worst(causes, shape));
    }
    section("causes", causes::TITLE, &body)
}

//! The first ten lines or so: what was found, the key figures, what weakens them, and where to read on.

use super::layout::Page;
use crate::findings::{self, Caveat, Findings, Section, Tile, tiles};
use crate::schema::Document;
use crate::tables::brief;
use crate::view::words::{counted, list};

/// Sentences of sections where there are no figures to tell.
const SENTENCES_MAX: usize = 6;
/// Sections that every result has, and that hold no finding.
const FRAME: [&str; 3] = ["numbers", "host", "repeat"];
/// Sections whose finding the figures tell.
const FIGURES: [&str; 2] = ["paths", "tail"];

/// Appends what was found.
pub(super) fn found(document: &Document, page: &mut Page) {
    let found = findings::of(document);
    page.title(&found.headline);
    page.dim(&found.meta.join(" · "));
    let table = brief::table(document);
    let is_noise = |one: &&Tile| one.name == tiles::NOISE;
    if let Some(table) = &table {
        page.table(table);
    }
    if table.is_none() && found.tiles.iter().all(|one| is_noise(&one)) {
        sections(&found).flat_map(|section| &section.text).take(SENTENCES_MAX).for_each(|sentence| page.item(sentence));
    } else {
        found.tiles.iter().filter(|one| table.is_none() || is_noise(one)).for_each(|one| tile(one, page));
        let others = sections(&found).filter(|one| !FIGURES.contains(&one.id.as_str()) && !one.question.is_empty());
        others.for_each(|section| page.item(&section.heading));
    }
    caveats(&found.caveats, page);
}

fn tile(tile: &Tile, page: &mut Page) {
    page.item(&format!("{}: {}, {}", tile.name, tile.value, tile.detail));
}

/// The sections with findings; the finding of one without a question is the headline.
fn sections(found: &Findings) -> impl Iterator<Item = &Section> {
    found.sections.iter().filter(|section| !FRAME.contains(&section.id.as_str()))
}

/// The worst caveat in full, the names of the others.
fn caveats(caveats: &[Caveat], page: &mut Page) {
    let Some((worst, others)) = caveats.split_first() else { return };
    page.careful(&format!("{} {}", worst.name, worst.text));
    if !others.is_empty() {
        let names: Vec<_> = others.iter().map(|one| one.name.trim_end_matches('.').to_lowercase()).collect();
        page.careful(&format!("Also: {}.", list(&names)));
    }
}

/// Appends the findings whole: of every section, and every caveat.
pub(super) fn whole(document: &Document, page: &mut Page) {
    let found = findings::of(document);
    page.title(&found.headline);
    page.dim(&found.meta.join(" · "));
    found.lead.iter().for_each(|sentence| page.line(sentence));
    found.tiles.iter().for_each(|one| tile(one, page));
    for section in sections(&found) {
        page.item(&section.heading);
        section.text.iter().for_each(|sentence| page.line(sentence));
    }
    found.caveats.iter().for_each(|one| page.careful(&format!("{} {}", one.name, one.text)));
}

/// Appends what these lines leave out, and how to see it.
pub(super) fn rest(document: &Document, page: &mut Page) {
    let rows = counted(document.results.len(), "distribution", "distributions");
    let missing = match document.unavailable.len() {
        0 => String::new(),
        n => format!(", and why {} not measured", counted(n, "thing was", "things were")),
    };
    page.dim(&format!("--verbose shows {rows} in tables{missing}; --html FILE draws them."));
}

//! The findings of a run: what a report says, in plain text, before any layout.
//!
//! [`of`] reads a [`Document`] and returns sentences. Every word is derived by a rule from a figure of the document; a reader can check each
//! claim in the result file. Text is plain: the reports escape it, and cut what is no printable character.
//!
//! ```text
//! Findings
//!   meta        when, where, on what                      one line
//!   headline    the main finding                          h1; first line of a summary
//!   lead        what belongs beside it                    one paragraph
//!   tiles       figures with their meaning, at most 4
//!   caveats     what weakens the claim, worst first       the first four stand beside it
//!   sections    question and finding of each part         headings
//! ```
//!
//! The parts that a report may use for its own pictures: [`panels`] (what may be compared), [`versus`] (one path against another, in words),
//! [`family`], [`curve`] and [`quantity`] (numbers).

pub mod caveats;
pub mod curve;
pub mod family;
pub mod headline;
pub mod load;
pub mod panels;
pub mod quantity;
pub mod sections;
pub mod tiles;
pub mod versus;

mod tail;

use crate::number;
use crate::schema::Document;

/// What a report says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// A title for a window or a file: `vm: TCP 4.9 µs past the kernel · sidestep 2026-11-22`.
    pub title: String,
    /// When, where and on what it was measured.
    pub meta: Vec<String>,
    /// The main finding, a sentence without a full stop.
    pub headline: String,
    /// What belongs beside it: whole sentences.
    pub lead: Vec<String>,
    /// Key figures, at most [`tiles::TILES_MAX`].
    pub tiles: Vec<Tile>,
    /// What weakens the claim, worst first.
    pub caveats: Vec<Caveat>,
    /// The sections that have data, in the order of a report.
    pub sections: Vec<Section>,
}

/// A key figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tile {
    /// What it is: `TCP past the kernel`.
    pub name: String,
    /// The figure: `4.9 µs`.
    pub value: String,
    /// What to know of it: `xdp; 2.0× faster than kernel-pinned (1.9–2.2×)`.
    pub detail: String,
}

/// Something that weakens a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caveat {
    /// A few words: `Not a network card.`
    pub name: String,
    /// Whole sentences.
    pub text: String,
    /// The section that shows it, if there is one.
    pub section: Option<&'static str>,
}

/// One part of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its name in links.
    pub id: String,
    /// Its name in a list of contents.
    pub short: &'static str,
    /// The question that it answers.
    pub question: String,
    /// What was found: its heading, a sentence without a full stop. Never empty.
    pub heading: String,
    /// Sentences for below the picture.
    pub text: Vec<String>,
}

impl Findings {
    /// The section with this name, if it has data.
    pub fn section(&self, id: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.id == id)
    }

    /// All sentences.
    fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let caveats = self.caveats.iter_mut().map(|caveat| &mut caveat.text);
        let sections = self.sections.iter_mut().flat_map(|one| [&mut one.heading].into_iter().chain(&mut one.text));
        [&mut self.headline].into_iter().chain(&mut self.lead).chain(caveats).chain(sections)
    }
}

/// The findings of `document`.
pub fn of(document: &Document) -> Findings {
    let mut sections = sections::all(document);
    let headline = headline::headline(document, &sections);
    for section in &mut sections {
        // A finding is said once.
        if section.heading == headline {
            section.heading.clone_from(&section.question);
            section.question = String::new();
        }
    }
    let mut found = Findings {
        title: headline::title(document),
        meta: headline::meta(document),
        lead: headline::lead(document),
        tiles: tiles::tiles(document),
        caveats: caveats::caveats(document, &sections),
        headline,
        sections,
    };
    found.texts_mut().for_each(|text| *text = text.replace(number::MISSING, quantity::ABSENT));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::collections::HashSet;

    #[test]
    fn any_document_has_findings() {
        for document in sample::odd_documents() {
            let found = of(&document);
            assert!(!found.headline.is_empty() && !found.title.is_empty());
            assert!(found.tiles.len() <= tiles::TILES_MAX);
            assert!(found.sections.iter().all(|section| !section.heading.is_empty()));
            let mut names = HashSet::new();
            assert!(found.sections.iter().all(|section| names.insert(section.id.clone())));
            let texts = [&found.headline, &found.title].into_iter().chain(&found.lead);
            let texts = texts
                .chain(found.caveats.iter().map(|one| &one.text))
                .chain(found.sections.iter().flat_map(|one| &one.text));
            for text in texts.chain(found.sections.iter().map(|one| &one.heading)) {
                assert!(!text.contains("NaN") && !text.contains("n/a"), "{text}");
            }
        }
    }

    #[test]
    fn nothing_measured_is_said_so() {
        let found = of(&Document::default());
        assert_eq!(found.headline, "Nothing was measured");
        assert!(found.lead.is_empty() && found.tiles.is_empty() && found.sections.iter().all(|one| one.id == "host"));
    }

    #[test]
    fn caveats_name_sections_that_are_there() {
        for document in sample::odd_documents().iter().chain([&sample::document()]) {
            let found = of(document);
            for caveat in &found.caveats {
                assert!(caveat.section.is_none_or(|id| found.section(id).is_some()), "{caveat:?}");
            }
        }
    }
}

//! One colour and one dash per path, the same in every chart of a page.

use crate::schema::Document;
use crate::view;

/// Colours that people with any colour vision can tell apart (after Okabe and Ito).
const COLOURS: usize = 8;

/// Solid, dashed, dotted, dash-dotted.
const DASHES: usize = 4;

/// The paths that are drawn in the colour of a limit; each other path has its own colour.
const FLOOR: &str = "floor";

/// The order in which paths were met.
pub(crate) struct Palette(Vec<String>);

impl Palette {
    /// The palette of `document`: its paths in their own order, then the rungs.
    pub(crate) fn new(document: &Document) -> Self {
        let mut names: Vec<String> = Vec::new();
        let listed = document.paths.iter().map(|path| path.name.as_str());
        for name in listed.chain(document.results.iter().map(view::label)) {
            let measured = document.results.iter().any(|row| view::label(row) == name);
            if measured && name != FLOOR && !names.iter().any(|known| known == name) {
                names.push(name.into());
            }
        }
        Self(names)
    }

    /// The classes of a path: a colour that repeats after eight, with another dash.
    pub(crate) fn class(&self, name: &str) -> String {
        match self.0.iter().position(|known| known == name) {
            Some(i) => format!("c{} d{}", i % COLOURS, (i + i / COLOURS) % DASHES),
            None => "c-floor d2".into(),
        }
    }
}

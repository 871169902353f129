//! The top of the page: links, the verdict, key figures and what weakens them.

use super::element::{heading, prose};
use crate::findings::caveats::SHOWN;
use crate::findings::{Caveat, Findings, Tile};
use crate::markup::escape;

/// The links to the sections.
pub(super) fn bar(found: &Findings) -> String {
    let link = |(id, name): (&str, &str)| format!("<a href=\"#{id}\">{}</a>", escape(name));
    let sections = found.sections.iter().map(|section| (section.id.as_str(), section.short));
    let links: String = [("verdict", "Verdict")].into_iter().chain(sections).map(link).collect();
    format!(
        "<a class=\"skip\" href=\"#verdict\">Skip to the findings</a>\n<nav aria-label=\"Sections\"><div>\
         <b>sidestep</b>{links}</div></nav>\n"
    )
}

/// The verdict.
pub(super) fn verdict(found: &Findings) -> String {
    let meta = prose(&found.meta.join(" · "));
    let headline = heading(&found.headline);
    let lead = found.lead.join(" ");
    let lead = if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{}</p>\n", prose(&lead)) };
    let tiles: String = found.tiles.iter().map(tile).collect();
    let tiles = if tiles.is_empty() { tiles } else { format!("<dl class=\"tiles\">\n{tiles}</dl>\n") };
    format!(
        "<div id=\"verdict\" class=\"verdict\" tabindex=\"-1\">\n<div>\n<p class=\"meta\">{meta}</p>\n<h1>{headline}</h1>\n{lead}{tiles}</div>\n{}</div>\n",
        caveats(&found.caveats)
    )
}

fn tile(tile: &Tile) -> String {
    let (name, value, detail) = (prose(&tile.name), prose(&tile.value), prose(&tile.detail));
    format!("<div><dt>{name}</dt><dd><strong>{value}</strong><span>{detail}</span></dd></div>\n")
}

/// The first caveats; the others are in the notes.
fn caveats(caveats: &[Caveat]) -> String {
    let shown: String = caveats.iter().take(SHOWN).map(caveat).collect();
    let more = caveats.len().saturating_sub(SHOWN);
    let more = match more {
        0 => String::new(),
        1 => "<p><a href=\"#host\">One more</a></p>\n".into(),
        more => format!("<p><a href=\"#host\">{more} more</a></p>\n"),
    };
    if shown.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"caveats\" role=\"note\" aria-label=\"Before you quote this\">\n<h2>Before you quote this</h2>\n{shown}{more}</div>\n"
    )
}

pub(super) fn caveat(caveat: &Caveat) -> String {
    let link = caveat.section.map(|id| format!(" <a href=\"#{id}\">See {id}</a>")).unwrap_or_default();
    format!("<p><b>{}</b> {}{link}</p>\n", prose(&caveat.name), prose(&caveat.text))
}

//! The result as one self-contained page: no request; for light and dark, phone, screen and paper. Its small script sorts, copies and
//! tells values; without it the page still reads.

mod charts;
mod context;
mod data;
mod element;
mod head;
mod numbers;
mod paths;
mod picture;
mod steps;

use crate::findings;
use crate::findings::panels;
use crate::markup::escape;
use crate::schema::Document;

pub use picture::{Theme, picture};

/// Colours and the classes of the charts, for the page and for the picture.
const LIGHT_CSS: &str = include_str!("light.css");
const DARK_CSS: &str = include_str!("dark.css");
const CHARTS_CSS: &str = include_str!("charts.css");

/// The rest of the page, and what differs on paper.
const PAGE_CSS: &str = include_str!("page.css");
const PRINT_CSS: &str = include_str!("print.css");

/// Sorting, copying, and values where somebody points.
const SCRIPT: &str = include_str!("page.js");

/// Nothing is loaded, and no other script runs, whatever the page holds: the browser sees to it, too. The script is known by the SHA-256
/// of what stands in its element; a test names the new one after a change.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'sha256-a7ibfFeS7b1ualyV1klX0nBaKXPkI7RSlm0eZSIsGYE='; \
    img-src data:; base-uri 'none'; form-action 'none'";

/// The page of `document`.
pub fn render(document: &Document) -> String {
    let found = findings::of(document);
    let title = escape(&found.title);
    let (bar, body, data) = (head::bar(&found), body(document, &found), data::block(document));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n:root {{\n{LIGHT_CSS}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{\n{DARK_CSS}}} }}\n\
         {CHARTS_CSS}{PAGE_CSS}{PRINT_CSS}</style>\n</head>\n<body>\n{bar}<main>\n{body}</main>\n{data}\
         <div id=\"tip\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn body(document: &Document, found: &findings::Findings) -> String {
    let compared = panels::compared(document);
    let mut body = head::verdict(found);
    body += &steps::verified(document, found);
    for (i, one) in compared.iter().enumerate() {
        body +=
            &found.section(&paths::id(i)).map(|section| paths::compared(document, one, section)).unwrap_or_default();
    }
    body += &charts::modes(document, found);
    body += &charts::tail(document, found, &compared);
    body += &steps::causes(document, found);
    body += &steps::stages(document, found);
    body += &steps::streams(document, found);
    body += &charts::sizes(document, found);
    body += &charts::load(document, found);
    body += &charts::rates(document, found);
    body += &steps::ladder(document, found);
    body += &steps::published(document, found);
    body += &numbers::numbers(document, found);
    body += &context::host(document, found);
    body += &context::repeat(document, found);
    body
}

#[cfg(test)]
mod tests;

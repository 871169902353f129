//! The result as one self-contained page: no request, no script; for light and dark, phone, screen and paper.

mod causes;
mod context;
mod element;
mod head;
mod measured;
mod picture;

use crate::markup::escape;
use crate::schema::Document;
use crate::svg::palette::Palette;
use crate::view;

pub use picture::picture;

/// Colours and the classes of the charts, for the page and for the picture.
const PALETTE_CSS: &str = include_str!("palette.css");

/// The rest of the page.
const PAGE_CSS: &str = include_str!("page.css");

/// The page of `document`.
pub fn render(document: &Document) -> String {
    let palette = Palette::new(document);
    let title = escape(&head::title(document));
    let body = body(document, &palette);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{PALETTE_CSS}{PAGE_CSS}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         </body>\n</html>\n"
    )
}

fn body(document: &Document, palette: &Palette) -> String {
    let sections = view::latency_sections(document);
    let mut body = head::header(document);
    body += &head::overview(document, palette);
    body += &context::tried(document, palette);
    for (i, section) in sections.iter().enumerate() {
        body += &measured::distributions(document, section, palette, i + 1);
    }
    if !sections.iter().any(|section| section.ladder) {
        body += &context::missing_rungs(document, palette);
    }
    body += &causes::stages(document, palette);
    body += &causes::tail(document, palette);
    body += &context::published(document, palette);
    body += &measured::streaming(document, palette);
    body += &measured::by_size(document, palette);
    body += &measured::by_load(document, palette);
    body += &measured::by_rate(document, palette);
    body += &context::compared(document, palette);
    body += &context::missing(document, palette);
    body += &context::machines(document, palette);
    body += &context::paths(document);
    body += &context::notes(document);
    body += &context::definitions();
    body += &context::repeat(document);
    body += &context::data(document);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json, sample};

    /// Elements without an end tag.
    const VOID: [&str; 2] = ["meta", "link"];

    fn assert_balanced(html: &str, what: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = html;
        while let Some((_, after)) = rest.split_once('<') {
            let (tag, next) = after.split_once('>').expect("a tag ends");
            rest = next;
            let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
            if tag.starts_with('!') || tag.ends_with('/') || VOID.contains(&name) {
                continue;
            }
            assert!(!name.is_empty() && name.chars().all(char::is_alphanumeric), "{what}: <{tag}>");
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{what}: </{name}>");
            } else {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{what}: {open:?}");
    }

    fn assert_requests_nothing(markup: &str) {
        let lower = markup.to_lowercase().replace("http://www.w3.org/2000/svg", "");
        for request in ["http://", "https://", " src=", "url(", "@import", "<img", "<iframe", "<object", "<base"] {
            assert!(!lower.contains(request), "{request}");
        }
    }

    fn assert_self_contained(html: &str) {
        assert_requests_nothing(html);
        let lower = html.to_lowercase();
        assert_eq!(lower.matches("href=").count(), lower.matches("href=\"data:,\"").count());
        assert_eq!(lower.matches("<script").count(), 1);
    }

    #[test]
    fn holds_everything_and_requests_nothing() {
        let html = render(&sample::document());
        assert_balanced(&html, "sample");
        assert_self_contained(&html);
        assert!(html.len() < 1_000_000, "{} bytes", html.len());
        for part in [
            "Latency of trade-lab-7",
            "times below kernel-pinned",
            "Noise floor, request and response: ",
            "given back to the hypervisor",
            "Percentiles",
            "Histograms",
            "half-RTT",
            "achieved rate",
            "has no interrupt to pin",
            "longest",
            "less what both had in common",
            "sidestep demo",
            "p99.99 needs 1000000 samples",
            "The tail, and its causes",
            "The worst of them",
        ] {
            assert!(html.contains(part), "missing: {part}");
        }
        assert!(!html.contains("Partial result"));
    }

    #[test]
    fn the_picture_stands_alone() {
        let picture = picture(&sample::document());
        assert_balanced(&picture, "picture");
        assert_requests_nothing(&picture);
        assert!(picture.starts_with("<svg xmlns=") && picture.contains("prefers-color-scheme: dark"));
        assert!(picture.contains("uring-spin") && picture.len() < 20_000);
    }

    #[test]
    fn the_same_document_gives_the_same_bytes() {
        assert_eq!(render(&sample::document()), render(&sample::document()));
    }

    #[test]
    fn the_embedded_data_is_the_document() {
        for document in [sample::document(), sample::hostile()] {
            let html = render(&document);
            let (_, after) = html.split_once("id=\"result\">").unwrap();
            let (data, _) = after.split_once("</script>").unwrap();
            assert!(json::parse(data.as_bytes(), "page").unwrap() == document);
        }
    }

    #[test]
    fn a_large_document_keeps_the_page_small_and_says_so() {
        let mut document = sample::document();
        document.results = document.results.iter().cycle().take(1_000).cloned().collect();
        let html = render(&document);
        assert!(html.contains("without histograms"));
    }

    #[test]
    fn hostile_text_stays_text() {
        let html = render(&sample::hostile());
        assert_balanced(&html, "hostile");
        assert!(!html.contains("<img") && html.matches("</script>").count() == 1);
        assert!(html.chars().all(|c| c == '\n' || !c.is_control()));
        assert!(
            !html.contains('\u{202e}') || html.split("id=\"result\">").next().is_some_and(|h| !h.contains('\u{202e}'))
        );
    }

    #[test]
    fn any_document_has_a_page_and_a_picture() {
        for (i, document) in sample::odd_documents().iter().enumerate() {
            let html = render(document);
            assert_balanced(&html, &format!("document {i}"));
            assert!(!html.contains("\"NaN\"") && !html.contains("=\"inf") && !html.contains("MNaN"), "document {i}");
            assert_balanced(&picture(document), &format!("picture {i}"));
        }
    }

    #[test]
    fn a_section_without_data_is_absent() {
        let html = render(&Document::default());
        for id in [
            "distributions-1",
            "sizes",
            "open-loop",
            "rates",
            "ratios",
            "missing",
            "paths",
            "notes",
            "repeat",
            "ladder",
        ] {
            assert!(!html.contains(&format!("<section id=\"{id}\"")), "{id}");
        }
        assert!(!html.contains("<figure>"));
    }

    #[test]
    fn a_band_is_neither_drawn_nor_spoken_of_where_no_p99_was_measured() {
        let mut document = sample::document();
        document.results.retain(|row| row.scenario == "sizes");
        assert!(render(&document).contains("the band reaches to p99") && render(&document).contains(" band "));
        document.results.iter_mut().for_each(|row| row.distribution.p99 = None);
        let html = render(&document);
        assert!(!html.contains("the band reaches to p99") && !html.contains(" band "));
        assert!(html.contains("too few samples for a p99"));
    }

    #[test]
    fn a_partial_run_says_so_first() {
        let html = render(&Document { interrupted: true, ..sample::document() });
        let (before, _) = html.split_once("<h1>").unwrap();
        assert!(before.contains("Partial result"));
    }
}

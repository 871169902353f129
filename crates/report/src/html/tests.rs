//! What holds for every page.

use super::*;
use crate::sample;
use crate::schema::{Ratio, Row, Step};
use std::collections::HashSet;

/// Elements without an end tag.
const VOID: [&str; 3] = ["meta", "link", "input"];

/// The page without its script and its data, which are no markup.
fn markup(html: &str) -> String {
    let mut rest = html;
    let mut markup = String::new();
    while let Some((before, script)) = rest.split_once("<script") {
        markup += before;
        rest = script.split_once("</script>").expect("a script ends").1;
    }
    markup + rest
}

fn tags(markup: &str) -> impl Iterator<Item = &str> {
    markup.split('<').skip(1).map(|tag| tag.split_once('>').expect("a tag ends").0)
}

fn assert_balanced(markup: &str, what: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in tags(markup) {
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

/// No element and no style of the page names a place to load from.
fn assert_requests_nothing(html: &str) {
    let lower = html.to_lowercase().replace("http://www.w3.org/2000/svg", "");
    for request in [
        "http://", "https://", " src=", "url(", "@import", "<img", "<iframe", "<object", "<base", "<video", "xlink",
        "srcset",
    ] {
        assert!(!lower.contains(request), "{request}");
    }
    for tag in tags(&markup(&lower)).filter(|tag| tag.contains("href=")) {
        assert!(tag.contains("href=\"#") || tag.contains("href=\"data:,\""), "{tag}");
    }
    assert!(lower.contains("default-src 'none'"));
    let script = lower.rsplit_once("<script>").expect("the script").1;
    for call in ["fetch(", "xmlhttprequest", "import(", "websocket", "sendbeacon", "localstorage", "eval("] {
        assert!(!script.contains(call), "{call}");
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

/// Every link leads somewhere, no id comes twice, every drawing says what it shows.
fn assert_usable(html: &str, what: &str) {
    let markup = markup(html);
    let mut ids = HashSet::new();
    for tag in tags(&markup) {
        if let Some(id) = attribute(tag, "id") {
            assert!(ids.insert(id.to_owned()), "{what}: {id} twice");
        }
    }
    let mut depth = 0;
    for tag in tags(&markup) {
        if let Some(link) = attribute(tag, "href").and_then(|link| link.strip_prefix('#')) {
            assert!(ids.contains(link), "{what}: a link to {link}");
        }
        if let Some(label) = attribute(tag, "aria-labelledby") {
            assert!(ids.contains(label), "{what}: labelled by {label}");
        }
        // A drawing inside of one is a part of it.
        if tag.starts_with("svg") {
            depth += 1;
            let label = attribute(tag, "aria-label").unwrap_or_default();
            assert!(depth > 1 || tag.contains("role=\"img\"") && !label.is_empty(), "{what}: <{tag}>");
        }
        depth -= i32::from(tag == "/svg");
    }
    assert_eq!(markup.matches("<h1>").count(), 1, "{what}");
}

/// The words of a page, with breaks where elements end.
fn text(html: &str) -> String {
    let mut text = String::new();
    for part in markup(html).split('<').skip(1) {
        text += part.split_once('>').map_or("", |(_, text)| text);
        text.push('\n');
    }
    text.replace('\u{a0}', " ")
}

#[test]
fn holds_everything_and_requests_nothing() {
    let html = render(&sample::document());
    assert_balanced(&markup(&html), "sample");
    assert_requests_nothing(&html);
    assert_usable(&html, "sample");
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    let text = text(&html);
    for part in [
        "Which path is fastest, and how much does it vary?",
        "trade-lab-7",
        "faster",
        "Noise floor",
        "given back to the hypervisor",
        "half-RTT",
        "received/s",
        "has no interrupt to pin",
        "longest",
        "less what both had in common",
        "sidestep demo",
        "p99.99 needs 1000000 samples",
        "What happened during the slowest samples?",
        "The worst of them",
        "independent slices",
        "the two CPUs may be two threads of one core",
        "noise floor",
        "console=ttyS0",
    ] {
        assert!(text.contains(part), "missing: {part}");
    }
    assert!(!text.contains("Partial result") && !text.contains("n/a"));
}

#[test]
fn the_verdict_comes_first() {
    let html = render(&sample::document());
    let at = |part: &str| html.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(at("<h1>") < at("<section") && at("Before you quote this") < at("<section"));
    assert!(at("id=\"paths\"") < at("id=\"tail\"") && at("id=\"numbers\"") < at("id=\"host\""));
}

#[test]
fn the_same_document_gives_the_same_bytes() {
    assert_eq!(render(&sample::document()), render(&sample::document()));
}

#[test]
fn hostile_text_stays_text() {
    let html = render(&sample::hostile());
    assert_balanced(&markup(&html), "hostile");
    assert_usable(&html, "hostile");
    assert!(!html.contains("<img") && html.matches("</script>").count() == 2 && html.matches("<script").count() == 2);
    assert!(html.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(!markup(&html).contains('\u{202e}') && !markup(&html).contains("alert(1)>"));
}

#[test]
fn any_document_has_a_page_and_pictures() {
    for (i, document) in sample::odd_documents().iter().enumerate() {
        let html = render(document);
        let what = format!("document {i}");
        assert_balanced(&markup(&html), &what);
        assert_usable(&html, &what);
        for odd in ["NaN", "=\"inf", "inf%", " inf "] {
            let found = markup(&html);
            let around =
                found.find(odd).map(|at| found[at.saturating_sub(160)..].chars().take(240).collect::<String>());
            assert_eq!(around, None, "{what}");
        }
        let words = text(&html);
        assert_eq!(words.lines().find(|line| line.contains("n/a")), None, "{what}");
        for theme in [Theme::Light, Theme::Dark] {
            assert_balanced(&picture(document, theme), &format!("picture {i}"));
        }
    }
}

#[test]
fn a_section_without_data_is_absent_with_its_link() {
    let html = render(&Document::default());
    for id in ["paths", "modes", "tail", "sizes", "load", "rates", "ladder", "numbers", "repeat", "steps", "causes"] {
        assert!(!html.contains(&format!("id=\"{id}\"")) && !html.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    assert!(!html.contains("<figure>") && text(&html).contains("Nothing was measured"));
    let mut sizes = sample::document();
    sizes.results.retain(|row| row.scenario == "sizes");
    let html = render(&sizes);
    assert!(html.contains("href=\"#sizes\"") && !html.contains("href=\"#paths\"") && html.contains("<details open>"));
}

#[test]
fn a_band_is_neither_drawn_nor_spoken_of_where_there_is_no_interval() {
    let mut document = sample::document();
    document.results.retain(|row| row.scenario == "sizes");
    assert!(render(&document).contains("band: its 95") && render(&document).contains("class=\"area"));
    document.results.iter_mut().for_each(|row| (row.distribution.p99, row.distribution.ci95.p50) = (None, None));
    let html = render(&document);
    assert!(
        !html.contains("band: its 95") && !html.contains("class=\"area") && html.contains("too few samples for a p99")
    );
}

#[test]
fn a_partial_run_says_so_first() {
    let html = render(&Document { interrupted: true, ..sample::document() });
    let (before, _) = html.split_once("<section").unwrap();
    assert!(before.contains("Partial result."));
}

#[test]
fn a_baseline_can_be_chosen_without_a_script() {
    let mut document = sample::document();
    let second: Vec<Ratio> = document
        .ratios
        .iter()
        .filter(|ratio| ratio.of == "uring-spin" && ratio.against != ratio.of)
        .map(|ratio| Ratio { against: "kernel-spin".into(), ..ratio.clone() })
        .collect();
    assert!(!render(&document).contains("type=\"radio\""));
    document.ratios.extend(second);
    let html = render(&document);
    assert_eq!(html.matches("type=\"radio\"").count(), 2);
    assert!(html.contains("vs vs-1") && html.contains("against against-1"));
}

#[test]
fn thousands_of_rows_stay_a_page() {
    let mut document = sample::document();
    let many = document.results.iter().cycle().take(3_000).enumerate();
    document.results = many.map(|(i, row)| Row { path: format!("{}-{i}", row.path), ..row.clone() }).collect();
    let html = render(&document);
    assert_usable(&html, "many");
    assert!(html.contains("more rows are in the table of numbers") && html.contains("would make it too large"));
    assert!(html.len() < 8_000_000, "{}", html.len());
}

#[test]
fn steps_are_shown_beside_one() {
    let ratio = Ratio { stat: "p50".into(), value: 0.5, ci95: [0.4, 0.6], ..Ratio::default() };
    let step = |name: &str, decision: &str| Step {
        name: name.into(),
        decision: decision.into(),
        reason: "p50 is better".into(),
        ratios: vec![ratio.clone()],
        ..Step::default()
    };
    let html = render(&Document {
        steps: vec![step("CPU pinned", "kept"), step("busy-read", "dropped")],
        ..Document::default()
    });
    assert_usable(&html, "steps");
    assert!(
        html.contains("whisker gain")
            && html.contains("whisker same")
            && text(&html).contains("1 of 2 steps helped here: CPU pinned")
    );
}

#[test]
fn pictures_stand_alone_for_light_and_dark() {
    let [light, dark] = [Theme::Light, Theme::Dark].map(|theme| picture(&sample::document(), theme));
    for picture in [&light, &dark] {
        assert_balanced(picture, "picture");
        let lower = picture.to_lowercase().replace("http://www.w3.org/2000/svg", "");
        assert!(!lower.contains("http") && !lower.contains("url(") && !lower.contains("prefers-color-scheme"));
        assert!(picture.starts_with("<svg xmlns=") && picture.contains("uring-spin") && picture.len() < 40_000);
    }
    assert_ne!(light, dark);
    assert!(light.contains("#ffffff") && dark.contains("#0f1317"));
}

#[test]
fn the_policy_knows_the_script_of_the_page() {
    use base64::Engine as _;
    let html = render(&sample::document());
    let script = html.rsplit_once("<script>").and_then(|(_, rest)| rest.split_once("</script>"));
    let (script, _) = script.expect("the page has a script");
    let digest = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
    let allowed = format!("script-src 'sha256-{}';", base64::engine::general_purpose::STANDARD.encode(digest));
    assert!(html.contains(&allowed), "html/mod.rs: {allowed}");
}

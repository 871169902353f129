//! The pictures of the README: of one result, drawn by this code.

use sidestep_report::html::{Theme, picture};
use sidestep_report::schema::Document;
use std::fs;
use std::path::Path;

fn stored(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The drawing before its style, the style, and the drawing after it.
fn parts(svg: &str) -> (&str, &str, &str) {
    let (before, rest) = svg.split_once("<style>").expect("a style begins");
    let (style, after) = rest.split_once("</style>").expect("a style ends");
    (before, style, after)
}

#[test]
fn both_show_the_same_in_the_colours_of_the_report() {
    let (light, dark) = (stored("latency.svg"), stored("latency-dark.svg"));
    let (light, dark) = (parts(&light), parts(&dark));
    assert_eq!((light.0, light.2), (dark.0, dark.2), "one result");
    for (theme, stored) in [(Theme::Light, light.1), (Theme::Dark, dark.1)] {
        let drawn = picture(&Document::default(), theme);
        let again = "draw them again: cargo run --release -p sidestep-report --example picture RESULT docs";
        assert_eq!(stored, parts(&drawn).1, "{theme:?}: {again}");
    }
}

#[test]
fn they_show_paths_and_load_nothing() {
    for name in ["latency.svg", "latency-dark.svg"] {
        let svg = stored(name);
        assert!(svg.contains("xdp") && svg.contains("kernel-pinned") && svg.contains("role=\"img\""), "{name}");
        let without = svg.replace("http://www.w3.org/2000/svg", "");
        assert!(["http", "url(", "<script", "<image", "href"].iter().all(|part| !without.contains(part)), "{name}");
    }
}

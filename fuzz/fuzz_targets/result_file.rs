//! A result file from anywhere: read it, decode its histograms, show it in every form, compare it with itself.

#![no_main]

use sidestep_bench::compare::Comparison;
use sidestep_report::terminal::Style;
use sidestep_report::{histogram, html, json, terminal};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = json::parse(bytes, "fuzzed") else { return };
    for row in &document.results {
        let _ = histogram::decode(&row.distribution.histogram);
    }
    let _ = terminal::render(&document, Style::default());
    let _ = html::render(&document);
    let _ = Comparison::of(&document, &document);
});

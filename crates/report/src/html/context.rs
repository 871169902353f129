//! The sections on host, definitions and repetition.

use super::element::{facts, list, paragraph, section, table};
use crate::json;
use crate::markup::escape;
use crate::schema::{Document, Host};
use crate::svg::palette::Palette;
use crate::tables::{hiccups, published as others, ratios, steps, unavailable};
use crate::view::{facts as about, words};

/// Most bytes of the result that the page carries: with the charts it stays below 1 MB, which mail lets through.
const DATA_LIMIT_BYTES: usize = 640 << 10;

const DEFINITIONS: &[(&str, &str)] = &[
    (
        "round trip (RTT)",
        "Time from just before the request is sent until the answer has been read, seen by the program.",
    ),
    (
        "half-RTT",
        "The round trip divided by two. It is not the one-way latency: the two directions need not take equally long.",
    ),
    (
        "percentile",
        "p99 is the time that 99 of 100 samples did not exceed, each slice of the run with the same weight: slices last equally \
         long, and a fast one holds more samples. It is shown only with at least 100 samples beyond it; otherwise n/a, with \
         the number of samples that it needs.",
    ),
    (
        "interval of a percentile",
        "95 %, from the spread between slices, and from how alike slices are that follow each other. It knows only the modes that \
         the run has seen.",
    ),
    (
        "ratio and its interval",
        "The paths are measured in short slices that alternate (A B B A), so that both see the same disturbances. The \
         ratio is that of the two columns; its interval is 95 %, put together from those of both, less what both had in common.",
    ),
    (
        "control",
        "A path against itself in the same run. Its interval is the noise floor: a difference inside of it means nothing.",
    ),
    (
        "modes",
        "Groups of slices whose medians lie apart by a factor of 1.5 or more. A percentile of such a path says which mode was met more \
         often; it is the baseline of no headline.",
    ),
    (
        "rounding",
        "Never flatters: times, ratios and losses are rounded up, rates and gains down, intervals grow on both sides. \
         Nothing is subtracted, trimmed or normalised; the embedded data holds the exact values.",
    ),
];

pub(super) fn compared(document: &Document, palette: &Palette) -> String {
    let words = "A ratio below 1 means that the path is faster than its baseline; the interval is 95 %, and the \
                 last column speaks of the first statistic.";
    let table = ratios::table(document).map(|ratios| table(&ratios, palette));
    table.map(|table| section("ratios", "Ratios", &(paragraph(words) + &table))).unwrap_or_default()
}

pub(super) fn published(document: &Document, palette: &Palette) -> String {
    let tables = document.published.iter().enumerate();
    let one = |(i, one)| {
        others::table(one).map(|found| section(&format!("published-{i}"), &others::title(one), &table(&found, palette)))
    };
    tables.filter_map(one).collect()
}

pub(super) fn tried(document: &Document, palette: &Palette) -> String {
    let Some(steps) = steps::table(document) else { return String::new() };
    let text = "Each step with and without it in one interleaved run, on top of those kept before it. It is kept if the median or \
                the 99th percentile is better, beyond the noise floor, and neither is worse. Time lost is that of a loop on \
                the measuring CPU that only reads the clock.";
    section("steps", words::STEPS, &(paragraph(text) + &table(&steps, palette)))
}

pub(super) fn missing(document: &Document, palette: &Palette) -> String {
    let missing = unavailable::table(document, |missing| missing.rung.is_none());
    missing.map(|missing| section("missing", "Not measured here", &table(&missing, palette))).unwrap_or_default()
}

/// Rungs that could not be measured, where no rung could and so no ladder is shown.
pub(super) fn missing_rungs(document: &Document, palette: &Palette) -> String {
    let missing = unavailable::table(document, |missing| missing.rung.is_some());
    missing.map(|missing| section("ladder", "The ladder of set-ups", &table(&missing, palette))).unwrap_or_default()
}

pub(super) fn machines(document: &Document, palette: &Palette) -> String {
    let mut body = machine(&document.host, palette);
    if let Some(peer) = &document.peer {
        body += "<h3>The other host</h3>\n";
        body += &machine(peer, palette);
    }
    body += "<h3>Set-up</h3>\n";
    body += &facts(&about::setup(document));
    section("host", "Host and noise", &body)
}

fn machine(host: &Host, palette: &Palette) -> String {
    let mut body = facts(&about::host(host));
    if !about::measures(host) {
        return body;
    }
    body += "<h3>Noise during the run</h3>\n";
    body += &facts(&about::noise(host));
    if let Some(hiccups) = hiccups::table(host) {
        body += "<h3>Noise of each CPU before the run</h3>\n";
        body += &paragraph("Pauses of a loop that only reads the clock: their number and length.");
        body += &table(&hiccups, palette);
    }
    body
}

pub(super) fn paths(document: &Document) -> String {
    if document.paths.is_empty() {
        return String::new();
    }
    let pair =
        |(name, text): (&str, &str)| format!("<dt><code>{}</code></dt><dd>{}</dd>\n", escape(name), escape(text));
    let pairs = document.paths.iter().map(|path| (path.name.as_str(), path.description.as_str()));
    let body: String = pairs.map(pair).collect();
    section("paths", "The paths", &format!("<dl class=\"facts\">\n{body}</dl>\n"))
}

pub(super) fn notes(document: &Document) -> String {
    let notes: Vec<_> = document.notes.iter().cloned().chain(about::row_notes(document)).collect();
    if notes.is_empty() {
        return String::new();
    }
    section("notes", "Notes", &list("found", &notes))
}

pub(super) fn definitions() -> String {
    let pairs: Vec<_> = DEFINITIONS.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    section("definitions", "Definitions", &facts(&pairs))
}

pub(super) fn repeat(document: &Document) -> String {
    if document.command.is_empty() {
        return String::new();
    }
    section("repeat", "Command", &format!("<pre><code>{}</code></pre>\n", escape(&document.command)))
}

/// Returns the result for scripts, with a note for the reader.
pub(super) fn data(document: &Document) -> String {
    let whole = block(document);
    let (block, note) = match whole.len() <= DATA_LIMIT_BYTES {
        true => (whole, "This page holds its own data: the JSON block <code>result</code> in its source."),
        false => (
            block(&without_histograms(document)),
            "The JSON block <code>result</code> in the source of this page holds its data, without histograms, \
             slices and single outliers, which would make it too large; the result file has them.",
        ),
    };
    format!("<footer>\n<p>{note}</p>\n</footer>\n<script type=\"application/json\" id=\"result\">\n{block}</script>\n")
}

/// JSON as it may stand inside of a script element: `<` occurs only in strings, where its escape means the same.
fn block(document: &Document) -> String {
    json::to_compact_string(document).replace('<', "\\u003c")
}

fn without_histograms(document: &Document) -> Document {
    let mut document = document.clone();
    for row in &mut document.results {
        row.blocks.clear();
        row.distribution.histogram.clear();
        if let Some(causes) = &mut row.causes {
            causes.outliers.clear();
        }
        for stage in row.stages.iter_mut().flat_map(|stages| &mut stages.stages) {
            stage.distribution.histogram.clear();
        }
        if let Some(rate) = &mut row.rate {
            rate.from_actual_send.histogram.clear();
            rate.send_lateness.histogram.clear();
        }
    }
    document
}

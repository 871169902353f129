//! The sections on host, definitions and repetition.

use super::element::{facts, folded, prose, remarks, section, table};
use super::head::caveat;
use crate::findings::Findings;
use crate::findings::caveats::{SHOWN, noise_line};
use crate::markup::escape;
use crate::schema::{Document, Host};
use crate::tables::{hiccups, unavailable};
use crate::view::{facts as about, words};

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
         long, and a fast one holds more samples. It is shown only with at least 100 samples beyond it.",
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
        "faster, slower",
        "Said only where the interval of the ratio excludes 1 and the ratio lies beyond the noise floors of both paths. Both count up from 1: \
         2× faster takes half the time.",
    ),
    (
        "modes",
        "Groups of slices whose medians lie apart by a factor of 1.5 or more. A percentile of such a path says which mode was met more \
         often; it is the baseline of no headline.",
    ),
    (
        "rounding",
        "Headings and charts have two digits, to the nearest. Tables never flatter: times, ratios and losses are rounded up, rates and gains \
         down; factors are rounded down and intervals grow everywhere. Nothing is subtracted, trimmed or normalised; the embedded data holds \
         the exact values.",
    ),
];

/// The host, the set-up, and everything else that a reader may look up.
pub(super) fn host(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("host") else { return String::new() };
    let mut body = String::new();
    let more: String = found.caveats.iter().skip(SHOWN).map(caveat).collect();
    body += &folded("More to know before you quote this", &names(found), &more, false);
    body += &noise(document);
    body += &machine("Host", &document.host);
    if let Some(peer) = &document.peer {
        body += &machine("The other host", peer);
    }
    body += &folded("Set-up", words::place(&document.setup.place), &facts(&about::setup(document)), false);
    if let Some(missing) = unavailable::table(document, |_| true) {
        let fact = words::counted(document.unavailable.len(), "thing that was asked for", "things that were asked for");
        body += &folded("Not measured here", &fact, &table("Not measured here", &missing), false);
    }
    body += &paths(document);
    let notes: Vec<String> = document.notes.iter().cloned().chain(about::row_notes(document)).collect();
    body += &folded("Notes", &words::counted(notes.len(), "note", "notes"), &remarks(&notes), false);
    body += &definitions();
    section(one, &body)
}

fn names(found: &Findings) -> String {
    found.caveats.iter().skip(SHOWN).map(|one| one.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn noise(document: &Document) -> String {
    let host = &document.host;
    if !about::measures(host) {
        return String::new();
    }
    let mut body = facts(&about::noise(host));
    if let Some(hiccups) = hiccups::table(host) {
        body += "<p class=\"how\">Pauses of a loop that only reads the clock, on each CPU before the run:</p>\n";
        body += &table("Pauses of each CPU", &hiccups);
    }
    folded("Noise", &noise_line(document), &body, false)
}

fn machine(name: &str, host: &Host) -> String {
    let fact = [host.hostname.as_str(), host.cpu.as_str(), host.kernel.as_str(), host.clock.as_str()];
    let fact = fact.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
    folded(name, &fact, &facts(&about::host(host)), false)
}

fn paths(document: &Document) -> String {
    let pair = |(name, text): (&str, &str)| format!("<dt><code>{}</code></dt><dd>{}</dd>\n", escape(name), prose(text));
    let pairs: String = document.paths.iter().map(|path| pair((&path.name, &path.description))).collect();
    let body = if pairs.is_empty() { pairs } else { format!("<dl class=\"facts\">\n{pairs}</dl>\n") };
    folded("Paths", &format!("what each of the {} is", document.paths.len()), &body, false)
}

fn definitions() -> String {
    let pairs: Vec<_> = DEFINITIONS.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    folded("Definitions", "round trip, percentile, interval, control, modes, rounding", &facts(&pairs), false)
}

/// The command, and how to compare two runs.
pub(super) fn repeat(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("repeat") else { return String::new() };
    let command = escape(&document.command);
    let body = format!(
        "<div class=\"command\"><pre tabindex=\"0\"><code id=\"command\">{command}</code></pre></div>\n<p>To compare two runs: \
         <code>sidestep compare before.json after.json</code>. To write this page again from a result file: <code>sidestep report \
         result.json --html report.html</code>.</p>\n"
    );
    section(one, &body)
}

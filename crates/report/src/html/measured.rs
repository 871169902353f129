//! The sections with tables and curves.

use super::element::{figure, legend, list, section, table};
use crate::histogram::decode;
use crate::schema::{Document, Row};
use crate::svg::histogram::Series;
use crate::svg::palette::Palette;
use crate::svg::{self, bars, cdf};
use crate::tables::{cycles, intervals, latency, open_loop, rates, sizes, streams, unavailable};
use crate::view::{self, Group, LatencySection, words};

/// Most curves in one chart: more cannot be told apart.
const CURVES_MAX: usize = 10;

/// Most distributions that are drawn per section; the table holds them all.
const DRAWN_MAX: usize = 40;

const CDF: &str = "Read it upwards from a percentile: that share of the samples was at most this slow. Each nine of the \
                   tail takes the same room; a curve ends where fewer than 10 samples lie beyond.";

const HISTOGRAM: &str = "All strips share one time axis; the height is the share of samples, each strip scaled to its \
                         own peak; the upright mark is p50. The last bin holds everything beyond the axis.";

const SIZES: &str = "The line is the median, the band reaches to p99, where there were enough samples for one.";

const SIZES_WITHOUT_BAND: &str = "The line is the median; there were too few samples for a p99.";

const ACHIEVED: &str = "On the thin dashed line everything that was offered arrived.";

const RATE_LATENCY: &str = "Filled dots on the heavy line are p50, rings on the thin line are p99, both counted from the \
                            moment a message was due.";

const LOAD: &str = "Filled dots on the heavy line are p50, rings on the thin line are p99, both from the moment a message was due. A \
                    percentile that may lie among lost messages is left out. The broad upright line is the knee of the curve of its \
                    colour: the highest load that it carries by the rule below the table.";

/// A section of distributions: the table, the ladder's bars, percentiles and histograms.
pub(super) fn distributions(document: &Document, one: &LatencySection<'_>, palette: &Palette, i: usize) -> String {
    let mut body = table(&latency::table(document, &one.rows), palette);
    if one.ladder {
        if let Some(missing) = unavailable::table(document, |missing| missing.rung.is_some()) {
            body += &table(&missing, palette);
        }
        let text = "From p50 (dot) to p99.";
        body += &figure("Rung by rung", text, "", |shape| bars::chart(&one.rows, palette, shape));
    }
    let (series, broken) = decoded(&one.rows, palette);
    for chart in charts(&series) {
        let (title, measure) = (chart_title("Percentiles", chart), words::measure(&chart[0].row.measure));
        let names = legend(chart.iter().map(|one| one.name), palette);
        body += &figure(&title, CDF, &names, |shape| cdf::chart(chart, measure, shape));
        let title = chart_title("Histograms", chart);
        body += &figure(&title, HISTOGRAM, "", |shape| svg::histogram::chart(chart, measure, shape));
    }
    body += &list("notes", &broken);
    if let Some(cycles) = cycles::table(document, &one.rows) {
        body += "<h3>The same in clock cycles</h3>\n";
        body += &table(&cycles, palette);
    }
    if let Some(intervals) = intervals::table(&one.rows) {
        body += "<h3>Intervals of the percentiles</h3>\n";
        body += &table(&intervals, palette);
    }
    section(&format!("distributions-{i}"), &one.title, &body)
}

/// The rows whose histogram can be drawn, and a note for each that cannot.
fn decoded<'a>(rows: &[&'a Row], palette: &Palette) -> (Vec<Series<'a>>, Vec<String>) {
    let (mut series, mut broken) = (Vec::new(), Vec::new());
    for row in rows.iter().take(DRAWN_MAX) {
        let name = view::label(row);
        match decode(&row.distribution.histogram) {
            Ok(histogram) if histogram.max() > 0 => {
                series.push(Series { name, class: palette.class(name), row, histogram });
            }
            Ok(_) => broken.push(format!("{name} is not drawn: its histogram is empty")),
            Err(problem) => broken.push(format!("{name} is not drawn: {}", problem.brief())),
        }
    }
    if rows.len() > DRAWN_MAX {
        broken.push(format!("{} more rows are in the table and not drawn", rows.len() - DRAWN_MAX));
    }
    (series, broken)
}

/// Series that share a chart: neighbours, as long as no name comes twice and they can be told apart.
fn charts<'a, 'b>(series: &'b [Series<'a>]) -> Vec<&'b [Series<'a>]> {
    let mut charts = Vec::new();
    let mut start = 0;
    for end in 1..=series.len() {
        let full = end < series.len() && {
            let (here, next) = (&series[start..end], &series[end]);
            let other = |one: &Series<'_>| one.name == next.name || one.row.measure != next.row.measure;
            here.len() >= CURVES_MAX || here.iter().any(other)
        };
        if full || end == series.len() {
            charts.push(&series[start..end]);
            start = end;
        }
    }
    charts
}

/// The title says what all rows of the chart share.
fn chart_title(what: &str, chart: &[Series<'_>]) -> String {
    let rows: Vec<_> = chart.iter().map(|one| one.row).collect();
    match view::by_circumstance(&rows).as_slice() {
        [only] => format!("{what}, {}", only.heading),
        _ => what.into(),
    }
}

/// Returns the section on throughput; empty if nothing streamed.
pub(super) fn streaming(document: &Document, palette: &Palette) -> String {
    let found = streams::table(document, &view::streams(document));
    found.map(|found| section("streams", words::STREAMS, &table(&found, palette))).unwrap_or_default()
}

/// Returns the section on the sweep over message sizes; empty if there is none.
pub(super) fn by_size(document: &Document, palette: &Palette) -> String {
    let rows = view::sweep(document, "sizes");
    if rows.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    for group in view::by_transport(&rows) {
        let measure = measure(&group);
        let names = names(&group, palette);
        let draw = |shape| svg::sizes::chart(&group, palette, measure, shape);
        let has_band = group.rows.iter().any(|row| row.distribution.p99.is_some());
        body += &figure(&group.heading, if has_band { SIZES } else { SIZES_WITHOUT_BAND }, &names, draw);
    }
    body += &table(&sizes::table(document, &rows), palette);
    section("sizes", &words::scenario("sizes"), &body)
}

/// Returns the section on open loops; empty if there is none.
pub(super) fn by_load(document: &Document, palette: &Palette) -> String {
    let rows = view::sweep(document, "open-loop");
    if rows.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    for group in view::by_load_chart(&rows) {
        let names = names(&group, palette);
        let knee = view::open_loop::rate;
        let draw = |shape| svg::rates::latency(&group, palette, "response time", knee, shape);
        body += &figure(&format!("{}, response time by load", group.heading), LOAD, &names, draw);
    }
    body += &table(&open_loop::table(&rows), palette);
    section("open-loop", &words::scenario("open-loop"), &body)
}

/// Returns the section on the sweep over message rates; empty if there is none.
pub(super) fn by_rate(document: &Document, palette: &Palette) -> String {
    let rows = view::sweep(document, "rates");
    if rows.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    for group in view::by_transport(&rows) {
        let names = names(&group, palette);
        let transport = words::transport(&group.rows[0].transport);
        let title = format!("{transport}, achieved rate");
        body += &figure(&title, ACHIEVED, &names, |shape| svg::rates::achieved(&group, palette, shape));
        let title = format!("{transport}, latency under load");
        let draw = |shape| svg::rates::latency(&group, palette, measure(&group), |_| None, shape);
        body += &figure(&title, RATE_LATENCY, &names, draw);
    }
    body += &table(&rates::table(&rows), palette);
    section("rates", &words::scenario("rates"), &body)
}

fn measure<'a>(group: &Group<'a>) -> &'a str {
    words::measure(&group.rows[0].measure)
}

fn names(group: &Group<'_>, palette: &Palette) -> String {
    legend(group.rows.iter().map(|row| view::label(row)), palette)
}

//! The top of the page: title, key figures and summary.

use super::element::{figure, list, paragraph};
use crate::markup::escape;
use crate::number;
use crate::schema::{Document, Ratio, Row};
use crate::svg::bars;
use crate::svg::palette::Palette;
use crate::view::summary::{headline, summary};
use crate::view::{self, compare, words};

/// Most bars of the main comparison.
const BARS_MAX: usize = 30;

pub(super) fn title(document: &Document) -> String {
    match document.host.hostname.as_str() {
        "" => "Latency report".into(),
        host => format!("Latency of {host}"),
    }
}

pub(super) fn header(document: &Document) -> String {
    let mut meta = vec![document.started.clone(), words::place(&document.setup.place).to_owned()];
    meta.push(document.host.cpu.clone());
    meta.push(format!("{} {}", document.tool.name, document.tool.version));
    meta.retain(|part| !part.trim().is_empty());
    let partial = match document.interrupted {
        true => {
            "<p class=\"partial\"><b>Partial result.</b> The run was interrupted: the rows hold the measurements \
             until then.</p>\n"
        }
        false => "",
    };
    let (title, meta) = (escape(&title(document)), escape(&meta.join(" · ")));
    format!("{partial}<header>\n<h1>{title}</h1>\n<p class=\"meta\">{meta}</p>\n</header>\n")
}

/// The summary: key figures, sentences, and the bars of the main comparison.
pub(super) fn overview(document: &Document, palette: &Palette) -> String {
    let summary = summary(document);
    let mut body = key_figures(document);
    body += &paragraph(&summary.measured);
    if let Some(section) = view::latency_sections(document).first().filter(|_| document.steps.is_empty()) {
        let rows = head_rows(&section.rows);
        let text = "The bar goes from p50 (dot) to p99; the thin line from the minimum to the last percentile that has \
                    enough samples. Shorter and further left is better.";
        body += &figure(&section.title, text, "", |shape| bars::chart(&rows, palette, shape));
    }
    body += &list("found", &summary.found);
    if !summary.careful.is_empty() {
        body += "<h3>Warnings</h3>\n";
        body += &list("careful", &summary.careful);
    }
    body
}

/// Whole groups from the first one on, as many as can be taken in at a glance, and one at least.
fn head_rows<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let mut shown = Vec::new();
    for group in view::by_circumstance(rows) {
        if !shown.is_empty() && shown.len() + group.rows.len() > BARS_MAX {
            break;
        }
        shown.extend(group.rows);
    }
    shown
}

fn key_figures(document: &Document) -> String {
    if !document.steps.is_empty() {
        let kept = document.steps.iter().filter(|step| step.decision == "kept").count();
        let text = "helped here; all changes were reverted";
        let figure = figure_of(
            &kept.to_string(),
            &format!("of {}", words::counted(document.steps.len(), "step", "steps")),
            text,
        );
        return format!("<dl class=\"key\">\n{figure}</dl>\n");
    }
    let Some((row, ratios)) = headline(document) else {
        return String::new();
    };
    let mut figures = vec![fastest(row)].into_iter().flatten().collect::<Vec<_>>();
    figures.extend(ratios.into_iter().filter_map(|ratio| times_below(document, ratio)));
    if let Some(control) = compare::control(document, row) {
        let floor = number::difference(compare::noise_floor(control));
        let text = format!("noise floor: difference in p50 of {} measured against itself", escape(view::label(row)));
        let (value, unit) = floor.split_once(" %").map_or((floor.as_str(), ""), |(value, _)| (value, "%"));
        figures.push(figure_of(value, unit, &text));
    }
    format!("<dl class=\"key\">\n{}</dl>\n", figures.concat())
}

fn fastest(row: &Row) -> Option<String> {
    let time = number::time(row.distribution.p50?);
    let (value, unit) = time.split_once(number::NO_BREAK)?;
    let transport = words::transport(&row.transport);
    let (name, measure) = (view::label(row), words::measure(&row.measure));
    let text = format!("p50 of {name}, {measure}, {transport}, {}", number::bytes(row.size));
    Some(figure_of(value, unit, &escape(&text)))
}

fn times_below(document: &Document, ratio: &Ratio) -> Option<String> {
    if compare::judge(document, ratio) != compare::Standing::Below {
        return None;
    }
    let text = format!("below {}, 95 % interval {}", escape(&ratio.against), compare::times_interval(ratio));
    Some(figure_of(&number::times(1.0 / ratio.value), "times", &text))
}

/// `text` is escaped already.
fn figure_of(value: &str, unit: &str, text: &str) -> String {
    format!("<div><dt>{} <small>{}</small></dt><dd>{text}</dd></div>\n", escape(value), escape(unit))
}

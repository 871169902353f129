//! Distributions side by side: one panel for each transport, all its paths on one axis.

use super::element::{folded, key, prose, remarks, section};
use crate::findings::family::{self, Family};
use crate::findings::panels::{Compared, Panel, median};
use crate::findings::quantity::{self, ABSENT, brief, brief_or_absent};
use crate::findings::versus::{Kind, Versus, versus};
use crate::findings::{Section, sections};
use crate::markup::escape;
use crate::schema::{Document, Row};
use crate::svg::canvas::escape_lines;
use crate::svg::rows::{self, Marks};
use crate::svg::scale::Scale;
use crate::view::path::{Waiting, waiting};
use crate::view::{compare, label, words};

/// Panels that are open; the others are folded.
const OPEN: usize = 4;

/// Most panels, and most rows in one: what is more is in the tables.
const PANELS_MAX: usize = 24;
pub(super) const ROWS_MAX: usize = 30;

/// Most baselines to choose from; the style sheet knows as many.
const BASELINES_MAX: usize = 4;

const KEY: &str = "Dot: p50. Thick bar: to p90. Thinner bar: to p99. Line: to p99.9. ›› : too few samples for more. Short ticks below: the \
                   median of each slice of the run, which shows whether it repeats.";
const KEY_HOLLOW: &str = " Hollow: what is compared with, or a limit.";
const KEY_DASHED: &str = " Dashed line: the median of what is compared with.";

/// The section of one scenario.
pub(super) fn compared(document: &Document, one: &Compared<'_>, found: &Section) -> String {
    let baselines = baselines(&one.panels);
    let mut body = switch(&found.id, &baselines);
    body += &key(&families(document, &one.panels));
    let shown = &one.panels[..one.panels.len().min(PANELS_MAX)];
    let panels: Vec<String> =
        shown.iter().map(|panel| self::panel(document, panel, &scale_of(shown, panel), &baselines)).collect();
    let (open, closed) = panels.split_at(panels.len().min(OPEN));
    body += &open.concat();
    let rest = words::counted(closed.len(), "more panel", "more panels");
    body += &folded("More", &rest, &closed.concat(), false);
    let has_hollow = one.panels.iter().flat_map(|panel| &panel.rows).any(|row| family::is_limit(&row.path));
    let hollow = if has_hollow || !baselines.is_empty() { KEY_HOLLOW } else { "" };
    let dashed = if baselines.is_empty() { "" } else { KEY_DASHED };
    body += &format!("<p class=\"how\">{}</p>\n", prose(&format!("{KEY}{hollow}{dashed}")));
    let mut texts = found.text.clone();
    if one.panels.len() > PANELS_MAX {
        texts.push(format!(
            "{} more panels are not drawn; the table of numbers has their rows.",
            one.panels.len() - PANELS_MAX
        ));
    }
    texts.extend(
        words::closed_loop(&one.panels.iter().flat_map(|panel| panel.rows.clone()).collect::<Vec<_>>())
            .as_deref()
            .map(sentence),
    );
    body += &remarks(&texts);
    section(found, &body)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect::<String>() + ".")
}

/// Panels over a network share an axis, those within one host another.
fn scale_of(panels: &[Panel<'_>], of: &Panel<'_>) -> Option<Scale> {
    let is_local = |panel: &Panel<'_>| family::is_local(&panel.rows[0].transport);
    let same = panels.iter().filter(|panel| is_local(panel) == is_local(of));
    rows::scale(same.flat_map(|panel| panel.rows.iter().copied()))
}

/// The baselines of all panels, those of the first panel first.
fn baselines<'a>(panels: &[Panel<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in panels.iter().flat_map(|panel| &panel.baselines) {
        if !names.contains(name) && names.len() < BASELINES_MAX {
            names.push(name);
        }
    }
    names
}

pub(super) fn families(document: &Document, panels: &[Panel<'_>]) -> Vec<Family> {
    let has =
        |family: &Family| panels.iter().flat_map(|panel| &panel.rows).any(|row| family::of(document, row) == *family);
    Family::ALL.into_iter().filter(has).collect()
}

fn switch(id: &str, baselines: &[&str]) -> String {
    if baselines.len() < 2 {
        return String::new();
    }
    let choice = |(i, name): (usize, &&str)| {
        let checked = if i == 0 { " checked" } else { "" };
        format!("<label><input type=\"radio\" name=\"against-{id}\" value=\"{i}\"{checked}>{}</label>", escape(name))
    };
    let choices: String = baselines.iter().enumerate().map(choice).collect();
    format!("<fieldset class=\"switch\"><legend>Compared with</legend>{choices}</fieldset>\n")
}

fn panel(document: &Document, panel: &Panel<'_>, x: &Option<Scale>, baselines: &[&str]) -> String {
    let title = format!("{}, {}", panel.title, panel.measure);
    let title = if panel.title.starts_with(panel.measure) { panel.title.clone() } else { title };
    let axis = x.as_ref().map(rows::head).unwrap_or_default();
    let against: String = match baselines.is_empty() {
        true => String::new(),
        false => {
            let names: String = baselines
                .iter()
                .enumerate()
                .map(|(i, name)| format!("<span class=\"vs vs-{i}\">{}</span>", escape(name)))
                .collect();
            format!("<div role=\"columnheader\" class=\"fac\">p50 against {names}</div>")
        }
    };
    let best = panel.best().filter(|_| panel.rows.len() > 1);
    let medians: Vec<Option<f64>> = baselines.iter().map(|name| panel.row(name).and_then(median)).collect();
    let shown = panel.rows.iter().take(ROWS_MAX);
    let rows: String = shown
        .map(|row| {
            let is_best = best.is_some_and(|best| std::ptr::eq(best, *row));
            self::row(document, row, is_best, x.as_ref(), baselines, &medians)
        })
        .collect();
    let more = panel.rows.len().saturating_sub(ROWS_MAX);
    let more = if more > 0 {
        format!("<p class=\"how\">{more} more rows are in the table of numbers.</p>\n")
    } else {
        String::new()
    };
    let (has_factors, title) = (if baselines.is_empty() { " alone" } else { "" }, prose(&title));
    format!(
        "<h3>{title}</h3>\n<div class=\"panel{has_factors}\" role=\"table\" aria-label=\"{title}\">\n<div role=\"row\" class=\"r head\">\
         <div role=\"columnheader\" class=\"name\">Path</div><div role=\"columnheader\" class=\"chart\">{axis}</div>\
         <div role=\"columnheader\" class=\"n p50\">p50</div><div role=\"columnheader\" class=\"n p99\">p99</div>{against}</div>\n{rows}</div>\n{more}"
    )
}

fn row(
    document: &Document,
    row: &Row,
    best: bool,
    x: Option<&Scale>,
    baselines: &[&str],
    medians: &[Option<f64>],
) -> String {
    let class = crate::svg::class(family::of(document, row));
    let limit = family::is_limit(&row.path);
    let baseline = baselines.iter().position(|name| *name == label(row));
    let marks = Marks { best, limit, baseline };
    let chart = x.map(|x| rows::row(row, class, x, marks, medians)).unwrap_or_default();
    let d = &row.distribution;
    let factors = if baselines.is_empty() {
        String::new()
    } else {
        let cell: String = baselines.iter().enumerate().map(|(i, name)| factor(document, row, i, name)).collect();
        format!("<div role=\"cell\" class=\"fac\">{cell}</div>")
    };
    let kind = if best {
        " best"
    } else if limit {
        " limit"
    } else {
        ""
    };
    format!(
        "<div role=\"row\" class=\"r{kind}\" data-tip=\"{}\"><div role=\"rowheader\" class=\"name\"><b>{}</b>{}<small>{}</small></div>\
         <div role=\"cell\" class=\"chart\">{chart}</div><div role=\"cell\" class=\"n p50\">{}</div>\
         <div role=\"cell\" class=\"n p99\">{}</div>{factors}</div>\n",
        escape_lines(&tip(row)),
        escape(label(row)),
        tags(row, best, limit),
        escape(&description(document, row)),
        brief_or_absent(d.p50),
        brief_or_absent(d.p99),
    )
}

fn tags(row: &Row, best: bool, limit: bool) -> String {
    let tag = |class: &str, text: &str| format!(" <span class=\"tag {class}\">{}</span>", escape(text));
    let mut tags = String::new();
    if best {
        tags += &tag("first", "lowest p50");
    }
    if limit {
        tags += &tag("", "limit");
    }
    if row.modes.len() > 1 {
        tags += &tag("warn", &format!("{} modes", row.modes.len()));
    }
    if row.lost > 0 {
        tags += &tag("bad", &format!("{} lost", quantity::samples(row.lost)));
    }
    tags
}

/// What carries the messages, and whether a receive sleeps.
fn description(document: &Document, row: &Row) -> String {
    let family = family::of(document, row);
    let waits = match waiting(document, &row.path) {
        Waiting::Blocks => ", sleeps",
        Waiting::Spins => ", never sleeps",
        Waiting::Unknown => "",
    };
    match family {
        Family::Past => format!("{}{waits}", family.name()),
        Family::Memory => format!("{}{waits}", words::transport(&row.transport)),
        Family::KernelSleeps | Family::KernelSpins => match waiting(document, &row.path) {
            Waiting::Unknown if document.paths.iter().any(|info| info.name == row.path && info.waiting.is_some()) => {
                "kernel, polls, then sleeps".into()
            }
            _ => {
                format!("{}{}", if row.scenario == "fix" { words::transport(&row.transport) } else { "kernel" }, waits)
            }
        },
    }
}

/// What is told where somebody points.
fn tip(row: &Row) -> String {
    let d = &row.distribution;
    let mut lines = vec![format!("{}, {}", label(row), words::transport(&row.transport))];
    lines.push(format!("{} samples in {} slices", quantity::samples(d.n), row.blocks.len()));
    let times = [
        ("fastest", d.min),
        ("p50", d.p50),
        ("p90", d.p90),
        ("p99", d.p99),
        ("p99.9", d.p99_9),
        ("p99.99", d.p99_99),
        ("worst", d.max),
    ];
    lines.extend(times.iter().filter_map(|(name, time)| Some(format!("{name} {}", quantity::precise((*time)?)))));
    if let Some(ci) = d.ci95.p50 {
        lines.push(format!("95 % interval of p50 {}", quantity::interval(ci)));
    }
    let medians = || row.blocks.iter().map(|block| block.p50).filter(|p50| p50.is_finite());
    if let (Some(low), Some(high)) = (medians().reduce(f64::min), medians().reduce(f64::max)) {
        lines.push(format!("medians of slices {} to {}", brief(low), brief(high)));
    }
    lines.join("\n")
}

/// The comparison with one baseline.
fn factor(document: &Document, row: &Row, i: usize, baseline: &str) -> String {
    let text = if label(row) == baseline {
        "<em>baseline</em>".into()
    } else {
        let ratio = compare::against_all(document, row, "p50").into_iter().find(|ratio| ratio.against == baseline);
        ratio.map_or_else(|| ABSENT.into(), |ratio| told(&versus(document, ratio)))
    };
    format!("<span class=\"vs vs-{i}\">{text}</span>")
}

/// A comparison, its interval small beside it.
pub(super) fn told(versus: &Versus) -> String {
    let class = match versus.kind {
        Kind::Faster => "faster",
        Kind::Slower => "slower",
        Kind::NoDifference | Kind::WithinNoise | Kind::NotJudged => "unclaimed",
    };
    let reason = match versus.kind {
        Kind::NotJudged => "not judged",
        _ => versus.reason.as_str(),
    };
    let small =
        [versus.interval.as_str(), reason].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
    let small = if small.is_empty() { small } else { format!(" <small>{}</small>", prose(&small)) };
    format!("<span class=\"{class}\">{}</span>{small}", prose(&versus.finding))
}

/// The name of the section of the `i`-th scenario.
pub(super) fn id(i: usize) -> String {
    sections::paths_id(i)
}

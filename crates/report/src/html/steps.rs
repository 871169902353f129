//! The sections whose rows are steps or rates: the ladder, `tune verify`, throughput, causes and stages.

use super::element::{figure, folded, grid, prose, remarks, section, table};
use super::paths::told;
use crate::findings::Findings;
use crate::findings::family;
use crate::findings::panels::{Panel, ladders, median};
use crate::findings::quantity::{ABSENT, brief, brief_or_absent, per_second, whole};
use crate::findings::versus::{Kind, versus};
use crate::markup::escape;
use crate::schema::{Document, Ratio, Row, Step};
use crate::svg::causes::{CLASSES, timeline, worst};
use crate::svg::rows;
use crate::svg::scale::Scale;
use crate::svg::steps::{self, Effect};
use crate::tables::{causes as observed, published as others, stages as stamped, steps as tried};
use crate::view::compare;
use crate::view::{by_circumstance, label, streams as streaming, words};

/// Most panels of throughput; the table has all.
const PANELS_MAX: usize = 12;

/// One row of a panel: name, drawing, figures.
struct PanelRow {
    name: String,
    small: String,
    drawing: String,
    figure: String,
    words: String,
    class: &'static str,
}

/// A panel of rows that are no distributions. `heads`: the names of the rows, of the figures and of the words.
fn panel(title: &str, axis: &str, heads: [&str; 3], rows: &[PanelRow]) -> String {
    let title = prose(title);
    let row = |one: &PanelRow| {
        format!(
            "<div role=\"row\" class=\"r {}\"><div role=\"rowheader\" class=\"name\"><b>{}</b><small>{}</small></div><div role=\"cell\" \
             class=\"chart\">{}</div><div role=\"cell\" class=\"n p50\">{}</div><div role=\"cell\" class=\"fac\">{}</div></div>\n",
            one.class,
            prose(&one.name),
            prose(&one.small),
            one.drawing,
            prose(&one.figure),
            one.words
        )
    };
    let axis = if axis.is_empty() { "Picture" } else { axis };
    let [first, figure, words] = heads;
    format!(
        "<h3>{title}</h3>\n<div class=\"panel steps\" role=\"table\" aria-label=\"{title}\">\n<div role=\"row\" class=\"r head\"><div \
         role=\"columnheader\" class=\"name\">{first}</div><div role=\"columnheader\" class=\"chart\">{axis}</div><div role=\"columnheader\" \
         class=\"n p50\">{figure}</div><div role=\"columnheader\" class=\"fac\">{words}</div></div>\n{}</div>\n",
        rows.iter().map(row).collect::<String>()
    )
}

/// The ladder: from rung to rung, and what could not be measured.
pub(super) fn ladder(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("ladder") else { return String::new() };
    let ladders = ladders(document);
    let mut body: String = ladders.iter().map(|ladder| climb(document, ladder)).collect();
    if ladders.is_empty() {
        body += &missing_rungs(document);
    }
    body += "<p class=\"how\">Each bar goes from the median of the last step that was measured to that of this one, on a logarithmic axis: equal \
             factors have equal lengths. Blue: faster. Red: slower. Grey: no difference can be claimed.</p>\n";
    section(one, &(body + &remarks(&one.text)))
}

fn missing_rungs(document: &Document) -> String {
    let missing = document.unavailable.iter().filter_map(|one| Some((one.rung.as_ref()?, &one.reason)));
    let pair = |(rung, reason): (&String, &String)| format!("<dt>{}</dt><dd>{}</dd>\n", prose(rung), prose(reason));
    format!("<dl class=\"facts\">\n{}</dl>\n", missing.map(pair).collect::<String>())
}

fn climb(document: &Document, ladder: &Panel<'_>) -> String {
    let Some(x) = Scale::fit_log(ladder.rows.iter().filter_map(|row| median(row)), 0.0, 100.0) else {
        return String::new();
    };
    let transport = &ladder.rows[0].transport;
    let missing = document
        .unavailable
        .iter()
        .filter(|one| one.rung.is_some() && (one.transport == *transport || one.transport.is_empty()));
    let mut rungs: Vec<(String, Option<&Row>, String)> =
        missing.map(|one| (one.rung.clone().unwrap_or_default(), None, one.reason.clone())).collect();
    rungs.extend(ladder.rows.iter().map(|row| (label(row).to_owned(), Some(*row), String::new())));
    // Rungs are numbered.
    rungs.sort_by_key(|(name, ..)| {
        name.split(' ').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(u32::MAX)
    });
    let (mut before, mut rows): (Option<&Row>, Vec<PanelRow>) = (None, Vec::new());
    for (name, row, reason) in &rungs {
        let Some(row) = row.filter(|row| median(row).is_some()) else {
            let drawing = steps::skipped(before.and_then(median), &x);
            let words =
                format!("<span class=\"unclaimed\">not measured</span> <small>{}</small>", prose(first_clause(reason)));
            rows.push(PanelRow {
                name: name.clone(),
                small: String::new(),
                drawing,
                figure: ABSENT.into(),
                words,
                class: "skipped",
            });
            continue;
        };
        let at = median(row).unwrap_or_default();
        let effect = before.map_or(Effect::None, |before| effect(document, before, row));
        rows.push(PanelRow {
            name: name.clone(),
            small: row.path.clone(),
            drawing: steps::step(before.and_then(median), at, effect, &x),
            figure: brief(at),
            words: standing(document, row),
            class: "",
        });
        before = Some(row);
    }
    let measured: Vec<&Row> = ladder.rows.iter().copied().filter(|row| median(row).is_some()).collect();
    if let (Some(first), Some(last)) = (measured.first(), measured.last())
        && measured.len() > 2
    {
        let drawing = steps::step(median(first), median(last).unwrap_or_default(), effect(document, first, last), &x);
        let figure = brief_or_absent(median(last));
        let words = format!("<small>from {} to {}</small>", brief_or_absent(median(first)), figure);
        rows.push(PanelRow {
            name: "All steps together".into(),
            small: String::new(),
            drawing,
            figure,
            words,
            class: "sum",
        });
    }
    panel(&ladder.title, &rows::head(&x), ["Step", "p50", "that is"], &rows)
}

/// A reason up to its next step, which the list of what was not measured has.
fn first_clause(reason: &str) -> &str {
    [": ", "; "]
        .into_iter()
        .filter_map(|end| reason.split_once(end))
        .map(|(first, _)| first)
        .min_by_key(|first| first.len())
        .unwrap_or(reason)
}

/// What a step did: by the ratio of the two, in either direction, else by intervals that do not meet.
fn effect(document: &Document, before: &Row, after: &Row) -> Effect {
    let ratio = |of: &Row, against: &Row| {
        compare::against_all(document, of, "p50")
            .into_iter()
            .find(|ratio| ratio.against == label(against))
            .map(|ratio| versus(document, ratio).kind)
    };
    match (ratio(after, before), ratio(before, after)) {
        (Some(Kind::Faster), _) | (None, Some(Kind::Slower)) => return Effect::Faster,
        (Some(Kind::Slower), _) | (None, Some(Kind::Faster)) => return Effect::Slower,
        (Some(_), _) | (None, Some(_)) => return Effect::None,
        (None, None) => {}
    }
    match (before.distribution.ci95.p50, after.distribution.ci95.p50) {
        (Some([low, _]), Some([_, high])) if high < low => Effect::Faster,
        (Some([_, high]), Some([low, _])) if low > high => Effect::Slower,
        _ => Effect::None,
    }
}

/// A row beside its baseline.
fn standing(document: &Document, row: &Row) -> String {
    let stat = compare::shown_of(row);
    match compare::against_baseline(document, row, stat) {
        Some(ratio) => format!("{} <small>than {}</small>", told(&versus(document, ratio)), escape(&ratio.against)),
        None if compare::standing(document, row) == "baseline" => "<em>baseline</em>".into(),
        None => ABSENT.into(),
    }
}

/// Steps of `tune verify`, with their ratios.
pub(super) fn verified(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("steps") else { return String::new() };
    let p50 = |step: &Step| step.ratios.iter().find(|ratio| ratio.stat == "p50").cloned();
    let ratios: Vec<Ratio> = document.steps.iter().filter_map(p50).collect();
    let mut body = String::new();
    if let Some(x) = steps::ratio_scale(&ratios) {
        let rows: Vec<PanelRow> =
            document.steps.iter().filter_map(|step| Some(verified_row(step, &p50(step)?, &x))).collect();
        body += &panel(
            "With each step against without it, p50",
            &steps::ratio_head(&x),
            ["Step", "ratio", "decision"],
            &rows,
        );
    }
    let text = "Each step with and without it in one interleaved run, on top of those kept before it. It is kept if the median or \
                the 99th percentile is better, beyond the noise floor, and neither is worse. Time lost is that of a loop on \
                the measuring CPU that only reads the clock.";
    body += &format!("<p class=\"how\">{text}</p>\n");
    body += &tried::table(document).map(|found| table("Steps", &found)).unwrap_or_default();
    section(one, &(body + &remarks(&one.text)))
}

fn verified_row(step: &Step, ratio: &Ratio, x: &Scale) -> PanelRow {
    let [low, high] = ratio.ci95;
    let effect = match step.decision.as_str() {
        "kept" if ratio.value < 1.0 => Effect::Faster,
        _ if low > 1.0 && high > 1.0 => Effect::Slower,
        _ => Effect::None,
    };
    PanelRow {
        name: step.name.clone(),
        small: String::new(),
        drawing: steps::ratio(ratio, effect, x),
        figure: crate::number::ratio(ratio.value),
        words: format!("{} <small>{}</small>", prose(&step.decision), prose(&step.reason)),
        class: if step.decision == "kept" { "best" } else { "" },
    }
}

/// Throughput.
pub(super) fn streams(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("streams") else { return String::new() };
    let rows = streaming(document);
    let panels: Vec<String> = by_circumstance(&rows)
        .iter()
        .map(|group| {
            let rate = |row: &Row| row.rate_achieved.filter(|rate| rate.is_finite() && *rate >= 0.0);
            let mut rows = group.rows.clone();
            rows.sort_by(|a, b| rate(b).unwrap_or(-1.0).total_cmp(&rate(a).unwrap_or(-1.0)));
            let ranked = rows.iter().filter(|row| !family::is_limit(&row.path));
            let most = ranked.filter_map(|row| rate(row)).fold(0.0, f64::max);
            let drawn: Vec<PanelRow> = rows.iter().map(|row| stream(document, row, rate(row), most)).collect();
            panel(&group.heading, "Messages per second, from zero", ["Path", "rate", "mean time for a message"], &drawn)
        })
        .collect();
    let (open, closed) = panels.split_at(panels.len().min(4));
    let shown = &closed[..closed.len().min(PANELS_MAX)];
    let body =
        open.concat() + &folded("More", &words::counted(closed.len(), "panel", "panels"), &shown.concat(), false);
    section(one, &(body + &remarks(&one.text)))
}

fn stream(document: &Document, row: &Row, rate: Option<f64>, most: f64) -> PanelRow {
    let bytes = rate.map(|rate| format!("{}B/s", per_second(rate * f64::from(row.size)))).unwrap_or_default();
    PanelRow {
        name: label(row).to_owned(),
        small: bytes,
        drawing: steps::rate(rate.unwrap_or_default(), most, crate::svg::class(family::of(document, row))),
        figure: rate.map_or_else(|| ABSENT.into(), |rate| format!("{}/s", whole(rate))),
        words: standing(document, row),
        class: if rate == Some(most) && most > 0.0 { "best" } else { "" },
    }
}

/// What happened during the slowest samples.
pub(super) fn causes(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("causes") else { return String::new() };
    let key: String =
        CLASSES.iter().map(|(name, class)| format!("<li><i class=\"swatch {class}\"></i>{name}</li>")).collect();
    let mut body = format!("<ul class=\"key\">{key}</ul>\n");
    let rows = observed::rows(document);
    let charts: Vec<String> = rows
        .iter()
        .map(|(row, causes)| {
            let heading = observed::heading(row);
            figure(&format!("Slowest samples, {heading}"), &[timeline(causes, &heading)], "")
        })
        .collect();
    let how = "Each dot is one of the slowest samples; its colour is the kind of the cause that explains at least half of it.";
    body += &grid(&charts, how);
    for (row, causes) in &rows {
        let strips: Vec<PanelRow> = worst(causes)
            .into_iter()
            .map(|strip| PanelRow {
                name: strip.cause,
                small: String::new(),
                drawing: strip.drawing,
                figure: strip.time,
                words: prose(&strip.kind),
                class: "",
            })
            .collect();
        if !strips.is_empty() {
            let heading = format!("The worst of them, {}", observed::heading(row));
            let fact = words::counted(strips.len(), "sample with its events", "samples with their events");
            body += &folded(
                &heading,
                &fact,
                &panel(&heading, "From its beginning to its end", ["Cause", "took", "kind"], &strips),
                false,
            );
        }
    }
    body += &observed::table(document, usize::MAX).map(|found| table("Causes", &found)).unwrap_or_default();
    section(one, &(body + &remarks(&one.text)))
}

/// The stages of a round trip.
pub(super) fn stages(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("stages") else { return String::new() };
    let mut body = String::new();
    for row in &document.results {
        let Some(stages) = row.stages.as_deref() else { continue };
        let as_rows: Vec<Row> = stages
            .stages
            .iter()
            .map(|stage| Row { distribution: stage.distribution.clone(), ..Row::default() })
            .collect();
        let Some(x) = rows::scale(&as_rows) else { continue };
        let drawn: Vec<PanelRow> = stages
            .stages
            .iter()
            .zip(&as_rows)
            .map(|(stage, as_row)| PanelRow {
                name: stage.name.clone(),
                small: String::new(),
                drawing: rows::row(
                    as_row,
                    crate::svg::class(family::of(document, row)),
                    &x,
                    rows::Marks::default(),
                    &[],
                ),
                figure: brief_or_absent(stage.distribution.p50),
                words: brief_or_absent(stage.distribution.p99),
                class: if stage.name.starts_with("whole") { "sum" } else { "" },
            })
            .collect();
        body += &panel(
            &format!("{}, {}", label(row), words::transport(&row.transport)),
            &rows::head(&x),
            ["Stage", "p50", "p99"],
            &drawn,
        );
    }
    body += &stamped::table(document)
        .map(|found| folded("Numbers", "all stages", &table("Stages", &found), false))
        .unwrap_or_default();
    section(one, &(body + &remarks(&one.text)))
}

/// Figures of others.
pub(super) fn published(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("published") else { return String::new() };
    let tables = document.published.iter().filter_map(|one| Some((others::title(one), others::table(one)?)));
    let body: String =
        tables.map(|(title, found)| format!("<h3>{}</h3>\n{}", prose(&title), table(&title, &found))).collect();
    section(one, &body)
}

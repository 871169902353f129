//! The main finding, and what belongs beside it.

use super::Section;
use super::family::{self, Family};
use super::panels::{Compared, Panel, compared, ladders, median};
use super::quantity::brief;
use super::versus::{Kind, Versus, versus};
use crate::schema::{Document, Ratio, Row};
use crate::view::{compare, label, words};

/// Most sentences beside the headline.
const LEAD_MAX: usize = 5;

/// A path beside its baseline, as far as it may be said.
pub(super) struct Against<'a> {
    pub(super) ratio: &'a Ratio,
    pub(super) versus: Versus,
    /// Why it is no headline: a path has modes, a wide control, or none.
    pub(super) unsteady: Option<String>,
}

impl Against<'_> {
    /// Returns whether it may be the subject of a heading.
    pub(super) fn is_claim(&self) -> bool {
        self.unsteady.is_none() && self.versus.is_found()
    }
}

/// The comparisons of a row, for the statistic `stat`.
pub(super) fn against<'a>(document: &'a Document, row: &Row, stat: &str) -> Vec<Against<'a>> {
    let ratios = compare::against_all(document, row, stat).into_iter();
    ratios
        .map(|ratio| Against { ratio, versus: versus(document, ratio), unsteady: compare::unsteady(document, ratio) })
        .collect()
}

/// The panel of the headline: the first whose best path is compared with another, else the first with a path.
pub(super) fn main_panel<'a>(compared: &'a [Compared<'a>], document: &Document) -> Option<&'a Panel<'a>> {
    let panels = || compared.iter().flat_map(|one| &one.panels);
    let ranked = |panel: &&Panel<'_>| panel.best().is_some_and(|best| !family::is_limit(&best.path));
    let with_ratio = |panel: &&Panel<'_>| {
        panel.best().is_some_and(|best| compare::against_baseline(document, best, "p50").is_some())
    };
    panels()
        .filter(ranked)
        .find(with_ratio)
        .or_else(|| panels().find(ranked))
        .or_else(|| panels().find(|panel| panel.best().is_some()))
}

/// The main finding.
pub(super) fn headline(document: &Document, sections: &[Section]) -> String {
    let of = |id: &str| sections.iter().find(|section| section.id == id).map(|section| section.heading.clone());
    if !document.steps.is_empty() {
        return of("steps").unwrap_or_default();
    }
    let compared = compared(document);
    if let Some(told) = main_panel(&compared, document).and_then(|panel| of_panel(document, panel)) {
        return told;
    }
    let others = ["ladder", "streams", "sizes", "load", "rates"];
    let first = others.into_iter().find_map(|id| Some((id, of(id)?)));
    match first {
        // One stream is enough for a headline; the section has the others.
        Some(("streams", told)) => told.split("; ").next().unwrap_or_default().to_owned(),
        Some((_, told)) => told,
        None => "Nothing was measured".into(),
    }
}

/// The finding of a panel: its lowest median, and how far that is from the first baseline.
fn of_panel(document: &Document, panel: &Panel<'_>) -> Option<String> {
    let best = panel.best()?;
    let time = brief(median(best)?);
    let subject = subject(best);
    let told = match family::of(document, best) {
        Family::Past => format!("Past the kernel, {subject} takes {time}"),
        _ => format!("{} takes {time} with {}", capital(&subject), label(best)),
    };
    Some(told + &rest(document, panel, best))
}

/// The comparison in a headline. What may not be called a difference stands as two medians, which are facts.
fn rest(document: &Document, panel: &Panel<'_>, best: &Row) -> String {
    let all = against(document, best, "p50");
    if let Some(claim) = all.iter().find(|one| one.is_claim()) {
        return format!(": {} than {}", claim.versus.finding, named(&claim.versus.against));
    }
    let Some(first) = all.first() else { return String::new() };
    match (first.versus.kind, panel.row(&first.versus.against).and_then(median)) {
        (Kind::NoDifference, _) => {
            format!(", no measurable difference to {} ({})", first.versus.against, first.versus.interval)
        }
        (_, Some(other)) => format!("; with {} it takes {}", first.versus.against, brief(other)),
        _ => String::new(),
    }
}

/// A path that others are compared with, and whether it is a limit.
fn named(path: &str) -> String {
    if family::is_limit(path) { format!("{path}, the limit of this machine") } else { path.into() }
}

/// What takes the time: `a TCP round trip`.
pub(super) fn subject(row: &Row) -> String {
    let transport = words::transport(&row.transport);
    let (article, noun) = match (row.measure.as_str(), row.transport.as_str()) {
        ("rtt", "uds") => ("a", "round trip over a Unix socket".to_owned()),
        ("rtt", "shm") => ("a", "round trip over shared memory".to_owned()),
        ("rtt", "memory") => ("a", "round trip through memory".to_owned()),
        ("rtt", _) => ("a", format!("{transport} round trip")),
        ("half_rtt", _) => ("half", format!("a {transport} round trip")),
        ("one_way", _) => ("an", "event on its way to the reader".to_owned()),
        ("per_connection", _) => ("a", format!("{transport} connection with one message and its answer")),
        ("rtt_fill", _) => ("the", "way from an order to its fill".to_owned()),
        ("rtt_ack", _) => ("the", "way from an order to its acknowledgement".to_owned()),
        ("tick_to_trade", _) => ("the", "way from a tick to its order".to_owned()),
        ("rtt_heartbeat", _) => ("the", "way from a test request to its heartbeat".to_owned()),
        (other, _) => ("the", format!("measure {other}")),
    };
    format!("{article} {noun}")
}

/// The sentences beside the headline.
pub(super) fn lead(document: &Document) -> Vec<String> {
    if !document.steps.is_empty() {
        return Vec::new();
    }
    let compared = compared(document);
    let Some(main) = main_panel(&compared, document) else { return Vec::new() };
    let mut lead: Vec<String> = Vec::new();
    lead.extend(leader(document, main));
    lead.extend(kernel(document, main));
    lead.extend(tail(document, main));
    let same = compared.iter().filter(|one| one.panels.iter().any(|panel| std::ptr::eq(panel, main)));
    let others = same.flat_map(|one| &one.panels).filter(|panel| !std::ptr::eq(*panel, main));
    lead.extend(others.filter_map(|panel| elsewhere(document, main, panel)).take(2));
    lead.extend(ladders(document).first().filter(|_| compared.is_empty()).and_then(|panel| leader(document, panel)));
    lead.truncate(LEAD_MAX);
    lead
}

/// Which path it is, and whether the next one is apart from it.
fn leader(document: &Document, panel: &Panel<'_>) -> Option<String> {
    let (best, next) = (panel.best()?, panel.next()?);
    let between = against(document, best, "p50").into_iter().find(|one| one.versus.against == label(next));
    Some(match between {
        Some(one) if one.is_claim() => format!("The fastest path is {}.", label(best)),
        Some(one) if one.versus.kind == Kind::NoDifference => format!(
            "The lowest median is that of {}; {} shows no measurable difference to it.",
            label(best),
            label(next)
        ),
        _ => format!("The lowest median is that of {}, the next that of {}.", label(best), label(next)),
    })
}

/// The best path past the kernel beside the best through it.
fn kernel(document: &Document, panel: &Panel<'_>) -> Option<String> {
    let best = panel.best()?;
    if family::of(document, best) != Family::Past {
        return None;
    }
    let through = |row: &&&Row| matches!(family::of(document, row), Family::KernelSpins | Family::KernelSleeps);
    let kernel = panel.rows.iter().find(|row| through(row) && median(row).is_some())?;
    let time = brief(median(kernel)?);
    let one = against(document, best, "p50").into_iter().find(|one| one.versus.against == label(kernel))?;
    let told = match (one.is_claim(), one.versus.kind) {
        (true, _) => format!("{} is {}", label(best), one.versus.text()),
        (_, Kind::NoDifference) => format!("{} shows no measurable difference to it", label(best)),
        _ => return Some(format!("The fastest way through the kernel is {}, {time}.", label(kernel))),
    };
    Some(format!("Against {}, the fastest way through the kernel ({time}), {told}.", label(kernel)))
}

/// What the 99th percentiles say.
fn tail(document: &Document, panel: &Panel<'_>) -> Option<String> {
    let best = panel.best()?;
    let p99 = best.distribution.p99?;
    let one = against(document, best, "p99").into_iter().next();
    let rest = match one {
        Some(one) if one.is_claim() => format!(", {} than {}", one.versus.text(), one.versus.against),
        Some(one) if one.versus.kind == Kind::NoDifference => {
            format!(", no measurable difference to {}", one.versus.against)
        }
        _ => String::new(),
    };
    Some(format!("At p99 {} takes {}{rest}.", label(best), brief(p99)))
}

/// The best of another panel.
fn elsewhere(document: &Document, main: &Panel<'_>, panel: &Panel<'_>) -> Option<String> {
    let best = panel.best().filter(|best| !family::is_limit(&best.path))?;
    let place = if panel.over.is_empty() || panel.over == main.over { panel.title.clone() } else { panel.over.clone() };
    let time = brief(median(best)?);
    let claim = against(document, best, "p50").into_iter().find(Against::is_claim);
    let rest = claim.map(|one| format!(", {} than {}", one.versus.text(), one.versus.against)).unwrap_or_default();
    Some(format!("{}: {} with {}{rest}.", capital(&place), time, label(best)))
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A title for a window: the host, the main figure, the day.
pub(super) fn title(document: &Document) -> String {
    let host = if document.host.hostname.is_empty() { "Latency" } else { &document.host.hostname };
    let compared = compared(document);
    let figure = main_panel(&compared, document).filter(|_| document.steps.is_empty()).and_then(|panel| {
        let best = panel.best()?;
        let past = if family::of(document, best) == Family::Past { "past the kernel" } else { label(best) };
        Some(format!(": {} {} {past}", words::transport(&best.transport), brief(median(best)?)))
    });
    let day = document.started.get(..10).unwrap_or_default();
    format!("{host}{} · sidestep {day}", figure.unwrap_or_default()).trim_end().to_owned()
}

/// When, where and on what.
pub(super) fn meta(document: &Document) -> Vec<String> {
    let host = &document.host;
    let mut meta =
        vec![started(&document.started), words::place(&document.setup.place).to_owned(), host.hostname.clone()];
    if !host.cpu.is_empty() {
        let machine = host.virtualised.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        meta.push(format!("{} × {}{machine}", host.cpus, host.cpu));
    }
    if !host.kernel.is_empty() {
        meta.push(format!("Linux {}", host.kernel));
    }
    if !document.tool.version.is_empty() {
        meta.push(format!("{} {}", document.tool.name, document.tool.version));
    }
    meta.retain(|part| !part.trim().is_empty());
    meta
}

/// `2026-11-22T10:15:07Z` as `22 Nov 2026, 10:15 UTC`; what is no such time as it is.
fn started(text: &str) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let part = |range: std::ops::Range<usize>| text.get(range).and_then(|digits| digits.parse::<usize>().ok());
    let (Some(year), Some(month), Some(day), Some(clock)) = (part(0..4), part(5..7), part(8..10), text.get(11..16))
    else {
        return text.into();
    };
    match MONTHS.get(month.wrapping_sub(1)) {
        Some(name) if text.ends_with('Z') => format!("{day} {name} {year}, {clock} UTC"),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::sample;
    use crate::schema::Mode;

    /// kernel-pinned and xdp over TCP, each with a control of that reach.
    fn document(floor: Option<f64>, ratio: f64) -> Document {
        let mut ratios = vec![sample::ratio("xdp", "kernel-pinned", ratio, 0.05)];
        ratios.extend(
            floor
                .into_iter()
                .flat_map(|floor| ["xdp", "kernel-pinned"].map(|path| sample::ratio(path, path, 1.0, floor))),
        );
        Document {
            results: vec![sample::round_trip("kernel-pinned", 20_000.0), sample::round_trip("xdp", 20_000.0 * ratio)],
            ratios,
            ..Document::default()
        }
    }

    fn plain(text: &str) -> String {
        text.replace('\u{a0}', " ")
    }

    #[test]
    fn a_factor_is_claimed_only_where_it_may_be() {
        let told = |document: &Document| plain(&of(document).headline);
        assert_eq!(
            told(&document(Some(0.02), 0.25)),
            "Past the kernel, a TCP round trip takes 5.0 µs: 4.0× faster than kernel-pinned"
        );
        let facts = "Past the kernel, a TCP round trip takes 5.0 µs; with kernel-pinned it takes 20 µs";
        assert_eq!(told(&document(None, 0.25)), facts);
        assert_eq!(told(&document(Some(0.6), 0.25)), facts, "its control is wide");
        let mut modes = document(Some(0.02), 0.25);
        modes.results[0].modes = vec![Mode::default(); 2];
        assert_eq!(told(&modes), facts);
        let none = told(&document(Some(0.02), 0.98));
        assert!(
            none.ends_with("20 µs, no measurable difference to kernel-pinned (7.5 % faster to 2.9 % slower)"),
            "{none}"
        );
    }

    #[test]
    fn a_path_of_the_kernel_is_named() {
        let mut kernel = document(Some(0.02), 0.25);
        kernel.results.retain(|row| row.path != "xdp");
        kernel.ratios.clear();
        assert_eq!(plain(&of(&kernel).headline), "A TCP round trip takes 20 µs with kernel-pinned");
    }

    #[test]
    fn the_tail_is_told_where_it_is_known() {
        let mut found = document(Some(0.02), 0.25);
        assert!(!of(&found).lead.concat().contains("p99"));
        found.results[1].distribution.p99 = Some(9_000.0);
        assert!(plain(&of(&found).lead.concat()).contains("At p99 xdp takes 9.0 µs."));
    }

    #[test]
    fn the_start_is_a_date() {
        assert_eq!(started("2026-11-22T10:15:07Z"), "22 Nov 2026, 10:15 UTC");
        assert_eq!(
            (started("yesterday"), started("2026-33-22T10:15:07Z")),
            ("yesterday".into(), "2026-33-22T10:15:07Z".into())
        );
    }
}

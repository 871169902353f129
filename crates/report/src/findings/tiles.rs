//! Key figures.

use super::Tile;
use super::family::{self, Family};
use super::headline::{Against, against, capital, main_panel};
use super::panels::{Panel, compared, ladders, median};
use super::quantity::{self, brief, per_second};
use crate::number::{self, NO_BREAK};
use crate::schema::{Document, Row};
use crate::tables::streams::fastest as fastest_stream;
use crate::view::{by_circumstance, by_transport, compare, label, streams, sweep, words};

/// Most tiles.
pub const TILES_MAX: usize = 4;
/// The name of the tile that says how far a path differs from itself.
pub const NOISE: &str = "Noise floor";

/// The tiles: the best of the first panels or streams, and the noise floor.
pub(super) fn tiles(document: &Document) -> Vec<Tile> {
    if !document.steps.is_empty() {
        return vec![steps(document)];
    }
    let compared = compared(document);
    let main = main_panel(&compared, document);
    let first =
        main.and_then(|main| compared.iter().find(|one| one.panels.iter().any(|panel| std::ptr::eq(panel, main))));
    let panels = first.map_or(&[][..], |one| &one.panels[..]);
    let mut tiles: Vec<Tile> = panels.iter().filter_map(|panel| best(document, panel)).take(TILES_MAX - 1).collect();
    let room = (TILES_MAX - 1).saturating_sub(tiles.len());
    let rows = streams(document);
    tiles.extend(by_circumstance(&rows).iter().filter_map(|group| stream(document, &group.rows)).take(room));
    if panels.is_empty() {
        let ladders = ladders(document);
        let rungs = ladders.first().map_or(&[][..], |ladder| &ladder.rows[..]);
        tiles.extend(rungs.iter().filter_map(|row| rung(row)).take(TILES_MAX - 1 - tiles.len()));
    }
    if tiles.is_empty() {
        let sizes = sweep(document, "sizes");
        tiles.extend(by_transport(&sizes).iter().filter_map(|group| smallest(&group.rows)).take(TILES_MAX - 1));
        for scenario in ["open-loop", "rates"] {
            let rows = sweep(document, scenario);
            tiles.extend(
                by_transport(&rows).iter().filter_map(|group| kept(&group.rows)).take(TILES_MAX - 1 - tiles.len()),
            );
        }
    }
    tiles.extend(noise(document, panels).filter(|_| !document.ratios.is_empty()));
    tiles
}

fn steps(document: &Document) -> Tile {
    let kept = document.steps.iter().filter(|step| step.decision == "kept").count();
    let of = words::counted(document.steps.len(), "step", "steps");
    Tile { name: "Helped here".into(), value: format!("{kept} of {of}"), detail: "all changes were reverted".into() }
}

fn best(document: &Document, panel: &Panel<'_>) -> Option<Tile> {
    let best = panel.best()?;
    let name = match (family::of(document, best), panel.over.as_str()) {
        (Family::Past, _) => format!("{} past the kernel", words::transport(&best.transport)),
        (_, "") => capital(&panel.title),
        (_, "on one host") => format!("{}, on one host", words::transport(&best.transport)),
        _ => panel.title.clone(),
    };
    let p99 = best.distribution.p99.map(|p99| format!(", p99 {}", brief(p99))).unwrap_or_default();
    let claim = against(document, best, "p50").into_iter().find(Against::is_claim);
    let claim = claim.map(|one| format!("; {} than {}", one.versus.text(), one.versus.against)).unwrap_or_default();
    Some(Tile { name, value: brief(median(best)?), detail: format!("p50 of {}{p99}{claim}", label(best)) })
}

fn stream(document: &Document, rows: &[&Row]) -> Option<Tile> {
    let contestants: Vec<&Row> = rows.iter().copied().filter(|row| !family::is_limit(&row.path)).collect();
    let best = fastest_stream(&contestants)?;
    let rate = best.rate_achieved?;
    let claim = against(document, best, "mean").into_iter().find(Against::is_claim);
    let claim = claim.map(|one| format!("; {} than {}", one.versus.text(), one.versus.against)).unwrap_or_default();
    let bytes = rate * f64::from(best.size);
    let detail = format!("most messages, {}: {}B/s{claim}", label(best), per_second(bytes));
    let name = format!(
        "{}, {}{}",
        words::transport(&best.transport),
        quantity::bytes(best.size),
        words::direction(&best.scenario)
    );
    Some(Tile { name, value: format!("{}/s", per_second(rate)), detail })
}

fn rung(row: &Row) -> Option<Tile> {
    let p99 = row.distribution.p99.map(|p99| format!(", p99 {}", brief(p99))).unwrap_or_default();
    let detail = format!("p50 of {}{p99}", row.path);
    Some(Tile { name: label(row).to_owned(), value: brief(median(row)?), detail })
}

/// The lowest median of the smallest message.
fn smallest(rows: &[&Row]) -> Option<Tile> {
    let size = rows.iter().map(|row| row.size).min()?;
    let small = rows.iter().filter(|row| row.size == size && median(row).is_some());
    let best = small.min_by(|a, b| median(a).partial_cmp(&median(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    let name = format!("{}, {}", words::transport(&best.transport), quantity::bytes(size));
    let detail = format!("p50 of {}, {}", label(best), words::measure(&best.measure));
    Some(Tile { name, value: brief(median(best)?), detail })
}

/// A rate counts as kept where at least this share of it arrived.
const KEPT: f64 = 0.99;

/// The highest rate of which nearly all arrived.
fn kept(rows: &[&Row]) -> Option<Tile> {
    let is_kept = |row: &&&Row| matches!((row.rate_offered, row.rate_achieved), (Some(asked), Some(achieved)) if achieved >= KEPT * asked);
    let offered = |row: &Row| row.rate_offered.unwrap_or_default();
    let best = rows.iter().filter(is_kept).max_by(|a, b| offered(a).total_cmp(&offered(b)))?;
    let name = format!("{}, highest rate kept", words::transport(&best.transport));
    let detail = format!("{}: at least 99\u{a0}% of it arrived", label(best));
    Some(Tile { name, value: format!("{}/s", per_second(offered(best))), detail })
}

/// How far a path of the main comparison differs from itself.
fn noise(document: &Document, panels: &[Panel<'_>]) -> Option<Tile> {
    let name = NOISE.to_owned();
    let compared: Vec<&str> = panels.iter().flat_map(|panel| &panel.rows).map(|row| label(row)).collect();
    match compare::typical_noise_of(document, |path| compared.is_empty() || compared.contains(&path)) {
        Some(noise) if noise <= 1.0 => Some(Tile {
            name,
            value: format!("±{NO_BREAK}{}", quantity::share(noise)),
            detail: "how far a path differs from itself, in the middle; smaller differences mean nothing here".into(),
        }),
        Some(noise) => Some(Tile {
            name,
            value: number::difference(noise).trim_start_matches("a ").replace("factor of ", "factor "),
            detail: "so far a path differs from itself, in the middle: this run can compare nothing".into(),
        }),
        None => Some(Tile {
            name,
            value: "not known".into(),
            detail: "too few rounds to compare a path with itself; a longer run has it".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::schema::Step;

    #[test]
    fn the_noise_floor_stands_beside_the_best_of_each_panel() {
        let tiles = tiles(&sample::document());
        let names: Vec<_> = tiles.iter().map(|tile| tile.name.replace(NO_BREAK, " ")).collect();
        assert_eq!(names, ["TCP, 64 B", "Shared memory, on one host", "Noise floor"]);
        assert!(tiles[2].value.starts_with('±'), "{}", tiles[2].value);
    }

    #[test]
    fn noise_that_is_not_known_is_said_to_be_so() {
        let mut document = sample::document();
        document.ratios.retain(|ratio| !compare::is_control(ratio));
        assert_eq!(tiles(&document).last().unwrap().value, "not known");
        document.ratios.clear();
        assert!(tiles(&document).iter().all(|tile| tile.name != "Noise floor"));
    }

    #[test]
    fn with_steps_no_path_is_a_figure() {
        let step = |decision: &str| Step { decision: decision.into(), ..Step::default() };
        let document = Document { steps: vec![step("kept"), step("dropped")], ..sample::document() };
        assert_eq!(tiles(&document)[0].value, "1 of 2 steps");
    }
}

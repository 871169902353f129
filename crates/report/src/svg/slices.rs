//! Slices over time: which mode a path was in.

use super::axis;
use super::canvas::Canvas;
use super::scale::Scale;
use crate::findings::quantity;
use crate::schema::{Block, Row};

/// Most slices that are drawn; of more, evenly many are left out.
const SLICES_MAX: usize = 600;

/// The slices of `row`; `zone` are the slices of a path to compare with. None where nothing can be drawn.
pub(crate) fn chart(row: &Row, class: &str, zone: Option<&Row>, title: &str) -> Option<String> {
    let every = row.blocks.len().div_ceil(SLICES_MAX).max(1);
    let drawn: Vec<(usize, &Block)> = row
        .blocks
        .iter()
        .enumerate()
        .step_by(every)
        .filter(|(_, block)| block.n > 0 && block.p50.is_finite())
        .collect();
    let zone = zone.and_then(range);
    let times = drawn.iter().map(|(_, block)| block.p50).chain(zone.into_iter().flatten());
    let y = Scale::fit_log(times, 94.0, 6.0)?;
    let x = Scale::exact(0.0, row.blocks.len() as f64 + 1.0, 0.0, 100.0);
    let mut canvas = Canvas::default();
    if let Some([low, high]) = zone {
        canvas.rect((0.0, y.at(high)), (100.0, y.at(low)), "zone");
    }
    axis::up_times(&mut canvas, &y);
    let places: Vec<_> = ticks(row.blocks.len()).map(|n| (x.at(n as f64), n.to_string())).collect();
    axis::across(&mut canvas, &places);
    for (i, block) in &drawn {
        let kind = match (block.cpu, block.peer_cpu) {
            (Some(one), Some(other)) if one != other => "hollow",
            (Some(_), Some(_)) => "",
            _ => "unknown",
        };
        canvas.circle((x.at(*i as f64 + 1.0), y.at(block.p50)), 3.2, &format!("dot {class} {kind}"));
    }
    Some(canvas.finish("plot low", &label(row, &drawn, title)))
}

/// From the fastest to the slowest slice.
fn range(row: &Row) -> Option<[f64; 2]> {
    let times = || row.blocks.iter().map(|block| block.p50).filter(|p50| p50.is_finite() && *p50 > 0.0);
    Some([times().reduce(f64::min)?, times().reduce(f64::max)?])
}

/// The first slice, the last one, and one in the middle.
fn ticks(slices: usize) -> impl Iterator<Item = usize> {
    let mut ticks = vec![1, slices.div_ceil(2), slices];
    ticks.dedup();
    ticks.into_iter()
}

fn label(row: &Row, drawn: &[(usize, &Block)], title: &str) -> String {
    let one_cpu = drawn.iter().filter(|(_, block)| block.cpu.is_some() && block.cpu == block.peer_cpu).count();
    let modes: Vec<String> = row
        .modes
        .iter()
        .map(|mode| format!("{} in {}", quantity::brief(mode.p50), quantity::part(mode.share)))
        .collect();
    format!(
        "Medians of {} slices in their order, {title}: {}; both ends on one CPU in {one_cpu}",
        drawn.len(),
        modes.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_slice_on_two_cpus_is_hollow() {
        let mut row = sample::document().results[0].clone();
        row.blocks[0].peer_cpu = row.blocks[0].cpu;
        row.blocks[1].cpu = None;
        let drawn = chart(&row, "f-kernel", Some(&row), "TCP").unwrap();
        assert_eq!(
            (drawn.matches("<circle").count(), drawn.matches(" hollow").count(), drawn.matches(" unknown").count()),
            (8, 6, 1)
        );
        assert!(drawn.contains("zone") && drawn.contains("both ends on one CPU in 1"));
        row.blocks.clear();
        assert!(chart(&row, "f-kernel", None, "TCP").is_none());
    }
}

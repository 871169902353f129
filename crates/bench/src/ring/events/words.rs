//! The sentences on a run, and the figures of others beside it.

use super::Origin;
use sidestep_report::schema::{Published, PublishedRow, Row};

/// The figures that lorettayao/linux_hft publishes, in its own unit.
pub(super) fn published() -> Published {
    let row = |name: &str, p50, p99, p99_9| PublishedRow { name: name.into(), p50, p99, p99_9 };
    Published {
        source: "lorettayao/linux_hft, README.md".into(),
        unit: "cycles".into(),
        rows: vec![
            row("blocking read()", 570_492.0, 965_693.0, 1_383_176.0),
            row("mapped ring", 8_190.0, 11_634.0, 63_280.0),
        ],
        remarks: vec![
            "Its own figures, not measured here: an emulated machine (QEMU without KVM), 1,000 events, one per millisecond, \
             cycles of the emulated counter. They are not comparable with the times above; the ratios are of the same kind."
                .into(),
            "Its p99.9 is one sample.".into(),
        ],
    }
}

/// The parts of the gain of the polled ring, each a ratio of medians of this run.
pub(super) fn gain(origin: Origin, rows: &[Row]) -> Option<String> {
    let (block, spin, ring) = origin.parts();
    let p50 = |name: &str| rows.iter().find(|row| row.path == name)?.distribution.p50.filter(|p50| *p50 > 0.0);
    let awake = |name: &str| p50(&format!("{name}-awake"));
    let whole = p50(block)? / p50(ring)?;
    let (sleep, call) = (awake(block)? / awake(spin)?, awake(spin)? / awake(ring)?);
    let halt = p50(block)? / awake(block)?;
    Some(format!(
        "{ring} takes 1/{whole:.1} of the median of {block} where CPUs may halt. Of that, with CPUs kept awake, {sleep:.1}x is \
         that its reader does not sleep ({block} against {spin}), {call:.1}x what {spin} does besides waiting ({}), and \
         {halt:.1}x is the halted CPU ({block}, halting against awake). These are medians of all samples: the ratios have the intervals, and a part near 1 may be none.",
        origin.besides_waiting()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_report::schema::Distribution;

    fn row(path: &str, p50: f64) -> Row {
        Row {
            path: path.into(),
            distribution: Distribution { p50: Some(p50), ..Distribution::default() },
            ..Row::default()
        }
    }

    #[test]
    fn the_parts_multiply_to_the_whole() {
        let mut rows = vec![
            row("recv-block", 30_000.0),
            row("recv-block-awake", 20_000.0),
            row("recv-spin-awake", 2_000.0),
            row("bpf-ring-awake", 400.0),
            row("bpf-ring", 300.0),
        ];
        let sentence = gain(Origin::Xdp, &rows).unwrap();
        for part in ["1/100.0", "10.0x", "5.0x", "1.5x", "the system call and the copy"] {
            assert!(sentence.contains(part), "{part}: {sentence}");
        }
        rows.pop();
        assert_eq!(gain(Origin::Xdp, &rows), None);
    }

    #[test]
    fn the_published_ratios_are_those_that_it_states() {
        let rows = published().rows;
        assert_eq!(format!("{:.1} {:.1}", rows[0].p50 / rows[1].p50, rows[0].p99 / rows[1].p99), "69.7 83.0");
    }
}

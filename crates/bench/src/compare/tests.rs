//! Comparisons of documents whose figures are known.

use super::*;
use crate::stats::{freedom, student};
use sidestep_report::schema::{Block, Ci95, Distribution, RateDetail, Ratio};

/// Slices of a row.
const SLICES: usize = 40;
/// The rows of a table.
const PATHS: [&str; 5] = ["kernel-pinned", "kernel-epoll", "kernel-spin", "xdp-raw", "xdp"];

/// A value with the 95 % interval that a standard error, a share of it, gives.
fn stated(value: f64, error: f64) -> (Option<f64>, Option<[f64; 2]>) {
    let reach = student::t95(freedom(SLICES)) * error;
    (Some(value), Some([value * (-reach).exp(), value * reach.exp()]))
}

/// A row whose median and 99th percentile have a standard error of 1 % and 3 %.
fn row(path: &str, p50: f64, p99: f64) -> Row {
    let ((p50, of_p50), (p99, of_p99)) = (stated(p50, 0.01), stated(p99, 0.03));
    Row {
        scenario: "rr".into(),
        transport: "tcp".into(),
        path: path.into(),
        size: 64,
        measure: "rtt".into(),
        distribution: Distribution {
            n: 100_000,
            p50,
            p99,
            ci95: Ci95 { p50: of_p50, p99: of_p99, ..Ci95::default() },
            ..Distribution::default()
        },
        blocks: vec![Block::default(); SLICES],
        ..Row::default()
    }
}

fn document(rows: Vec<Row>) -> Document {
    Document { schema: SCHEMA, results: rows, ..Document::default() }
}

fn one(p50: f64, p99: f64) -> Document {
    document(vec![row("kernel-spin", p50, p99)])
}

fn verdicts(before: &Document, after: &Document) -> Vec<(Statistic, Verdict)> {
    Comparison::of(before, after).rows.iter().map(|row| (row.statistic, row.verdict)).collect()
}

fn control(stat: &str, value: f64, ci95: [f64; 2]) -> Ratio {
    Ratio {
        scenario: "rr".into(),
        transport: "tcp".into(),
        size: 64,
        of: "kernel-spin".into(),
        against: "kernel-spin".into(),
        stat: stat.into(),
        value,
        ci95,
        ..Ratio::default()
    }
}

#[test]
fn a_tenth_in_the_median_is_seen_and_nothing_is_nothing() {
    let base = one(5_000.0, 8_000.0);
    let none = Verdict::NoMeasurableDifference;
    assert_eq!(verdicts(&base, &one(5_700.0, 8_000.0)), [(Statistic::P50, Verdict::Worse), (Statistic::P99, none)]);
    assert_eq!(verdicts(&base, &one(4_400.0, 8_000.0)), [(Statistic::P50, Verdict::Better), (Statistic::P99, none)]);
    let equal = Comparison::of(&base, &base);
    assert!(equal.rows.iter().all(|row| row.verdict == none && row.p_value == Some(1.0)), "{equal:?}");
    let seen = equal.rows[0].detectable.expect("compared");
    assert!((0.06..0.15).contains(&seen), "it says what it would have seen: {seen}");
}

#[test]
fn a_tail_ten_times_as_long_is_worse_with_the_same_median() {
    let longer = verdicts(&one(5_000.0, 8_000.0), &one(5_000.0, 80_000.0));
    assert_eq!(longer, [(Statistic::P50, Verdict::NoMeasurableDifference), (Statistic::P99, Verdict::Worse)]);
    let mut far = [one(5_000.0, 8_000.0), one(5_000.0, 8_000.0)];
    for (document, p99_9) in far.iter_mut().zip([20_000.0, 200_000.0]) {
        let distribution = &mut document.results[0].distribution;
        (distribution.p99_9, distribution.ci95.p99_9) = stated(p99_9, 0.05);
    }
    assert_eq!(verdicts(&far[0], &far[1])[2], (Statistic::P99_9, Verdict::Worse));
}

#[test]
fn few_slices_and_absurd_figures_are_not_enough() {
    let base = one(5_000.0, 8_000.0);
    let mut few = one(9_000.0, 8_000.0);
    few.results[0].blocks.truncate(7);
    assert!(Comparison::of(&base, &few).lacks_data());
    for absurd in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let mut other = base.clone();
        other.results[0].distribution.p50 = Some(absurd);
        assert_eq!(verdicts(&base, &other)[0].1, Verdict::NotEnoughData, "{absurd}");
        other.results[0].distribution.ci95.p50 = Some([absurd; 2]);
        assert_eq!(verdicts(&base, &other)[0].1, Verdict::NotEnoughData, "{absurd}");
    }
    let mut older = base.clone();
    older.results[0].distribution.ci95.p99 = None;
    assert_eq!(verdicts(&base, &older)[1], (Statistic::P99, Verdict::NotEnoughData));
}

#[test]
fn a_control_that_is_wide_is_noise_also_where_it_is_centred() {
    let (base, mut slower) = (one(5_000.0, 8_000.0), one(5_700.0, 8_000.0));
    slower.ratios.push(control("p50", 1.0, [0.8, 1.25]));
    assert_eq!(verdicts(&base, &slower)[0].1, Verdict::NoMeasurableDifference);
    assert!(Comparison::of(&base, &slower).rows[0].noise_floor.expect("compared") > 0.24);
    slower.ratios[0].ci95 = [1e-9, 1e9];
    assert_eq!(verdicts(&base, &slower)[0].1, Verdict::TooNoisy);
}

#[test]
fn a_machine_that_changed_raises_the_floor_and_is_named() {
    let (mut base, mut slower) = (one(7_000.0, 8_000.0), one(10_500.0, 8_000.0));
    base.host.noise.yardstick.cache_line_ns = Some(130.0);
    slower.host.noise.yardstick.cache_line_ns = Some(430.0);
    let comparison = Comparison::of(&base, &slower);
    assert_eq!(comparison.rows[0].verdict, Verdict::TooNoisy);
    assert!(comparison.differences.iter().any(|line| line.contains("130 / 430")), "{:?}", comparison.differences);
}

#[test]
fn rows_of_one_run_alone_and_other_circumstances_are_listed() {
    let (base, mut other) = (one(5_000.0, 8_000.0), one(5_000.0, 8_000.0));
    other.results[0].size = 128;
    other.host.kernel = "6.12".into();
    let comparison = Comparison::of(&base, &other);
    assert_eq!((comparison.rows.len(), comparison.unmatched.len()), (0, 2));
    assert_eq!(comparison.differences, ["kernel:  / 6.12"]);
    assert!(comparison.lacks_data());
}

#[test]
fn a_stream_is_compared_by_its_rate_and_more_is_better() {
    let stream = |per_message: f64| {
        let mut row = row("xdp", 5_000.0, 8_000.0);
        row.measure = PER_MESSAGE.into();
        row.rate_achieved = Some(1e9 / per_message);
        (row.distribution.mean, row.distribution.ci95.mean) = stated(per_message, 0.01);
        document(vec![row])
    };
    let comparison = Comparison::of(&stream(100.0), &stream(80.0));
    let [rate] = &comparison.rows[..] else { panic!("{comparison:?}") };
    assert_eq!((rate.statistic, rate.verdict), (Statistic::Rate, Verdict::Better));
    assert!((rate.before.expect("rate") - 1e7).abs() < 1.0 && (rate.ratio.expect("ratio") - 1.25).abs() < 1e-9);
}

#[test]
fn losses_are_compared_where_there_are_any_and_a_burst_is_no_difference() {
    // Of each slice in turn.
    let lossy = |lost: &[u64]| {
        let mut document = one(5_000.0, 8_000.0);
        let row = &mut document.results[0];
        row.blocks.iter_mut().for_each(|block| (block.n, block.lost) = (2_500, Some(0)));
        row.blocks.iter_mut().zip(lost).for_each(|(block, lost)| block.lost = Some(*lost));
        row.lost = lost.iter().sum();
        document
    };
    let of = |before: &[u64], after: &[u64]| verdicts(&lossy(before), &lossy(after)).get(2).copied();
    assert_eq!(of(&[], &[]), None);
    assert_eq!(of(&[], &[25; SLICES]), Some((Statistic::Lost, Verdict::Worse)));
    assert_eq!(of(&[250; SLICES], &[2; SLICES]), Some((Statistic::Lost, Verdict::Better)));
    for burst in [&[1][..], &[0, 0, 0, 300], &[0, 0, 0, 0, 0, 0, 900]] {
        let verdict = of(&[], burst).expect("listed").1;
        assert!(matches!(verdict, Verdict::NoMeasurableDifference | Verdict::TooNoisy), "{burst:?}: {verdict:?}");
    }
    let mut older = lossy(&[25; SLICES]);
    older.results[0].blocks.iter_mut().for_each(|block| block.lost = None);
    assert_eq!(verdicts(&lossy(&[]), &older)[2].1, Verdict::NotEnoughData);
}

#[test]
fn what_was_not_even_sent_is_lost_and_no_share_exceeds_one() {
    let mut row = row("xdp", 5_000.0, 8_000.0);
    row.lost = 9_000;
    row.rate = Some(RateDetail { sent: 1_000, received: 1_000, unsent: 9_000, ..RateDetail::default() });
    row.blocks.iter_mut().for_each(|block| block.lost = Some(225));
    let reading = Statistic::Lost.read(&row).expect("slices");
    assert!((reading.value - 0.9).abs() < 1e-9);
}

#[test]
fn rows_of_other_arrivals_or_batches_are_other_rows() {
    let of = |arrival: &str, batch: u32| {
        let mut row = row("xdp", 5_000.0, 8_000.0);
        row.rate =
            Some(RateDetail { arrival: arrival.into(), batch, seed: Some(u64::from(batch)), ..RateDetail::default() });
        document(vec![row])
    };
    assert_eq!(Comparison::of(&of("constant", 1), &of("poisson", 1)).unmatched.len(), 2);
    assert_eq!(Comparison::of(&of("constant", 1), &of("constant", 32)).unmatched.len(), 2);
    let seeds = Comparison::of(&of("poisson", 0), &of("poisson", 1));
    assert!(seeds.differences.iter().any(|line| line == "seed of arrivals: 0 / 1"), "{:?}", seeds.differences);
}

#[test]
fn sides_of_unequal_runs_that_spread_differently_are_not_called_different_too_often() {
    let wrong = |counts: [usize; 2], spreads: [f64; 2]| {
        let table = |seed: &u64| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let mut side = |side: usize| -> Vec<Document> {
                (0..counts[side]).map(|_| one(5_000.0 * (spreads[side] * normal(&mut random)).exp(), 8_000.0)).collect()
            };
            let (before, after) = (side(0), side(1));
            let verdict = Comparison::of_runs(&before, &after).rows[0].verdict;
            matches!(verdict, Verdict::Better | Verdict::Worse)
        };
        (0..400).filter(table).count()
    };
    for (counts, spreads) in [([10, 3], [0.02, 0.05]), ([10, 2], [0.01, 0.05]), ([10, 1], [0.01, 0.03])] {
        let wrong = wrong(counts, spreads);
        println!("{counts:?} runs that spread by {spreads:?}: {wrong} of 400 equal sides called different");
        assert!(wrong <= 24, "{counts:?}: {wrong}");
    }
}

/// A normal deviate.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// Runs of a side: medians differ by 3 % from run to run, as those of equal runs were seen to, and tails by 8 %.
fn side(runs: usize, [p50, p99]: [f64; 2], random: &mut fastrand::Rng) -> Vec<Document> {
    let run = |random: &mut fastrand::Rng| {
        let mut of = |path: &&str| {
            let (median, tail) = ((0.03 * normal(random)).exp(), (0.08 * normal(random)).exp());
            row(path, 5_000.0 * p50 * median, 8_000.0 * p99 * tail)
        };
        document(PATHS.iter().map(&mut of).collect())
    };
    (0..runs).map(|_| run(random)).collect()
}

/// Tables of ten runs a side whose second side differs so: verdicts of each.
fn tables(change: [f64; 2], tables: u64) -> Vec<Vec<(Statistic, Verdict)>> {
    let table = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let (before, after) = (side(10, [1.0; 2], &mut random), side(10, change, &mut random));
        let comparison = Comparison::of_runs(&before, &after);
        comparison.rows.iter().map(|row| (row.statistic, row.verdict)).collect()
    };
    (1..=tables).map(table).collect()
}

#[test]
fn of_twenty_tables_of_equal_runs_at_most_one_calls_a_row_different() {
    let tables = tables([1.0; 2], 200);
    let is_wrong = |table: &&Vec<(Statistic, Verdict)>| {
        table.iter().any(|(_, verdict)| matches!(verdict, Verdict::Better | Verdict::Worse))
    };
    let wrong = tables.iter().filter(is_wrong).count();
    println!("equal runs, ten a side: {wrong} of 200 tables of ten statistics call one different");
    assert!(wrong <= 10, "{wrong} of 200");
    assert!(tables.iter().flatten().all(|(_, verdict)| *verdict != Verdict::NotEnoughData));
}

#[test]
fn a_tenth_in_the_median_and_a_doubled_tail_are_worse_in_nineteen_of_twenty() {
    for (change, changed) in [([1.1, 1.0], Statistic::P50), ([1.0, 2.0], Statistic::P99)] {
        let tables = tables(change, 100);
        let found = tables.iter().flatten().filter(|(statistic, _)| *statistic == changed);
        let (all, worse) =
            found.fold((0, 0), |(all, worse), row| (all + 1, worse + usize::from(row.1 == Verdict::Worse)));
        println!("{changed:?} {change:?}, ten runs a side: worse in {worse} of {all} rows");
        assert!(worse * 20 >= all * 19, "{changed:?}: {worse} of {all}");
        let better = tables.iter().flatten().filter(|(_, verdict)| *verdict == Verdict::Better).count();
        assert!(better <= 2, "{better}");
    }
}

#[test]
fn runs_that_lie_far_apart_say_what_they_would_have_seen() {
    let wild = |p50: f64| [0.8, 1.0, 1.3].map(|share| one(p50 * share, 8_000.0));
    let comparison = Comparison::of_runs(&wild(5_000.0), &wild(5_500.0));
    let row = &comparison.rows[0];
    assert!(matches!(row.verdict, Verdict::TooNoisy | Verdict::NoMeasurableDifference));
    assert!(row.detectable.expect("compared") > 0.5, "{row:?}");
    let quotient = row.after.expect("compared") / row.before.expect("compared");
    assert!((quotient - row.ratio.expect("compared")).abs() < 1e-9, "the ratio is that of the columns");
    assert_eq!(comparison.runs, [3, 3]);
}

#[test]
fn a_row_is_compared_where_every_run_has_it_and_has_enough_of_it() {
    let mut random = fastrand::Rng::with_seed(1);
    let (before, mut after) = (side(3, [1.0; 2], &mut random), side(3, [1.0; 2], &mut random));
    after[1].results[0].blocks.truncate(3);
    assert_eq!(Comparison::of_runs(&before, &after).rows[0].verdict, Verdict::NotEnoughData);
    after[1].results.clear();
    let comparison = Comparison::of_runs(&before, &after);
    assert!(comparison.rows.is_empty() && comparison.unmatched[0].ends_with("(not in every run)"));
    let comparison = Comparison::of_runs(&before, &[]);
    assert!(comparison.rows.is_empty() && comparison.unmatched[0].ends_with("(only in the first)"));
    assert_ne!(Comparison::of_runs(&before[..1], &before).rows[0].verdict, Verdict::NotEnoughData);
}

#[test]
fn sides_that_were_not_taken_in_turn_are_named() {
    let at =
        |times: [u8; 2]| times.map(|time| Document { started: format!("2026-01-01T0{time}:00:00Z"), ..one(5e3, 8e3) });
    let told = |before, after| Comparison::of_runs(&at(before), &at(after)).differences;
    assert!(told([1, 3], [2, 4]).is_empty());
    assert!(told([1, 2], [3, 4])[0].starts_with("time:"));
    assert!(told([3, 4], [1, 2])[0].starts_with("time:"));
}

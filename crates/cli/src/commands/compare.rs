//! `sidestep compare`.

use crate::args;
use crate::exit;
use crate::output::{self, Outputs};
use crate::values::RunFiles;
use sidestep_bench::compare::{Compared, Comparison, Verdict};
use sidestep_report::json;
use sidestep_report::schema::Document;
use sidestep_sys::Problem;
use std::fmt::Write;

pub(super) fn run(args: &args::Compare) -> Result<u8, Problem> {
    Outputs::prepare(args.json.clone(), None)?;
    let read =
        |files: &RunFiles| files.0.iter().map(|file| json::read(file)).collect::<Result<Vec<Document>, Problem>>();
    let comparison = Comparison::of_runs(&read(&args.before)?, &read(&args.after)?);
    match &args.json {
        Some(path) => {
            let text = serde_json::to_string_pretty(&comparison).map_err(|error| {
                Problem::failed("cannot write the comparison", error).next("leave --json out to see it as text")
            })?;
            output::write(path, &(text + "\n"))?;
        }
        None => output::print(&render(&comparison))?,
    }
    Ok(match comparison {
        _ if comparison.has_regression() => exit::REGRESSION,
        _ if comparison.lacks_data() => exit::NOT_ENOUGH_DATA,
        _ => exit::GOOD,
    })
}

/// The next step if the noise floor hides every difference.
const TOO_NOISY: &str = "
too noisy to tell: the runs of one side differ too much, or the machine's own speed does; a factor of two would not be seen.
Measure longer (--duration), on a quieter machine, or give more runs of each side, taken in turn.
";

fn render(comparison: &Comparison) -> String {
    let mut text = String::new();
    let width = comparison.rows.iter().map(|row| row.row.chars().count()).max().unwrap_or_default().max(3);
    let _ = writeln!(
        text,
        "{:width$} {:>12} {:>12} {:>7} {:>15} {:>6}  verdict",
        "row", "before p50", "after p50", "ratio", "95 % interval", "floor"
    );
    for row in &comparison.rows {
        let _ = writeln!(text, "{}", line(row, width));
    }
    let [before, after] = comparison.runs;
    if before > 1 || after > 1 {
        let _ = writeln!(text, "\n{before} and {after} runs; the floor is the distance between the runs of one side");
    }
    if comparison.rows.iter().any(|row| row.verdict == Verdict::TooNoisy) {
        text.push_str(TOO_NOISY);
    }
    section(&mut text, "\nnot compared:", &comparison.unmatched);
    section(&mut text, "\nthe runs differ in (first / second):", &comparison.differences);
    text
}

fn line(row: &Compared, width: usize) -> String {
    let us = |ns: Option<f64>| ns.map_or_else(|| "n/a".to_owned(), |ns| format!("{} us", short(ns.ceil() / 1e3, 3)));
    let ratio = row.ratio.map_or_else(|| "n/a".to_owned(), |ratio| short(ratio, 3));
    let interval =
        row.ci95.map_or_else(|| "n/a".to_owned(), |[low, high]| format!("[{}, {}]", short(low, 3), short(high, 3)));
    format!(
        "{:width$} {:>12} {:>12} {ratio:>7} {interval:>15} {:>6}  {}",
        row.row,
        us(row.before_p50),
        us(row.after_p50),
        percent(row.noise_floor),
        row.verdict.words()
    )
}

/// Formats a number so that it fits its column.
fn short(value: f64, digits: usize) -> String {
    if value.abs() < 1e7 { format!("{value:.digits$}") } else { format!("{value:.1e}") }
}

fn percent(share: f64) -> String {
    if share < 10.0 { format!("{:.1}%", share * 100.0) } else { ">999%".into() }
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "{title}\n  {}", lines.join("\n  "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_that_hides_everything_is_short_and_says_what_to_do() {
        let row = |noise_floor: f64, verdict| Compared {
            row: "rr tcp kernel-spin 64 B".into(),
            before_p50: Some(5_000.0),
            after_p50: Some(1e300),
            ratio: Some(noise_floor),
            ci95: Some([0.0, f64::MAX]),
            noise_floor,
            verdict,
        };
        for floor in [1.0, 12.3, 1e160, f64::INFINITY] {
            assert!(
                line(&row(floor, Verdict::TooNoisy), 30).len() < 140,
                "{}",
                line(&row(floor, Verdict::TooNoisy), 30)
            );
        }
        assert!(line(&row(0.123, Verdict::NoMeasurableDifference), 30).contains(" 12.3%  no measurable difference"));
        let of = |verdict| Comparison {
            schema: 1,
            runs: [3, 3],
            rows: vec![row(150.0, verdict)],
            unmatched: Vec::new(),
            differences: Vec::new(),
        };
        let told = render(&of(Verdict::TooNoisy));
        assert!(told.contains(">999%  too noisy to tell\n") && told.contains("Measure longer (--duration)"), "{told}");
        assert!(!render(&of(Verdict::NoMeasurableDifference)).contains("too noisy"));
    }
}

//! `sidestep compare`.

use crate::args;
use crate::exit;
use crate::output::{self, Outputs};
use crate::values::RunFiles;
use sidestep_bench::compare::{Compared, Comparison};
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
            let text = serde_json::to_string_pretty(&comparison)
                .map_err(|error| Problem::failed("cannot write the comparison", error))?;
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
        let _ = writeln!(text, "\n{before} and {after} runs; the floor is how far the runs of a side lie apart");
    }
    section(&mut text, "\nnot compared:", &comparison.unmatched);
    section(&mut text, "\nthe runs differ in (first / second):", &comparison.differences);
    text
}

fn line(row: &Compared, width: usize) -> String {
    let us =
        |ns: Option<f64>| ns.map_or_else(|| "n/a".to_owned(), |ns| format!("{:.3} us", (ns / 1e3 * 1e3).ceil() / 1e3));
    let ratio = row.ratio.map_or_else(|| "n/a".to_owned(), |ratio| format!("{ratio:.3}"));
    let interval = row.ci95.map_or_else(|| "n/a".to_owned(), |[low, high]| format!("[{low:.3}, {high:.3}]"));
    format!(
        "{:width$} {:>12} {:>12} {ratio:>7} {interval:>15} {:>5.1}%  {}",
        row.row,
        us(row.before_p50),
        us(row.after_p50),
        row.noise_floor * 100.0,
        row.verdict.words()
    )
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "{title}\n  {}", lines.join("\n  "));
    }
}

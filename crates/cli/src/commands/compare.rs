//! `sidestep compare`.

use crate::args;
use crate::exit;
use crate::output::{self, Outputs};
use crate::progress::Bar;
use crate::signal::stop_flag;
use crate::values::RunFiles;
use sidestep_bench::compare::{Alternate, Compared, Comparison, Statistic, Verdict, check_distinct, is_on_both};
use sidestep_report::json;
use sidestep_report::schema::Document;
use sidestep_sys::Problem;
use sidestep_sys::printable::printable;
use sidestep_sys::problem::say;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &args::Compare) -> Result<u8, Problem> {
    check_output(args)?;
    Outputs::prepare(args::Output { json: args.json.clone(), ..args::Output::default() })?;
    let (comparison, problem) = match (&args.run, &args.before, &args.after) {
        (Some(commands), ..) => alternated(args, commands)?,
        (None, Some(before), Some(after)) => (of_files(&read(before)?, &read(after)?), None),
        _ => {
            return Err(
                Problem::usage("nothing to compare", "two results are needed").next("see sidestep compare --help")
            );
        }
    };
    match &args.json {
        Some(path) => {
            let text = serde_json::to_string_pretty(&comparison).map_err(|error| {
                Problem::failed("cannot write the comparison", error).next("leave --json out to see it as text")
            })?;
            output::write(path, &(text + "\n"))?;
        }
        None => output::print(&render(&comparison, output::style().width))?,
    }
    match problem {
        Some(problem) => Err(problem),
        None if comparison.has_regression() => Ok(exit::REGRESSION),
        None if comparison.lacks_data() => Ok(exit::NOT_ENOUGH_DATA),
        None => Ok(exit::GOOD),
    }
}

fn read(files: &RunFiles) -> Result<Vec<Document>, Problem> {
    let runs = files.0.iter().map(|file| json::read(file)).collect::<Result<Vec<_>, _>>()?;
    check_distinct(&runs).map(|()| runs)
}

/// Refuses to write the comparison over a result that it compares.
fn check_output(args: &args::Compare) -> Result<(), Problem> {
    let Some(output) = &args.json else { return Ok(()) };
    let mut inputs = args.before.iter().chain(&args.after).flat_map(|side| &side.0);
    if !inputs.any(|input| output::is_same(input, output)) {
        return Ok(());
    }
    let what = format!("cannot write the comparison to {}", output.display());
    Err(Problem::usage(what, "it is one of the results to be compared").next("name another file: --json FILE"))
}

fn of_files(before: &[Document], after: &[Document]) -> Comparison {
    if is_on_both(before, after) {
        say("note: a result is on both sides; between it and itself there is no difference");
    }
    Comparison::of_runs(before, after)
}

/// Runs two commands in turn; with the reason why there are fewer rounds than asked for.
fn alternated(args: &args::Compare, commands: &[String]) -> Result<(Comparison, Option<Problem>), Problem> {
    let [before, after] = commands else {
        return Err(
            Problem::usage("nothing to compare", "--run takes two commands").next("see sidestep compare --help")
        );
    };
    let folder = Folder::open(args.keep.as_deref())?;
    let alternate =
        Alternate { commands: [before.clone(), after.clone()], rounds: args.rounds, folder: folder.path.clone() };
    let found = alternate.run(&mut Bar::new(), stop_flag()?.as_ref());
    match (found.runs[0].is_empty(), found.problem) {
        (true, Some(problem)) => Err(problem),
        (_, problem) => Ok((Comparison::of_runs(&found.runs[0], &found.runs[1]), problem)),
    }
}

/// The folder of the result files; removed at the end unless they are to be kept.
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    fn open(keep: Option<&Path>) -> Result<Self, Problem> {
        let own = || std::env::temp_dir().join(format!("sidestep-compare-{}", std::process::id()));
        let path = keep.map_or_else(own, Path::to_path_buf);
        let made = if keep.is_some() { std::fs::create_dir_all(&path) } else { std::fs::create_dir(&path) };
        made.map_err(|error| {
            Problem::failed(format!("cannot make the folder {}", path.display()), error)
                .next("name another: --keep FOLDER")
        })?;
        Ok(Self { path, is_kept: keep.is_some() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The longest text of a result file that is shown, bytes: longer than any kernel command line.
const TEXT_BYTES: usize = 8 << 10;

/// The next step if noise hides every difference.
const TOO_NOISY: &str = "
too noisy to tell: a factor of two would not be seen. Measure longer (--duration),
on a quieter machine, or give more runs of each side, taken in turn (--run,
--rounds).
";

/// The next step if no row is in all runs.
const NOTHING_COMMON: &str = "
nothing to compare: the runs have no row in common. Compare results of the same
command, with the same transport, paths and sizes.
";

/// What the columns are.
const MEANING: &str = "
ratio: after over before, with its 95 % interval; p: the chance of such a
difference between equal sides, corrected for the number of lines (Holm);
floor: a smaller difference is noise; would see: a change of that size would be
found in four of five comparisons.
";

/// Columns of the table.
const COLUMNS: usize = 10;

/// Their headings, and their ranks: on a narrow terminal the highest goes first; 0 never goes.
const HEADS: [(&str, u8); COLUMNS] = [
    ("row", 0),
    ("", 0),
    ("before", 0),
    ("after", 0),
    ("ratio", 0),
    ("95 % interval", 1),
    ("p", 2),
    ("floor", 4),
    ("would see", 3),
    ("verdict", 0),
];

/// The widths of the columns; none for one that is hidden.
struct Layout {
    widths: [Option<usize>; COLUMNS],
    /// Set if the name of a row has a line of its own.
    is_stacked: bool,
}

impl Layout {
    /// Gives names lines of their own, then hides columns, until a line fits.
    fn fit(lines: &[[String; COLUMNS]], page: usize) -> Self {
        let widest = |i: usize| lines.iter().map(|line| line[i].chars().count()).chain([HEADS[i].0.len()]).max();
        let mut layout = Self { widths: std::array::from_fn(widest), is_stacked: false };
        layout.is_stacked = layout.total() > page;
        while layout.total() > page {
            let shown = (0..COLUMNS).filter(|i| layout.widths[*i].is_some() && HEADS[*i].1 > 0);
            let Some(last) = shown.max_by_key(|i| HEADS[*i].1) else { break };
            layout.widths[last] = None;
        }
        layout
    }

    fn total(&self) -> usize {
        let first = usize::from(self.is_stacked);
        self.widths[first..].iter().flatten().map(|width| width + 2).sum()
    }

    /// Writes a line; with the name of its row only if that is new.
    fn write(&self, cells: &[String; COLUMNS], is_new: bool, text: &mut String) {
        let mut line = String::new();
        if self.is_stacked && is_new {
            let _ = writeln!(text, "{}", cells[0]);
        }
        for (i, (cell, width)) in cells.iter().zip(self.widths).enumerate().skip(usize::from(self.is_stacked)) {
            let _ = match width {
                Some(width) if i == 0 => write!(line, "{cell:width$}"),
                Some(_) if i + 1 == COLUMNS => write!(line, "  {cell}"),
                Some(width) => write!(line, "  {cell:>width$}"),
                None => Ok(()),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn render(comparison: &Comparison, width: usize) -> String {
    let mut text = String::new();
    section(&mut text, "the runs differ in (first / second):", &comparison.differences);
    if !comparison.differences.is_empty() {
        text.push('\n');
    }
    let lines: Vec<[String; COLUMNS]> = comparison.rows.iter().map(cells).collect();
    let layout = Layout::fit(&lines, width);
    layout.write(&HEADS.map(|(head, _)| head.to_owned()), false, &mut text);
    for (i, line) in lines.iter().enumerate() {
        layout.write(line, i == 0 || lines[i - 1][0] != line[0], &mut text);
    }
    let hidden = layout.widths.iter().filter(|width| width.is_none()).count();
    if hidden > 0 {
        let _ = writeln!(text, "\ncolumns hidden: {hidden}; a wider terminal, or --json, has them");
    }
    text.push_str(MEANING);
    let [before, after] = comparison.runs;
    if before > 1 || after > 1 {
        let _ = writeln!(text, "{before} and {after} runs; their spread is in the interval");
    }
    if comparison.rows.iter().any(|row| row.verdict == Verdict::TooNoisy) {
        text.push_str(TOO_NOISY);
    }
    if comparison.rows.is_empty() {
        text.push_str(NOTHING_COMMON);
    }
    section(&mut text, "\nnot compared:", &comparison.unmatched);
    text
}

fn cells(row: &Compared) -> [String; COLUMNS] {
    let value = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| shown(row.statistic, value));
    let missing = || "n/a".to_owned();
    let ratio = row.ratio.map_or_else(missing, |ratio| short(ratio, 3));
    let interval = row.ci95.map_or_else(missing, |[low, high]| format!("[{}, {}]", short(low, 3), short(high, 3)));
    let p = row.p_value.map_or_else(missing, |p| if p < 0.001 { "<0.001".into() } else { format!("{p:.3}") });
    [
        shown_text(&row.row),
        row.statistic.name().into(),
        value(row.before),
        value(row.after),
        ratio,
        interval,
        p,
        row.noise_floor.map_or_else(missing, percent),
        row.detectable.map_or_else(missing, percent),
        row.verdict.words().into(),
    ]
}

/// A value with its unit.
fn shown(statistic: Statistic, value: f64) -> String {
    match statistic {
        Statistic::P50 | Statistic::P99 | Statistic::P99_9 => format!("{} us", short(value.ceil() / 1e3, 3)),
        Statistic::Rate => format!("{} /s", short(value, 0)),
        Statistic::Lost => format!("{} %", short(value * 100.0, 3)),
    }
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
        let lines: Vec<_> = lines.iter().map(|line| shown_text(line)).collect();
        let _ = writeln!(text, "{title}\n  {}", lines.join("\n  "));
    }
}

/// Words of a result file, which may be anybody's, fit for a terminal.
fn shown_text(text: &str) -> String {
    printable(text, TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_that_hides_everything_is_short_and_says_what_to_do() {
        let row = |noise_floor: f64, verdict| Compared {
            row: "rr tcp kernel-spin 64 B".into(),
            statistic: Statistic::P50,
            before: Some(5_000.0),
            after: Some(1e300),
            ratio: Some(noise_floor),
            ci95: Some([0.0, f64::MAX]),
            noise_floor: Some(noise_floor),
            p_value: Some(1.0),
            detectable: Some(noise_floor),
            verdict,
        };
        let of_row = |row| Comparison {
            schema: 1,
            runs: [3, 3],
            rows: vec![row],
            differences: Vec::new(),
            unmatched: Vec::new(),
        };
        for floor in [1.0, 12.3, 1e160, f64::INFINITY] {
            for width in [80, 100, 160] {
                let told = render(&of_row(row(floor, Verdict::NoMeasurableDifference)), width);
                let table = &told;
                assert!(table.lines().all(|line| line.chars().count() <= width), "{width}: {table}");
            }
        }
        let told = render(&of_row(row(0.123, Verdict::NoMeasurableDifference)), 160);
        assert!(told.contains("12.3%      12.3%  no measurable difference"), "{told}");
        let narrow = render(&of_row(row(0.123, Verdict::NoMeasurableDifference)), 80);
        assert!(narrow.contains("rr tcp kernel-spin 64 B\n") && narrow.contains("columns hidden: "), "{narrow}");
        let render = |comparison: &Comparison| render(comparison, 160);
        let of = |verdict| of_row(row(150.0, verdict));
        let strange = Comparison {
            rows: vec![Compared { row: "a\u{1b}[2Jb".into(), ..row(0.1, Verdict::Better) }],
            differences: vec!["kernel: \u{1b}]0;x\u{7} / 6".into()],
            unmatched: vec!["rr\n\u{9b}31m".into()],
            ..of(Verdict::Better)
        };
        let told = render(&strange);
        assert!(told.contains("a?[2Jb") && told.contains("rr??31m"), "{told}");
        assert!(told.chars().all(|letter| letter == '\n' || !letter.is_control()), "{told:?}");
        let told = render(&of(Verdict::TooNoisy));
        assert!(told.contains(">999%  too noisy to tell\n") && told.contains("Measure longer (--duration)"), "{told}");
        assert!(!render(&of(Verdict::NoMeasurableDifference)).contains("too noisy"));
        let nothing = render(&Comparison { rows: Vec::new(), ..of(Verdict::TooNoisy) });
        assert!(nothing.contains("no row in common. Compare results of the same\ncommand"), "{nothing}");
    }
}

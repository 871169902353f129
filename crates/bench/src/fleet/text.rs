//! The fleet as text for a terminal.

use super::outlier::{HOSTS_MIN, Standing};
use super::rows::{HostValue, RowOfHosts};
use super::{Figure, Fleet, Overall};
use crate::compare::{Statistic, Verdict};
use sidestep_sys::printable::printable;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Hosts that are shown of a row, the fastest and the slowest, besides those that differ.
const FASTEST_SHOWN: usize = 3;
const SLOWEST_SHOWN: usize = 7;
/// Files left out that are named.
const FILES_SHOWN: usize = 10;
/// The longest text of a result file that is shown, bytes.
const TEXT_BYTES: usize = 400;

const MEANING: &str = "
x median: the value over the median of the hosts. A host is slower or faster if its
distance from the median, beyond the floor of `compare`, is improbable for the spread
of the hosts (1.48 MAD of the logarithms, Student's t), corrected for all hosts, rows
and statistics (Holm): in 19 of 20 fleets of equal hosts none is marked.
";

/// Returns the tables; of many hosts the fastest, the slowest and those that differ, unless `all`.
pub fn render(fleet: &Fleet, all: bool, width: usize) -> String {
    let mut text = format!("hosts: {}, runs: {}\n", fleet.hosts.len(), fleet.runs);
    verdict(fleet, &mut text);
    hosts(fleet, all, width, &mut text);
    common(fleet, &mut text);
    for (name, rows) in by_name(fleet) {
        row(name, &rows, fleet.baseline.is_some(), all, width, &mut text);
    }
    text.push_str(MEANING);
    if let Some(baseline) = &fleet.baseline {
        let _ = writeln!(text, "x baseline: against {}, judged as by `compare`.", clean(baseline));
    }
    let copies = &fleet.copies;
    files("copies of a run, not counted:", &copies.iter().map(|copy| clean(copy)).collect::<Vec<_>>(), &mut text);
    let left_out = fleet.left_out.iter().map(|one| format!("{}: {}", clean(&one.file), clean(&one.reason)));
    files("left out:", &left_out.collect::<Vec<_>>(), &mut text);
    text
}

/// The answer in a sentence.
fn verdict(fleet: &Fleet, text: &mut String) {
    let of = |standing| {
        let is_it = |host: &&Overall| host.figures.iter().any(|figure| figure.standing == standing);
        fleet.hosts.iter().filter(is_it).map(|host| clean(&host.host)).collect::<Vec<_>>()
    };
    let (slower, faster) = (of(Standing::Slower), of(Standing::Faster));
    let in_rows = fleet.rows.iter().flat_map(|row| &row.hosts).filter(|host| host.standing.is_outlier()).count();
    let is_judged = fleet.hosts.iter().flat_map(|host| &host.figures).any(|figure| figure.standing.is_judged());
    if !slower.is_empty() {
        let _ = writeln!(text, "slower than the others: {}", some(&slower));
    }
    if !faster.is_empty() {
        let _ = writeln!(text, "faster than the others: {}", some(&faster));
    }
    if !is_judged {
        let why = if fleet.hosts.len() < HOSTS_MIN {
            format!("a verdict on the fleet needs {HOSTS_MIN} hosts with the same row")
        } else {
            format!("no row is measured well enough on {HOSTS_MIN} hosts")
        };
        let _ = writeln!(text, "no host is judged: {why}");
    } else if slower.is_empty() && faster.is_empty() {
        let figures = fleet.hosts.iter().find(|host| host.figures.iter().any(|figure| figure.detectable.is_some()));
        let told = |figure: &Figure| Some(format!("{} at {}", percent(figure.detectable?), figure.statistic.name()));
        let seen: Vec<String> = figures.iter().flat_map(|host| &host.figures).filter_map(told).collect();
        let seen = if seen.is_empty() {
            String::new()
        } else {
            format!(" (one would be seen that is off by {})", seen.join(", "))
        };
        let _ = writeln!(text, "no measurable difference between the hosts over all rows{seen}");
    }
    if in_rows > 0 {
        let _ = writeln!(text, "single rows in which a host differs: {in_rows}, marked below");
    }
}

fn some(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let more = names.len().saturating_sub(SHOWN);
    let list = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

fn hosts(fleet: &Fleet, all: bool, width: usize, text: &mut String) {
    let heads = ["host", "runs", "rows", "p50 x median", "p99 x median", "system call", "cache line", ""];
    let mut table = Table::new(&heads, &[0, 3, 4, 0, 0, 2, 2, 0]);
    let lines: Vec<Vec<String>> = fleet.hosts.iter().map(host_cells).collect();
    let marked: Vec<bool> =
        fleet.hosts.iter().map(|host| host.figures.iter().any(|figure| figure.standing.is_outlier())).collect();
    table.fill(lines, &marked, all);
    text.push_str("\nover all rows\n");
    table.write(width, text);
}

fn host_cells(host: &Overall) -> Vec<String> {
    let factor =
        |figure: Option<&Figure>| missing(figure.and_then(|figure| figure.factor), |factor| format!("{factor:.3}"));
    let ns = |value: Option<f64>| missing(value, |ns| format!("{ns:.0} ns"));
    let rows = host.figures.first().map_or(0, |figure| figure.rows);
    vec![
        clean(&host.host),
        host.runs.to_string(),
        rows.to_string(),
        factor(host.figures.first()),
        factor(host.figures.get(1)),
        ns(host.syscall_ns),
        ns(host.cache_line_ns),
        words(host.figures.iter().map(|figure| (figure.statistic, figure.standing))),
    ]
}

fn common(fleet: &Fleet, text: &mut String) {
    if fleet.common.is_empty() {
        return;
    }
    text.push_str("\nslow hosts have in common, and few others (no proof of a cause)\n");
    let mut table = Table::new(&["", "slow hosts", "others", "by chance"], &[0, 0, 0, 1]);
    let line = |one: &super::Common| {
        let fact = if one.have { clean(&one.fact) } else { format!("no {}", clean(&one.fact)) };
        let count = |[have, of]: [usize; 2]| {
            let have = if one.have { have } else { of - have };
            format!("{have} of {of}")
        };
        vec![fact, count(one.slower), count(one.others), probability(one.p_value)]
    };
    table.fill(fleet.common.iter().map(line).collect(), &vec![true; fleet.common.len()], true);
    table.write(usize::MAX, text);
}

/// The statistics of each row together, in the order of the rows.
fn by_name(fleet: &Fleet) -> Vec<(&str, Vec<&RowOfHosts>)> {
    let mut all: Vec<(&str, Vec<&RowOfHosts>)> = Vec::new();
    for row in &fleet.rows {
        match all.last_mut().filter(|(name, _)| *name == row.row) {
            Some((_, rows)) => rows.push(row),
            None => all.push((&row.row, vec![row])),
        }
    }
    all
}

fn row(name: &str, rows: &[&RowOfHosts], has_baseline: bool, all: bool, width: usize, text: &mut String) {
    let _ = writeln!(text, "\n{}", clean(name));
    for row in rows {
        if let Some(spread) = row.spread {
            let seen = spread.detectable.map_or_else(
                || format!("; fewer than {HOSTS_MIN} hosts have it"),
                |share| format!("; a host {} off would be seen", percent(share)),
            );
            let (median, deviation) = (value(row.statistic, spread.median), percent(spread.deviation));
            let name = row.statistic.name();
            let _ = writeln!(text, "  {name}: median {median}, hosts differ by {deviation}{seen}");
        }
    }
    let mut heads = vec!["host".to_owned(), "runs".into()];
    let mut ranks = vec![0, 4];
    for row in rows {
        let more = ["95 % interval", "x median"].iter().map(ToString::to_string);
        heads.extend(std::iter::once(row.statistic.name().to_owned()).chain(more));
        ranks.extend([0, 3, 0]);
        if has_baseline {
            heads.push("x baseline".into());
            ranks.push(1);
        }
    }
    heads.push(String::new());
    ranks.push(0);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads, &ranks);
    let (lines, marked) = host_lines(rows, has_baseline);
    table.fill(lines, &marked, all);
    table.write(width, text);
}

/// The hosts in the order of the first statistic, and whether each is to be shown in any case.
fn host_lines(rows: &[&RowOfHosts], has_baseline: bool) -> (Vec<Vec<String>>, Vec<bool>) {
    let others: Vec<BTreeMap<&str, &HostValue>> =
        rows.iter().map(|row| row.hosts.iter().map(|host| (host.host.as_str(), host)).collect()).collect();
    let Some(first) = rows.first() else { return Default::default() };
    let line = |host: &HostValue| {
        let values: Vec<Option<&HostValue>> = others.iter().map(|of| of.get(host.host.as_str()).copied()).collect();
        let mut cells = vec![clean(&host.host), host.runs.to_string()];
        for (row, host) in rows.iter().zip(&values) {
            cells.extend(value_cells(row.statistic, *host, has_baseline));
        }
        let standings = rows.iter().zip(&values).filter_map(|(row, host)| Some((row.statistic, (*host)?.standing)));
        let is_marked = values.iter().flatten().any(|host| host.standing.is_outlier() || is_worse(host));
        let against = values.iter().flatten().filter(|host| is_worse(host)).count();
        let worse = if against > 0 { " (worse than the baseline)" } else { "" };
        cells.push(format!("{}{worse}", words(standings)));
        (cells, is_marked)
    };
    first.hosts.iter().map(line).unzip()
}

fn is_worse(host: &HostValue) -> bool {
    host.against_baseline.as_ref().is_some_and(|against| against.verdict == Verdict::Worse)
}

fn value_cells(statistic: Statistic, host: Option<&HostValue>, has_baseline: bool) -> Vec<String> {
    let interval = |[low, high]: [f64; 2]| format!("{}..{}", bare(statistic, low), bare(statistic, high));
    let mut cells = vec![
        missing(host.and_then(|host| host.value), |one| value(statistic, one)),
        missing(host.and_then(|host| host.ci95), interval),
        missing(host.and_then(|host| host.factor), |factor| format!("{factor:.3}")),
    ];
    if has_baseline {
        let ratio = host.and_then(|host| host.against_baseline.as_ref()?.ratio);
        cells.push(missing(ratio, |ratio| format!("{ratio:.3}")));
    }
    cells
}

/// "slower (p50, p99)"; what is no difference is said only where nothing else is.
fn words(standings: impl Iterator<Item = (Statistic, Standing)>) -> String {
    let all: Vec<_> = standings.collect();
    let named = |standing: Standing| {
        let names: Vec<_> = all.iter().filter(|(_, one)| *one == standing).map(|(name, _)| name.name()).collect();
        (!names.is_empty()).then(|| format!("{} ({})", standing.words(), names.join(", ")))
    };
    let marks: Vec<String> = [Standing::Slower, Standing::Faster].into_iter().filter_map(named).collect();
    if !marks.is_empty() {
        return marks.join(", ");
    }
    all.first().map_or_else(String::new, |(_, standing)| standing.words().to_owned())
}

fn files(title: &str, lines: &[String], text: &mut String) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}");
    lines.iter().take(FILES_SHOWN).for_each(|line| _ = writeln!(text, "  {line}"));
    if lines.len() > FILES_SHOWN {
        let _ = writeln!(text, "  and {} more; --json has all of them", lines.len() - FILES_SHOWN);
    }
}

fn value(statistic: Statistic, value: f64) -> String {
    let unit = if statistic == Statistic::Rate { "/s" } else { "us" };
    format!("{} {unit}", bare(statistic, value))
}

/// Three digits that count.
fn bare(statistic: Statistic, value: f64) -> String {
    let value = if statistic == Statistic::Rate { value } else { value / 1e3 };
    match value.abs() {
        size if size >= 1e7 => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn percent(share: f64) -> String {
    if share < 10.0 { format!("{:.1} %", share * 100.0) } else { ">999 %".into() }
}

fn probability(p_value: f64) -> String {
    if p_value < 0.001 { "<0.001".into() } else { format!("{p_value:.3}") }
}

fn missing<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "n/a".into(), show)
}

/// Words of a result file, which may be anybody's, fit for a terminal.
fn clean(text: &str) -> String {
    printable(text, TEXT_BYTES)
}

/// Columns of a table: the first and the last hold words, the others numbers.
struct Table {
    heads: Vec<String>,
    /// On a narrow page the columns with the highest rank go first; those of rank 0 never go.
    ranks: Vec<u8>,
    /// None stands for the hosts that are not shown.
    lines: Vec<Option<Vec<String>>>,
    hidden: usize,
}

impl Table {
    fn new(heads: &[&str], ranks: &[u8]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { heads, ranks: ranks.to_vec(), lines: Vec::new(), hidden: 0 }
    }

    /// Takes the lines, of many the first, the last and those that are marked.
    fn fill(&mut self, lines: Vec<Vec<String>>, marked: &[bool], all: bool) {
        let count = lines.len();
        let is_cut = !all && count > FASTEST_SHOWN + SLOWEST_SHOWN + 1;
        let is_shown = |at: usize| {
            !is_cut || at < FASTEST_SHOWN || at + SLOWEST_SHOWN >= count || marked.get(at).copied().unwrap_or(false)
        };
        for (at, line) in lines.into_iter().enumerate() {
            if is_shown(at) {
                self.lines.push(Some(line));
            } else {
                self.hidden += 1;
                if self.lines.last().is_none_or(Option::is_some) {
                    self.lines.push(None);
                }
            }
        }
    }

    fn write(&self, page: usize, text: &mut String) {
        let widest = |at: usize| {
            let cells = self.lines.iter().flatten().filter_map(|line| line.get(at)).map(|cell| cell.chars().count());
            cells.chain([self.heads[at].chars().count()]).max().unwrap_or(0)
        };
        let mut widths: Vec<Option<usize>> = (0..self.heads.len()).map(|at| Some(widest(at))).collect();
        while widths.iter().flatten().map(|width| width + 2).sum::<usize>() > page {
            let shown = (0..widths.len()).filter(|at| widths[*at].is_some() && self.ranks[*at] > 0);
            let Some(last) = shown.max_by_key(|at| (self.ranks[*at], *at)) else { break };
            widths[last] = None;
        }
        let cut = widths.iter().filter(|width| width.is_none()).count();
        line(&self.heads, &widths, text);
        for one in &self.lines {
            match one {
                Some(cells) => line(cells, &widths, text),
                None => text.push_str("  ...\n"),
            }
        }
        if cut > 0 {
            let _ = writeln!(text, "  (columns hidden: {cut}; a wider terminal, or --json, has them)");
        }
        if self.hidden > 0 {
            let _ = writeln!(text, "  ({} hosts between them are not shown; --all shows them)", self.hidden);
        }
    }
}

fn line(cells: &[String], widths: &[Option<usize>], text: &mut String) {
    let last = cells.len().saturating_sub(1);
    let mut line = String::from(" ");
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let _ = match width {
            Some(width) if at == 0 => write!(line, " {cell:width$}"),
            Some(_) if at == last && at > 0 && widths.len() > 4 => write!(line, "  {cell}"),
            Some(width) => write!(line, "  {cell:>width$}"),
            None => Ok(()),
        };
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

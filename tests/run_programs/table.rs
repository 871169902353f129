//! The table in docs/programs.md: what of each program went past the kernel, by what the library reported.

use super::catalogue::PROGRAMS;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const BEGIN: &str = "<!-- written by tests/run_programs.rs: begin -->\n";
const END: &str = "<!-- end -->\n";

const HEAD: &str = "| Programs | What they do | The server's sockets | The client's sockets | Same output with the library at |\n\
                    |---|---|---|---|---|\n";

/// Between the lines of a cell.
const BREAK: &str = "<br>";

/// Before a reason in a cell.
const KERNEL: &str = "by the kernel: ";

/// What became of the sockets of one end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sockets {
    /// Kinds of which some went past the kernel.
    accelerated: BTreeSet<String>,
    /// Kinds of which some did not, or not to their end, with the reason.
    kernel: BTreeSet<String>,
}

impl Sockets {
    /// What the library has reported.
    pub(crate) fn of_log(log: &str) -> Self {
        let mut sockets = Self::default();
        for (subject, path) in last_paths(log) {
            let kind = kind_of(&subject);
            if let Some(reason) = path.strip_prefix("kernel: ") {
                sockets.kernel.insert(format!("{kind}: {reason}"));
            } else if let Some(cause) = path.strip_prefix("to the kernel: ") {
                sockets.kernel.insert(format!("handed over: {cause}"));
            } else {
                sockets.accelerated.insert(kind);
            }
        }
        sockets
    }

    fn of_cell(cell: &str) -> Self {
        let (kernel, accelerated): (Vec<&str>, Vec<&str>) =
            cell.split(BREAK).partition(|line| line.starts_with(KERNEL));
        let kinds = accelerated.into_iter().flat_map(|line| line.split(", ")).filter(|kind| !kind.is_empty());
        Self {
            accelerated: kinds.map(str::to_owned).collect(),
            kernel: kernel.into_iter().filter_map(|line| line.strip_prefix(KERNEL)).map(str::to_owned).collect(),
        }
    }

    fn cell(&self) -> String {
        let accelerated = self.accelerated.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let kernel = self.kernel.iter().map(|line| format!("{KERNEL}{line}"));
        [accelerated].into_iter().chain(kernel).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(BREAK)
    }

    /// What is worse than in an earlier run. A reason that is missing is not: it depends on the time at which programs begin and end.
    fn worse_than(&self, earlier: &Self) -> Vec<String> {
        let lost = earlier.accelerated.difference(&self.accelerated).map(|kind| format!("{kind} is not accelerated"));
        let new = self.kernel.difference(&earlier.kernel).map(|line| format!("{KERNEL}{line}"));
        lost.chain(new).collect()
    }
}

/// Each socket's path, the last that was reported.
fn last_paths(log: &str) -> BTreeMap<String, String> {
    let parts = log.lines().filter_map(|line| line.strip_prefix("sidestep[")?.split_once("]: "));
    let reports = parts.filter_map(|(process, text)| {
        let at = [": accelerated", ": kernel: ", ": to the kernel: "].iter().find_map(|path| text.find(path))?;
        Some((format!("{process} {}", &text[..at]), text[at + 2..].to_owned()))
    });
    reports.collect()
}

/// A socket without its process and addresses: its protocol, and what it is.
fn kind_of(subject: &str) -> String {
    let is_address = |word: &str| word.contains(['.', '[']) || word.chars().all(|letter| letter.is_ascii_digit());
    let words = subject.split(' ').filter(|word| !is_address(word) && !["from", "to", "at"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// A program's row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) server: Sockets,
    pub(crate) client: Sockets,
    /// The ends that were under the library while the client printed what it prints without.
    pub(crate) same: Vec<&'static str>,
}

impl Row {
    fn line(&self, name: &str) -> String {
        let what = PROGRAMS.iter().find(|program| program.name == name).map_or("", |program| program.what);
        let what: Vec<&str> = what.split_whitespace().collect();
        let (server, client) = (self.server.cell(), self.client.cell());
        format!("| {name} | {} | {server} | {client} | {} |", what.join(" "), self.same.join(", "))
    }

    /// What is worse than in a line of the table.
    fn worse_than(&self, line: &str) -> Vec<String> {
        let cells: Vec<&str> = line.split(" | ").collect();
        let cell = |number: usize| Sockets::of_cell(cells.get(number).copied().unwrap_or(""));
        let server = self.server.worse_than(&cell(2)).into_iter().map(|text| format!("the server: {text}"));
        let client = self.client.worse_than(&cell(3)).into_iter().map(|text| format!("the client: {text}"));
        server.chain(client).collect()
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/programs.md")
}

/// Compares the rows with docs/programs.md, or writes them there if SIDESTEP_WRITE_DOCS=1; returns what is worse. Rows of programs that did
/// not run stay as they are.
pub(crate) fn check(rows: &BTreeMap<&'static str, Row>) -> Vec<String> {
    let text = std::fs::read_to_string(path()).expect("docs/programs.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table begins");
    let (table, after) = rest.split_once(END).expect("the table ends");
    let old = |name: &str| table.lines().find(|line| line.starts_with(&format!("| {name} |")));
    if std::env::var_os("SIDESTEP_WRITE_DOCS").is_some_and(|value| value == "1") {
        let lines = PROGRAMS.iter().filter_map(|program| {
            let row = rows.get(program.name).map(|row| row.line(program.name));
            row.or_else(|| old(program.name).map(str::to_owned))
        });
        let table: String = lines.map(|line| line + "\n").collect();
        std::fs::write(path(), format!("{before}{BEGIN}{HEAD}{table}{END}{after}"))
            .expect("docs/programs.md is written");
        return Vec::new();
    }
    rows.iter().flat_map(|(name, row)| worse(name, row)).collect()
}

/// What is worse than the document says.
pub(crate) fn worse(name: &str, row: &Row) -> Vec<String> {
    let text = std::fs::read_to_string(path()).expect("docs/programs.md is there");
    match text.lines().find(|line| line.starts_with(&format!("| {name} |"))) {
        Some(line) => row.worse_than(line).into_iter().map(|text| format!("{name}: {text}")).collect(),
        None => vec![format!("{name}: docs/programs.md lacks it (SIDESTEP_WRITE_DOCS=1 writes it)")],
    }
}

#[test]
fn a_log_becomes_a_row_and_a_row_is_read_back() {
    let log = "sidestep[1]: TCP listener at 0.0.0.0:1: kernel: the program has just begun\n\
               sidestep[1]: TCP listener at 0.0.0.0:1: accelerated (AF_XDP, copy)\n\
               sidestep[1]: TCP from 10.0.0.1:1 to 10.0.0.2:2: accelerated (AF_XDP, copy)\n\
               sidestep[1]: TCP from [2001:2::1]:1 to [2001:2::2]:2: accelerated (AF_XDP, copy)\n\
               sidestep[1]: descriptor 7: to the kernel: another process gave it\n\
               sidestep[2]: TCP to 127.0.0.1:3: kernel: loopback\n";
    let sockets = Sockets::of_log(log);
    let cell =
        "TCP, TCP listener<br>by the kernel: TCP: loopback<br>by the kernel: handed over: another process gave it";
    assert_eq!(sockets.cell(), cell);
    assert_eq!(Sockets::of_cell(cell), sockets);
    assert_eq!(Sockets::of_cell(""), Sockets::default());
}

#[test]
fn a_row_is_worse_by_what_is_not_accelerated_any_more_and_by_new_reasons() {
    let row =
        |server, client| Row { server: Sockets::of_cell(server), client: Sockets::of_cell(client), same: vec!["both"] };
    let name = PROGRAMS[0].name;
    let old = row("TCP, UDP<br>by the kernel: TCP: loopback", "TCP");
    assert!(old.worse_than(&old.line(name)).is_empty());
    assert!(row("TCP, UDP", "TCP, UDP").worse_than(&old.line(name)).is_empty());
    let worse = row("TCP<br>by the kernel: UDP: loopback", "").worse_than(&old.line(name));
    let expected = [
        "the server: UDP is not accelerated",
        "the server: by the kernel: UDP: loopback",
        "the client: TCP is not accelerated",
    ];
    assert_eq!(worse, expected);
}

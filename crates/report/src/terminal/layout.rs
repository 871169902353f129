//! Aligned columns, wrapped lines and colour.

use super::Style;
use crate::number::{MISSING, NO_BREAK};
use crate::tables::{Column, Line, Table};
use crate::view::words::counted;
use sidestep_sys::printable::printable;

const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const RESET: &str = "\u{1b}[0m";

/// Space between two columns.
const GAP: usize = 2;

/// No column of words is cut below this, however narrow the terminal.
const NARROWEST_WORDS: usize = 10;

/// The narrowest page that is laid out; on less than this the lines run over.
const NARROWEST_PAGE: usize = 24;

/// A page that grows downwards.
pub(super) struct Page {
    style: Style,
    text: String,
    /// Set once it was said that columns are hidden.
    has_told_hidden: bool,
}

impl Page {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style: Style { width: style.width.max(NARROWEST_PAGE), ..style },
            text: String::new(),
            has_told_hidden: false,
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn title(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.wrapped(title, "", BOLD);
    }

    pub(super) fn warning(&mut self, text: &str) {
        self.wrapped(text, "", YELLOW);
    }

    pub(super) fn line(&mut self, text: &str) {
        self.wrapped(text, "  ", "");
    }

    pub(super) fn dim(&mut self, text: &str) {
        self.wrapped(text, "  ", DIM);
    }

    pub(super) fn item(&mut self, text: &str) {
        self.wrapped(text, "- ", "");
    }

    pub(super) fn careful(&mut self, text: &str) {
        self.wrapped(text, "! ", YELLOW);
    }

    /// Appends a line that must not be broken, because it is for copying.
    pub(super) fn verbatim(&mut self, text: &str) {
        self.paint(&format!("  {}", clean(text)), "");
    }

    pub(super) fn table(&mut self, table: &Table) {
        let widths = Widths::fit(table, self.style.width);
        let heads: Vec<_> = table.columns.iter().map(|column| column.head.clone()).collect();
        self.cells(table, &widths, &heads, DIM);
        for line in &table.lines {
            match line {
                Line::Heading(heading) if heading.is_empty() => {}
                Line::Heading(heading) => self.wrapped(heading, "  ", BOLD),
                Line::Cells { cells, best, .. } => self.cells(table, &widths, cells, if *best { GREEN } else { "" }),
            }
        }
        for note in table.notes.iter().filter(|note| !widths.hides(table, note)) {
            self.wrapped(note, "  ", DIM);
        }
        let hidden = widths.0.iter().filter(|width| width.is_none()).count();
        if hidden > 0 && !self.has_told_hidden {
            let columns = counted(hidden, "column", "columns");
            self.wrapped(&format!("{columns} hidden: a wider terminal, or --json, has them"), "  ", DIM);
            self.has_told_hidden = true;
        }
    }

    /// Appends one line of cells. Long words in the last column are wrapped within it.
    fn cells(&mut self, table: &Table, widths: &Widths, cells: &[String], colour: &str) {
        let columns = table.columns.iter().zip(cells).zip(&widths.0);
        let shown: Vec<_> = columns.filter_map(|((column, cell), width)| Some((column, cell, (*width)?))).collect();
        let mut line = String::from("  ");
        let mut more = Vec::new();
        for (i, (column, cell, width)) in shown.iter().enumerate() {
            let text = clean(cell);
            if i > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            if column.words && i + 1 == shown.len() {
                let mut parts = wrap(&text, *width).into_iter();
                let indent = " ".repeat(line.chars().count());
                line.push_str(&parts.next().unwrap_or_default());
                more = parts.map(|part| format!("{indent}{part}")).collect();
            } else if column.words {
                line.push_str(&format!("{:<width$}", cut(&text, *width)));
            } else {
                line.push_str(&format!("{text:>width$}"));
            }
        }
        self.paint(line.trim_end(), colour);
        more.iter().for_each(|line| self.paint(line, colour));
    }

    fn wrapped(&mut self, text: &str, lead: &str, colour: &str) {
        let indent = " ".repeat(lead.len());
        for (i, part) in wrap(&clean(text), self.style.width - lead.len()).iter().enumerate() {
            self.paint(&format!("{}{part}", if i == 0 { lead } else { &indent }), colour);
        }
    }

    fn paint(&mut self, line: &str, colour: &str) {
        let line = line.replace(NO_BREAK, " ");
        if self.style.colour && !colour.is_empty() {
            self.text.push_str(&format!("{colour}{line}{RESET}\n"));
        } else {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }
}

/// The width of each column; none for one that was dropped.
struct Widths(Vec<Option<usize>>);

impl Widths {
    /// Drops the most expendable columns, then narrows the columns of words, until the table fits.
    fn fit(table: &Table, page: usize) -> Self {
        let mut widths = Self(table.columns.iter().map(|column| Some(column.head.chars().count())).collect());
        for line in &table.lines {
            if let Line::Cells { cells, .. } = line {
                for (width, cell) in widths.0.iter_mut().zip(cells) {
                    *width = (*width).max(Some(cell.chars().count()));
                }
            }
        }
        let last = table.columns.len().saturating_sub(1);
        for (i, column) in table.columns.iter().enumerate().filter(|(_, column)| column.words) {
            let readable = if i == last && i > 0 { page / 3 } else { page / 2 };
            widths.0[i] = widths.0[i].map(|width| width.min(readable.max(column.head.chars().count())));
        }
        while widths.total() > page {
            let shown = table.columns.iter().enumerate().filter(|(i, c)| widths.0[*i].is_some() && c.expendable > 0);
            match shown.max_by_key(|(i, column)| (is_empty(table, *i), column.expendable)) {
                Some((i, _)) => widths.0[i] = None,
                None => break,
            }
        }
        widths.narrow_words(table, page);
        widths.grow_last_words(table, page);
        widths
    }

    /// Narrows the widest column of words repeatedly, until the table fits.
    fn narrow_words(&mut self, table: &Table, page: usize) {
        while self.total() > page {
            let words = self.0.iter_mut().zip(&table.columns).filter(|(_, column)| column.words);
            match words.filter_map(|(width, _)| width.as_mut()).max() {
                Some(width) if *width > NARROWEST_WORDS => *width -= 1,
                _ => return,
            }
        }
    }

    /// Gives the rest of the line to the words at its end.
    fn grow_last_words(&mut self, table: &Table, page: usize) {
        let left = page.saturating_sub(self.total());
        if let (Some(column), Some(Some(width))) = (table.columns.last(), self.0.last_mut())
            && column.words
        {
            *width += left;
        }
    }

    /// Returns whether a note explains only what stands in a hidden column ("p99.99 needs 1000000 samples").
    fn hides(&self, table: &Table, note: &str) -> bool {
        let explains = |column: &Column| {
            let rest = note.strip_prefix(column.head.split(' ').next().unwrap_or_default());
            rest.is_some_and(|rest| [" needs ", " n/a", ": "].iter().any(|next| rest.starts_with(next)))
        };
        let mut columns = table.columns.iter().zip(&self.0).filter(|(column, _)| explains(column)).peekable();
        columns.peek().is_some() && columns.all(|(_, width)| width.is_none())
    }

    fn total(&self) -> usize {
        self.0.iter().flatten().map(|width| width + GAP).sum()
    }
}

/// Returns whether no line has a value in this column.
fn is_empty(table: &Table, column: usize) -> bool {
    let mut cells = table.lines.iter().filter_map(|line| match line {
        Line::Cells { cells, .. } => cells.get(column),
        Line::Heading(_) => None,
    });
    cells.all(|cell| cell == MISSING || cell == "-")
}

/// Removes control characters: text from outside may hold escape sequences.
pub fn clean(text: &str) -> String {
    printable(text, usize::MAX)
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    format!("{kept}..")
}

/// The first `width` characters of a word that is longer, or fewer, up to a slash: a path is broken between its parts.
fn piece_of(letters: &[char], width: usize) -> usize {
    if letters.len() <= width {
        return letters.len();
    }
    letters[..width].iter().rposition(|letter| *letter == '/').filter(|at| *at > 0).map_or(width, |at| at + 1)
}

/// Lines of at most `width` characters; a longer word is broken.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
        let letters: Vec<char> = word.chars().collect();
        let mut rest = &letters[..];
        while !rest.is_empty() {
            let is_broken = rest.len() < letters.len();
            let (piece, more) = rest.split_at(piece_of(rest, width));
            rest = more;
            let space = usize::from(used > 0);
            if is_broken || used + space + piece.len() > width {
                lines.push(String::new());
                used = 0;
            }
            let line = lines.last_mut().expect("there is always a line");
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.extend(piece);
            used += piece.len();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_words_and_breaks_what_is_longer_than_a_line() {
        assert_eq!(wrap("a bb ccc dd", 6), ["a bb", "ccc dd"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("a /proc/sys/vm/swappiness: 1", 12), ["a /proc/sys/", "vm/", "swappiness:", "1"]);
        assert_eq!(wrap("/abcdefgh", 4), ["/abc", "defg", "h"]);
    }

    #[test]
    fn what_is_empty_is_hidden_first_and_its_notes_with_it() {
        use crate::tables::{numbers, words};
        let columns = vec![words("path"), numbers("p50 ns", 0), numbers("p99 ns", 1), numbers("max ns", 2)];
        let cells = ["kernel-spin-and-more", "1234567890", "n/a", "1234567890"].map(Into::into).to_vec();
        let notes = vec!["p99 needs 10000 samples (had 9)".into(), "closed loop".into()];
        let table = Table { columns, lines: vec![Line::plain(cells)], notes };
        let text = |width| {
            let mut page = Page::new(Style { colour: false, width, verbose: true });
            page.table(&table);
            page.table(&table);
            page.finish()
        };
        let narrow = text(48);
        assert!(narrow.contains("max ns") && !narrow.contains("p99") && narrow.contains("closed loop"), "{narrow}");
        assert_eq!(narrow.matches("one column hidden").count(), 1, "{narrow}");
        assert!(text(80).contains("p99 needs") && !text(80).contains("hidden"));
    }

    #[test]
    fn cuts_at_characters() {
        assert_eq!(cut("kernel-µµµµµ", 9), "kernel-..");
        assert_eq!(clean("a\u{1b}[31mb\u{202e}"), "a?[31mb?");
    }
}

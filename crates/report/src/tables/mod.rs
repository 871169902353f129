//! Tables, independent of text or HTML: one definition of each column for both.

pub(crate) mod brief;
pub(crate) mod causes;
mod cpu;
pub(crate) mod cycles;
pub(crate) mod hiccups;
pub(crate) mod intervals;
pub(crate) mod latency;
pub(crate) mod open_loop;
pub(crate) mod published;
pub(crate) mod rates;
pub(crate) mod ratios;
pub(crate) mod sizes;
pub(crate) mod stages;
pub(crate) mod steps;
pub(crate) mod streams;
pub(crate) mod tick;
pub(crate) mod unavailable;
mod withheld;

/// A table for any exporter.
pub(crate) struct Table {
    /// The columns, left to right.
    pub(crate) columns: Vec<Column>,
    /// The lines, top to bottom.
    pub(crate) lines: Vec<Line>,
    /// Footnotes.
    pub(crate) notes: Vec<String>,
}

/// One column.
#[derive(Clone)]
pub(crate) struct Column {
    /// Its heading.
    pub(crate) head: String,
    /// Set for a column of words, aligned left; numbers are aligned right.
    pub(crate) words: bool,
    /// On a narrow terminal the column with the highest number goes first; 0 never goes.
    pub(crate) expendable: u8,
}

/// One line.
pub(crate) enum Line {
    /// A heading for the lines that follow.
    Heading(String),
    /// One cell per column.
    Cells {
        /// The cells.
        cells: Vec<String>,
        /// The fastest of its group.
        best: bool,
    },
}

impl Line {
    /// A line that does not stand out.
    pub(crate) fn plain(cells: Vec<String>) -> Self {
        Self::Cells { cells, best: false }
    }
}

/// A column of words.
pub(crate) fn words(head: &str) -> Column {
    Column { head: head.into(), words: true, expendable: 0 }
}

/// A column of numbers; see [`Column::expendable`].
pub(crate) fn numbers(head: impl Into<String>, expendable: u8) -> Column {
    Column { head: head.into(), words: false, expendable }
}

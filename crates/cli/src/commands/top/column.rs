//! The columns of the list: titles, cells, order, and which of them a width has room for.

use super::rows::Row;
use crate::commands::figures::{count, time};
use std::cmp::Ordering;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Pid,
    Program,
    Subject,
    Local,
    Remote,
    Queue,
    Rx,
    Tx,
    Rtt,
    Retransmits,
    Drops,
    Polls,
    Path,
}

impl Column {
    /// All, from left to right.
    pub(super) const ALL: [Self; 13] = [
        Self::Pid,
        Self::Program,
        Self::Subject,
        Self::Local,
        Self::Remote,
        Self::Queue,
        Self::Rx,
        Self::Tx,
        Self::Rtt,
        Self::Retransmits,
        Self::Drops,
        Self::Polls,
        Self::Path,
    ];

    /// All, the one that a narrow terminal needs most first.
    const BY_NEED: [Self; 13] = [
        Self::Subject,
        Self::Rx,
        Self::Tx,
        Self::Rtt,
        Self::Path,
        Self::Program,
        Self::Pid,
        Self::Retransmits,
        Self::Remote,
        Self::Drops,
        Self::Local,
        Self::Queue,
        Self::Polls,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Program => "PROGRAM",
            Self::Subject => "SOCKET",
            Self::Local => "LOCAL",
            Self::Remote => "REMOTE",
            Self::Queue => "QUEUE",
            Self::Rx => "RX/S",
            Self::Tx => "TX/S",
            Self::Rtt => "RTT",
            Self::Retransmits => "RETR",
            Self::Drops => "DROPS",
            Self::Polls => "POLLS/W",
            Self::Path => "PATH",
        }
    }

    pub(super) fn width(self) -> u16 {
        match self {
            Self::Pid => 7,
            Self::Program => 14,
            Self::Subject => 16,
            Self::Local | Self::Remote => 21,
            Self::Queue => 5,
            Self::Rx | Self::Tx => 6,
            Self::Rtt => 8,
            Self::Retransmits | Self::Drops => 5,
            Self::Polls => 7,
            Self::Path => 11,
        }
    }

    pub(super) fn is_number(self) -> bool {
        !matches!(self, Self::Program | Self::Subject | Self::Local | Self::Remote | Self::Path)
    }

    pub(super) fn cell(self, row: &Row) -> String {
        match self {
            Self::Pid => row.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string()),
            Self::Program => row.program.clone(),
            Self::Subject => row.subject.clone(),
            Self::Local => row.local.clone(),
            Self::Remote => row.remote.clone(),
            Self::Queue => row.queue.clone(),
            Self::Rx => count(row.rx_per_s),
            Self::Tx => count(row.tx_per_s),
            Self::Rtt => row.rtt_ns.map(time).unwrap_or_default(),
            Self::Retransmits => count(row.retransmits as f64),
            Self::Drops => count(row.drops as f64),
            Self::Polls => row.polls_per_wake_up.map(count).unwrap_or_default(),
            Self::Path => row.path.clone(),
        }
    }

    /// The order of two rows: texts from a to z, numbers from the largest.
    pub(super) fn order(self, one: &Row, other: &Row) -> Ordering {
        match self {
            Self::Pid => one.pid.cmp(&other.pid),
            Self::Program => one.program.cmp(&other.program),
            Self::Subject => one.subject.cmp(&other.subject),
            Self::Local => one.local.cmp(&other.local),
            Self::Remote => one.remote.cmp(&other.remote),
            Self::Queue => one.queue.cmp(&other.queue),
            Self::Path => one.path.cmp(&other.path),
            Self::Rx => other.rx_per_s.total_cmp(&one.rx_per_s),
            Self::Tx => other.tx_per_s.total_cmp(&one.tx_per_s),
            Self::Rtt => other.rtt_ns.cmp(&one.rtt_ns),
            Self::Retransmits => other.retransmits.cmp(&one.retransmits),
            Self::Drops => other.drops.cmp(&one.drops),
            Self::Polls => other.polls_per_wake_up.unwrap_or(0.0).total_cmp(&one.polls_per_wake_up.unwrap_or(0.0)),
        }
    }

    /// The columns that a width has room for, from left to right.
    pub(super) fn fitting(width: u16) -> Vec<Self> {
        let mut left = width;
        let mut chosen = Vec::new();
        for column in Self::BY_NEED {
            let gap = u16::from(!chosen.is_empty());
            if column.width() + gap > left {
                break;
            }
            left -= column.width() + gap;
            chosen.push(column);
        }
        Self::ALL.into_iter().filter(|column| chosen.contains(column)).collect()
    }
}

/// Formats rows as lines of text, with the columns that `width` has room for.
pub(super) fn table(rows: &[Row], width: usize) -> String {
    let columns = Column::fitting(u16::try_from(width).unwrap_or(u16::MAX));
    let line = |cell: &dyn Fn(Column) -> String| {
        let cells = columns.iter().map(|column| {
            let width = usize::from(column.width());
            match column {
                Column::Path => cell(*column),
                _ if column.is_number() => format!("{:>width$}", cell(*column)),
                _ => format!("{:<width$.width$}", cell(*column)),
            }
        });
        // Only the last cell is longer than its column: a reason.
        let line: String = cells.collect::<Vec<_>>().join(" ").chars().take(width).collect();
        format!("{}\n", line.trim_end())
    };
    let head = line(&|column| column.title().to_owned());
    rows.iter().fold(head, |text, row| text + &line(&|column| column.cell(row)))
}

#[cfg(test)]
mod tests {
    use super::super::rows::row;
    use super::*;

    #[test]
    fn lines_of_text_fit_the_terminal() {
        let rows = [row(7, "a-program-with-a-long-name", 1e6, Some(12_300))];
        for width in [0, 10, 40, 80, 120, 200] {
            assert!(table(&rows, width).lines().all(|line| line.chars().count() <= width), "{width}");
        }
        assert!(table(&rows, usize::MAX).contains("REMOTE"));
    }

    #[test]
    fn a_narrow_terminal_gets_what_it_needs_most() {
        let titles = |width| Column::fitting(width).into_iter().map(Column::title).collect::<Vec<_>>().join(" ");
        assert_eq!(titles(10), "");
        assert_eq!(titles(40), "SOCKET RX/S TX/S RTT");
        assert_eq!(titles(80), "PID PROGRAM SOCKET RX/S TX/S RTT RETR PATH");
        assert_eq!(Column::fitting(200).len(), Column::ALL.len());
        for width in 0..200 {
            let columns = Column::fitting(width);
            let sum: u16 = columns.iter().map(|column| column.width() + 1).sum();
            assert!(sum <= width + 1);
        }
    }

    #[test]
    fn lines_have_all_columns() {
        let text = table(&[row(6, "redis", 12_000.0, Some(12_300)), row(7, "redis", 0.0, None)], 300);
        assert!(text.starts_with("    PID PROGRAM        SOCKET"), "{text}");
        assert!(text.contains("fd 6 tcp") && text.contains("12k") && text.contains("12.3us"), "{text}");
        assert!(text.ends_with("kernel: a child has it\n"), "{text}");
    }
}

//! The columns of CPU time, which several tables have.

use super::{Column, numbers};
use crate::number::{self, MISSING};
use crate::schema::Row;

/// Nanoseconds in a microsecond, and its decimals.
const US: f64 = 1e3;
const DIGITS: usize = 2;

/// The note that explains the columns.
const NOTE: &str = "CPU: time, user and system, of the thread at each end for a message (a round trip, a connection); the measuring end's in \
                    the counted time, the peer's in whole slices; not in it: work of the kernel on other CPUs or in threads of its own, \
                    other threads of the program";

/// Adds the columns, if any of `rows` was counted.
pub(super) fn columns(rows: &[&Row], columns: &mut Vec<Column>, notes: &mut Vec<String>) {
    if is_shown(rows) {
        columns.extend([numbers("CPU \u{b5}s/msg", 1), numbers("peer CPU \u{b5}s", 3)]);
        notes.push(NOTE.into());
    }
}

/// Adds the cells of `row`, one of `rows`.
pub(super) fn cells(rows: &[&Row], row: &Row, cells: &mut Vec<String>) {
    if is_shown(rows) {
        let us = |ns: Option<f64>| ns.map_or_else(|| MISSING.into(), |ns| number::up(ns / US, DIGITS));
        let cpu = row.cpu.as_ref();
        cells.push(us(cpu.map(|cpu| cpu.per_message_ns)));
        cells.push(us(cpu.and_then(|cpu| cpu.peer_per_message_ns)));
    }
}

fn is_shown(rows: &[&Row]) -> bool {
    rows.iter().any(|row| row.cpu.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::CpuTime;

    #[test]
    fn what_was_not_counted_has_no_column() {
        let (old, mut new) = (Row::default(), Row::default());
        let (mut heads, mut notes, mut line) = (Vec::new(), Vec::new(), Vec::new());
        columns(&[&old], &mut heads, &mut notes);
        cells(&[&old], &old, &mut line);
        assert!(heads.is_empty() && notes.is_empty() && line.is_empty());
        new.cpu = Some(CpuTime { per_message_ns: 5_012.0, peer_per_message_ns: None });
        columns(&[&old, &new], &mut heads, &mut notes);
        cells(&[&old, &new], &new, &mut line);
        cells(&[&old, &new], &old, &mut line);
        assert_eq!(
            (heads.len(), notes.len(), line),
            (2, 1, ["5.02", MISSING, MISSING, MISSING].map(Into::into).to_vec())
        );
    }
}

//! The noise of each CPU, taken before the run.

use super::{Line, Table, numbers};
use crate::number::{self, Unit};
use crate::schema::{Hiccups, Host};

/// The table of the CPUs of `host`; none when none was watched.
pub(crate) fn table(host: &Host) -> Option<Table> {
    let hiccups = &host.noise.hiccups;
    let unit = Unit::for_times(hiccups.iter().map(|hiccup| hiccup.max_ns));
    let columns = vec![
        numbers("CPU", 0),
        numbers("watched ms", 2),
        numbers("pauses", 0),
        numbers("longer than ns", 1),
        numbers(format!("longest {}", unit.name), 0),
        numbers("time lost %", 0),
    ];
    let lines = hiccups.iter().map(|hiccup| line(hiccup, unit)).collect();
    (!hiccups.is_empty()).then_some(Table { columns, lines, notes: Vec::new() })
}

fn line(hiccup: &Hiccups, unit: Unit) -> Line {
    Line::plain(vec![
        hiccup.cpu.to_string(),
        number::up(hiccup.watched_ms, 0),
        number::count(hiccup.count),
        number::up(hiccup.threshold_ns, 0),
        unit.time(hiccup.max_ns),
        number::percent(hiccup.lost_share),
    ])
}

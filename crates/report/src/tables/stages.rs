//! The stages of round trips.

use super::{Line, Table, numbers, words};
use crate::number::{self, Unit};
use crate::schema::{Document, Row, Stage, Stages};
use crate::tables::causes::heading;

/// The title of the table.
pub(crate) const TITLE: &str = "Stages of a round trip";

/// What the columns mean.
const NOTE: &str = "each stage is a difference of two stamps of one clock: the system's, or the device's; measured in slices of their own, in which one \
                    message in a few is stamped; percentiles of stages do not add up";

/// The table; none if nothing was stamped.
pub(crate) fn table(document: &Document) -> Option<Table> {
    let rows: Vec<(&Row, &Stages)> =
        document.results.iter().filter_map(|row| Some((row, row.stages.as_deref()?))).collect();
    let stages = || rows.iter().flat_map(|(_, stages)| &stages.stages);
    let unit = Unit::for_times(stages().filter_map(|stage| stage.distribution.p50.or(stage.distribution.mean)));
    let (mut lines, mut notes) = (Vec::new(), vec![NOTE.to_owned()]);
    for (row, stages) in &rows {
        lines.push(Line::Heading(heading(row)));
        lines.extend(stages.stages.iter().map(|stage| line(stage, unit)));
        notes.push(format!("{}: {}", heading(row), sentence(stages)));
    }
    for reason in rows.iter().flat_map(|(_, stages)| &stages.unavailable) {
        let reason = format!("not stamped: {reason}");
        if !notes.contains(&reason) {
            notes.push(reason);
        }
    }
    let time = |name: &str, expendable| numbers(format!("{name} {}", unit.name), expendable);
    let columns = vec![
        words("stage"),
        words("clock"),
        numbers("n", 1),
        time("p50", 0),
        time("p99", 0),
        time("p99.9", 2),
        time("max", 3),
    ];
    (!rows.is_empty()).then_some(Table { columns, lines, notes })
}

fn line(stage: &Stage, unit: Unit) -> Line {
    let d = &stage.distribution;
    Line::plain(vec![
        stage.name.clone(),
        stage.clock.clone(),
        number::count(d.n),
        unit.time_or_missing(d.p50),
        unit.time_or_missing(d.p99),
        unit.time_or_missing(d.p99_9),
        unit.time_or_missing(d.max),
    ])
}

fn sentence(stages: &Stages) -> String {
    let mut text = format!("{} messages stamped, one in {}", number::count(stages.stamped), stages.every);
    for missing in &stages.missing_stamps {
        text += &format!("; {} without the stamp of: {}", number::count(missing.count), missing.station);
    }
    if stages.clock_steps > 0 {
        text += &format!("; {} stages left out, as a clock was set back in them", number::count(stages.clock_steps));
    }
    if stages.lost > 0 {
        text += &format!("; {} messages lost", number::count(stages.lost));
    }
    if let Some(clock) = &stages.device_clock {
        text += &format!("; the device's clock is {clock}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Distribution, MissingStamps};

    #[test]
    fn stages_stand_below_their_row_and_what_is_missing_is_told() {
        assert!(table(&Document::default()).is_none());
        let stage = |name: &str, p50| Stage {
            name: name.into(),
            clock: "system".into(),
            distribution: Distribution { n: 900, p50: Some(p50), ..Distribution::default() },
        };
        let stages = Stages {
            every: 16,
            stamped: 900,
            stages: vec![stage("send to queueing discipline", 800.0), stage("whole", 5_000.0)],
            missing_stamps: vec![MissingStamps { station: "driver".into(), count: 3 }],
            unavailable: vec!["no clock".into(), "no clock".into()],
            clock_steps: 1,
            ..Stages::default()
        };
        let row = Row { path: "kernel-spin".into(), stages: Some(Box::new(stages)), ..Row::default() };
        let found = table(&Document { results: vec![row], ..Document::default() }).unwrap();
        assert_eq!(found.lines.len(), 3);
        let Line::Cells { cells, .. } = &found.lines[1] else { panic!("a stage") };
        assert_eq!(cells[2..5], ["900", "0.80", "n/a"]);
        assert_eq!(found.notes.iter().filter(|note| note.contains("no clock")).count(), 1);
        assert!(found.notes[1].contains("3 without the stamp of: driver") && found.notes[1].contains("set back"));
    }
}

//! The cost of publishing in the kernel: a loop of a BPF program that publishes into our ring, into the BPF ring buffer, or
//! into nothing.

use super::Origin;
use crate::measure::Meter;
use crate::ring::near::PS;
use crate::scenario::Findings;
use crate::scenario::record::{Direction, Key, PER_MESSAGE, Record};
use crate::stats::Slice;
use sidestep_kernel_ring::source::{EVENT_BYTES, Ringbuf, Sink, Source};
use sidestep_report::schema::{PathInfo, Row};
use sidestep_sys::Problem;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events of one loop; the BPF ring buffer has room for 4681.
const EVENTS: u32 = 4000;
/// Loops of one slice: about 4 ms.
const LOOPS: usize = 10;
/// Rounds, each with two slices of every sink.
const ROUNDS: u32 = 30;
/// Loops before counting: the first one touches the memory.
const WARM_UP: usize = 20;

/// What is measured: the path, its sink, its description.
const SINKS: [(&str, Sink, &str); 3] = [
    (
        "publish-ringbuf",
        Sink::Ringbuf,
        "A BPF program reserves 48 bytes in the BPF ring buffer and submits them without a wake-up.",
    ),
    ("publish-ring", Sink::Ring, "A BPF program publishes 48 bytes in sidestep's broadcast ring."),
    ("publish-nothing", Sink::Nothing, "The loop around both, empty: its time is in both, and is not subtracted."),
];

/// Measures each sink in turn. A kernel that cannot is no failure of the run.
pub(super) fn measure(source: &Source, origin: Origin, cpu: u32, stop: &AtomicBool) -> Findings {
    let mut records: Vec<Record> = SINKS.iter().map(|(path, ..)| record(path, origin)).collect();
    if let Err(problem) = rounds(source, &mut records, cpu, stop) {
        records.iter_mut().for_each(|record| record.refuse(problem.brief()));
    }
    let mut ratios: Vec<_> = records.iter().flat_map(Record::controls).collect();
    ratios.extend(records[1..].iter().flat_map(|record| record.against(&records[0])));
    Findings {
        rows: records.iter().filter_map(row).collect(),
        ratios,
        unavailable: records.iter().filter_map(Record::unavailable).collect(),
        ..Findings::default()
    }
}

/// The descriptions of these paths.
pub(super) fn paths() -> impl Iterator<Item = PathInfo> {
    SINKS.iter().map(|(name, _, description)| PathInfo {
        name: (*name).into(),
        description: (*description).into(),
        waiting: None,
    })
}

fn record(path: &str, origin: Origin) -> Record {
    let (scenario, transport, size) = ("ring-source", origin.name(), EVENT_BYTES as u32);
    let mut record =
        Record::new(Key { scenario, transport, path: path.into(), size, measure: PER_MESSAGE, ..Key::default() });
    record.warmup.steady = true;
    record
}

fn rounds(source: &Source, records: &mut [Record], cpu: u32, stop: &AtomicBool) -> Result<(), Problem> {
    let ringbuf = source.ringbuf(|_| ())?;
    for (_, sink, _) in SINKS {
        publish(source, &ringbuf, sink, WARM_UP)?;
    }
    for _ in 0..ROUNDS {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for index in 0..SINKS.len() {
            slice(source, &ringbuf, records, index, Direction::Forward, cpu)?;
        }
        for index in (0..SINKS.len()).rev() {
            slice(source, &ringbuf, records, index, Direction::Backward, cpu)?;
        }
    }
    Ok(())
}

fn slice(
    source: &Source,
    ringbuf: &Ringbuf,
    records: &mut [Record],
    index: usize,
    direction: Direction,
    cpu: u32,
) -> Result<(), Problem> {
    let meter = Meter::start(vec![cpu]);
    let times = publish(source, ringbuf, SINKS[index].1, LOOPS)?;
    records[index].take(direction, times, 0, &meter.stop());
    Ok(())
}

/// The time of each publish in some loops, ps.
fn publish(source: &Source, ringbuf: &Ringbuf, sink: Sink, loops: usize) -> Result<Slice, Problem> {
    let mut times = Vec::with_capacity(loops);
    for _ in 0..loops {
        let ns = source.publish(sink, EVENTS)?;
        times.push((ns as f64 * PS / f64::from(EVENTS)) as u64);
        ringbuf.consume()?;
    }
    Ok(Slice::of(times.into_iter()))
}

fn row(record: &Record) -> Option<Row> {
    let row = record.row(PS)?;
    let rate_achieved = row.distribution.mean.filter(|mean| *mean > 0.0).map(|mean| 1e9 / mean);
    Some(Row { rate_achieved, ..row })
}

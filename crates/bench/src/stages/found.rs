//! The stages of messages, from their stamps.

use super::EVERY;
use crate::stats::{Accumulator, Slice, Statistic};
use sidestep_report::schema::{MissingStamps, Stage, Stages};

/// The times of one message. Those of the device are of another clock than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Just before it was sent.
    pub(super) begin: u64,
    pub(super) scheduled: Option<u64>,
    pub(super) driver: Option<u64>,
    /// On the wire, the device's clock.
    pub(super) wire: Option<u64>,
    /// The answer on the wire, the device's clock.
    pub(super) answer_wire: Option<u64>,
    /// The answer in the network stack.
    pub(super) answer: Option<u64>,
    /// When the answer had been read.
    pub(super) end: u64,
}

/// A stage: its name, its clock, and its two ends.
struct Kind {
    name: &'static str,
    clock: &'static str,
    of: fn(&Times) -> Option<(u64, u64)>,
}

const SYSTEM: &str = "system";
const DEVICE: &str = "device";

const STAGES: [Kind; 6] = [
    Kind { name: "send to queueing discipline", clock: SYSTEM, of: |times| Some((times.begin, times.scheduled?)) },
    Kind { name: "queueing discipline to driver", clock: SYSTEM, of: |times| Some((times.scheduled?, times.driver?)) },
    Kind {
        name: "wire to wire (the peer, and both ways)",
        clock: DEVICE,
        of: |times| Some((times.wire?, times.answer_wire?)),
    },
    Kind {
        name: "driver to network stack (the peer, and both ways)",
        clock: SYSTEM,
        of: |times| Some((times.driver?, times.answer?)),
    },
    Kind { name: "network stack to application", clock: SYSTEM, of: |times| Some((times.answer?, times.end)) },
    Kind { name: "whole round trip, stamped", clock: SYSTEM, of: |times| Some((times.begin, times.end)) },
];
/// For comparison: what stamps cost.
const UNSTAMPED: &str = "whole round trip, between stamped ones";

/// The name of a station, and whether its stamp is missing.
type StationOf = (&'static str, fn(&Times) -> bool);

/// The stations that a stamp may be missing of.
const STATIONS: [StationOf; 3] = [
    ("queueing discipline", |times| times.scheduled.is_none()),
    ("driver", |times| times.driver.is_none()),
    ("answer in the network stack", |times| times.answer.is_none()),
];
const STATIONS_OF_DEVICE: [StationOf; 2] =
    [("wire", |times| times.wire.is_none()), ("answer on the wire", |times| times.answer_wire.is_none())];

/// What the stamped slices of an arm have found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    stages: [Accumulator; STAGES.len()],
    unstamped: Accumulator,
    stamped: u64,
    lost: u64,
    steps: u64,
    missing: [u64; STATIONS.len() + STATIONS_OF_DEVICE.len()],
}

/// The messages of one slice.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) stamped: Vec<Times>,
    /// Whole round trips of the others, nanoseconds.
    pub(super) unstamped: Vec<u64>,
    pub(super) lost: u64,
}

impl Found {
    /// Adds a slice.
    pub(super) fn take(&mut self, messages: &Messages) {
        for (kind, stage) in STAGES.iter().zip(&mut self.stages) {
            let ends = messages.stamped.iter().filter_map(|times| (kind.of)(times));
            let lengths: Vec<Option<u64>> = ends.map(|(from, to)| to.checked_sub(from)).collect();
            // The system's clock was set back, or the stamp is of another message: no length of it means anything.
            self.steps += lengths.iter().filter(|length| length.is_none()).count() as u64;
            stage.push(Slice::of(lengths.into_iter().flatten()));
        }
        self.unstamped.push(Slice::of(messages.unstamped.iter().copied()));
        self.stamped += messages.stamped.len() as u64;
        self.lost += messages.lost;
        for (missing, (_, is_missing)) in self.missing.iter_mut().zip(STATIONS.iter().chain(&STATIONS_OF_DEVICE)) {
            *missing += messages.stamped.iter().filter(|times| is_missing(times)).count() as u64;
        }
    }

    /// For the result; none if no message was stamped. Without hardware stamps those of the device are not missing.
    pub(crate) fn stages(&self, device: Option<&str>, unavailable: &[String]) -> Option<Stages> {
        if self.stamped == 0 {
            return None;
        }
        let stage = |name: &str, clock: &str, times: &Accumulator| Stage {
            name: name.into(),
            clock: clock.into(),
            distribution: times.distribution(1.0, Statistic::Mean),
        };
        let kinds = STAGES.iter().zip(&self.stages).filter(|(_, times)| !times.is_empty());
        let mut stages: Vec<Stage> = kinds.map(|(kind, times)| stage(kind.name, kind.clock, times)).collect();
        stages.push(stage(UNSTAMPED, SYSTEM, &self.unstamped));
        let stations = STATIONS.iter().chain(if device.is_some() { &STATIONS_OF_DEVICE[..] } else { &[] });
        let missing = stations.zip(&self.missing).filter(|(_, count)| **count > 0);
        Some(Stages {
            every: EVERY,
            stamped: self.stamped,
            lost: self.lost,
            stages,
            missing_stamps: missing
                .map(|((station, _), count)| MissingStamps { station: (*station).into(), count: *count })
                .collect(),
            clock_steps: self.steps,
            device_clock: device.map(Into::into),
            unavailable: unavailable.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(device: bool) -> Times {
        let wire = |ns: u64| device.then_some(ns);
        Times {
            begin: 1_000,
            scheduled: Some(1_300),
            driver: Some(1_400),
            wire: wire(77),
            answer_wire: wire(5_077),
            answer: Some(7_000),
            end: 8_000,
        }
    }

    fn longest(found: &Stages) -> Vec<f64> {
        found.stages.iter().filter_map(|stage| stage.distribution.max).collect()
    }

    #[test]
    fn a_stage_is_a_difference_within_one_clock() {
        let mut found = Found::default();
        found.take(&Messages { stamped: vec![times(true); 3], unstamped: vec![6_500], lost: 2 });
        let stages = found.stages(Some("/dev/ptp0"), &[]).unwrap();
        let wanted = [300.0, 100.0, 5_000.0, 5_600.0, 1_000.0, 7_000.0, 6_500.0];
        assert_eq!(longest(&stages), wanted);
        assert_eq!((stages.stamped, stages.lost, stages.clock_steps), (3, 2, 0));
        assert!(stages.missing_stamps.is_empty());
        assert!(stages.stages.iter().all(|stage| (stage.clock == DEVICE) == stage.name.starts_with("wire")));
        assert!(stages.stages[0].distribution.p50.is_none(), "three samples give no percentile");
    }

    #[test]
    fn without_a_device_nothing_is_on_the_wire_and_nothing_is_missing() {
        let mut found = Found::default();
        found.take(&Messages { stamped: vec![times(false)], ..Messages::default() });
        let stages = found.stages(None, &["why".into()]).unwrap();
        assert!(stages.stages.iter().all(|stage| stage.clock == SYSTEM) && stages.missing_stamps.is_empty());
        assert_eq!(stages.unavailable, ["why"]);
        let missing = found.stages(Some("/dev/ptp0"), &[]).unwrap().missing_stamps;
        assert_eq!(
            missing.iter().map(|one| (one.station.as_str(), one.count)).collect::<Vec<_>>(),
            [("wire", 1), ("answer on the wire", 1)]
        );
    }

    #[test]
    fn lost_stamps_and_a_clock_that_was_set_back_are_counted() {
        let mut found = Found::default();
        let lost = Times { scheduled: None, ..times(false) };
        let back = Times { end: 10, ..times(false) };
        found.take(&Messages { stamped: vec![lost, back], ..Messages::default() });
        let stages = found.stages(None, &[]).unwrap();
        assert_eq!(stages.missing_stamps, [MissingStamps { station: "queueing discipline".into(), count: 1 }]);
        assert_eq!(stages.clock_steps, 2, "of the last stage and of the whole");
        assert!(Found::default().stages(None, &[]).is_none());
    }
}

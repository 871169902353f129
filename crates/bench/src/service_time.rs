//! Work of the peer before its answers: an application that computes, and now and then computes longer.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The longest work before an answer: the measuring end waits for it.
pub const SERVICE_TIME_MAX: Duration = Duration::from_millis(10);

/// Work before each answer, and before some of them. `TIME[,TIME/EVERY]` as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTime {
    /// Before each answer, nanoseconds.
    #[serde(rename = "service_time_ns")]
    pub each_ns: u64,
    /// Besides, before every so many answers; 0 for none.
    #[serde(default, rename = "service_longer_every")]
    pub every: u32,
    /// That work, nanoseconds.
    #[serde(default, rename = "service_longer_ns")]
    pub longer_ns: u64,
}

impl ServiceTime {
    /// Returns whether there is no work.
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Returns whether no answer waits for longer than [`SERVICE_TIME_MAX`].
    pub(crate) fn is_bounded(self) -> bool {
        Duration::from_nanos(self.each_ns.saturating_add(self.longer_ns)) <= SERVICE_TIME_MAX
    }
}

impl FromStr for ServiceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| {
            let time = humantime::parse_duration(text.trim()).map_err(|error| format!("{text:?}: {error}"))?;
            u64::try_from(time.as_nanos()).map_err(|_| format!("{text:?} is too long"))
        };
        let Some((each, longer)) = text.split_once(',') else {
            return Ok(Self { each_ns: time(text)?, ..Self::default() });
        };
        let Some((longer, every)) = longer.split_once('/') else {
            return Err(format!("{longer:?} does not say how often: write TIME/EVERY, such as 20us/50"));
        };
        let every = every.trim().parse().ok().filter(|every| *every > 0);
        let every = every.ok_or_else(|| "the work is before every N-th answer, with N of 1 or more".to_owned())?;
        Ok(Self { each_ns: time(each)?, every, longer_ns: time(longer)? })
    }
}

impl fmt::Display for ServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.each_ns)?;
        if self.every > 0 { write!(f, ", {} ns more before every {}th", self.longer_ns, self.every) } else { Ok(()) }
    }
}

/// The peer at work.
pub(crate) struct Worker {
    service: ServiceTime,
    answers: u32,
}

impl Worker {
    /// Before the first answer.
    pub(crate) fn new(service: ServiceTime) -> Self {
        Self { service, answers: 0 }
    }

    /// Keeps the CPU busy before the next answer.
    #[inline]
    pub(crate) fn work(&mut self) {
        if self.service.is_none() {
            return;
        }
        let time = Duration::from_nanos(self.next_ns());
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    fn next_ns(&mut self) -> u64 {
        self.answers += 1;
        if self.answers != self.service.every {
            return self.service.each_ns;
        }
        self.answers = 0;
        self.service.each_ns.saturating_add(self.service.longer_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_mistakes_are_named() {
        let read = |text: &str| text.parse::<ServiceTime>();
        assert_eq!(read("2us"), Ok(ServiceTime { each_ns: 2_000, ..ServiceTime::default() }));
        assert_eq!(read("0ns,20us/50"), Ok(ServiceTime { each_ns: 0, every: 50, longer_ns: 20_000 }));
        for bad in
            ["", "5", "1us,", "1us,5us", "1us,5us/0", "1us,5us/-1", "1us,5us/x", "1us,5/2", "1us,5us/2,3", "99999y"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read("1us,5us").expect_err("no number").contains("20us/50"));
    }

    #[test]
    fn every_nth_answer_takes_longer() {
        let mut worker = Worker::new(ServiceTime { each_ns: 1, every: 3, longer_ns: 10 });
        let work: Vec<u64> = (0..7).map(|_| worker.next_ns()).collect();
        assert_eq!(work, [1, 1, 11, 1, 1, 11, 1]);
        let mut plain = Worker::new(ServiceTime { each_ns: 4, ..ServiceTime::default() });
        assert!((0..100).all(|_| plain.next_ns() == 4));
    }

    #[test]
    fn a_peer_is_not_kept_at_work_for_long() {
        assert!(ServiceTime { each_ns: 10_000_000, ..ServiceTime::default() }.is_bounded());
        assert!(!ServiceTime { each_ns: 10_000_000, every: 2, longer_ns: 1 }.is_bounded());
        assert!(!ServiceTime { each_ns: u64::MAX, every: 2, longer_ns: u64::MAX }.is_bounded());
    }
}

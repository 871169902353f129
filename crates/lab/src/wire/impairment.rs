//! The impairment of one direction of the wire, and its text form: `loss=1%,delay=5ms,rate=100mbit,seed=7`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;

use super::quantity::{Share, format_rate, parse_rate};

/// The keys of the text form, in its order.
pub const KEYS: [&str; 10] =
    ["loss", "duplicate", "reorder", "gap", "delay", "jitter", "corrupt", "rate", "queue", "seed"];

/// The longest delay or gap; longer ones are a dead wire, and would only fill the memory for frames in flight.
const DELAY_NS_MAX: u64 = 60_000_000_000;

/// One thousand frames, what Linux gives a device by default (txqueuelen).
const QUEUE_FRAMES_DEFAULT: u32 = 1_000;

/// The most frames of the queue: a wire holds no more in flight (`impair::FRAMES_IN_FLIGHT_MAX`).
const QUEUE_FRAMES_MAX: u32 = 65_536;

/// The impairment of one direction. The default does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Impairment {
    /// The share of frames that are lost.
    pub loss: Share,
    /// The share of frames that arrive twice.
    pub duplicate: Share,
    /// The share of frames that are held back for `gap_ns`, so that later ones overtake them.
    pub reorder: Share,
    /// The time for which a reordered frame is held back.
    pub gap_ns: u64,
    /// The delay of every frame.
    pub delay_ns: u64,
    /// Evenly distributed addition to the delay, from minus to plus this much. It reorders close frames.
    pub jitter_ns: u64,
    /// The share of frames in which one random bit past the Ethernet header is flipped.
    pub corrupt: Share,
    /// Bits per second of the frame (without preamble, check sequence and gap, as tc(8) counts); `None` is unlimited.
    pub(crate) rate_bps: Option<u64>,
    /// The most frames that wait for their turn at `rate_bps`; further ones are dropped.
    pub(crate) queue_frames: u32,
    /// The seed: the same one impairs the same frames in the same way.
    pub seed: u64,
}

impl Default for Impairment {
    fn default() -> Self {
        Self {
            loss: Share::NONE,
            duplicate: Share::NONE,
            reorder: Share::NONE,
            gap_ns: 0,
            delay_ns: 0,
            jitter_ns: 0,
            corrupt: Share::NONE,
            rate_bps: None,
            queue_frames: QUEUE_FRAMES_DEFAULT,
            seed: 0,
        }
    }
}

impl Impairment {
    /// Parses the text form; an empty text impairs nothing.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let mut impairment = Self::default();
        let mut seen = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| bad(pair, "it is not of the form key=value"))?;
            let (key, value) = (key.trim(), value.trim());
            if seen.contains(&key) {
                return Err(bad(pair, format!("{key} is given twice")));
            }
            impairment.set(key, value).map_err(|reason| bad(pair, reason))?;
            seen.push(key);
        }
        impairment.check()?;
        Ok(impairment)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "loss" => self.loss = Share::parse(value)?,
            "duplicate" => self.duplicate = Share::parse(value)?,
            "reorder" => self.reorder = Share::parse(value)?,
            "gap" => self.gap_ns = parse_duration_ns(value)?,
            "delay" => self.delay_ns = parse_duration_ns(value)?,
            "jitter" => self.jitter_ns = parse_duration_ns(value)?,
            "corrupt" => self.corrupt = Share::parse(value)?,
            "rate" => self.rate_bps = Some(parse_rate(value)?),
            "queue" => self.queue_frames = parse_number(value)?,
            "seed" => self.seed = parse_number(value)?,
            _ => return Err(format!("the key {key} is unknown")),
        }
        Ok(())
    }

    /// Refuses a contradictory impairment; one that a program made is checked, too, when the wire is built.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let refuse = |pair: &str, reason: &str| Err(bad(pair, reason));
        if self.jitter_ns > self.delay_ns {
            return refuse("jitter", "it is larger than the delay, and no frame arrives before it was sent");
        }
        if self.reorder > Share::NONE && self.gap_ns == 0 {
            return refuse("reorder", "it needs gap, the time by which frames are held back (gap=1ms)");
        }
        if self.gap_ns > 0 && self.reorder == Share::NONE {
            return refuse("gap", "it needs reorder, the share of frames that is held back (reorder=1%)");
        }
        if self.delay_ns.max(self.gap_ns) > DELAY_NS_MAX {
            return refuse("delay or gap", "it is longer than a minute");
        }
        if !(1..=QUEUE_FRAMES_MAX).contains(&self.queue_frames) {
            return refuse("queue", "it is not from 1 to 65536 frames");
        }
        if self.rate_bps == Some(0) {
            return refuse("rate", "a rate of 0 would never deliver");
        }
        Ok(())
    }
}

fn bad(pair: &str, reason: impl fmt::Display) -> Problem {
    Problem::usage(format!("cannot impair the wire by '{pair}'"), reason)
        .next(format!("use the keys {}, for example loss=1%,delay=5ms,jitter=1ms,rate=100mbit,seed=7", KEYS.join(", ")))
}

fn parse_number<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("'{text}' is not a number: {error}"))
}

fn parse_duration_ns(text: &str) -> Result<u64, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    u64::try_from(duration.as_nanos()).map_err(|_| "it is longer than a minute".to_owned())
}

impl fmt::Display for Impairment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        let duration = |ns| humantime::format_duration(Duration::from_nanos(ns)).to_string();
        let values = [
            (self.loss != default.loss).then(|| self.loss.to_string()),
            (self.duplicate != default.duplicate).then(|| self.duplicate.to_string()),
            (self.reorder != default.reorder).then(|| self.reorder.to_string()),
            (self.gap_ns != default.gap_ns).then(|| duration(self.gap_ns)),
            (self.delay_ns != default.delay_ns).then(|| duration(self.delay_ns)),
            (self.jitter_ns != default.jitter_ns).then(|| duration(self.jitter_ns)),
            (self.corrupt != default.corrupt).then(|| self.corrupt.to_string()),
            self.rate_bps.map(format_rate),
            (self.queue_frames != default.queue_frames).then(|| self.queue_frames.to_string()),
            (self.seed != default.seed).then(|| self.seed.to_string()),
        ];
        let pairs = KEYS.iter().zip(values).filter_map(|(key, value)| Some(format!("{key}={}", value?)));
        f.write_str(&pairs.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Impairment {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Impairment {
    type Error = Problem;

    fn try_from(text: String) -> Result<Self, Problem> {
        Self::parse(&text)
    }
}

impl From<Impairment> for String {
    fn from(impairment: Impairment) -> Self {
        impairment.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_every_key() {
        let text = "loss=1%,duplicate=0.1%,reorder=2%,gap=1ms,delay=5ms,jitter=1ms 500us,corrupt=0.01%,rate=100mbit,\
                    queue=50,seed=7";
        let impairment = Impairment::parse(text).unwrap();
        assert_eq!(Some(impairment.loss), Share::from_parts_per_million(10_000));
        assert_eq!(impairment.jitter_ns, 1_500_000);
        assert_eq!(impairment.rate_bps, Some(100_000_000));
        assert_eq!(impairment.queue_frames, 50);
        assert_eq!(impairment.to_string(), text);
    }

    #[test]
    fn nothing_is_a_perfect_wire() {
        assert_eq!(Impairment::parse(" , ").unwrap(), Impairment::default());
        assert_eq!(Impairment::default().to_string(), "");
    }

    #[test]
    fn errors_name_the_pair_and_the_known_keys() {
        for (text, named) in [
            ("loss=1%,los=2%", "'los=2%'"),
            ("delay", "'delay'"),
            ("delay=5", "'delay=5'"),
            ("delay=1ms,jitter=2ms", "'jitter'"),
            ("reorder=1%", "gap=1ms"),
            ("gap=1ms", "reorder=1%"),
            ("delay=2min", "longer than a minute"),
            ("loss=1%,loss=1%", "twice"),
            ("queue=0", "65536"),
            ("seed=-1", "'seed=-1'"),
            ("rate=0mbit", "never deliver"),
        ] {
            let problem = Impairment::parse(text).unwrap_err();
            assert_eq!(problem.kind(), sidestep_sys::Kind::Usage);
            assert!(problem.to_string().contains(named), "{problem}");
            assert!(problem.to_string().contains("loss, duplicate, reorder"), "{problem}");
        }
    }

    fn share() -> impl Strategy<Value = Share> {
        (0..=1_000_000_u32).prop_map(|parts| Share::from_parts_per_million(parts).unwrap())
    }

    prop_compose! {
        fn impairment()(
            (loss, duplicate, reorder, corrupt) in (share(), share(), share(), share()),
            (gap_ns, delay_ns) in (1..=DELAY_NS_MAX, 0..=DELAY_NS_MAX),
            jitter in 0.0..1.0,
            rate_bps in proptest::option::of(1..u64::MAX),
            (queue_frames, seed) in (1..=QUEUE_FRAMES_MAX, any::<u64>()),
        ) -> Impairment {
            let gap_ns = if reorder == Share::NONE { 0 } else { gap_ns };
            let jitter_ns = (delay_ns as f64 * jitter) as u64;
            Impairment { loss, duplicate, reorder, gap_ns, delay_ns, jitter_ns, corrupt, rate_bps, queue_frames, seed }
        }
    }

    proptest! {
        #[test]
        fn text_and_back(impairment in impairment()) {
            prop_assert_eq!(Impairment::parse(&impairment.to_string()).unwrap(), impairment);
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = Impairment::parse(&text);
        }

        #[test]
        fn no_nearly_right_text_panics(key in proptest::sample::select(&KEYS[..]), value in "[0-9.%a-zµ ]{0,24}") {
            let _ = Impairment::parse(&format!("{key}={value}"));
        }
    }
}

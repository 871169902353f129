//! The request, and the arms it makes: what is measured in turn, and what is compared with what.

use super::exchange::{SETTLE, Target};
use super::play::{LINES_MAX, Plan};
use super::{OrderForm, Place, Profile, Work};
use crate::measure::Bench;
use crate::path::{Medium, Path};
use crate::scenario::interleave::ROUNDS_MIN;
use sidestep_sys::Problem;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The longest slice. Many of them give an interval; each has a connection and a feed of its own.
const SLICE_MAX: Duration = Duration::from_millis(500);
/// The most speed: a feed is no faster at the worst moment of a year.
const SPEED_MAX: u32 = 100;

/// What to measure: every combination of these.
#[derive(Clone, Debug)]
pub struct Request {
    /// The paths. `xdp-raw` is the floor: a bare echo over AF_XDP, without a trader.
    pub paths: Vec<&'static Path>,
    /// The work of the trader.
    pub works: Vec<Work>,
    /// The form of its orders.
    pub forms: Vec<OrderForm>,
    /// Numbers of lines, 1 or 2.
    pub lines: Vec<u8>,
    /// Factors by which the feed is played faster.
    pub speeds: Vec<u32>,
    /// Datagrams of line A that are left out, per cent; with two lines.
    pub gaps_on_a: Vec<f64>,
    /// The course of the rate.
    pub profile: Profile,
    /// Messages per second, of the steady profile at single speed.
    pub rate: u64,
    /// Messages for each tick that asks for an order.
    pub trigger_every: u64,
    /// The place of such a tick in its datagram.
    pub place: Place,
    /// Messages of a datagram of line A.
    pub messages_per_packet: u16,
    /// Instruments.
    pub symbols: u32,
    /// Of the messages, and of the gaps.
    pub seed: u64,
    /// Group of line A; that of line B is the next one.
    pub group: Ipv4Addr,
    /// Time for each combination.
    pub duration: Duration,
}

impl Request {
    /// Checks the request before anything is set up.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        crate::run::check_duration(self.duration)?;
        let wrong = |what: String, why: &str, next: &str| Err(Problem::usage(what, why).next(next));
        if let Some(lines) = self.lines.iter().find(|lines| !(1..=LINES_MAX).contains(*lines)) {
            return wrong(format!("cannot send {lines} lines"), "there are one or two", "give --lines 1 or 2");
        }
        if let Some(speed) = self.speeds.iter().find(|speed| !(1..=SPEED_MAX).contains(*speed)) {
            let what = format!("cannot play {speed} times as fast");
            return wrong(what, &format!("it is 1 to {SPEED_MAX}"), "give --speed within it, for example 1,2,4,8");
        }
        if let Some(gap) = self.gaps_on_a.iter().find(|gap| !(0.0..100.0).contains(*gap)) {
            return wrong(
                format!("cannot leave {gap} % out"),
                "it is 0 to less than 100",
                "give --gap-on-a 1, for example",
            );
        }
        if self.gaps_on_a.iter().any(|gap| *gap > 0.0) && !self.lines.contains(&2) {
            let why = "messages that line A lacks come by line B alone";
            return wrong(
                "cannot leave out datagrams of one line".into(),
                why,
                "give --lines 2, or leave --gap-on-a out",
            );
        }
        if !self.group.is_multicast() {
            let what = format!("cannot send to group {}", self.group);
            return wrong(what, "it is not in 224.0.0.0/4", "give --group an address like 239.192.74.20");
        }
        self.plan().check()
    }

    /// The slices of an arm: twice as many as rounds, and their length.
    pub(super) fn pace(&self) -> (u32, Duration) {
        let slice = (self.duration / (2 * ROUNDS_MIN)).clamp(Duration::from_millis(1), SLICE_MAX);
        let rounds = (self.duration.as_secs_f64() / (2.0 * slice.as_secs_f64())).round() as u32;
        (rounds.max(ROUNDS_MIN), slice)
    }

    /// The messages of a slice, enough for the highest speed.
    pub(super) fn plan(&self) -> Plan {
        let (_, slice) = self.pace();
        let fastest = self.speeds.iter().max().copied().unwrap_or(1);
        let factor = match self.profile {
            Profile::Steady => 1.0,
            // The rate at first: a slice may be shorter than the burst.
            Profile::Open => 8.0,
            Profile::Sparse => 0.01,
        };
        // Times between messages are random: some more than the mean.
        let seconds = 1.1 * factor * (SETTLE + slice).as_secs_f64() * f64::from(fastest);
        Plan {
            seed: self.seed,
            symbols: self.symbols,
            rate: self.rate,
            profile: self.profile,
            trigger_every: self.trigger_every,
            place: self.place,
            messages_per_packet: self.messages_per_packet,
            messages: (seconds * self.rate as f64).ceil() as u64 + 100,
        }
    }

    /// Every combination once, in the order of the lists.
    pub(super) fn targets(&self) -> Vec<Target> {
        let plan = self.plan();
        let mut targets = Vec::new();
        for &path in self.paths.iter().filter(|path| path.medium != Medium::Frames) {
            for &work in &self.works {
                for &form in &self.forms {
                    for &lines in &self.lines {
                        for &speed in &self.speeds {
                            // A gap on the only line would be a loss.
                            let gaps = self.gaps_on_a.iter().filter(|gap| lines > 1 || **gap == 0.0);
                            targets.extend(gaps.map(|&gap_on_a| Target {
                                path,
                                work,
                                form,
                                lines,
                                speed,
                                gap_on_a,
                                group: self.group,
                                plan,
                            }));
                        }
                    }
                }
            }
        }
        targets
    }

    /// The number of arms.
    pub(crate) fn arms(&self) -> usize {
        self.targets().len() + usize::from(self.floor().is_some())
    }

    /// The path of the floor, if it is wanted.
    pub(super) fn floor(&self) -> Option<&'static Path> {
        self.paths.iter().copied().find(|path| path.medium == Medium::Frames)
    }
}

impl Target {
    /// Its name among the others of its run.
    pub(super) fn name(&self) -> String {
        let mut name = format!("{} {} {}", self.path.name, self.work.name(), self.form.name());
        if self.lines > 1 {
            name += " A+B";
        }
        if self.speed > 1 {
            name += &format!(" x{}", self.speed);
        }
        if self.gap_on_a > 0.0 {
            name += &format!(" gap {} %", self.gap_on_a);
        }
        name
    }

    /// Returns the reason why it cannot be measured here.
    pub(super) fn refusal(&self, bench: &Bench) -> Option<String> {
        let ends = bench.ends();
        match self.path.medium {
            Medium::Inet | Medium::Stack | Medium::FeedRing => {}
            _ => return Some("it carries no groups".into()),
        }
        if self.path.frame_by_frame {
            return Some("its second pair of interfaces has no groups".into());
        }
        if !self.path.pinned {
            return Some("both ends need a CPU of their own".into());
        }
        if ends.client.is_ipv6() {
            return Some("groups are IPv4 here: leave -6 out".into());
        }
        if ends.same_host && bench.cpus.server == Some(bench.cpus.client) {
            return Some("the exchange spins on its schedule and needs a CPU of its own".into());
        }
        crate::fit::trader_refusal(ends, self.path)
    }

    /// Returns whether `other` differs from it in the one thing that `differs` names, where that is the simpler one.
    fn is_beside(&self, other: &Self) -> bool {
        let same = [
            self.path.name == other.path.name,
            self.work == other.work,
            self.form == other.form,
            self.lines == other.lines,
            self.speed == other.speed,
            self.gap_on_a == other.gap_on_a,
        ];
        let simpler = [
            other.path.name == "kernel-spin",
            other.work == Work::Reflex,
            other.form == OrderForm::Fix,
            other.lines < self.lines,
            other.speed == 1,
            other.gap_on_a == 0.0,
        ];
        let differing: Vec<usize> = (0..same.len()).filter(|at| !same[*at]).collect();
        matches!(differing[..], [one] if simpler[one])
    }

    /// Those of `targets` that it is compared with: each differs in one thing, and is the simpler one.
    pub(super) fn baselines(&self, targets: &[Self]) -> Vec<usize> {
        (0..targets.len()).filter(|at| self.is_beside(&targets[*at])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::exchange::exchange_path;
    use super::*;

    fn request() -> Request {
        Request {
            paths: ["kernel-spin", "xdp", "xdp-raw"].iter().map(|name| Path::named(name).unwrap()).collect(),
            works: vec![Work::Reflex, Work::Book],
            forms: vec![OrderForm::Fix],
            lines: vec![1, 2],
            speeds: vec![1],
            gaps_on_a: vec![0.0, 1.0],
            profile: Profile::Steady,
            rate: 100_000,
            trigger_every: 100,
            place: Place::Any,
            messages_per_packet: 4,
            symbols: 100,
            seed: 1,
            group: Ipv4Addr::new(239, 192, 74, 20),
            duration: Duration::from_secs(8),
        }
    }

    #[test]
    fn every_combination_is_measured_once_and_has_a_name_of_its_own() {
        let targets = request().targets();
        assert_eq!(targets.len(), 2 * 2 * 3, "one line has no gap");
        let names: std::collections::HashSet<String> = targets.iter().map(Target::name).collect();
        assert_eq!(names.len(), targets.len());
        assert!(names.contains("xdp book fix A+B gap 1 %") && names.contains("kernel-spin reflex fix"), "{names:?}");
        assert!(request().floor().is_some());
    }

    #[test]
    fn the_exchange_goes_by_the_kernel_where_one_end_alone_is_of_the_path() {
        let of = |name| exchange_path(Path::named(name).unwrap()).unwrap().name;
        assert_eq!((of("ring"), of("xdp-one-end"), of("xdp")), ("kernel-spin", "kernel-spin", "xdp"));
    }

    #[test]
    fn an_arm_is_compared_with_those_that_differ_in_one_thing() {
        let targets = request().targets();
        let names = |of: &str| -> Vec<String> {
            let target = targets.iter().find(|target| target.name() == of).expect("it is there");
            target.baselines(&targets).into_iter().map(|at| targets[at].name()).collect()
        };
        assert_eq!(names("kernel-spin reflex fix"), [] as [&str; 0]);
        assert_eq!(names("xdp book fix"), ["kernel-spin book fix", "xdp reflex fix"]);
        assert_eq!(
            names("xdp book fix A+B gap 1 %"),
            ["kernel-spin book fix A+B gap 1 %", "xdp reflex fix A+B gap 1 %", "xdp book fix A+B"]
        );
        assert_eq!(names("xdp reflex fix A+B"), ["kernel-spin reflex fix A+B", "xdp reflex fix"]);
    }

    #[test]
    fn what_cannot_be_played_is_refused_before_anything_is_set_up() {
        assert!(request().check().is_ok());
        let wrong = [
            Request { lines: vec![3], ..request() },
            Request { speeds: vec![0], ..request() },
            Request { gaps_on_a: vec![100.0], ..request() },
            Request { gaps_on_a: vec![f64::NAN], ..request() },
            Request { lines: vec![1], ..request() },
            Request { group: Ipv4Addr::LOCALHOST, ..request() },
            Request { rate: 0, ..request() },
            Request { rate: 50_000_000, ..request() },
            Request { duration: Duration::ZERO, ..request() },
        ];
        assert!(wrong.iter().all(|request| request.check().is_err()));
    }

    #[test]
    fn the_time_of_an_arm_is_divided_into_rounds_of_slices() {
        let pace = |ms| Request { duration: Duration::from_millis(ms), ..request() }.pace();
        assert_eq!(pace(8_000), (8, Duration::from_millis(500)));
        assert_eq!(pace(20_000), (20, Duration::from_millis(500)));
        assert_eq!(pace(160), (8, Duration::from_millis(10)));
        assert!((58_400..58_410).contains(&request().plan().messages));
        let at_first = Request { profile: Profile::Open, ..request() }.plan().messages;
        assert!(at_first > 8 * 53_000, "a slice that is all burst is played to its end: {at_first}");
    }
}

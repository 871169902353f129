//! Ratios between interleaved arms, and of each arm with itself.

use super::arm::{Arm, Pass, Round};
use crate::path::Medium;
use crate::stats::{TAIL_SAMPLES, mean_of_logs};
use sidestep_report::schema::Ratio;

/// Samples beyond the percentile that a slice must have for its percentile to go into a ratio.
const SLICE_TAIL: f64 = TAIL_SAMPLES / 10.0;

/// A statistic of a slice that ratios are made of.
struct Stat {
    name: &'static str,
    of: fn(&Pass) -> f64,
    samples_min: f64,
}

const STATS: [Stat; 2] = [
    Stat { name: "p50", of: |pass| pass.p50, samples_min: SLICE_TAIL / 0.5 },
    Stat { name: "p99", of: |pass| pass.p99, samples_min: SLICE_TAIL / 0.01 },
];

/// For every arm: the control, and the ratio to the first arm over the same kind of transport at the same size.
pub(super) fn of_arms(arms: &[Arm]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for arm in arms {
        let baseline = arms.iter().find(|other| is_baseline_of(other, arm));
        let floor = arms.iter().find(|other| is_floor_of(other, arm));
        for stat in &STATS {
            ratios.extend(control(arm, stat));
            ratios.extend(baseline.and_then(|baseline| between(arm, baseline, stat)));
            ratios.extend(floor.and_then(|floor| between(arm, floor, stat)));
        }
    }
    ratios
}

/// A path that goes by another medium (Unix, memory) is compared with the first network path.
fn is_baseline_of(candidate: &Arm, arm: &Arm) -> bool {
    let (one, two) = (&candidate.target, &arm.target);
    let same_size = one.size == two.size || two.path.medium == Medium::CacheLine;
    let comparable = one.transport == two.transport || matches!(two.path.medium, Medium::Unix | Medium::CacheLine);
    candidate.refusal.is_none() && one.path.medium == Medium::Inet && same_size && comparable
}

/// Our stack is compared with bare frames, too: what it adds to them.
fn is_floor_of(candidate: &Arm, arm: &Arm) -> bool {
    let (one, two) = (&candidate.target, &arm.target);
    let mediums = (one.path.medium, two.path.medium) == (Medium::Frames, Medium::Stack);
    candidate.refusal.is_none() && mediums && one.size == two.size && one.transport == two.transport
}

fn control(arm: &Arm, stat: &Stat) -> Option<Ratio> {
    let log = |round: &Round| Some(stat.log(round.forward?)? - stat.log(round.backward?)?);
    let logs: Vec<f64> = arm.rounds.iter().filter_map(log).collect();
    ratio(arm, arm, stat, &logs)
}

fn between(arm: &Arm, baseline: &Arm, stat: &Stat) -> Option<Ratio> {
    if std::ptr::eq(arm, baseline) {
        return None;
    }
    let both = |round: &Round| Some((stat.log(round.forward?)? + stat.log(round.backward?)?) / 2.0);
    let rounds = arm.rounds.iter().zip(&baseline.rounds);
    let logs: Vec<f64> = rounds.filter_map(|(one, two)| Some(both(one)? - both(two)?)).collect();
    ratio(arm, baseline, stat, &logs)
}

fn ratio(arm: &Arm, against: &Arm, stat: &Stat, logs: &[f64]) -> Option<Ratio> {
    let estimate = mean_of_logs(logs)?;
    Some(Ratio {
        scenario: arm.scenario.into(),
        transport: arm.target.transport.name().into(),
        size: arm.target.size,
        of: arm.name(),
        against: against.name(),
        stat: stat.name.into(),
        value: estimate.value,
        ci95: estimate.ci95,
    })
}

impl Stat {
    fn log(&self, pass: Pass) -> Option<f64> {
        let value = (self.of)(&pass);
        (pass.n as f64 >= self.samples_min && value > 0.0).then(|| value.ln())
    }
}

impl Arm {
    /// The path, or on a ladder the rung, which may share its path with another.
    fn name(&self) -> String {
        self.rung.as_ref().map_or_else(|| self.target.path.name.to_owned(), |rung| rung.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;
    use crate::transport::Transport;

    fn arm(path: &str, transport: Transport, p50: f64, noise: f64) -> Arm {
        let path = Path::named(path).expect("a path");
        let mut arm = Arm::new("rr", path, path.transport(transport), 64);
        let mut random = fastrand::Rng::with_seed(p50 as u64);
        let mut pass = || Some(Pass { n: 500, p50: p50 * (1.0 + noise * (random.f64() - 0.5)), p99: p50 * 2.0 });
        arm.rounds = (0..20).map(|_| Round { forward: pass(), backward: pass() }).collect();
        arm
    }

    #[test]
    fn a_known_ratio_is_found_and_the_control_is_one() {
        let arms =
            [arm("kernel-pinned", Transport::Tcp, 80_000.0, 0.02), arm("kernel-spin", Transport::Tcp, 8_000.0, 0.02)];
        let ratios = of_arms(&arms);
        let found = |of: &str, against: &str| {
            ratios
                .iter()
                .find(|ratio| ratio.of == of && ratio.against == against && ratio.stat == "p50")
                .expect("there")
        };
        let spin = found("kernel-spin", "kernel-pinned");
        assert!((spin.value - 0.1).abs() < 0.001 && spin.ci95[0] < spin.value && spin.value < spin.ci95[1]);
        let control = found("kernel-spin", "kernel-spin");
        assert!(control.ci95[0] < 1.0 && 1.0 < control.ci95[1], "{control:?}");
        assert!(ratios.iter().all(|ratio| ratio.stat == "p50"), "500 samples say nothing about p99");
    }

    #[test]
    fn other_media_are_compared_with_the_first_network_path() {
        let arms = [arm("kernel-pinned", Transport::Udp, 76_000.0, 0.0), arm("uds", Transport::Udp, 70_000.0, 0.0)];
        assert!(of_arms(&arms).iter().any(|ratio| ratio.of == "uds" && ratio.against == "kernel-pinned"));
        let apart =
            [arm("kernel-pinned", Transport::Udp, 76_000.0, 0.0), arm("kernel-spin", Transport::Tcp, 6_000.0, 0.0)];
        assert!(of_arms(&apart).iter().all(|ratio| ratio.of == ratio.against), "TCP is not compared with UDP");
    }

    #[test]
    fn rounds_that_were_cut_short_do_not_count() {
        let mut cut = arm("kernel-spin", Transport::Tcp, 5_000.0, 0.1);
        cut.rounds.truncate(1);
        cut.rounds.push(Round { forward: cut.rounds[0].forward, backward: None });
        assert!(of_arms(&[cut]).is_empty(), "one whole round gives no interval");
    }
}

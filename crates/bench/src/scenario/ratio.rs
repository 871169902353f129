//! Ratios between interleaved arms, and of each arm with itself.

use super::arm::Arm;
use crate::path::Medium;
use sidestep_report::schema::Ratio;

/// For every arm: the control, and the ratio to the first arm over the same kind of transport at the same size.
pub(super) fn of_arms(arms: &[Arm]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for arm in arms {
        ratios.extend(arm.record.controls());
        for baseline in [is_baseline_of, is_floor_of] {
            let other = arms.iter().find(|other| baseline(other, arm)).filter(|other| !std::ptr::eq(*other, arm));
            ratios.extend(other.map(|other| arm.record.against(&other.record)).unwrap_or_default());
        }
    }
    ratios
}

/// A path that goes by another medium (Unix, memory) is compared with the first network path.
fn is_baseline_of(candidate: &Arm, arm: &Arm) -> bool {
    let (one, two) = (&candidate.target, &arm.target);
    let same_size = (one.size == two.size && one.work == two.work) || two.path.medium == Medium::CacheLine;
    let comparable = one.transport == two.transport || matches!(two.path.medium, Medium::Unix | Medium::CacheLine);
    candidate.is_possible() && one.path.medium == Medium::Inet && same_size && comparable
}

/// Our stack is compared with bare frames, too, and unmodified programs with its native API: what each adds.
fn is_floor_of(candidate: &Arm, arm: &Arm) -> bool {
    let (one, two) = (&candidate.target, &arm.target);
    let mediums = matches!(
        (one.path.medium, two.path.medium),
        (Medium::Frames, Medium::Stack) | (Medium::Stack, Medium::Unmodified)
    );
    candidate.is_possible() && mediums && one.size == two.size && one.transport == two.transport
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;
    use crate::scenario::record::{Pass, Round};
    use crate::transport::Transport;

    fn arm(path: &str, transport: Transport, p50: f64, noise: f64) -> Arm {
        let path = Path::named(path).expect("a path");
        let mut arm = Arm::new("rr", path, path.transport(transport), 64, "rtt");
        let mut random = fastrand::Rng::with_seed(p50 as u64);
        let mut pass =
            || Some(Pass { n: 500, p50: p50 * (1.0 + noise * (random.f64() - 0.5)), p99: p50 * 2.0, mean: p50 });
        arm.record.rounds = (0..20).map(|_| Round { forward: pass(), backward: pass() }).collect();
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
        cut.record.rounds.truncate(1);
        cut.record.rounds.push(Round { forward: cut.record.rounds[0].forward, backward: None });
        assert!(of_arms(&[cut]).is_empty(), "one whole round gives no interval");
    }
}

//! Ratios between interleaved arms, and of each arm with itself.

use super::arm::Arm;
use crate::path::Medium;
use sidestep_report::schema::Ratio;
use sidestep_socket::stream::Waiting;

/// The arm that others are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Baseline {
    /// The first network path whose ends have CPUs of their own and whose slices have no modes; the first, if none is so. Where the
    /// scheduler puts both ends of an unpinned path, once on one CPU and once on two, changes it by a factor of ten.
    #[default]
    Steady,
    /// The first network path, whatever it is.
    First,
}

/// For every arm: the control, the ratios to its baseline over the same kind of transport at the same size, to kernel-spin if it
/// spins itself, and to what lies beneath it.
pub(super) fn of_arms(arms: &[Arm], baseline: Baseline) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for arm in arms {
        ratios.extend(arm.record.controls());
        for other in others(arms, arm, baseline) {
            ratios.extend(arm.record.against(&other.record));
        }
    }
    ratios
}

/// The arms that `arm` is compared with, each once.
fn others<'a>(arms: &'a [Arm], arm: &Arm, baseline: Baseline) -> Vec<&'a Arm> {
    let comparable = || arms.iter().filter(|other| is_comparable(other, arm));
    let is_unsteady = |other: &&Arm| (other.record.has_modes(), !other.target.path.pinned);
    let main = match baseline {
        Baseline::First => comparable().next(),
        // Of several that are equally steady it is the first.
        Baseline::Steady => comparable().min_by_key(is_unsteady),
    };
    let spinning = comparable().find(|other| other.target.path.name == "kernel-spin" && spins(arm));
    let beneath = arms.iter().find(|other| is_floor_of(other, arm));
    let mut others: Vec<&Arm> = Vec::new();
    for other in [main, spinning, beneath].into_iter().flatten() {
        if !std::ptr::eq(other, arm) && !others.iter().any(|known| std::ptr::eq(*known, other)) {
            others.push(other);
        }
    }
    others
}

fn spins(arm: &Arm) -> bool {
    arm.target.path.waiting == Waiting::Spin && arm.target.path.medium != Medium::CacheLine
}

/// A path that goes by another medium (Unix, memory) is compared with a network path.
fn is_comparable(candidate: &Arm, arm: &Arm) -> bool {
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
    use crate::scenario::record::Direction;
    use crate::stats::Slice;
    use crate::transport::Transport;
    use sidestep_report::schema::Noise;

    /// An arm of twenty rounds, its slices at these medians in turn.
    fn arm_at(path: &str, transport: Transport, medians: &[f64]) -> Arm {
        let path = Path::named(path).expect("a path");
        let mut arm = Arm::new("rr", path, path.transport(transport), 64, "rtt");
        let directions = [Direction::Forward, Direction::Backward].into_iter().cycle();
        for (direction, median) in directions.zip(medians.iter().cycle()).take(40) {
            // 200 samples around the median.
            let slice = Slice::of((0..200).map(|at| (median * (0.95 + 0.0005 * f64::from(at))) as u64));
            arm.record.take(direction, slice, 0, &Noise::default());
        }
        arm
    }

    fn arm(path: &str, transport: Transport, p50: f64, noise: f64) -> Arm {
        let mut random = fastrand::Rng::with_seed(p50 as u64);
        let medians: Vec<f64> = (0..40).map(|_| p50 * (1.0 + noise * (random.f64() - 0.5))).collect();
        arm_at(path, transport, &medians)
    }

    fn of_arms(arms: &[Arm]) -> Vec<Ratio> {
        super::of_arms(arms, Baseline::Steady)
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
        assert!((spin.value - 0.1).abs() < 0.003 && spin.ci95[0] < spin.value && spin.value < spin.ci95[1]);
        let control = found("kernel-spin", "kernel-spin");
        assert!(control.ci95[0] < 1.0 && 1.0 < control.ci95[1], "{control:?}");
        assert!(ratios.iter().all(|ratio| ratio.stat == "p50"), "8,000 samples say nothing about p99");
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
    fn a_pinned_path_without_modes_is_the_baseline_and_spinning_paths_have_kernel_spin_beside_it() {
        let pairs = |arms: &[Arm], baseline| {
            let ratios = super::of_arms(arms, baseline).into_iter().filter(|ratio| ratio.of != ratio.against);
            ratios.map(|ratio| (ratio.of, ratio.against)).collect::<Vec<_>>()
        };
        let named = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(of, against)| ((*of).to_owned(), (*against).to_owned())).collect::<Vec<_>>()
        };
        let tcp = |path: &str, medians: &[f64]| arm_at(path, Transport::Tcp, medians);
        let bistable = [9_000.0, 9_000.0, 70_000.0];
        let arms = [
            tcp("kernel-default", &bistable),
            tcp("kernel-pinned", &[60_000.0]),
            tcp("kernel-spin", &[6_000.0]),
            tcp("xdp", &[3_000.0]),
        ];
        let steady = pairs(&arms, Baseline::Steady);
        assert_eq!(
            steady,
            named(&[
                ("kernel-default", "kernel-pinned"),
                ("kernel-spin", "kernel-pinned"),
                ("xdp", "kernel-pinned"),
                ("xdp", "kernel-spin")
            ])
        );
        let first = pairs(&arms, Baseline::First);
        assert!(first.contains(&("kernel-pinned".into(), "kernel-default".into())), "{first:?}");
        let alone = pairs(&[tcp("kernel-default", &bistable), tcp("xdp", &[3_000.0])], Baseline::Steady);
        assert_eq!(alone, named(&[("xdp", "kernel-default")]), "what else is there is a ratio, but no headline");
        let modes = pairs(&[tcp("kernel-pinned", &bistable), tcp("kernel-spin", &[6_000.0])], Baseline::Steady);
        assert_eq!(modes, named(&[("kernel-pinned", "kernel-spin")]));
    }

    #[test]
    fn a_run_that_was_cut_short_gives_no_interval() {
        let path = Path::named("kernel-spin").expect("a path");
        let mut cut = Arm::new("rr", path, Transport::Tcp, 64, "rtt");
        for direction in [Direction::Forward, Direction::Backward, Direction::Forward] {
            cut.record.take(direction, Slice::of(1..=500), 0, &Noise::default());
        }
        assert!(of_arms(&[cut]).is_empty());
    }
}

//! The five set-ups of Waskiewicz's "Anatomy of Networking in High-Frequency Trading" (NetDev 0x16), from no tuning to
//! polling, as arms of one interleaved run. A rung that this host or device cannot have says why.

use super::arm::{Arm, Rung};
use super::irq::IrqPins;
use crate::path::Path;
use crate::transport::Transport;
use sidestep_sys::Problem;

/// The means of the host and the interface for the ladder.
#[derive(Debug)]
pub(crate) struct Means {
    /// The interface's interrupts, or why they are not moved.
    pub irqs: Result<IrqPins, String>,
    /// A CPU the scheduler leaves alone, if there is one this process may use.
    pub(crate) isolated_cpu: Option<u32>,
    /// CPU of the measuring end on the rungs before isolation.
    pub cpu: u32,
}

/// The rungs as arms over `transport`.
pub(crate) fn ladder(transport: Transport, size: u32, means: &Means) -> Result<Vec<Arm>, Problem> {
    let arm = |path: &str, name: &str| -> Result<Arm, Problem> {
        let rung = Rung { name: name.into(), cpu: Some(means.cpu), ..Rung::default() };
        Ok(Arm::new("rr", Path::named(path)?, transport, size, "rtt").on_rung(rung))
    };
    let mut irq = arm("kernel-pinned", "3 IRQ pinned")?;
    let mut isolated = arm("kernel-pinned", "4 CPU isolated")?;
    let mut polling = arm("kernel-spin", "5 polling")?;
    let mut missing = Vec::new();
    match &means.irqs {
        Ok(_) => [&mut irq, &mut isolated, &mut polling].into_iter().for_each(|arm| arm.rung_mut().irq = true),
        Err(reason) => {
            irq = irq.refused(reason.clone());
            missing.push("without pinned interrupts");
        }
    }
    match means.isolated_cpu {
        Some(cpu) => [&mut isolated, &mut polling].into_iter().for_each(|arm| arm.rung_mut().cpu = Some(cpu)),
        None => {
            isolated = isolated.refused(
                "no CPU is isolated from the scheduler (/sys/devices/system/cpu/isolated is empty): boot with isolcpus=; or, \
                 without a boot, compare a run with one under sidestep tune run --cpu A,B --isolate (of three CPUs or more)",
            );
            missing.push("without an isolated CPU");
        }
    }
    if !missing.is_empty() {
        polling = polling.noting(format!("polling {}: see the rungs above", missing.join(" and ")));
    }
    Ok(vec![arm("kernel-default", "1 default")?, arm("kernel-pinned", "2 CPU pinned")?, irq, isolated, polling])
}

impl Arm {
    fn rung_mut(&mut self) -> &mut Rung {
        self.rung.get_or_insert_default()
    }
}

/// The first CPU of a list like `2-3,7` that is also in `allowed`.
pub(crate) fn first_isolated(list: &str, allowed: &[u32]) -> Option<u32> {
    list.split(',').find_map(|part| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        allowed.iter().copied().find(|cpu| (first..=last).contains(cpu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without() -> Means {
        Means { irqs: Err("lab0 has no interrupt".into()), isolated_cpu: None, cpu: 0 }
    }

    #[test]
    fn a_rung_that_cannot_be_had_says_why() {
        let arms = ladder(Transport::Tcp, 64, &without()).expect("the paths exist");
        let refused: Vec<bool> = arms.iter().map(|arm| !arm.is_possible()).collect();
        assert_eq!(refused, [false, false, true, true, false]);
        assert_eq!(arms[2].unavailable().expect("refused").reason, "lab0 has no interrupt");
    }

    #[test]
    fn a_host_that_has_everything_runs_five_rungs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = sidestep_tune::host::Tree::at(folder.path());
        let store = sidestep_tune::snapshot::Store::at(folder.path().join("state"));
        std::fs::create_dir_all(folder.path().join("sys/class/net/eth7/device/msi_irqs/9")).expect("made");
        std::fs::create_dir_all(folder.path().join("proc/irq/9")).expect("made");
        std::fs::write(folder.path().join("proc/irq/9/smp_affinity_list"), "0").expect("made");
        let means = Means { irqs: IrqPins::of(move || host.clone(), store, "eth7"), isolated_cpu: Some(5), cpu: 1 };
        let arms = ladder(Transport::Udp, 64, &means).expect("the paths exist");
        let rungs: Vec<_> = arms.iter().map(|arm| arm.rung.clone().expect("a ladder has rungs")).collect();
        assert!(arms.iter().all(|arm| arm.is_possible()));
        assert_eq!(rungs.iter().map(|rung| rung.irq).collect::<Vec<_>>(), [false, false, true, true, true]);
        assert_eq!(rungs.iter().map(|rung| rung.cpu.expect("set")).collect::<Vec<_>>(), [1, 1, 1, 5, 5]);
    }

    #[test]
    fn isolated_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(first_isolated("2-3,7", &[0, 1, 3, 7]), Some(3));
        assert_eq!(first_isolated("7", &[0, 1, 7]), Some(7));
        assert_eq!(first_isolated("", &[0, 1]), None);
        assert_eq!(first_isolated("x-y,,9-", &[0, 1]), None);
    }
}

//! Moving a network interface's interrupts to one CPU, for the rungs that ask for it, and back.

use sidestep_sys::problem::{Problem, say};
use sidestep_sys::proc::Roots;
use std::fs;
use std::path::PathBuf;

/// The interrupts of one interface, with the affinity they had.
#[derive(Debug)]
pub struct IrqPins {
    before: Vec<(PathBuf, String)>,
    pinned_to: Option<u32>,
}

impl IrqPins {
    /// Notes the affinity of the interrupts of `interface`. Err says why there is nothing to pin.
    pub fn of(roots: &Roots, interface: &str) -> Result<Self, String> {
        let irqs = roots.interface_irqs(interface);
        if irqs.is_empty() {
            return Err(format!("{interface} has no interrupt of its own to pin (a veth or loopback device has none)"));
        }
        let note = |irq: &u32| {
            let path = roots.proc.join("irq").join(irq.to_string()).join("smp_affinity_list");
            let affinity =
                fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            Ok((path, affinity.trim().to_owned()))
        };
        Ok(Self { before: irqs.iter().map(note).collect::<Result<_, String>>()?, pinned_to: None })
    }

    /// Sends them all to `cpu`. What the kernel manages itself cannot be moved and makes this fail.
    pub fn pin(&mut self, cpu: u32) -> Result<(), Problem> {
        if self.pinned_to == Some(cpu) {
            return Ok(());
        }
        self.pinned_to = Some(cpu);
        self.before.iter().try_for_each(|(path, _)| write(path, &cpu.to_string()))
    }

    /// Sends them where they were.
    pub fn restore(&mut self) -> Result<(), Problem> {
        if self.pinned_to.take().is_none() {
            return Ok(());
        }
        // All of them, even when one fails; the first failure is told.
        let results: Vec<_> = self.before.iter().map(|(path, affinity)| write(path, affinity)).collect();
        results.into_iter().collect()
    }
}

impl Drop for IrqPins {
    fn drop(&mut self) {
        if let Err(problem) = self.restore() {
            say(problem);
        }
    }
}

fn write(path: &PathBuf, affinity: &str) -> Result<(), Problem> {
    fs::write(path, affinity).map_err(|error| {
        Problem::failed(format!("cannot write {affinity:?} to {}", path.display()), error)
            .next("run as root; an interrupt that the kernel manages cannot be moved")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let roots = Roots { proc: folder.path().join("proc"), sys: folder.path().join("sys") };
        for (irq, affinity) in [("41", "0-3\n"), ("42", "2\n")] {
            fs::create_dir_all(roots.proc.join("irq").join(irq)).expect("made");
            fs::write(roots.proc.join("irq").join(irq).join("smp_affinity_list"), affinity).expect("made");
            fs::create_dir_all(roots.sys.join("class/net/eth7/device/msi_irqs").join(irq)).expect("made");
        }
        (folder, roots)
    }

    fn affinity(roots: &Roots, irq: &str) -> String {
        roots.proc(&format!("irq/{irq}/smp_affinity_list"))
    }

    #[test]
    fn pins_and_puts_back() {
        let (_folder, roots) = host();
        let mut pins = IrqPins::of(&roots, "eth7").expect("it has two");
        pins.pin(3).expect("writable");
        assert_eq!((affinity(&roots, "41"), affinity(&roots, "42")), ("3".into(), "3".into()));
        drop(pins);
        assert_eq!((affinity(&roots, "41"), affinity(&roots, "42")), ("0-3".into(), "2".into()));
    }

    #[test]
    fn says_why_there_is_nothing_to_pin() {
        let (_folder, roots) = host();
        assert!(IrqPins::of(&roots, "veth0").expect_err("it has none").contains("veth0 has no interrupt"));
        fs::remove_file(roots.proc.join("irq/42/smp_affinity_list")).expect("removed");
        assert!(IrqPins::of(&roots, "eth7").expect_err("one is unreadable").contains("cannot read"));
    }
}

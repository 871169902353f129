//! Moving a network interface's interrupts to one CPU, for the rungs that ask for it, and back.

use sidestep_sys::problem::{Problem, say};
use sidestep_tune::host::{Absence, Host};
use sidestep_tune::interrupts::{affinity_of, of_interface};
use sidestep_tune::place::Place;
use std::fmt;

/// The interrupts of one interface, with the affinity they had.
pub struct IrqPins {
    host: Box<dyn Host>,
    before: Vec<(Place, String)>,
    moved: Moved,
}

/// Where they are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// Where they were.
    Nowhere,
    /// Some of them elsewhere, as a write failed.
    Somewhere,
    /// All on this CPU.
    To(u32),
}

impl fmt::Debug for IrqPins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IrqPins").field("before", &self.before).field("moved", &self.moved).finish_non_exhaustive()
    }
}

impl IrqPins {
    /// Notes the affinity of the interrupts of `interface`. Err says why there is nothing to pin.
    pub fn of(host: Box<dyn Host>, interface: &str) -> Result<Self, String> {
        let interrupts = host.read(&Place::parse("proc:interrupts").map_err(|problem| problem.brief())?);
        let irqs = of_interface(host.as_ref(), interface, &interrupts.unwrap_or_default());
        if irqs.is_empty() {
            return Err(format!("{interface} has no interrupt of its own to pin (a veth or loopback device has none)"));
        }
        let note = |irq: &u32| {
            let place = affinity_of(*irq);
            let affinity =
                host.read(&place).map_err(|absence| format!("cannot read {}: {}", place.words(), why(absence)))?;
            Ok((place, affinity))
        };
        let before = irqs.iter().map(note).collect::<Result<_, String>>()?;
        Ok(Self { host, before, moved: Moved::Nowhere })
    }

    /// Sends them all to `cpu`. What the kernel manages itself cannot be moved and makes this fail.
    pub fn pin(&mut self, cpu: u32) -> Result<(), Problem> {
        if self.moved == Moved::To(cpu) {
            return Ok(());
        }
        // Not where they were from the first write on, and on that CPU only after the last.
        self.moved = Moved::Somewhere;
        self.before.iter().try_for_each(|(place, _)| self.write(place, &cpu.to_string()))?;
        self.moved = Moved::To(cpu);
        Ok(())
    }

    /// Sends them where they were.
    pub fn restore(&mut self) -> Result<(), Problem> {
        if self.moved == Moved::Nowhere {
            return Ok(());
        }
        // All of them, even when one fails; the first failure is told.
        let results: Vec<_> = self.before.iter().map(|(place, affinity)| self.write(place, affinity)).collect();
        results.into_iter().collect::<Result<(), _>>()?;
        self.moved = Moved::Nowhere;
        Ok(())
    }

    fn write(&self, place: &Place, affinity: &str) -> Result<(), Problem> {
        self.host.write(place, affinity).map_err(|error| {
            Problem::failed(format!("cannot write {affinity:?} to {}", place.words()), error)
                .next("run as root; an interrupt that the kernel manages cannot be moved")
        })
    }
}

impl Drop for IrqPins {
    fn drop(&mut self) {
        if let Err(problem) = self.restore() {
            say(problem);
        }
    }
}

fn why(absence: Absence) -> String {
    match absence {
        Absence::Missing => "it is not there".into(),
        Absence::Denied => "only root may".into(),
        Absence::Unreadable(why) => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_tune::host::Tree;
    use std::fs;
    use std::path::Path;

    fn host() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (irq, affinity) in [("41", "0-3\n"), ("42", "2\n")] {
            let path = folder.path().join("proc/irq").join(irq);
            fs::create_dir_all(&path).expect("made");
            fs::write(path.join("smp_affinity_list"), affinity).expect("made");
            fs::create_dir_all(folder.path().join("sys/class/net/eth7/device/msi_irqs").join(irq)).expect("made");
        }
        folder
    }

    fn pins(folder: &Path, interface: &str) -> Result<IrqPins, String> {
        IrqPins::of(Box::new(Tree::at(folder)), interface)
    }

    fn affinity(folder: &Path, irq: &str) -> String {
        fs::read_to_string(folder.join("proc/irq").join(irq).join("smp_affinity_list")).expect("it is there")
    }

    #[test]
    fn what_failed_half_way_is_tried_again_and_put_back() {
        let folder = host();
        let (stands, aside) = (folder.path().join("proc/irq/42"), folder.path().join("aside"));
        let mut pins = pins(folder.path(), "eth7").expect("it has two");
        fs::rename(&stands, &aside).expect("moved");
        assert!(pins.pin(3).is_err() && pins.restore().is_err(), "one is not there");
        fs::rename(&aside, &stands).expect("moved");
        pins.pin(3).expect("both are there");
        assert_eq!((affinity(folder.path(), "41"), affinity(folder.path(), "42")), ("3\n".into(), "3\n".into()));
        fs::rename(&stands, &aside).expect("moved");
        assert!(pins.restore().is_err());
        fs::rename(&aside, &stands).expect("moved");
        pins.restore().expect("again");
        assert_eq!((affinity(folder.path(), "41"), affinity(folder.path(), "42")), ("0-3\n".into(), "2\n".into()));
    }

    #[test]
    fn pins_and_puts_back() {
        let folder = host();
        let mut pins = pins(folder.path(), "eth7").expect("it has two");
        pins.pin(3).expect("writable");
        assert_eq!((affinity(folder.path(), "41"), affinity(folder.path(), "42")), ("3\n".into(), "3\n".into()));
        drop(pins);
        assert_eq!((affinity(folder.path(), "41"), affinity(folder.path(), "42")), ("0-3\n".into(), "2\n".into()));
    }

    #[test]
    fn a_device_behind_a_bus_has_those_of_its_name() {
        let folder = host();
        let device = folder.path().join("sys/devices/virtio3");
        fs::create_dir_all(&device).expect("made");
        fs::create_dir_all(folder.path().join("sys/class/net/eth8")).expect("made");
        std::os::unix::fs::symlink("../../../devices/virtio3", folder.path().join("sys/class/net/eth8/device"))
            .expect("made");
        let table = " CPU0\n 40: 1 virtio3-config\n 41: 1 virtio3-input.0\n 42: 1 virtio30-input.0\n";
        fs::write(folder.path().join("proc/interrupts"), table).expect("made");
        let mut pins = pins(folder.path(), "eth8").expect("it has one");
        pins.pin(3).expect("writable");
        assert_eq!((affinity(folder.path(), "41"), affinity(folder.path(), "42")), ("3\n".into(), "2\n".into()));
    }

    #[test]
    fn says_why_there_is_nothing_to_pin() {
        let folder = host();
        assert!(pins(folder.path(), "veth0").expect_err("it has none").contains("veth0 has no interrupt"));
        fs::remove_file(folder.path().join("proc/irq/42/smp_affinity_list")).expect("removed");
        assert!(pins(folder.path(), "eth7").expect_err("one is unreadable").contains("cannot read"));
    }
}

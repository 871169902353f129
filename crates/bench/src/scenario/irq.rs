//! Moves a network interface's interrupts to one CPU for the rungs that ask for it, and back. While they are moved, the snapshot
//! is on disk, as with all changes of `tune`: `sidestep tune revert` finds it if this process was killed.

use sidestep_sys::problem::{Problem, say};
use sidestep_tune::host::{Absence, Host};
use sidestep_tune::interrupts::{affinity_of, of_interface};
use sidestep_tune::location::Location;
use sidestep_tune::plan::Change;
use sidestep_tune::reading::Form;
use sidestep_tune::snapshot::Store;
use sidestep_tune::trial::Trial;
use std::fmt;

/// The name of the change in `tune status`.
const NAME: &str = "irq-hot-queue";

/// The interrupts of one interface, with the affinity they had.
pub(crate) struct IrqPins {
    before: Vec<(u32, Location, String)>,
    /// Makes a trial of changes on the host that this was made for.
    trial_of: Box<dyn Fn(Vec<Change>) -> Trial>,
    pinned: Option<(u32, Trial)>,
}

impl fmt::Debug for IrqPins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IrqPins").field("before", &self.before).field("pinned", &self.pinned).finish_non_exhaustive()
    }
}

impl IrqPins {
    /// Notes the affinity of the interrupts of `interface` on the host that `look` looks at. Err says why there is nothing to pin.
    pub(crate) fn of<H: Host>(
        look: impl Fn() -> H + Clone + Send + 'static,
        store: Store,
        interface: &str,
    ) -> Result<Self, String> {
        let host = look();
        let interrupts = host.read(&Location::parse("proc:interrupts").map_err(|problem| problem.brief())?);
        let irqs = of_interface(&host, interface, &interrupts.unwrap_or_default());
        if irqs.is_empty() {
            return Err(format!("{interface} has no interrupt of its own to pin (a veth or loopback device has none)"));
        }
        let note = |irq: &u32| {
            let location = affinity_of(*irq);
            let affinity = host
                .read(&location)
                .map_err(|absence| format!("cannot read {}: {}", location.words(), why(absence)))?;
            Ok((*irq, location, affinity))
        };
        let before = irqs.iter().map(note).collect::<Result<_, String>>()?;
        let trial_of = move |changes| Trial::one(NAME, changes, store.clone(), look.clone());
        Ok(Self { before, trial_of: Box::new(trial_of), pinned: None })
    }

    /// Sends them all to `cpu`. What the kernel manages itself cannot be moved; this fails when that is all of them.
    pub(crate) fn pin(&mut self, cpu: u32) -> Result<(), Problem> {
        if self.pinned.as_ref().is_some_and(|(now, _)| *now == cpu) {
            return Ok(());
        }
        self.restore()?;
        let mut trial = (self.trial_of)(self.changes(&cpu.to_string()));
        trial.turn(true)?;
        self.pinned = Some((cpu, trial));
        Ok(())
    }

    /// Sends them where they were. What somebody else has moved meanwhile stays, and makes this fail.
    pub(crate) fn restore(&mut self) -> Result<(), Problem> {
        self.pinned.take().map_or(Ok(()), |(_, mut trial)| trial.turn(false))
    }

    fn changes(&self, cpu: &str) -> Vec<Change> {
        let elsewhere = self.before.iter().filter(|(.., affinity)| affinity != cpu);
        let change = |(irq, location, affinity): &(u32, Location, String)| Change {
            check: NAME.into(),
            subject: format!("irq{irq}"),
            location: location.clone(),
            form: Form::List,
            before: affinity.clone(),
            after: cpu.into(),
        };
        elsewhere.map(change).collect()
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
        let tree = Tree::at(folder);
        IrqPins::of(move || tree.clone(), Store::at(folder.join("state")), interface)
    }

    fn affinity(folder: &Path, irq: &str) -> String {
        fs::read_to_string(folder.join("proc/irq").join(irq).join("smp_affinity_list")).expect("it is there")
    }

    #[test]
    fn what_failed_half_way_goes_back_and_others_changes_stay() {
        let folder = host();
        let (stands, aside) = (folder.path().join("proc/irq/42"), folder.path().join("aside"));
        let mut pins = pins(folder.path(), "eth7").expect("it has two");
        fs::rename(&stands, &aside).expect("moved");
        assert!(pins.pin(3).is_err(), "one is not there");
        assert_eq!(affinity(folder.path(), "41"), "0-3\n");
        fs::rename(&aside, &stands).expect("moved");
        pins.pin(3).expect("both are there");
        fs::write(stands.join("smp_affinity_list"), "1\n").expect("somebody else's");
        assert!(pins.restore().expect_err("told").to_string().contains("42"));
        assert_eq!((affinity(folder.path(), "41"), affinity(folder.path(), "42")), ("0-3\n".into(), "1\n".into()));
    }

    #[test]
    fn the_way_back_is_on_disk_while_they_are_moved() {
        let folder = host();
        let (mut pins, store) =
            (pins(folder.path(), "eth7").expect("it has two"), Store::at(folder.path().join("state")));
        for cpu in [3, 2, 3] {
            pins.pin(cpu).expect("writable");
            assert_eq!(store.list().expect("readable").len(), 1, "it can be reverted from outside");
        }
        pins.restore().expect("writable");
        assert!(store.list().expect("readable").is_empty());
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

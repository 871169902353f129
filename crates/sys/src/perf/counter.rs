//! One number that the kernel counts on a CPU, by an event of a PMU that sysfs names.

use super::attributes::Attributes;
use super::refused;
use crate::Problem;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A counter of one CPU.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Opens an event that /sys/bus/event_source/devices names (`msr`, `smi`) on `cpu`.
    ///
    /// # Errors
    /// Fails if this CPU or kernel does not have the event, or the process may not count it.
    pub fn open(pmu: &str, event: &str, cpu: u32) -> Result<Self, Problem> {
        let what = format!("cannot count {pmu}/{event}/ on CPU {cpu}");
        let (kind, config) = named(Path::new("/sys/bus/event_source/devices"), pmu, event)
            .ok_or_else(|| Problem::failed(what.as_str(), "this kernel and CPU do not have the event"))?;
        let counter = Attributes { kind, config, ..Attributes::default() }.open(cpu);
        counter.map(|event: OwnedFd| Self(event.into())).map_err(|error| refused(&what, &error))
    }

    /// Its value since it was opened; none if it cannot be read.
    pub fn value(&self) -> Option<u64> {
        let mut value = [0; 8];
        (&self.0).read_exact(&mut value).ok()?;
        Some(u64::from_ne_bytes(value))
    }
}

/// The type of a PMU and the configuration of its event (`event=0x04`).
fn named(devices: &Path, pmu: &str, event: &str) -> Option<(u32, u64)> {
    let read = |name: &str| crate::file::read_text(&devices.join(pmu).join(name), 4096).ok();
    let kind = read("type")?.trim().parse().ok()?;
    let config = read(&format!("events/{event}"))?;
    let config = config.trim().strip_prefix("event=0x")?;
    Some((kind, u64::from_str_radix(config, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_number_that_sysfs_gives() {
        let devices = tempfile::tempdir().unwrap();
        let events = devices.path().join("msr/events");
        std::fs::create_dir_all(&events).unwrap();
        std::fs::write(devices.path().join("msr/type"), "9\n").unwrap();
        for (text, wanted) in [("event=0x04\n", Some((9, 4))), ("event=4\n", None), ("", None)] {
            std::fs::write(events.join("smi"), text).unwrap();
            assert_eq!(named(devices.path(), "msr", "smi"), wanted, "{text:?}");
        }
        assert_eq!(named(devices.path(), "none", "smi"), None);
        assert!(Counter::open("none", "smi", 0).is_err());
    }
}

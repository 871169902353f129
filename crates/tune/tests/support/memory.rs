//! A host in memory: whatever it is asked for, it has something to say.

use sidestep_tune::host::{Absence, Host, Identity};
use sidestep_tune::location::Location;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;

/// Names that a folder may have; those that lead somewhere are among them.
const NAMES: [&str; 12] =
    ["eth0", "lo", "node0", "state3", "rx-0", "tx-1", "41", "package_00", "99-x.conf", "8193", "", "hardware-receive"];

/// A host that answers every question with a piece of these bytes.
pub(crate) struct Babble<'a>(pub(crate) &'a [u8]);

impl Babble<'_> {
    fn pick(&self, location: &Location) -> u64 {
        let mut hasher = DefaultHasher::new();
        (location, self.0.len()).hash(&mut hasher);
        hasher.finish()
    }
}

impl Host for Babble<'_> {
    fn read(&self, location: &Location) -> Result<String, Absence> {
        let pick = self.pick(location);
        match pick % 16 {
            0 => Err(Absence::Missing),
            1 => Err(Absence::Denied),
            2 => Err(Absence::Unreadable("Input/output error".into())),
            _ => {
                let from = pick as usize % (self.0.len() + 1);
                let length = (pick >> 32) as usize % 64;
                let piece = &self.0[from..(from + length).min(self.0.len())];
                Ok(String::from_utf8_lossy(piece).trim().to_owned())
            }
        }
    }

    fn list(&self, location: &Location) -> Vec<String> {
        let pick = self.pick(location);
        NAMES
            .iter()
            .enumerate()
            .filter(|(index, _)| pick & (1 << index) != 0)
            .map(|(_, name)| (*name).to_owned())
            .collect()
    }

    fn pids(&self) -> Vec<u32> {
        vec![1, 2, 41]
    }

    fn resolve(&self, location: &Location) -> Option<Location> {
        (!self.pick(location).is_multiple_of(3)).then(|| location.clone())
    }

    fn write(&self, _place: &Location, _value: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }
}

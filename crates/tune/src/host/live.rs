//! This host, in the network namespace of the calling thread.

use super::{Absence, Host, Identity, list_folder, pids_below, read_file, resolve_below};
use crate::netlink::{self, Answers};
use crate::place::{Place, Scheme};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The running host.
#[derive(Default)]
pub struct Live {
    /// What netlink told, until something is written: forty settings come in eight answers.
    answers: RefCell<Answers>,
}

impl Live {
    /// The running host.
    pub fn new() -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Live")
    }
}

fn path(place: &Place) -> PathBuf {
    Path::new("/").join(place.scheme().folder()).join(place.path())
}

impl Host for Live {
    fn read(&self, place: &Place) -> Result<String, Absence> {
        match place.scheme() {
            Scheme::Ethtool | Scheme::Napi => self.answers.borrow_mut().read(place),
            Scheme::Dev => read_device(&path(place)),
            _ => read_file(&path(place)),
        }
    }

    fn list(&self, place: &Place) -> Vec<String> {
        match place.scheme() {
            Scheme::Ethtool | Scheme::Napi => self.answers.borrow_mut().list(place),
            _ => list_folder(&path(place)),
        }
    }

    fn pids(&self) -> Vec<u32> {
        pids_below(Path::new("/proc"))
    }

    fn resolve(&self, place: &Place) -> Option<Place> {
        resolve_below(Path::new("/"), place)
    }

    fn write(&self, place: &Place, value: &str) -> io::Result<()> {
        if !place.is_settable() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        match place.scheme() {
            Scheme::Ethtool | Scheme::Napi => {
                *self.answers.borrow_mut() = Answers::default();
                netlink::write(place, value)
            }
            // One write: sysfs takes each as a whole value. Nothing is created and nothing cut.
            _ => OpenOptions::new().write(true).open(path(place))?.write_all(value.as_bytes()),
        }
    }

    fn identity(&self) -> Identity {
        let boot = read_file(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
        let network = std::fs::read_link("/proc/thread-self/ns/net").unwrap_or_default();
        Identity { boot, network: network.to_string_lossy().into_owned() }
    }
}

/// /dev/cpu_dma_latency answers with a number in the machine's order of bytes, not with text. No other device is read.
pub(super) fn read_device(path: &Path) -> Result<String, Absence> {
    if path.file_name().is_none_or(|name| name != "cpu_dma_latency") {
        return Err(Absence::Missing);
    }
    let mut bytes = [0; 4];
    File::open(path)?.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes).to_string())
}

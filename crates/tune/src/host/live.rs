//! The running host, in the network namespace of the calling thread.

use super::{Absence, Host, Identity, list_folder, pcie, pids_below, read_file, registers, resolve_below};
use crate::location::{Location, Scheme};
use crate::netlink::{self, Answers};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The running host.
#[derive(Default)]
pub struct Live {
    /// Netlink answers, cached until something is written: eight answers hold forty settings.
    answers: RefCell<Answers>,
}

impl Live {
    /// Returns the running host.
    pub fn new() -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Live")
    }
}

fn path(location: &Location) -> PathBuf {
    Path::new("/").join(location.scheme().folder()).join(location.path())
}

impl Host for Live {
    fn read(&self, location: &Location) -> Result<String, Absence> {
        match location.scheme() {
            Scheme::Ethtool | Scheme::Napi => self.answers.borrow_mut().read(location),
            Scheme::Audit => netlink::read_audit(location),
            Scheme::Msr => registers::read(location),
            Scheme::Pcie => pcie::read(location),
            Scheme::Probe => probe(location),
            Scheme::Dev => read_device(&path(location)),
            _ => read_file(&path(location)),
        }
    }

    fn list(&self, location: &Location) -> Vec<String> {
        match location.scheme() {
            Scheme::Ethtool | Scheme::Napi => self.answers.borrow_mut().list(location),
            Scheme::Audit | Scheme::Msr | Scheme::Pcie | Scheme::Probe => Vec::new(),
            _ => list_folder(&path(location)),
        }
    }

    fn pids(&self) -> Vec<u32> {
        pids_below(Path::new("/proc"))
    }

    fn resolve(&self, location: &Location) -> Option<Location> {
        resolve_below(Path::new("/"), location)
    }

    fn write(&self, location: &Location, value: &str) -> io::Result<()> {
        if !location.is_settable() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        match location.scheme() {
            Scheme::Ethtool | Scheme::Napi => {
                *self.answers.borrow_mut() = Answers::default();
                netlink::write(location, value)
            }
            // One write: sysfs takes each write as a whole value. No O_CREAT, no O_TRUNC.
            _ => OpenOptions::new().write(true).open(path(location))?.write_all(value.as_bytes()),
        }
    }

    fn identity(&self) -> Identity {
        let boot = read_file(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
        let network = std::fs::read_link("/proc/thread-self/ns/net").unwrap_or_default();
        Identity { boot, network: network.to_string_lossy().into_owned() }
    }
}

/// Makes a request that changes nothing, to see whether the kernel knows it.
fn probe(location: &Location) -> Result<String, Absence> {
    if location.path() != "epoll-parameters" {
        return Err(Absence::Missing);
    }
    let is_known = sidestep_sys::epoll_parameters::are_supported()?;
    Ok(if is_known { "known" } else { "unknown" }.into())
}

/// Reads /dev/cpu_dma_latency, which answers with a number in native byte order, not with text. No other device is read.
pub(super) fn read_device(path: &Path) -> Result<String, Absence> {
    if path.file_name().is_none_or(|name| name != "cpu_dma_latency") {
        return Err(Absence::Missing);
    }
    let mut bytes = [0; 4];
    File::open(path)?.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes).to_string())
}

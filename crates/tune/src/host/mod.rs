//! The host to audit: this one, or a copy of a host's files in a folder.

mod live;
mod pcie;
mod registers;
mod tree;

pub use live::Live;
pub(crate) use pcie::decode_any;
pub use tree::Tree;

use crate::cpus::CpuSet;
use crate::location::Location;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The longest file, bytes. /proc/interrupts of a host with hundreds of CPUs has about this length.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The reason for a missing value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There is no such setting on this host.
    Missing,
    /// Only root may read it.
    Denied,
    /// The setting exists but cannot be read, with the reason.
    Unreadable(String),
}

impl From<io::Error> for Absence {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::Unsupported => Self::Missing,
            ErrorKind::PermissionDenied => Self::Denied,
            // ENODEV, ENXIO, EOPNOTSUPP: the device is gone, or its driver has no such setting.
            _ if matches!(error.raw_os_error(), Some(6 | 19 | 95)) => Self::Missing,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

/// The identity of a boot and a network namespace: a setting can be reverted only where it was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// /proc/sys/kernel/random/boot_id
    pub boot: String,
    /// /proc/thread-self/ns/net, such as `net:[4026531840]`
    pub network: String,
}

/// Access to a host. Every answer may be garbage; the callers check it.
pub trait Host {
    /// Reads the text of a location, at most 1 MiB, trimmed.
    fn read(&self, location: &Location) -> Result<String, Absence>;
    /// Lists the names in a folder, in order; empty if there is no such folder.
    fn list(&self, location: &Location) -> Vec<String>;
    /// Lists the process ids.
    fn pids(&self) -> Vec<u32>;
    /// Resolves a symbolic link.
    fn resolve(&self, location: &Location) -> Option<Location>;
    /// Writes a setting.
    fn write(&self, location: &Location, value: &str) -> io::Result<()>;
    /// Returns the identity of the host.
    fn identity(&self) -> Identity;
    /// Returns the hot CPUs that somebody has named with the host's answers; a running host has none named.
    fn hot(&self) -> Option<CpuSet> {
        None
    }
}

/// Reads a file, bounded; bytes that are not UTF-8 are replaced.
fn read_file(path: &Path) -> Result<String, Absence> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn list_folder(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_by_cached_key(|name| natural(name));
    names
}

fn pids_below(proc: &Path) -> Vec<u32> {
    list_folder(proc).iter().filter_map(|name| name.parse().ok()).collect()
}

/// Returns a sort key by which cpu10 follows cpu9.
fn natural(name: &str) -> (String, u64) {
    let digits = name.chars().rev().take_while(char::is_ascii_digit).count();
    let (head, tail) = name.split_at(name.len() - digits);
    (head.to_owned(), tail.parse().unwrap_or_default())
}

/// Resolves a link to a location of the host whose files are below `root`.
fn resolve_below(root: &Path, location: &Location) -> Option<Location> {
    let folder = root.join(location.scheme().folder()).canonicalize().ok()?;
    let path = folder.join(location.path()).canonicalize().ok()?;
    let below = path.strip_prefix(&folder).ok()?.to_str()?;
    let scheme = location.to_string().split(':').next()?.to_owned();
    Location::parse(&format!("{scheme}:{below}")).ok()
}

//! A host that is looked at: this one, or a copy of its files in a folder.

mod live;
mod tree;

pub use live::Live;
pub use tree::Tree;

use crate::place::Place;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The most that is read of one file. The longest of them, /proc/interrupts of a host with hundreds of CPUs, has about this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There is no such setting on this host.
    Missing,
    /// Only root may read it.
    Denied,
    /// It is there but cannot be read, and why.
    Unreadable(String),
}

impl From<io::Error> for Absence {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::Unsupported => Self::Missing,
            ErrorKind::PermissionDenied => Self::Denied,
            // ENODEV, ENXIO, EOPNOTSUPP: the device is gone, or its driver has no such thing.
            _ if matches!(error.raw_os_error(), Some(6 | 19 | 95)) => Self::Missing,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

/// Which running kernel, and which of its network namespaces: what was changed there can only be put back there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// /proc/sys/kernel/random/boot_id
    pub boot: String,
    /// /proc/thread-self/ns/net, such as `net:[4026531840]`
    pub network: String,
}

/// What is asked of a host. Every answer may be garbage: the callers judge it.
pub trait Host {
    /// The text there, at most 1 MiB, without the blanks around it.
    fn read(&self, place: &Place) -> Result<String, Absence>;
    /// The names in a folder, in order; none where there is no such folder.
    fn list(&self, place: &Place) -> Vec<String>;
    /// The ids of the processes.
    fn pids(&self) -> Vec<u32>;
    /// The place that a symbolic link leads to.
    fn resolve(&self, place: &Place) -> Option<Place>;
    /// Turns a knob.
    fn write(&self, place: &Place, value: &str) -> io::Result<()>;
    /// Which host this is.
    fn identity(&self) -> Identity;
}

/// Reads a file, bounded, with whatever is no text replaced.
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

/// So that cpu10 follows cpu9.
fn natural(name: &str) -> (String, u64) {
    let digits = name.chars().rev().take_while(char::is_ascii_digit).count();
    let (head, tail) = name.split_at(name.len() - digits);
    (head.to_owned(), tail.parse().unwrap_or_default())
}

/// Where a link leads, as a place of the host whose files lie below `root`.
fn resolve_below(root: &Path, place: &Place) -> Option<Place> {
    let folder = root.join(place.scheme().folder()).canonicalize().ok()?;
    let path = folder.join(place.path()).canonicalize().ok()?;
    let below = path.strip_prefix(&folder).ok()?.to_str()?;
    let scheme = place.to_string().split(':').next()?.to_owned();
    Place::parse(&format!("{scheme}:{below}")).ok()
}

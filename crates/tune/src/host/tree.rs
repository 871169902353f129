//! A copy of a host's files in a folder, for audits of other hosts and for tests.
//!
//! The folder has those of the host (`proc`, `sys`, `etc` ...), and besides them `ethtool/INTERFACE/GROUP/NAME`,
//! `napi/INTERFACE/ID/NAME` and `audit/status/NAME` with one value each, as netlink would answer, and the same of `msr/CPU/NAME`
//! `pcie/INTERFACE/NAME` and `probe/NAME`.

use super::{Absence, Host, Identity, list_folder, pids_below, read_file, resolve_below};
use crate::location::{Location, Scheme};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Returns the host whose files are below `root`.
    pub fn at(root: impl AsRef<Path>) -> Self {
        Self { root: root.as_ref().to_owned() }
    }

    fn path(&self, location: &Location) -> PathBuf {
        self.root.join(location.scheme().folder()).join(location.path())
    }
}

impl Host for Tree {
    fn read(&self, location: &Location) -> Result<String, Absence> {
        let path = self.path(location);
        if location.scheme() == Scheme::Dev {
            return super::live::read_device(&path);
        }
        read_file(&path)
    }

    fn list(&self, location: &Location) -> Vec<String> {
        list_folder(&self.path(location))
    }

    fn pids(&self) -> Vec<u32> {
        pids_below(&self.root.join("proc"))
    }

    fn resolve(&self, location: &Location) -> Option<Location> {
        resolve_below(&self.root, location)
    }

    /// Writes the value as the kernel shows it afterwards: a choice keeps its list, a line its end. The file is replaced whole.
    fn write(&self, location: &Location, value: &str) -> io::Result<()> {
        let path = self.path(location);
        let before = fs::read_to_string(&path)?;
        let after = match before.split_once('[').and_then(|(head, tail)| Some((head, tail.split_once(']')?))) {
            Some((head, (chosen, tail))) => choose(&format!("{head}{chosen}{tail}"), value)?,
            None => format!("{value}{}", &before[before.trim_end().len()..]),
        };
        if fs::metadata(&path)?.permissions().readonly() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Outside of the copy: a draft that a killed process leaves is not a file of sysfs.
        let draft = self.root.join(".draft");
        fs::write(&draft, after)?;
        fs::rename(&draft, &path)
    }

    fn identity(&self) -> Identity {
        let boot = self.read(&Location::of("proc:sys/kernel/random/boot_id")).unwrap_or_default();
        Identity { boot, network: "tree".into() }
    }
}

/// Moves the brackets to another word of the list.
fn choose(list: &str, value: &str) -> io::Result<String> {
    let words = list.split_inclusive(char::is_whitespace);
    let is_it = |word: &str| word.trim() == value;
    if !words.clone().any(is_it) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mark = |word: &str| if is_it(word) { word.replacen(value, &format!("[{value}]"), 1) } else { word.to_owned() };
    Ok(words.map(mark).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_as_the_kernel_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::at(folder.path());
        fs::create_dir_all(folder.path().join("sys/kernel/mm")).unwrap();
        let (thp, ksm) = (folder.path().join("sys/kernel/mm/thp"), folder.path().join("sys/kernel/mm/ksm"));
        fs::write(&thp, "always [madvise] never\n").unwrap();
        fs::write(&ksm, "1\n").unwrap();
        tree.write(&Location::of("sys:kernel/mm/thp"), "never").unwrap();
        tree.write(&Location::of("sys:kernel/mm/ksm"), "0").unwrap();
        assert_eq!(fs::read_to_string(&thp).unwrap(), "always madvise [never]\n");
        assert_eq!(fs::read_to_string(&ksm).unwrap(), "0\n");
        assert!(tree.write(&Location::of("sys:kernel/mm/thp"), "sometimes").is_err());
        assert!(tree.write(&Location::of("sys:kernel/mm/none"), "1").is_err());
    }
}

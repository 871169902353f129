//! A copy of a host's files in a folder: for looking at another host's, and for tests.
//!
//! It has the folders of the host (`proc`, `sys`, `etc` ...), and beside them `ethtool/INTERFACE/GROUP/NAME` and
//! `napi/INTERFACE/ID/NAME` with one value each, as netlink would tell them.

use super::{Absence, Host, Identity, list_folder, pids_below, read_file, resolve_below};
use crate::place::{Place, Scheme};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// A host whose files lie below `root`.
    pub fn at(root: impl AsRef<Path>) -> Self {
        Self { root: root.as_ref().to_owned() }
    }

    fn path(&self, place: &Place) -> PathBuf {
        self.root.join(place.scheme().folder()).join(place.path())
    }
}

impl Host for Tree {
    fn read(&self, place: &Place) -> Result<String, Absence> {
        let path = self.path(place);
        if place.scheme() == Scheme::Dev {
            return super::live::read_device(&path);
        }
        read_file(&path)
    }

    fn list(&self, place: &Place) -> Vec<String> {
        list_folder(&self.path(place))
    }

    fn pids(&self) -> Vec<u32> {
        pids_below(&self.root.join("proc"))
    }

    fn resolve(&self, place: &Place) -> Option<Place> {
        resolve_below(&self.root, place)
    }

    /// As the kernel shows it afterwards: a choice keeps its list, a line its end. Replaced whole, as a write to sysfs is.
    fn write(&self, place: &Place, value: &str) -> io::Result<()> {
        let path = self.path(place);
        let before = fs::read_to_string(&path)?;
        let after = match before.split_once('[').and_then(|(head, tail)| Some((head, tail.split_once(']')?))) {
            Some((head, (chosen, tail))) => choose(&format!("{head}{chosen}{tail}"), value)?,
            None => format!("{value}{}", &before[before.trim_end().len()..]),
        };
        if fs::metadata(&path)?.permissions().readonly() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Beside the host, not in it: what is left of a killed process is no file of sysfs.
        let draft = self.root.join(".draft");
        fs::write(&draft, after)?;
        fs::rename(&draft, &path)
    }

    fn identity(&self) -> Identity {
        let boot = self.read(&Place::of("proc:sys/kernel/random/boot_id")).unwrap_or_default();
        Identity { boot, network: "tree".into() }
    }
}

/// Puts the brackets around another word of the list.
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
        tree.write(&Place::of("sys:kernel/mm/thp"), "never").unwrap();
        tree.write(&Place::of("sys:kernel/mm/ksm"), "0").unwrap();
        assert_eq!(fs::read_to_string(&thp).unwrap(), "always madvise [never]\n");
        assert_eq!(fs::read_to_string(&ksm).unwrap(), "0\n");
        assert!(tree.write(&Place::of("sys:kernel/mm/thp"), "sometimes").is_err());
        assert!(tree.write(&Place::of("sys:kernel/mm/none"), "1").is_err());
    }
}

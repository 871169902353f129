//! The file for node_exporter's textfile collector: replaced whole, and readable by all.

use sidestep_sys::Problem;
use sidestep_sys::file::replace::{Target, is_descriptor, replace, unwritable};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The collector runs as a user of its own.
const MODE: u32 = 0o644;

/// The file of a watch. Links to it stay, also when it is removed.
#[derive(Clone, Debug)]
pub(crate) struct Textfile(PathBuf);

impl Textfile {
    /// Finds the file that a path names.
    ///
    /// # Errors
    /// It is, or is below, no regular file; or a descriptor of a process.
    pub(crate) fn of(path: &Path) -> Result<Self, Problem> {
        let refused = |reason: &str| Err(io::Error::new(ErrorKind::InvalidInput, reason.to_owned()));
        let found = match Target::of(path) {
            _ if is_descriptor(path) => refused("it is open already, and could not be replaced"),
            Ok(Target::File(file)) => Ok(Self(file)),
            Ok(Target::InPlace(_)) => refused("it is no regular file"),
            Err(error) => Err(error),
        };
        found.map_err(|error| unwritable(path, error))
    }

    /// Replaces it.
    pub(crate) fn write(&self, text: &str) -> Result<(), Problem> {
        replace(&self.0, text.as_bytes(), Some(MODE)).map_err(|error| unwritable(&self.0, error))
    }

    /// Removes it: nobody would renew it, and the collector would tell it for ever.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.0);
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_file_is_replaced_and_all_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sidestep.prom");
        let file = Textfile::of(&path).expect("it may be made");
        for text in ["one\n", "two\n"] {
            file.write(text).expect("replaced");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "no draft is left");
    }

    #[test]
    fn links_stay_when_the_file_is_written_and_when_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for link in ["known", "dangling"] {
            symlink(at(&format!("{link}.prom")), at(link)).expect("a link");
        }
        fs::write(at("known.prom"), "old").expect("written");
        for link in ["known", "dangling"] {
            let file = Textfile::of(&at(link)).expect("it may be written");
            file.write("new").expect("replaced");
            assert_eq!(fs::read_to_string(at(&format!("{link}.prom"))).expect("there"), "new");
            file.remove();
            assert!(at(link).is_symlink() && !at(&format!("{link}.prom")).exists());
        }
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        symlink("circle", folder.path().join("circle")).expect("a link");
        for refused in [folder.path(), &folder.path().join("circle"), Path::new("/dev/full"), Path::new("/dev/stdout")]
        {
            assert!(Textfile::of(refused).is_err(), "{}", refused.display());
        }
        assert!(folder.path().join("circle").is_symlink());
        let nowhere = Textfile::of(&folder.path().join("no/such/folder.prom")).expect("it is not looked at yet");
        assert!(nowhere.write("text").is_err_and(|problem| problem.next_step().contains("mkdir -p")));
    }
}

//! The file for node_exporter's textfile collector: replaced whole, and readable by all.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The collector runs as a user of its own.
const MODE: u32 = 0o644;

/// Replaces the file. Its draft stands beside it under a name that the collector does not read.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    let draft = draft(path);
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(&draft, text).and_then(|()| fs::rename(&draft, path));
    written.inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

/// The name is known, so that one left by a crash is found again; a link in its place is not followed.
fn write_new(draft: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(draft)?;
    // Whatever the umask.
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(text.as_bytes())
}

fn draft(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".draft");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_and_all_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sidestep.prom");
        fs::write(draft(&path), "left by a crash").expect("written");
        for text in ["one\n", "two\n"] {
            replace(&path, text).expect("replaced");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "no draft is left");
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(replace(folder.path(), "text").is_err());
        let victim = folder.path().join("victim");
        fs::write(&victim, "kept").expect("written");
        let path = folder.path().join("sidestep.prom");
        std::os::unix::fs::symlink(&victim, draft(&path)).expect("a link");
        replace(&path, "text").expect("replaced");
        assert_eq!(fs::read_to_string(&victim).expect("there"), "kept");
        assert!(replace(&folder.path().join("no/such/folder.prom"), "text").is_err());
    }
}

//! A check that the file of a private key is readable by its user alone.

use sidestep_sys::problem::say;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Warns of a private key that every user of this host can read. A group may read it: many systems have one for keys.
pub(super) fn warn_if_open(key: &Path) {
    if is_open(key) {
        let path = key.display();
        say(format!("every user of this host can read the private key {path}\n  next: chmod o= {path}"));
    }
}

fn is_open(key: &Path) -> bool {
    // A file without metadata cannot be read either, which is reported elsewhere.
    fs::metadata(key).is_ok_and(|facts| facts.mode() & 0o006 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_that_everybody_can_read_is_told_from_others() {
        let key = tempfile::NamedTempFile::new().unwrap();
        for (mode, is_said) in [(0o600, false), (0o640, false), (0o400, false), (0o644, true), (0o602, true)] {
            fs::set_permissions(key.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open(key.path()), is_said, "{mode:o}");
        }
        assert!(!is_open(Path::new("/none/at/all")));
    }
}

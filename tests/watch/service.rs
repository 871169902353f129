//! The unit for systemd in contrib/.

use crate::support::finish;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// `systemd-analyze security`, in tenths: what is left are the network and the user's own files.
const EXPOSURE_MAX: u32 = 20;

#[test]
fn the_unit_leaves_little_open() {
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: needs systemd-analyze");
        return;
    }
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/sidestep-watch.service");
    let unit = fs::read_to_string(unit).expect("it is there");
    let folder = tempfile::tempdir().expect("a folder");
    // The program must exist where the unit says, or it is not checked.
    let path = folder.path().join("sidestep-watch.service");
    fs::write(&path, unit.replace("/usr/local/bin/sidestep", env!("CARGO_BIN_EXE_sidestep"))).expect("written");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    for arguments in [&["verify", "--man=no"][..], &["security", "--offline=true", "--no-pager", &threshold]] {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = finish(command.spawn().expect("it is there"));
        assert_eq!(done.code, 0, "{arguments:?}: {}{}", done.stdout, done.stderr);
        assert!(!done.stderr.contains("sidestep-watch.service:"), "{}", done.stderr);
    }
}

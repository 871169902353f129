//! The place of `libsidestep.so`, which is loaded into programs.

use sidestep_sys::Problem;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The variable that names the library, if it is not in one of the usual places.
pub const VARIABLE: &str = "SIDESTEP_LIBRARY";

/// The loader's variable (ld.so(8)).
pub const LD_PRELOAD: &str = "LD_PRELOAD";

/// The places of the library: installed, and built but not installed, relative to the folder of the binary.
const PLACES: [&str; 4] =
    ["../lib/sidestep/libsidestep.so", "../lib/libsidestep.so", "libsidestep.so", "libsidestep_preload.so"];

/// Finds the library: where the variable says, else beside this program.
pub fn find(named: Option<OsString>) -> Result<PathBuf, Problem> {
    let named = named.filter(|path| !path.is_empty()).map(PathBuf::from);
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let folder = own.as_ref().ok().and_then(|own| own.parent());
    let usual = || folder.into_iter().flat_map(|folder| PLACES.map(|place| folder.join(place))).collect();
    let places: Vec<PathBuf> = named.map_or_else(usual, |path| vec![path]);
    let found = places.iter().find_map(|place| std::fs::canonicalize(place).ok().filter(|path| path.is_file()));
    let found = found.ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Problem::failed("cannot find libsidestep.so", format!("there is none at {}", places.join(", ")))
            .next(format!("build it with make build, install it with make install, or name it in {VARIABLE}"))
    })?;
    if is_separated(found.as_os_str()) {
        let why = "the loader separates libraries by blanks and colons, and its path has one";
        return Err(Problem::failed(format!("cannot load {}", found.display()), why).next("move it, or link to it"));
    }
    Ok(found)
}

/// Returns the value of LD_PRELOAD with the library: after those that the user has there, so that their calls come to ours.
pub fn preload(library: &Path, present: Option<&OsStr>) -> OsString {
    let mut value = present.unwrap_or_default().to_owned();
    let known = value.as_bytes().split(|byte| is_separator(*byte)).any(|path| path == library.as_os_str().as_bytes());
    if !known {
        value.push(if value.is_empty() { "" } else { ":" });
        value.push(library);
    }
    value
}

fn is_separated(path: &OsStr) -> bool {
    path.as_bytes().iter().any(|byte| is_separator(*byte))
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b' ' | b'\t' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_libraries_stay_in_front() {
        let ours = Path::new("/lib/ours.so");
        let with = |present: Option<&str>| preload(ours, present.map(OsStr::new)).into_string().unwrap();
        assert_eq!((with(None), with(Some(""))), ("/lib/ours.so".into(), "/lib/ours.so".into()));
        assert_eq!(with(Some("/a.so b.so")), "/a.so b.so:/lib/ours.so");
        assert_eq!(with(Some("/a.so:/lib/ours.so")), "/a.so:/lib/ours.so", "once is enough");
    }

    #[test]
    fn a_library_that_is_not_there_or_cannot_be_named_is_refused() {
        let folder = tempfile::Builder::new().prefix("with a blank").tempdir().unwrap();
        let path = folder.path().join("libsidestep.so");
        let missing = find(Some(path.clone().into())).unwrap_err().to_string();
        assert!(missing.contains("make build") && missing.contains("libsidestep.so"), "{missing}");
        std::fs::write(&path, "").unwrap();
        assert!(find(Some(path.into())).unwrap_err().to_string().contains("blanks"));
    }
}

//! Writes user-named files: a regular file is replaced whole, links to it stay; what is no regular file is written to, and stays.

use super::open_in_place;
use crate::Problem;
use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What writing to a path does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A regular file, or none yet, is replaced whole; links are resolved, and stay.
    File(PathBuf),
    /// A device, a pipe, or a file without a name is written to.
    InPlace(PathBuf),
}

impl Target {
    /// Finds what a path stands for.
    ///
    /// # Errors
    /// Fails for a folder, for links in a circle, and where a part of the path cannot be passed.
    pub fn of(path: &Path) -> io::Result<Self> {
        let in_place = || Self::InPlace(path.to_owned());
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            // A file without a name any more (/dev/stdout of one that was removed) is no path to be replaced.
            Ok(found) if found.is_file() => Ok(fs::canonicalize(path).map_or_else(|_| in_place(), Self::File)),
            Ok(_) => Ok(in_place()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::File(behind_links(path))),
            Err(error) => Err(error),
        }
    }

    /// Writes all of a text.
    ///
    /// # Errors
    /// Fails if it cannot be written; a file that was there is as it was then.
    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => replace(file, text, None),
            Self::InPlace(path) => open_in_place(path)?.write_all(text),
        }
    }
}

/// Returns whether a path names a descriptor of a process, by its links: /dev/stdout, /dev/fd/1.
pub fn is_descriptor(path: &Path) -> bool {
    let folder = |hop: PathBuf| hop.parent().and_then(|folder| fs::canonicalize(folder).ok());
    links(path).filter_map(folder).any(|folder| folder.starts_with("/proc"))
}

/// The path, and where each of its links leads.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    // As many as the kernel follows (path_resolution(7)).
    const LINKS_MAX: usize = 40;
    let next = |path: &PathBuf| fs::read_link(path).ok().map(|target| path.with_file_name("").join(target));
    std::iter::successors(Some(path.to_owned()), next).take(LINKS_MAX + 1)
}

/// The file that a link names which does not exist yet.
fn behind_links(path: &Path) -> PathBuf {
    links(path).last().unwrap_or_default()
}

/// Replaces a file, or makes it, with these permissions whatever the umask, if some are given. A draft stands beside it meanwhile, under
/// a name that begins with a dot.
///
/// # Errors
/// Fails if it cannot be written; the file is as it was then.
pub fn replace(file: &Path, text: &[u8], mode: Option<u32>) -> io::Result<()> {
    let draft = draft(file);
    // One that a crash has left.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = new_file(&draft, text, mode).and_then(|()| fs::rename(&draft, file));
    written.inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

/// Writes so many bytes beside a file on trial, and removes them.
///
/// # Errors
/// Fails if the file could not be replaced.
pub fn try_replace(file: &Path, bytes: usize) -> io::Result<()> {
    let draft = draft(file);
    let tried = new_file(&draft, &vec![0; bytes], None);
    tried.and(fs::remove_file(&draft)).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

/// Writes a file that does not exist yet: the name of a draft can be guessed, and a link in its place is not followed.
fn new_file(path: &Path, text: &[u8], mode: Option<u32>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.write_all(text)
}

fn draft(file: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.draft", std::process::id()));
    file.with_file_name(name)
}

/// The problem of a file that cannot be written, with the step that its reason asks for.
pub fn unwritable(path: &Path, error: io::Error) -> Problem {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.display();
    let next = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("free space there (df {folder}), or choose a file on another file system")
        }
        ErrorKind::NotConnected => "start its reader first, or choose a file".into(),
        ErrorKind::NotFound => format!("make its folder: mkdir -p {folder}"),
        ErrorKind::IsADirectory => format!("choose a file in it: {}", path.join("result").display()),
        ErrorKind::NotADirectory => "choose a file in a folder: a part of its path is a file".into(),
        ErrorKind::ReadOnlyFilesystem => "choose a file on a file system that is mounted for writing".into(),
        _ => "choose a file in a folder you may write to".into(),
    };
    Problem::failed(format!("cannot write {}", path.display()), error).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[test]
    fn links_stay_and_what_they_name_is_replaced() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("kept")).expect("a folder");
        for (link, target) in [("one", "two"), ("two", "kept/file"), ("circle", "circle")] {
            symlink(target, at(link)).expect("a link");
        }
        for text in ["new", "replaced"] {
            Target::of(&at("one")).and_then(|target| target.write(text.as_bytes())).expect("it can be written");
            assert_eq!(fs::read_to_string(at("kept/file")).expect("it was written"), text);
        }
        assert!(at("one").is_symlink() && at("two").is_symlink());
        assert!(Target::of(&at("circle")).is_err() && at("circle").is_symlink());
        assert_eq!(fs::read_dir(at("kept")).expect("a folder").count(), 1, "no draft is left");
    }

    #[test]
    fn the_permissions_are_those_asked_for_and_a_link_in_place_of_the_draft_is_not_followed() {
        let folder = folder();
        let (file, victim) = (folder.path().join("file"), folder.path().join("victim"));
        fs::write(&victim, "kept").expect("written");
        symlink(&victim, draft(&file)).expect("a link");
        replace(&file, b"text", Some(0o644)).expect("replaced");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_to_string(&victim).expect("there"), "kept");
        try_replace(&file, 4096).expect("it could be replaced");
        assert_eq!(fs::read_to_string(&file).expect("there"), "text");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 2, "no draft is left");
    }

    #[test]
    fn devices_are_written_to_and_descriptors_are_known() {
        // What the writer would do to a device, as it would be done to the host's own.
        for device in ["/dev/null", "/dev/full"] {
            assert_eq!(Target::of(Path::new(device)).expect("it is there"), Target::InPlace(device.into()));
        }
        for descriptor in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(is_descriptor(Path::new(descriptor)), "{descriptor}");
        }
        assert!(!is_descriptor(&std::env::temp_dir()) && !is_descriptor(Path::new("/dev/null")));
        assert!(Target::of(&std::env::temp_dir()).is_err());
    }

    #[test]
    fn the_next_step_is_that_of_the_reason() {
        let next =
            |errno| unwritable(Path::new("/srv/a/b.json"), io::Error::from_raw_os_error(errno)).next_step().to_owned();
        assert!(next(libc::ENOSPC).contains("df /srv/a"), "{}", next(libc::ENOSPC));
        assert_eq!(next(libc::ENOENT), "make its folder: mkdir -p /srv/a");
        assert!(next(libc::EACCES).contains("you may write to") && next(libc::ENOTDIR).contains("is a file"));
    }
}

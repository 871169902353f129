//! The file behind a name, and the binary behind a script.

use rustix::fs::{Access, access};
use sidestep_sys::file;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The search path without PATH in the environment (execvp(3) in glibc).
const DEFAULT_SEARCH: &str = "/bin:/usr/bin";

/// The bytes of a script that the kernel reads (BINPRM_BUF_SIZE).
const HEAD_BYTES: u64 = 256;

/// The interpreters that the kernel follows (fs/exec.c), and one for the shell of a file without a first line.
const INTERPRETERS_MAX: usize = 6;

/// The interpreter of files that are neither binaries nor scripts with a first line (execvp(3), ENOEXEC).
const SHELL: &str = "/bin/sh";

/// The reason why a program cannot be started.
#[derive(Debug)]
pub enum NotFound {
    /// There is no such file: a shell would end with code 127.
    Missing,
    /// It may not be executed, or is a folder: a shell would end with code 126.
    NotExecutable(io::Error),
}

/// Finds the file that execvp(3) would start.
pub(super) fn find(name: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, NotFound> {
    if name.is_empty() {
        return Err(NotFound::Missing);
    }
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name)).map(|()| name.into());
    }
    let mut result = NotFound::Missing;
    for folder in std::env::split_paths(search.unwrap_or(OsStr::new(DEFAULT_SEARCH))) {
        // An empty entry is the working directory.
        let path = if folder.as_os_str().is_empty() { Path::new(".").join(name) } else { folder.join(name) };
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(NotFound::Missing) => {}
            Err(other) => result = other,
        }
    }
    Err(result)
}

fn executable(path: &Path) -> Result<(), NotFound> {
    let facts = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => NotFound::Missing,
        _ => NotFound::NotExecutable(error),
    })?;
    if !facts.is_file() {
        let what = if facts.is_dir() { "it is a directory" } else { "it is no regular file" };
        return Err(NotFound::NotExecutable(io::Error::other(what)));
    }
    access(path, Access::EXEC_OK).map_err(|error| NotFound::NotExecutable(error.into()))
}

/// Returns the binary that runs when `path` is started: scripts are followed to their interpreters, `env` to its program.
pub(super) fn binary(path: &Path, search: Option<&OsStr>) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..INTERPRETERS_MAX {
        let head = head(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        if head.starts_with(b"\x7fELF") {
            return Ok(path);
        }
        let Some((interpreter, argument)) = first_line(&head) else {
            path = SHELL.into();
            continue;
        };
        path = match program_of_env(&interpreter, &argument) {
            Some(name) => {
                find(&name, search).map_err(|_| format!("{} names {name:?}, which is not there", path.display()))?
            }
            None => interpreter.into(),
        };
    }
    Err("its interpreters are scripts that never end".into())
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// Returns interpreter and argument of a script's first line.
fn first_line(head: &[u8]) -> Option<(OsString, OsString)> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| matches!(byte, b'\n' | 0)).next()?.trim_ascii();
    let blank = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..blank], line[blank..].trim_ascii());
    (!interpreter.is_empty()).then(|| (OsString::from_vec(interpreter.to_vec()), OsString::from_vec(argument.to_vec())))
}

/// Returns the program that env(1) starts with this argument.
fn program_of_env(interpreter: &OsStr, argument: &OsStr) -> Option<OsString> {
    if Path::new(interpreter).file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let words = argument.as_bytes().split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let mut words = words.filter(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    words.next().map(|word| OsString::from_vec(word.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_name_is_found_in_the_search_path_and_a_path_is_taken_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        [&first, &second].iter().for_each(|path| std::fs::create_dir(path).unwrap());
        script(&first, "tool", "", 0o644);
        let tool = script(&second, "tool", "", 0o755);
        script(&first, "locked", "", 0o644);
        let search = std::env::join_paths([&first, &second]).unwrap();
        let found = |name: &str| find(OsStr::new(name), Some(&search));
        assert_eq!(found("tool").unwrap(), tool);
        assert!(matches!(found("locked"), Err(NotFound::NotExecutable(_))));
        assert!(matches!(found("none"), Err(NotFound::Missing)) && matches!(found(""), Err(NotFound::Missing)));
        assert_eq!(found(tool.to_str().unwrap()).unwrap(), tool);
        assert!(matches!(found(first.to_str().unwrap()), Err(NotFound::NotExecutable(_))), "a folder");
        assert!(matches!(found("./none"), Err(NotFound::Missing)));
        assert!(find(OsStr::new("sh"), None).is_ok());
    }

    #[test]
    fn scripts_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let end = std::fs::canonicalize("/bin/sh").unwrap();
        let of = |text: &str| {
            let path = script(folder.path(), "script", text, 0o755);
            binary(&path, Some(OsStr::new("/bin:/usr/bin"))).map(|path| std::fs::canonicalize(path).unwrap())
        };
        for text in
            ["#!/bin/sh\n", "#! /bin/sh -e\n", "#!/usr/bin/env sh\n", "#!/usr/bin/env -S A=1 sh -e\n", "echo 1\n", ""]
        {
            assert_eq!(of(text), Ok(end.clone()), "{text}");
        }
        let outer = script(folder.path(), "outer", &format!("#!{}/script\n", folder.path().display()), 0o755);
        of("#!/bin/sh\n").unwrap();
        assert_eq!(std::fs::canonicalize(binary(&outer, None).unwrap()).unwrap(), end);
        assert!(of("#!/no/such/interpreter\n").unwrap_err().contains("/no/such"));
        assert!(of("#!/usr/bin/env no-such-program\n").unwrap_err().contains("no-such-program"));
        assert!(of(&format!("#!{}/script\n", folder.path().display())).unwrap_err().contains("never end"));
    }
}

//! Programs of the host, and the libraries that they need elsewhere.

use sidestep_sys::Problem;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of system programs, also for users whose PATH lacks them.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The file of a program, by name or path.
pub(super) fn find(program: &str) -> Result<PathBuf, Problem> {
    let path = Path::new(program);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let folders = env::var_os("PATH").map(|paths| env::split_paths(&paths).collect::<Vec<_>>()).unwrap_or_default();
    let all = folders.into_iter().chain(FOLDERS.map(PathBuf::from));
    let missing = || Problem::failed(format!("no program {program}"), "it is in no folder of PATH");
    all.map(|folder| folder.join(program)).find(|file| file.is_file()).ok_or_else(missing)
}

/// The libraries and the loader of a program, as ldd(1) finds them; none for one that is statically linked.
pub(super) fn of(program: &Path) -> Result<Vec<PathBuf>, Problem> {
    let failed = |why: String| Problem::failed(format!("cannot find the libraries of {}", program.display()), why);
    let output = Command::new("ldd").arg(program).output().map_err(|error| failed(format!("ldd: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        return Err(failed(line.trim().to_owned()));
    }
    Ok(paths(&text))
}

/// `libc.so.6 => /lib/libc.so.6 (0x7f..)`, `/lib64/ld.so (0x7f..)`: the words that are paths.
fn paths(text: &str) -> Vec<PathBuf> {
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_paths() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n";
        assert_eq!(paths(text), [PathBuf::from("/lib/libc.so.6"), PathBuf::from("/lib64/ld.so")]);
        assert!(paths("\tstatically linked\n").is_empty());
    }

    #[test]
    fn a_program_is_found_or_named() {
        assert!(find("ls").unwrap().is_absolute());
        assert!(!of(&find("ls").unwrap()).unwrap().is_empty());
        assert!(find("no-such-program").unwrap_err().to_string().contains("no-such-program"));
    }
}

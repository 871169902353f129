//! The paths of control's socket and state: one control per network namespace.

use sidestep_sys::Problem;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The variable with the path of control's socket, if it is not the one of this network namespace.
pub const SOCKET_VARIABLE: &str = "SIDESTEP_CONTROL";

/// The variable that replaces `/run/sidestep`, for tests and for machines without /run.
pub(crate) const STATE_VARIABLE: &str = "SIDESTEP_STATE_DIR";

/// The inode of the calling thread's network namespace, which identifies it among existing ones.
pub fn namespace_inode() -> Result<u64, Problem> {
    let file = fs::metadata("/proc/thread-self/ns/net");
    let inode = file.map(|metadata| metadata.ino());
    inode.map_err(|error| Problem::failed("cannot identify this network namespace", error).next("mount /proc"))
}

/// The directory of this namespace's control: `/run/sidestep/net-INODE`.
pub fn directory() -> Result<PathBuf, Problem> {
    let root = variable(STATE_VARIABLE).unwrap_or_else(|| "/run/sidestep".into());
    Ok(root.join(format!("net-{}", namespace_inode()?)))
}

/// The path of control's socket: `$SIDESTEP_CONTROL`, else `control.sock` in [`directory`].
pub fn socket() -> Result<PathBuf, Problem> {
    match variable(SOCKET_VARIABLE) {
        Some(path) => Ok(path),
        None => Ok(socket_in(&directory()?)),
    }
}

/// The path of control's socket, if the environment names it, or the folder in which it is. For who asks for it after the
/// environment has changed.
pub fn named_socket() -> Option<PathBuf> {
    [SOCKET_VARIABLE, STATE_VARIABLE].into_iter().find_map(variable)?;
    socket().ok()
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The socket in a directory of control.
pub fn socket_in(directory: &Path) -> PathBuf {
    directory.join("control.sock")
}

//! Programs that the kernel starts with more rights than the caller's (AT_SECURE in getauxval(3)): the loader removes
//! LD_PRELOAD from their environment.

use super::Obstacle;
use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use sidestep_sys::process::effective_uid;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
/// Without execution by the group, the bit has another meaning (inode(7)).
const GROUP_EXECUTES: u32 = 0o0010;

/// What gives a file more rights.
#[cfg(test)]
pub(super) const HOW: [&str; 3] = [OF_ITS_OWNER, OF_ITS_GROUP, OF_ITS_OWN];
const OF_ITS_OWNER: &str = "it is set-user-ID";
const OF_ITS_GROUP: &str = "it is set-group-ID";
const OF_ITS_OWN: &str = "its file has capabilities";

pub(super) fn more_than_ours(path: &Path) -> Option<Obstacle> {
    let facts = std::fs::metadata(path).ok()?;
    let is_ignored =
        statvfs(path).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID)) || has_no_new_rights();
    if is_ignored {
        return None;
    }
    let (uid, mode) = (effective_uid(), facts.mode());
    if mode & SET_UID != 0 && facts.uid() != uid {
        return Some(Obstacle::Privileged(OF_ITS_OWNER));
    }
    let gid = rustix::process::getegid().as_raw();
    if mode & (SET_GID | GROUP_EXECUTES) == SET_GID | GROUP_EXECUTES && facts.gid() != gid {
        return Some(Obstacle::Privileged(OF_ITS_GROUP));
    }
    // They add nothing to root's.
    let has_capabilities =
        uid != 0 && getxattr(path, "security.capability", &mut [0_u8; 0]).is_ok_and(|bytes| bytes > 0);
    has_capabilities.then_some(Obstacle::Privileged(OF_ITS_OWN))
}

/// Returns whether this process, and what it starts, gains no rights by execve(2) (PR_SET_NO_NEW_PRIVS).
fn has_no_new_rights() -> bool {
    rustix::thread::no_new_privs().unwrap_or(false)
}

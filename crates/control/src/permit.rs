//! Who may bypass the kernel. An AF_XDP socket can forge any frame and sees what firewalls would have dropped, so it is
//! given only to users and groups that the administrator names.

use sidestep_sys::credentials::Credentials;
use std::fs;

/// The group whose members may use control unless flags say otherwise, where it exists.
pub const GROUP: &str = "sidestep";

/// The list of those who may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    uids: Vec<u32>,
    gids: Vec<u32>,
    queues_per_user: Option<u32>,
}

impl Permit {
    /// Root, the user that control runs as, and those named; without any name the members of [`GROUP`].
    pub fn new(uids: &[u32], gids: &[u32]) -> Self {
        let mut permit =
            Self { uids: vec![0, sidestep_sys::process::effective_uid()], gids: gids.to_vec(), queues_per_user: None };
        permit.uids.extend(uids);
        if uids.is_empty() && gids.is_empty() {
            permit.gids.extend(group_id(&fs::read_to_string("/etc/group").unwrap_or_default(), GROUP));
        }
        permit
    }

    /// Lets one user who is not root have so many queues of a device; without, half of them, and the last is root's.
    #[must_use]
    pub fn with_queues_per_user(self, queues: Option<u32>) -> Self {
        Self { queues_per_user: queues, ..self }
    }

    pub(crate) fn queues_per_user(&self) -> Option<u32> {
        self.queues_per_user
    }

    /// Whether this peer, a member of `groups` beside its own, may.
    pub fn allows(&self, peer: &Credentials, groups: &[u32]) -> bool {
        let is_member = self.gids.iter().any(|gid| *gid == peer.gid || groups.contains(gid));
        is_member || self.uids.contains(&peer.uid)
    }
}

/// The number of a group in the format of group(5).
fn group_id(file: &str, name: &str) -> Option<u32> {
    let line = file.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_members_may_and_nobody_else() {
        let permit = Permit::new(&[1000], &[50]);
        let peer = |uid, gid| Credentials { pid: Some(1), uid, gid };
        assert!(permit.allows(&peer(0, 0), &[]));
        assert!(permit.allows(&peer(1000, 7), &[]));
        assert!(permit.allows(&peer(1001, 50), &[]));
        assert!(permit.allows(&peer(1001, 7), &[8, 50]));
        assert!(!permit.allows(&peer(1001, 7), &[8]));
    }

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let file = "root:x:0:\nsidestep-old:x:7:\nsidestep:x:990:alice\nbroken\n";
        assert_eq!(group_id(file, GROUP), Some(990));
        assert_eq!(group_id("sidestep:x:many:", GROUP), None);
        assert_eq!(group_id("", GROUP), None);
    }
}

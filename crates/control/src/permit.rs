//! Users who may bypass the kernel. An AF_XDP socket can forge any frame and sees frames that firewalls would have
//! dropped, so only users and groups named by the administrator get one.

use sidestep_sys::credentials::Credentials;
use sidestep_sys::file;
use std::path::Path;

/// The group whose members may use control unless options name others, if it exists.
pub const GROUP: &str = "sidestep";

/// The limit of group(5), bytes: some hundred thousand groups.
const GROUP_FILE_BYTES_MAX: u64 = 16 << 20;

/// The list of permitted users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    uids: Vec<u32>,
    gids: Vec<u32>,
    queues_per_user: Option<u32>,
    hand_overs: HandOvers,
    tap_gids: Vec<u32>,
}

/// The users whose live connections control hands over to the kernel. Who takes part in a hand-over can have a socket, for as long as it
/// likes, that shares others' ports (decision 0031).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOvers {
    /// All who may bypass the kernel.
    #[default]
    All,
    /// Root alone.
    Root,
}

impl Permit {
    /// Permits root, the user that control runs as, and those named; if none is named, the members of [`GROUP`].
    pub fn new(uids: &[u32], gids: &[u32]) -> Self {
        let mut permit = Self {
            uids: vec![0, sidestep_sys::process::effective_uid()],
            gids: gids.to_vec(),
            queues_per_user: None,
            hand_overs: HandOvers::All,
            tap_gids: Vec::new(),
        };
        permit.uids.extend(uids);
        if uids.is_empty() && gids.is_empty() {
            permit.gids.extend(group_id(
                &file::read_text(Path::new("/etc/group"), GROUP_FILE_BYTES_MAX).unwrap_or_default(),
                GROUP,
            ));
        }
        permit
    }

    /// Sets the number of a device's queues that one user other than root may have; by default half of them, and the
    /// last is root's.
    #[must_use]
    pub fn with_queues_per_user(self, queues: Option<u32>) -> Self {
        Self { queues_per_user: queues, ..self }
    }

    pub(crate) fn queues_per_user(&self) -> Option<u32> {
        self.queues_per_user
    }

    /// Sets whose connections are handed over.
    #[must_use]
    pub fn with_hand_overs(self, hand_overs: HandOvers) -> Self {
        Self { hand_overs, ..self }
    }

    pub(crate) fn hand_overs(&self) -> HandOvers {
        self.hand_overs
    }

    /// Sets the groups whose members may read traffic by feeds without a socket that receives it. It permits nothing else.
    #[must_use]
    pub fn with_tap_gids(self, gids: &[u32]) -> Self {
        Self { tap_gids: gids.to_vec(), ..self }
    }

    /// Returns whether this peer, a member of `groups` beside its own, may read traffic without such a socket.
    pub(crate) fn allows_taps(&self, peer: &Credentials, groups: &[u32]) -> bool {
        self.tap_gids.iter().any(|gid| *gid == peer.gid || groups.contains(gid))
    }

    /// The named users.
    pub(crate) fn uids(&self) -> &[u32] {
        &self.uids
    }

    /// The named groups.
    pub(crate) fn gids(&self) -> &[u32] {
        &self.gids
    }

    /// Returns whether this peer, a member of `groups` beside its own, is permitted.
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
    fn a_tap_is_for_its_groups_alone() {
        let permit = Permit::new(&[1000], &[50]).with_tap_gids(&[60]);
        let peer = |gid| Credentials { pid: Some(1), uid: 1000, gid };
        assert!(!permit.allows_taps(&peer(50), &[50, 1000]));
        assert!(permit.allows_taps(&peer(60), &[]) && permit.allows_taps(&peer(50), &[60]));
        assert!(!permit.allows(&Credentials { uid: 7, ..peer(60) }, &[60]), "it is not the right to connect");
    }

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let file = "root:x:0:\nsidestep-old:x:7:\nsidestep:x:990:alice\nbroken\n";
        assert_eq!(group_id(file, GROUP), Some(990));
        assert_eq!(group_id("sidestep:x:many:", GROUP), None);
        assert_eq!(group_id("", GROUP), None);
    }
}

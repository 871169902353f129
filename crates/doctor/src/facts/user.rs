//! Who asks: user, groups, capabilities, limits.

use super::Sources;
use rustix::process::{Resource, getrlimit};
use sidestep_control::permit::GROUP;
use sidestep_sys::file;
use sidestep_sys::process::effective_uid;

/// The longest /etc/group that is read, bytes.
const GROUP_FILE_BYTES_MAX: u64 = 16 << 20;

/// Capabilities that are asked for, by their numbers in capabilities(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Interfaces, XDP programs.
    NetAdmin = 12,
    /// AF_XDP sockets.
    NetRaw = 13,
    /// Memory beyond RLIMIT_MEMLOCK.
    IpcLock = 14,
    /// Namespaces, and what has no other capability.
    SysAdmin = 21,
    /// Real-time priorities.
    SysNice = 23,
    /// Tracepoints.
    Perfmon = 38,
    /// BPF programs.
    Bpf = 39,
}

/// The group whose members may bypass the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub gid: u32,
    /// True if this process is in it.
    pub is_member: bool,
}

/// Who asks.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// The effective user.
    pub uid: u32,
    /// The effective capabilities as a mask; none where /proc does not tell.
    pub capabilities: Option<u64>,
    /// The group of those who may bypass the kernel, if there is one.
    pub group: Option<Group>,
    /// The mode of seccomp: 2 is a filter of system calls.
    pub seccomp: Option<u32>,
    /// RLIMIT_MEMLOCK, bytes; none: unlimited.
    pub memlock_bytes: Option<u64>,
    /// RLIMIT_NOFILE as it can be raised to; none: unlimited.
    pub files_max: Option<u64>,
    /// RLIMIT_RTPRIO.
    pub realtime_priority_max: u64,
}

impl User {
    pub(super) fn read(sources: &Sources) -> Self {
        let status = sources.roots.proc("self/status");
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let groups: Vec<u32> = ["Gid:", "Groups:"]
            .iter()
            .filter_map(|name| field(name))
            .flat_map(|numbers| numbers.split_whitespace().filter_map(|number| number.parse().ok()))
            .collect();
        let file = file::read_text(&sources.root.join("etc/group"), GROUP_FILE_BYTES_MAX).unwrap_or_default();
        Self {
            uid: effective_uid(),
            capabilities: field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok()),
            group: gid_of(&file, GROUP).map(|gid| Group { gid, is_member: groups.contains(&gid) }),
            seccomp: field("Seccomp:").and_then(|mode| mode.parse().ok()),
            memlock_bytes: getrlimit(Resource::Memlock).current,
            files_max: getrlimit(Resource::Nofile).maximum,
            realtime_priority_max: getrlimit(Resource::Rtprio).maximum.unwrap_or(u64::MAX),
        }
    }

    /// Returns whether this process has a capability; where /proc does not tell, whether it is root.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.map_or(self.uid == 0, |mask| mask & (1 << capability as u32) != 0)
    }
}

/// The number of a group in the format of group(5).
fn gid_of(file: &str, name: &str) -> Option<u32> {
    let line = file.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

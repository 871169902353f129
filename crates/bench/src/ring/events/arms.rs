//! The paths: from which source, over what, and how their reader waits.

use super::Origin;
use super::stage::Stage;
use crate::path;
use crate::ring::{Contestant, Job, Near};
use sidestep_sys::Problem;
use std::rc::Rc;

/// A way from the kernel to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ring,
    RingTwoReaders,
    RingDoorbell,
    RingbufSpin,
    RingbufEpoll,
    RecvBlock,
    RecvPoll,
    RecvSpin,
    ReadBlock,
    ReadPoll,
    ReadSpin,
    ModuleRing,
}

/// A path, with its second name, under which its CPUs are kept awake.
pub(super) struct Path {
    pub(super) name: &'static str,
    pub(super) awake_name: &'static str,
    pub(super) way: Way,
    waiting: &'static str,
    description: &'static str,
    origins: &'static [Origin],
}

/// Every reader that is compared with all others of its source under the same condition.
pub(super) const BASELINES: &[&str] = &[
    "recv-block",
    "recv-block-awake",
    "read-block",
    "read-block-awake",
    "bpf-ringbuf-epoll",
    "bpf-ringbuf-epoll-awake",
    "recv-spin",
    "recv-spin-awake",
    "read-spin",
    "read-spin-awake",
    "bpf-ringbuf-spin",
    "bpf-ringbuf-spin-awake",
    "bpf-ring-awake",
];
const AWAKE: &str = "-awake";

const BPF: &[Origin] = &[Origin::Timer, Origin::Xdp];
const XDP: &[Origin] = &[Origin::Xdp];
const MODULE: &[Origin] = &[Origin::Module];

const PATHS: &[Path] = &[
    Path {
        name: "bpf-ring",
        awake_name: "bpf-ring-awake",
        way: Way::Ring,
        waiting: "spin",
        description: "A BPF program writes sidestep's broadcast ring (a frozen BPF array), the reader polls its memory.",
        origins: BPF,
    },
    Path {
        name: "bpf-ring-two-readers",
        awake_name: "bpf-ring-two-readers-awake",
        way: Way::RingTwoReaders,
        waiting: "spin",
        description: "The same with a second reader, on a third CPU, or where there is none on the CPU of the source, where \
                      it runs only when nothing else does.",
        origins: BPF,
    },
    Path {
        name: "bpf-ring-doorbell",
        awake_name: "bpf-ring-doorbell-awake",
        way: Way::RingDoorbell,
        waiting: "block",
        description: "The same ring, its reader asleep until the program rings its doorbell.",
        origins: BPF,
    },
    Path {
        name: "bpf-ringbuf-spin",
        awake_name: "bpf-ringbuf-spin-awake",
        way: Way::RingbufSpin,
        waiting: "spin",
        description: "The kernel's BPF ring buffer without wake-ups (BPF_RB_NO_WAKEUP), polled with libbpf.",
        origins: BPF,
    },
    Path {
        name: "bpf-ringbuf-epoll",
        awake_name: "bpf-ringbuf-epoll-awake",
        way: Way::RingbufEpoll,
        waiting: "epoll",
        description: "The kernel's BPF ring buffer with a wake-up for each event, its reader in epoll_wait(2).",
        origins: BPF,
    },
    Path {
        name: "recv-block",
        awake_name: "recv-block-awake",
        way: Way::RecvBlock,
        waiting: "block",
        description: "The datagram passes to its UDP socket with the stamp in its payload; recv(2) blocks.",
        origins: XDP,
    },
    Path {
        name: "recv-poll",
        awake_name: "recv-poll-awake",
        way: Way::RecvPoll,
        waiting: "block",
        description: "The same, poll(2) and then recv(2).",
        origins: XDP,
    },
    Path {
        name: "recv-spin",
        awake_name: "recv-spin-awake",
        way: Way::RecvSpin,
        waiting: "spin",
        description: "The same, recv(2) of a non-blocking socket again and again.",
        origins: XDP,
    },
    Path {
        name: "read-block",
        awake_name: "read-block-awake",
        way: Way::ReadBlock,
        waiting: "block",
        description: "The module's timer, read(2) of /dev/sidestep-ring, which blocks.",
        origins: MODULE,
    },
    Path {
        name: "read-poll",
        awake_name: "read-poll-awake",
        way: Way::ReadPoll,
        waiting: "block",
        description: "The same, poll(2) and then read(2).",
        origins: MODULE,
    },
    Path {
        name: "read-spin",
        awake_name: "read-spin-awake",
        way: Way::ReadSpin,
        waiting: "spin",
        description: "The same, read(2) with O_NONBLOCK again and again.",
        origins: MODULE,
    },
    Path {
        name: "module-ring",
        awake_name: "module-ring-awake",
        way: Way::ModuleRing,
        waiting: "spin",
        description: "The module's timer, its ring mapped read-only from /dev/sidestep-ring and polled.",
        origins: MODULE,
    },
];

impl Path {
    /// The conditions under which it is measured: CPUs may halt (false), CPUs are kept awake (true).
    pub(super) fn conditions(&self) -> &'static [bool] {
        // A second reader keeps its CPU awake.
        if self.way == Way::RingTwoReaders { &[true] } else { &[false, true] }
    }

    /// Whether its reader sleeps while it waits.
    pub(super) fn sleeps(&self) -> bool {
        self.waiting != "spin"
    }
}

/// The paths of a source that were asked for: all of them if none is named.
pub(super) fn chosen(origin: Origin, names: &[String]) -> Result<Vec<&'static Path>, Problem> {
    let all: Vec<&Path> = PATHS.iter().filter(|path| path.origins.contains(&origin)).collect();
    if names.is_empty() || names == ["all"] {
        return Ok(all);
    }
    if let Some(name) = names.iter().find(|name| !all.iter().any(|path| path.name == name.trim())) {
        let known: Vec<&str> = all.iter().map(|path| path.name).collect();
        return Err(path::unknown(name, format!("source {origin} does not have it"), &known));
    }
    Ok(all.into_iter().filter(|path| names.iter().any(|name| name.trim() == path.name)).collect())
}

/// Whether a path is compared with this baseline: under the same condition; and each that waits in the kernel with itself,
/// kept awake.
pub(super) fn compares(of: &str, against: &str) -> bool {
    let (one, other) = (of.ends_with(AWAKE), against.ends_with(AWAKE));
    if one != other {
        return against == format!("{of}{AWAKE}");
    }
    let is_two_readers = of.starts_with("bpf-ring-two-readers");
    let of_one_reader = against == "bpf-ring-awake";
    of != against && (!of_one_reader || is_two_readers)
}

/// A path under a condition.
pub(super) struct Arm {
    pub(super) path: &'static Path,
    pub(super) is_awake: bool,
    pub(super) origin: Origin,
    pub(super) stage: Rc<Stage>,
}

impl Contestant for Arm {
    fn name(&self) -> &'static str {
        if self.is_awake { self.path.awake_name } else { self.path.name }
    }

    fn subject(&self) -> (&'static str, &'static str) {
        ("ring-source", self.origin.name())
    }

    fn description(&self) -> String {
        let condition = if self.is_awake {
            " CPUs kept awake: a thread of the lowest priority on each CPU that could halt."
        } else {
            ""
        };
        format!("{}{condition}", self.path.description)
    }

    fn sleeps(&self) -> bool {
        self.path.sleeps()
    }

    fn run(&self, job: &Job, near: &mut Near) -> Result<(), Problem> {
        near.found = self.stage.measure(self.path, self.is_awake, job)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_baselines_are_paths() {
        for path in PATHS {
            assert_eq!(path.awake_name, format!("{}{AWAKE}", path.name));
            assert_eq!(PATHS.iter().filter(|other| other.name == path.name).count(), 1);
        }
        for baseline in BASELINES {
            assert!(PATHS.iter().any(|path| [path.name, path.awake_name].contains(baseline)), "{baseline}");
        }
    }

    #[test]
    fn paths_are_chosen_by_name_and_source() {
        let names = |origin, names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            chosen(origin, &names).map(|paths| paths.iter().map(|path| path.name).collect::<Vec<_>>())
        };
        assert_eq!(names(Origin::Timer, &[]).unwrap().len(), 5);
        assert_eq!(names(Origin::Xdp, &["all"]).unwrap().len(), 8);
        assert_eq!(names(Origin::Module, &["module-ring"]).unwrap(), ["module-ring"]);
        let problem = names(Origin::Timer, &["recv-block"]).unwrap_err().to_string();
        assert!(problem.contains("source timer does not have it") && problem.contains("bpf-ring,"), "{problem}");
    }

    #[test]
    fn conditions_are_compared_with_themselves_and_halting_with_awake() {
        assert!(compares("bpf-ring", "recv-block") && compares("bpf-ring-awake", "recv-block-awake"));
        assert!(!compares("bpf-ring-awake", "recv-block") && !compares("bpf-ring", "recv-block-awake"));
        assert!(compares("recv-block", "recv-block-awake") && !compares("recv-block-awake", "recv-block"));
        assert!(compares("bpf-ring-two-readers-awake", "bpf-ring-awake"));
        assert!(compares("bpf-ring", "bpf-ring-awake") && !compares("recv-spin-awake", "bpf-ring-awake"));
        assert!(!compares("recv-block", "recv-block"));
    }
}

//! The paths: the ways to carry a message, by name.

use crate::measure::LOOK_UP;
use crate::transport::Transport;
use sidestep_report::schema::PathInfo;
use sidestep_socket::stream::{Backend, Waiting};
use sidestep_sys::Problem;
use std::fmt::Display;
use std::time::Duration;

/// Polling time of SO_BUSY_POLL: the value of tuned's network-latency profile and of most guides.
const BUSY_POLL_US: u32 = 50;

/// The medium of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The transport asked for: TCP or UDP.
    Inet,
    /// A Unix stream socket, whatever transport is asked for.
    Unix,
    /// Two rings in memory shared by the two processes, whatever transport is asked for.
    SharedMemory,
    /// Whole frames over AF_XDP, UDP whatever transport is asked for.
    Frames,
    /// Our own stack over AF_XDP; the peer's, too, unless [`Path::peer`] names another path.
    Stack,
    /// Programs of their own at both ends that know blocking sockets alone, under libsidestep.so.
    Unmodified,
    /// A feed by rings that the steering program fills, and orders by the kernel's TCP: of a trader alone.
    FeedRing,
    /// One cache line in the memory of one process.
    CacheLine,
}

/// One path.
#[derive(Debug, PartialEq, Eq)]
pub struct Path {
    /// Its name, on the command line and in results.
    pub name: &'static str,
    /// The medium.
    pub medium: Medium,
    /// Set if each end is pinned to a CPU.
    pub pinned: bool,
    /// The waiting of a receive.
    pub waiting: Waiting,
    /// The back-end that makes system calls.
    pub backend: Backend,
    /// Set if the kernel sends and receives frame by frame, by the second pair of a lab.
    pub frame_by_frame: bool,
    /// The peer's path, if it is another one.
    pub peer: Option<&'static str>,
    /// Description for the report.
    pub description: &'static str,
}

/// Every path of this build, the slowest first.
pub const PATHS: &[Path] = &[
    Path {
        name: "kernel-default",
        medium: Medium::Inet,
        pinned: false,
        waiting: Waiting::Block,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Kernel socket, blocking recv(2), threads wherever the scheduler puts them: an untuned program.",
    },
    Path {
        name: "kernel-pinned",
        medium: Medium::Inet,
        pinned: true,
        waiting: Waiting::Block,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Kernel socket, blocking recv(2), each end pinned to a CPU of its own. Every message wakes a \
                      sleeping thread.",
    },
    Path {
        name: "kernel-busypoll",
        medium: Medium::Inet,
        pinned: true,
        waiting: Waiting::BusyPoll { microseconds: BUSY_POLL_US },
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "As kernel-pinned with SO_BUSY_POLL = 50 us: recv(2) polls the device queue before it sleeps, \
                      where the device has a NAPI instance to poll.",
    },
    Path {
        name: "kernel-epoll",
        medium: Medium::Inet,
        pinned: true,
        waiting: Waiting::Epoll,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Kernel socket, epoll_wait(2) and then recv(2), pinned: an event loop.",
    },
    Path {
        name: "kernel-spin",
        medium: Medium::Inet,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Kernel socket, non-blocking recv(2) in a loop that never sleeps, pinned: one CPU per end burnt, no \
                      wake-up.",
    },
    Path {
        name: "kernel-spin-frames",
        medium: Medium::Inet,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: true,
        peer: None,
        description: "As kernel-spin, but frame by frame, as over a cable: by a second veth pair whose devices neither segment \
                      nor merge (tso, gso, gro and lro off). Over a veth kernel-spin passes super-packets of up to 64 KiB, \
                      which no cable carries. In the lab only, as root.",
    },
    Path {
        name: "uring",
        medium: Medium::Inet,
        pinned: true,
        waiting: Waiting::Block,
        backend: Backend::Uring,
        frame_by_frame: false,
        peer: None,
        description: "io_uring, send and the next receive in one io_uring_enter(2) that sleeps, pinned.",
    },
    Path {
        name: "uring-spin",
        medium: Medium::Inet,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Uring,
        frame_by_frame: false,
        peer: None,
        description: "io_uring, io_uring_enter(2) in a loop that never sleeps, pinned.",
    },
    Path {
        name: "uds",
        medium: Medium::Unix,
        pinned: true,
        waiting: Waiting::Block,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Unix stream socket, blocking recv(2), pinned. Both ends on one host.",
    },
    Path {
        name: "uds-spin",
        medium: Medium::Unix,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Unix stream socket, non-blocking recv(2) in a loop, pinned. Both ends on one host.",
    },
    Path {
        name: "shm",
        medium: Medium::SharedMemory,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Two rings in memory that both processes share, looked at in a loop, pinned: no system call while \
                      messages come and go. Both ends on one host.",
    },
    Path {
        name: "shm-block",
        medium: Medium::SharedMemory,
        pinned: true,
        waiting: Waiting::Block,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Two rings in memory that both processes share; a receive sleeps and is woken by one byte \
                      through a Unix socket, pinned. Both ends on one host.",
    },
    Path {
        name: "xdp-raw",
        medium: Medium::Frames,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Bare AF_XDP: UDP frames written and answered in place, no stack; each end spins on its ring and sends \
                      by one sendto(2), pinned. The floor of the frame path. As root.",
    },
    Path {
        name: "xdp",
        medium: Medium::Stack,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Our own stack over AF_XDP at both ends, native API: UDP or TCP past the kernel, steered by XDP, \
                      beside a control plane on each host; each end spins on its ring and sends by one sendto(2), pinned.",
    },
    Path {
        name: "xdp-block",
        medium: Medium::Stack,
        pinned: true,
        waiting: Waiting::Block,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "As xdp, but each end looks at its ring once and then sleeps in poll(2) on the AF_XDP socket until a frame \
                      comes or a timer is due (Engine::sleep): what kernel-pinned is to kernel-spin.",
    },
    Path {
        name: "xdp-one-end",
        medium: Medium::Stack,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: Some("kernel-spin"),
        description: "As xdp at the measuring end, and kernel-spin at the peer's: what a host gains whose counterpart is \
                      not ours.",
    },
    Path {
        name: "ring",
        medium: Medium::FeedRing,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: Some("kernel-spin"),
        description: "The trader of bench tick reads its feed from rings that the steering program fills (XDP), without a system call \
                      for a datagram, and sends its orders by kernel-spin, as the exchange does with all that it sends.",
    },
    Path {
        name: "run",
        medium: Medium::Unmodified,
        pinned: true,
        waiting: Waiting::Block,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "As kernel-pinned, and not changed for it: at both ends a program of its own that knows blocking sockets \
                      alone, under sidestep run, whose library takes its TCP or UDP past the kernel. A receive polls before it \
                      sleeps (profile latency). In the lab only, as root.",
    },
    Path {
        name: "floor",
        medium: Medium::CacheLine,
        pinned: true,
        waiting: Waiting::Spin,
        backend: Backend::Kernel,
        frame_by_frame: false,
        peer: None,
        description: "Two CPUs bouncing one cache line, no system call: the physical limit between two cores of this \
                      machine.",
    },
];

/// The error for a path that is not one of the known ones.
pub fn unknown(name: &str, why: impl Display, known: &[&str]) -> Problem {
    let next = match nearest(name, known) {
        Some(meant) => format!("did you mean: {meant}"),
        None => format!("choose from: {}", known.join(", ")),
    };
    Problem::usage(format!("no path {name:?}"), why).next(next)
}

/// Returns the known name from which a typed one differs by at most two letters; none if there is no such name.
fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let by_distance = known.iter().map(|name| (distance(typed, name), *name)).min();
    by_distance.filter(|(letters, _)| *letters <= 2).map(|(_, name)| name)
}

/// Letters to add, remove or replace to make one word of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, against) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(letter != against);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

impl Path {
    /// The path of that name.
    pub fn named(name: &str) -> Result<&'static Self, Problem> {
        PATHS.iter().find(|path| path.name == name).ok_or_else(|| {
            let known: Vec<&str> = PATHS.iter().map(|path| path.name).collect();
            unknown(name, "this build does not know it", &known)
        })
    }

    /// The transport that this path really uses when `asked` is asked for.
    pub fn transport(&self, asked: Transport) -> Transport {
        match self.medium {
            Medium::Inet | Medium::Stack | Medium::FeedRing | Medium::Unmodified => asked,
            Medium::Unix => Transport::Uds,
            Medium::SharedMemory => Transport::Shm,
            Medium::Frames => Transport::Udp,
            Medium::CacheLine => Transport::Memory,
        }
    }

    /// Returns the name of the peer's path.
    pub(crate) fn at_peer(&self) -> &'static str {
        self.peer.unwrap_or(self.name)
    }

    /// Returns the longest sleep of a call on our own stack's links; none for one that spins.
    pub(crate) fn sleep(&self) -> Option<Duration> {
        (self.medium == Medium::Stack && self.waiting == Waiting::Block).then_some(LOOK_UP)
    }

    /// For the result file.
    pub fn info(&self) -> PathInfo {
        let waiting = match self.waiting {
            Waiting::Block => "block",
            Waiting::BusyPoll { .. } => "busy_poll",
            Waiting::Epoll => "epoll",
            Waiting::Spin => "spin",
        };
        PathInfo { name: self.name.into(), description: self.description.into(), waiting: Some(waiting.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_found_by_its_name_and_no_name_stands_twice() {
        for path in PATHS {
            assert_eq!(Path::named(path.name).expect("it is in the table"), path);
            assert!(Path::named(path.at_peer()).is_ok_and(|theirs| theirs.peer.is_none()), "{}", path.name);
        }
        let unknown = Path::named("kernel").expect_err("not a path").to_string();
        assert!(unknown.contains("kernel-spin"), "{unknown}");
    }
}

//! Refusals of requests or of acceleration: a code for programs, three short texts for display.

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;
use std::fmt;

/// The longest text of a refusal, bytes: three of them and their packet's other fields fit one packet.
const TEXT_BYTES_MAX: usize = 600;

macro_rules! codes {
    ($($(#[doc = $text:literal])+ $name:ident,)+) => {
        /// The reason. The names on the wire are these in snake_case; new ones are appended, and none changes its
        /// meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $($(#[doc = $text])+ $name,)+
            /// A reason that a newer version has a name for
            #[serde(other)]
            Unknown,
        }

        impl Code {
            /// Every reason that this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+ Self::Unknown];

            /// The text for display.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($text),+).trim_ascii(),)+
                    Self::Unknown => "a reason that a newer version has a name for",
                }
            }
        }
    };
}

codes! {
    /// the program and the control plane speak different protocol versions
    Version,
    /// the message could not be understood
    Malformed,
    /// a greeting must come first, and once
    Greeting,
    /// this user is not on the list of those who may bypass the kernel
    NotAllowed,
    /// as many clients, stacks or entries as one user may have
    Limit,
    /// there is no interface of this name or number
    NoInterface,
    /// the control plane was not told to serve this interface
    InterfaceNotServed,
    /// the interface is down or has no carrier
    InterfaceDown,
    /// the interface is of a kind whose frames cannot be built here (loopback, tunnel, bridge or bond)
    InterfaceKind,
    /// the interface has no such queue
    NoQueue,
    /// another AF_XDP socket has the queue
    QueueBusy,
    /// another XDP program is attached to the interface
    ProgramAttached,
    /// the driver or the kernel cannot do AF_XDP here
    Unsupported,
    /// the control plane lacks a capability for it
    Privilege,
    /// there is not enough memory, or a limit on locked memory is too low
    Memory,
    /// there is no such stack, or it belongs to another connection
    NoStack,
    /// no kernel socket came with the request to prove that the port is held
    TwinMissing,
    /// the kernel socket that came is not bound to the address and port asked for
    TwinMismatch,
    /// the kernel socket that came is of another network namespace
    TwinNamespace,
    /// another stack already receives this
    Taken,
    /// there is no such entry
    NoEntry,
    /// the address is not one of this host's
    NotLocal,
    /// the destination is this host itself; shared memory or loopback serves it
    Loopback,
    /// there is no route to the destination
    NoRoute,
    /// the shared tables cannot tell the route, so the kernel decides
    RouteUnknown,
    /// the route leads out of another interface
    OtherInterface,
    /// the neighbour's Ethernet address is being asked for
    NeighbourPending,
    /// the neighbour does not answer
    NeighbourFailed,
    /// the interface, its program or its queue went away
    Revoked,
    /// the socket uses an option that only the kernel has
    SocketOption,
    /// the message is larger than the path or a frame allows
    MessageSize,
    /// the control plane is not running or has gone away
    NoControl,
    /// the kernel refused, for the reason given
    Kernel,
    /// the kernel has connections that steering this would end
    KernelConnections,
    /// the device changes frames before they are seen
    Offload,
    /// the host forwards packets, so what comes to a port may be for others
    Forwards,
    /// packets for it may come by a queue of the device that is not this stack's
    QueueElsewhere,
    /// the connection was handed over to the kernel
    HandedOver,
    /// there is no such feed, or this connection has not opened it
    NoFeed,
    /// only root, and groups named to the control plane, may read traffic without a socket that receives it
    NoTap,
    /// the kernel socket that came is not a member of the group
    NotMember,
}

/// A refusal: the code, the thing, the reason, the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The code, for programs.
    pub code: Code,
    /// The thing that was refused: "cannot open a stack on eth1".
    pub thing: String,
    /// The reason: "queue 0 is busy".
    pub reason: String,
    /// The next step; empty if there is none.
    pub next: String,
}

impl Refusal {
    /// Makes a refusal without a next step.
    pub fn new(code: Code, thing: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { code, thing: bounded(thing.into()), reason: bounded(reason.to_string()), next: String::new() }
    }

    /// Makes a refusal whose reason is the code's description.
    pub fn plain(code: Code, thing: impl Into<String>) -> Self {
        Self::new(code, thing, code.description())
    }

    /// Makes a refusal of a problem.
    pub fn of(code: Code, thing: impl Into<String>, problem: &Problem) -> Self {
        Self::new(code, thing, problem.brief()).next(problem.next_step())
    }

    /// Adds the next step.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = bounded(next.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.thing, self.reason)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::failed(refusal.thing, refusal.reason).next(refusal.next)
    }
}

/// Truncates a text that would not fit, at a character boundary.
fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_every_code() {
        let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/past-the-kernel/troubleshooting.md");
        let chapter = std::fs::read_to_string(chapter).expect("the chapter is there");
        for code in Code::ALL {
            let name = serde_json::to_string(code).unwrap().replace('"', "");
            let row = format!("\n| `{name}` | {} |", code.description());
            assert!(chapter.contains(&row), "troubleshooting.md lacks{row}");
        }
    }

    #[test]
    fn every_code_has_a_name_and_a_description_of_its_own() {
        let names: Vec<String> = Code::ALL.iter().map(|code| serde_json::to_string(code).unwrap()).collect();
        for (index, code) in Code::ALL.iter().enumerate() {
            assert!(!code.description().is_empty());
            assert!(!names[..index].contains(&names[index]));
            assert_eq!(serde_json::from_str::<Code>(&names[index]).unwrap(), *code);
        }
        assert_eq!(serde_json::from_str::<Code>("\"of_a_newer_version\"").unwrap(), Code::Unknown);
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        let refusal = Refusal::new(Code::Kernel, "ä".repeat(1000), "x".repeat(1000)).next("y".repeat(1000));
        assert_eq!([refusal.thing.len(), refusal.reason.len(), refusal.next.len()], [600; 3]);
        assert!(refusal.thing.chars().all(|character| character == 'ä'));
    }
}

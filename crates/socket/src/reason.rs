//! The path of a socket, and the reasons for the kernel's.

use sidestep_control_api::client;
use sidestep_control_api::message::{Code, Mode};
use sidestep_stack::route::Unreachable;
use std::fmt;

macro_rules! reasons {
    ($($name:ident $text:literal $code:ident $description:literal,)+) => {
        /// The reason why a socket, or a destination, is on the kernel's path. New reasons go to the end; their order is their number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Reason {
            $(#[doc = $description] $name,)+
        }

        impl Reason {
            /// All, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name in lists.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// One line for people.
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $description,)+ }
            }

            /// Its code in `sidestep ps`.
            pub(crate) fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)+ }
            }
        }
    };
}

reasons! {
    NotWanted "not_wanted" SocketOption "the program asked for the kernel's path",
    ControlAbsent "control_absent" NoControl "the control plane is not running",
    ControlSilent "control_silent" NoControl "the control plane has gone silent, so its copy of the routes cannot be trusted",
    NotAllowed "not_allowed" NotAllowed "this user may not bypass the kernel",
    NoInterface "no_interface" NoInterface "there is no such interface, or the control plane does not serve it",
    InterfaceDown "interface_down" InterfaceDown "the interface is down or has no carrier",
    InterfaceKind "interface_kind" InterfaceKind "frames cannot be built for this kind of interface",
    NoFreeQueue "no_free_queue" QueueBusy "every queue of the interface, or the one asked for, belongs to another program, or there is none of that number",
    NoXdp "no_xdp" Unsupported "the driver or the kernel cannot do AF_XDP, or another XDP program is attached",
    Refused "refused" Kernel "the control plane refused it; its message has the reason",
    Revoked "revoked" Revoked "the interface, its program or its queue went away",
    Taken "taken" Taken "another program already receives this port or flow past the kernel",
    GroupTaken "group_taken" Taken "another program already receives this group past the kernel",
    LoopbackOrLocal "loopback_or_local" Loopback "the address is this host itself",
    RouteNotOnInterface "route_not_on_interface" OtherInterface "the route leads out of another interface",
    NoRoute "no_route" NoRoute "no route to the destination, or one that refuses it; the kernel gives the error",
    RouteUnknown "route_unknown" RouteUnknown "only the kernel knows the route (policy rules, or tables too large to mirror)",
    NeighbourPending "neighbour_pending" NeighbourPending "the neighbour's Ethernet address is being asked for",
    NeighbourFailed "neighbour_failed" NeighbourFailed "the neighbour does not answer",
    Broadcast "broadcast" SocketOption "broadcasts are the kernel's",
    TooBig "too_big" MessageSize "the datagram exceeds the path's MTU, and the kernel cuts it",
    MulticastLoop "multicast_loop" SocketOption "datagrams to groups are wanted back on this host, which the kernel does",
    TooManyEntries "too_many_entries" Limit "as many steered ports, flows or groups as allowed",
    GroupElsewhere "group_elsewhere" OtherInterface "the group was joined on another interface",
    CameByKernel "came_by_kernel" OtherInterface "the connection came by another interface, or before its port was steered",
    KernelConnections "kernel_connections" KernelConnections "the kernel has connections of this port, which steering it would end",
    Offload "offload" Offload "the device changes frames before they are seen: tags of VLANs, merged segments",
    QueueElsewhere "queue_elsewhere" QueueElsewhere "its packets may come by a queue of the device that is not this program's",
    Opening "opening" NeighbourPending "the socket waits for the neighbour, or for control's answer",
    HandedOver "handed_over" HandedOver "the live connection was handed over to the kernel",
    Released "released" HandedOver "the administrator, or the end of the control plane, has given the traffic to the kernel",
    GroupShared "group_shared" Taken "another program has a socket at the port of this group, too, and the kernel gives both a copy",
    PortShared "port_shared" SocketOption "several sockets may have the port (SO_REUSEADDR), of which the kernel selects the receiver",
}

impl Reason {
    /// The reason that control's code stands for.
    pub(crate) fn of_code(code: Code) -> Self {
        match code {
            Code::NotAllowed => Self::NotAllowed,
            Code::NoControl => Self::ControlAbsent,
            Code::NoInterface | Code::InterfaceNotServed => Self::NoInterface,
            Code::InterfaceDown => Self::InterfaceDown,
            Code::InterfaceKind => Self::InterfaceKind,
            Code::QueueBusy | Code::NoQueue => Self::NoFreeQueue,
            Code::Unsupported | Code::ProgramAttached => Self::NoXdp,
            Code::Revoked | Code::NoStack => Self::Revoked,
            Code::Taken => Self::Taken,
            Code::Loopback | Code::NotLocal => Self::LoopbackOrLocal,
            Code::Limit => Self::TooManyEntries,
            Code::KernelConnections => Self::KernelConnections,
            Code::Offload => Self::Offload,
            Code::QueueElsewhere => Self::QueueElsewhere,
            _ => Self::Refused,
        }
    }

    pub(crate) fn of_error(error: &client::Error) -> Self {
        Self::of_code(error.code())
    }

    pub(crate) fn of_route(unreachable: Unreachable) -> Self {
        match unreachable {
            Unreachable::NeighbourPending { .. } => Self::NeighbourPending,
            Unreachable::NeighbourFailed { .. } => Self::NeighbourFailed,
            Unreachable::NotOnThisInterface => Self::RouteNotOnInterface,
            Unreachable::LinkUnusable { .. } => Self::InterfaceDown,
            Unreachable::Local => Self::LoopbackOrLocal,
            Unreachable::Broadcast => Self::Broadcast,
            Unreachable::AskKernel => Self::RouteUnknown,
            Unreachable::NoRoute
            | Unreachable::Refused
            | Unreachable::Prohibited
            | Unreachable::Blackhole
            | Unreachable::SourceNotOurs
            | Unreachable::NoSource => Self::NoRoute,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}

/// The path of a socket's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Past the kernel.
    Accelerated {
        /// The mode in which frames move between device and memory.
        mode: Mode,
    },
    /// By the kernel's socket.
    Kernel(Reason),
}

impl Path {
    /// Returns whether it goes past the kernel.
    pub fn is_accelerated(self) -> bool {
        matches!(self, Self::Accelerated { .. })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accelerated { mode: Mode::ZeroCopy } => f.write_str("accelerated (AF_XDP, zero-copy)"),
            Self::Accelerated { mode: Mode::Copy } => f.write_str("accelerated (AF_XDP, copy)"),
            Self::Accelerated { mode: Mode::Generic } => f.write_str("accelerated (AF_XDP, generic)"),
            Self::Kernel(reason) => write!(f, "kernel: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_number_a_name_and_a_description_of_its_own() {
        for (number, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
            let same = |other: &&Reason| other.name() == reason.name() || other.description() == reason.description();
            assert_eq!(Reason::ALL.iter().filter(same).count(), 1);
        }
    }

    #[test]
    fn what_control_says_becomes_a_reason() {
        for code in Code::ALL {
            assert!(!Reason::of_code(*code).description().is_empty());
        }
        assert_eq!(Reason::of_code(Code::QueueBusy), Reason::NoFreeQueue);
        assert_eq!(Reason::of_route(Unreachable::NotOnThisInterface), Reason::RouteNotOnInterface);
    }
}

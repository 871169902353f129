//! Outcomes of frames, with their reasons: one counter each, in the order of `enum reason` in `bpf/steer.h`.

use std::fmt;

/// The outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Redirected to the AF_XDP socket of the stack that owns it.
    Redirect,
    /// Passed to the kernel, as if no program were attached.
    Pass,
    /// Dropped: its sender retransmits it, or rings have it.
    Drop,
}

macro_rules! reasons {
    ($($variant:ident $in_c:literal $name:literal $verdict:ident $should_be_zero:literal $description:literal;)*) => {
        /// The reason for a frame's outcome.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $description] $variant,)*
        }

        impl Reason {
            /// All of them, in the order of their counters.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The displayed name of its counter.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The description, one sentence.
            pub fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* }
            }

            /// The outcome of such a frame.
            pub fn verdict(self) -> Verdict {
                match self { $(Self::$variant => Verdict::$verdict,)* }
            }

            /// Returns whether a count other than zero means that something is wrong on this host.
            pub fn should_be_zero(self) -> bool {
                match self { $(Self::$variant => $should_be_zero,)* }
            }

            #[cfg(test)]
            fn in_c(self) -> &'static str {
                match self { $(Self::$variant => $in_c,)* }
            }
        }
    };
}

reasons! {
    Flow "REDIRECT_FLOW" "redirect-flow" Redirect false
        "Frames of a connection that a stack owns, given to its socket.";
    Listener "REDIRECT_LISTENER" "redirect-listener" Redirect false
        "Frames to a port that a stack has bound, given to its socket.";
    Group "REDIRECT_GROUP" "redirect-group" Redirect false
        "Datagrams to a multicast group that a stack has joined, given to its socket.";
    Port "REDIRECT_PORT" "redirect-port" Redirect false
        "Segments to a local port that is reserved for a stack's outgoing connections, given to its socket.";
    Disabled "PASS_DISABLED" "pass-disabled" Pass false
        "Steering is switched off for the interface.";
    Truncated "PASS_TRUNCATED" "pass-truncated" Pass false
        "The frame ends inside of its Ethernet, VLAN or IP header.";
    VlanDepth "PASS_VLAN_DEPTH" "pass-vlan-depth" Pass false
        "More than two VLAN tags.";
    NotIp "PASS_NOT_IP" "pass-not-ip" Pass false
        "Neither IPv4 nor IPv6: ARP, LLDP, PTP and the like.";
    BadIp "PASS_BAD_IP" "pass-bad-ip" Pass false
        "An IP header whose version or lengths cannot be right.";
    Fragment "PASS_FRAGMENT" "pass-fragment" Pass false
        "A fragment of an IP packet that no stack owns: the kernel puts it together, and its socket receives it.";
    IpOptions "PASS_IP_OPTIONS" "pass-ip-options" Pass false
        "An IPv4 header with options, of anything but TCP.";
    Ipv6Extension "PASS_IPV6_EXTENSION" "pass-ipv6-extension" Pass false
        "An IPv6 extension header before the transport.";
    Icmp "PASS_ICMP" "pass-icmp" Pass false
        "ICMP, and with it neighbour discovery: the kernel's own.";
    OtherProtocol "PASS_OTHER_PROTOCOL" "pass-other-protocol" Pass false
        "A transport other than TCP and UDP.";
    BadTransport "PASS_BAD_TRANSPORT" "pass-bad-transport" Pass false
        "A TCP or UDP header whose lengths are not those of the packet around it.";
    OddSource "PASS_ODD_SOURCE" "pass-odd-source" Pass false
        "A source address that no sender may have: unspecified, loopback, multicast, broadcast.";
    ForeignMac "PASS_FOREIGN_MAC" "pass-foreign-mac" Pass false
        "The frame's destination is not the interface's own address, nor the one of the packet's group.";
    NoEntry "PASS_NO_ENTRY" "pass-no-entry" Pass false
        "TCP or UDP that no stack owns: the kernel's ordinary traffic.";
    NoGroup "PASS_NO_GROUP" "pass-no-group" Pass false
        "Multicast that no stack has joined.";
    StackGone "PASS_STACK_GONE" "pass-stack-gone" Pass true
        "An entry names a stack that no longer exists; the control plane sweeps them.";
    TooLong "PASS_TOO_LONG" "pass-too-long" Pass true
        "Longer than a frame of the owner's socket, which would drop it: MTU or GRO does not fit its frame size.";
    Stale "PASS_STALE" "pass-stale" Pass true
        "The owner has not given a sign of life in time: stopped, hung, or it polls too seldom.";
    Queue "PASS_QUEUE" "pass-queue" Pass true
        "Received on a queue above those that can be steered: lower the count with ethtool -L.";
    NoSocket "PASS_NO_SOCKET" "pass-no-socket" Pass true
        "The owner has no socket on the queue the frame came in by: steer the flow with ethtool -N, or open one per queue.";
    Forwarded "PASS_FORWARDED" "pass-forwarded" Pass false
        "To a port that a stack has bound on every address, but to an address that this host forwards to somebody else.";
    DropFragment "DROP_FRAGMENT" "drop-fragment" Drop true
        "The first fragment of a TCP segment for a stack: the kernel would reset the connection. A path that cuts all stalls.";
    DropQueue "DROP_QUEUE" "drop-queue" Drop true
        "TCP for a stack that lives and has no socket on the queue the frame came in by: the kernel would reset the connection.";
    SplitHeader "PASS_SPLIT_HEADER" "pass-split-header" Pass true
        "The device has cut the frame inside of its headers: no driver is known to.";
    DropTooLong "DROP_TOO_LONG" "drop-too-long" Drop true
        "TCP for a stack that lives, longer than its socket takes: the kernel would reset the connection. Switch GRO off.";
    KernelSocket "PASS_KERNEL_SOCKET" "pass-kernel-socket" Pass false
        "A segment of the kernel's own to a port that is reserved for a stack: a connection that was handed over, or a program took it while no control plane held it.";
    HandedOver "PASS_HANDED_OVER" "pass-handed-over" Pass false
        "A segment of a connection that was handed over to the kernel.";
    Ring "DROP_RING" "drop-ring" Drop false
        "Copied into the rings of feeds, which have the packet for themselves.";
}

impl Reason {
    /// The index of its counter.
    pub(crate) fn index(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_header() {
        let header = include_str!("../bpf/steer.h");
        let body = header.split("enum reason {").nth(1).unwrap().split('}').next().unwrap();
        let in_c: Vec<_> = body.lines().filter_map(|line| line.trim().split_once(',').map(|(name, _)| name)).collect();
        let mut ours: Vec<_> = Reason::ALL.iter().map(|reason| reason.in_c()).collect();
        ours.push("REASONS");
        assert_eq!(in_c, ours);
    }

    #[test]
    fn a_name_says_its_verdict() {
        for reason in Reason::ALL {
            let prefix = match reason.verdict() {
                Verdict::Redirect => "redirect-",
                Verdict::Pass => "pass-",
                Verdict::Drop => "drop-",
            };
            assert!(reason.name().starts_with(prefix), "{reason}");
            assert!(reason.description().ends_with('.'), "{reason}");
        }
    }
    #[test]
    fn the_book_has_every_counter_in_the_table_where_it_belongs() {
        let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/past-the-kernel/troubleshooting.md");
        let chapter = std::fs::read_to_string(chapter).expect("the chapter is there");
        let (before, wrong) = chapter.split_once("\nThose that should be zero:\n").unwrap();
        let (_, ordinary) = before.split_once("\nOrdinary outcomes:\n").unwrap();
        for reason in Reason::ALL {
            let table = if reason.should_be_zero() { wrong } else { ordinary };
            let row = format!("\n| `{reason}` | {} |", reason.description());
            assert!(table.contains(&row), "troubleshooting.md lacks{row}");
        }
    }
}

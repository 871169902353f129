//! The counters: number, name, meaning. New ones are appended: both sides share the number.

/// The meaning of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Work done.
    Work,
    /// A present value, not a sum.
    Gauge,
    /// An occasional event; many of them cost latency.
    Slow,
    /// Should be 0.
    Fault,
}

macro_rules! counters {
    ($($name:ident $text:literal $meaning:ident $description:literal,)+) => {
        /// A counter of an application.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $description] $name,)+
        }

        impl Counter {
            /// All, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name in lists and in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The description, one line.
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $description,)+ }
            }

            /// The meaning.
            pub fn meaning(self) -> Meaning {
                match self { $(Self::$name => Meaning::$meaning,)+ }
            }
        }
    };
}

counters! {
    ReceivedFrames "rx_frames" Work "frames received from the device",
    ReceivedBytes "rx_bytes" Work "bytes of those frames",
    Delivered "rx_delivered" Work "messages handed to a socket",
    DroppedMalformed "rx_malformed" Fault "frames whose lengths or headers are wrong",
    DroppedChecksum "rx_checksum" Fault "frames with a wrong checksum",
    DroppedNoSocket "rx_no_socket" Slow "frames for no open socket: steered shortly before it was opened or after it was closed",
    DroppedFull "rx_full" Fault "messages dropped because a socket's queue was full: the program reads too slowly",
    SentFrames "tx_frames" Work "frames given to the device",
    SentBytes "tx_bytes" Work "bytes of those frames",
    Kicks "tx_kicks" Slow "system calls made to start sending",
    SendNoFrame "tx_no_frame" Fault "sends refused because no frame was free",
    SendFull "tx_full" Fault "sends refused because the ring to the device was full",
    SendTooLong "tx_too_long" Slow "sends refused because the message exceeds the path's MTU",
    KernelSends "tx_kernel" Slow "messages sent by the kernel's socket instead",
    KernelReceives "rx_kernel" Slow "messages received by the kernel's socket instead",
    RouteLookups "route_lookups" Slow "route lookups",
    RouteUnknown "route_unknown" Slow "routes that the shared tables do not hold",
    NeighbourMisses "neighbour_misses" Slow "sends before the neighbour's Ethernet address was known",
    Sockets "sockets" Gauge "sockets open",
    SocketsAccelerated "sockets_accelerated" Gauge "sockets whose traffic bypasses the kernel",
    LinkFaults "link_faults" Fault "descriptors from the kernel or another process with impossible values",
    Polls "polls" Work "turns of the polling loop",
    PollsIdle "polls_idle" Work "turns that found nothing to do",
    Heartbeats "heartbeats" Work "heartbeats written for the steering program",
    SendNoWay "tx_no_way" Fault "segments without a known route: lost, as on a wire",
    LostStreams "tcp_lost_streams" Fault "closed streams that ended before the peer had acknowledged all that was handed over",
    LostBytes "tcp_lost_bytes" Fault "bytes of those that were not acknowledged",
    OrphansDropped "tcp_orphans_dropped" Fault "closed streams reset because too many were still open, or held too much memory",
    GivenUp "tcp_given_up" Fault "connections given up because the peer did not answer",
    DroppedLong "rx_long" Fault "frames of several buffers dropped: too many are unread, or a part was missing",
}

//! The numbers of a row: name and meaning. New ones are appended; none changes its number.

use super::layout::{ENGINE_FIGURES, ENGINE_WORDS, SOCKET_FIGURES, SOCKET_WORDS};

macro_rules! figures {
    ($(#[$doc:meta])* $type:ident: $($name:ident $text:literal $description:literal,)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum $type {
            $(#[doc = $description] $name,)+
        }

        impl $type {
            /// All, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the name in lists and in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns the description, one line.
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $description,)+ }
            }
        }
    };
}

figures! {
    /// A number of a socket.
    Figure:
    ReceivedBytes "rx_bytes" "payload bytes received",
    SentBytes "tx_bytes" "payload bytes sent, each counted once",
    Received "rx" "segments or datagrams received",
    Sent "tx" "segments or datagrams sent",
    Retransmits "retransmits" "segments sent again",
    RttNs "rtt_ns" "the smoothed round-trip time, nanoseconds; 0 if none was measured",
    Drops "drops" "segments or datagrams received and dropped: no room, not in the window, malformed",
    UnreadBytes "unread_bytes" "bytes received that the program has not read",
    UnsentBytes "unsent_bytes" "bytes written that the peer has not acknowledged",
}

figures! {
    /// A number of an engine.
    EngineFigure:
    Polls "polls" "turns of the engine by threads of the program",
    HelperPolls "helper_polls" "turns of the engine by its helper thread",
    Sleeps "sleeps" "times that a thread of the program slept in a call",
    WakeUps "wake_ups" "sleeps that a packet, another thread or a descriptor of the program has ended",
    HelperWakeUps "helper_wake_ups" "sleeps of the helper thread that a packet or another thread has ended",
    ReceivedFrames "rx_frames" "frames received",
    SentFrames "tx_frames" "frames sent",
    LastPollNs "last_poll_ns" "the time of the last turn, CLOCK_MONOTONIC, nanoseconds",
    DroppedFrames "rx_drops" "frames received and dropped",
}

const _: () = assert!(SOCKET_FIGURES + Figure::ALL.len() <= SOCKET_WORDS);
const _: () = assert!(ENGINE_FIGURES + EngineFigure::ALL.len() <= ENGINE_WORDS);

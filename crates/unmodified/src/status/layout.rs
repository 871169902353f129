//! The words of a status page. Every word has 64 bits, in the byte order of the machine.
//!
//! ```text
//! word 0          magic "SIDESTAT"
//!      1          version of the layout
//!      2          process id, as the process itself sees it
//!      3          start of the process, clock ticks since boot
//!      4          rows for sockets
//!      5          sockets open that have no row
//!      6          sockets opened so far
//!      7          one more than the highest row that was ever used
//!      8..16      name of the program     (text of 64 bytes, padded with NUL)
//!     16..24      name of the profile
//!     24          reasons in use
//!     64..2112    128 reasons, 16 words each: name (4 words), description (12 words)
//!   2112..2624    8 engines, 64 words each
//!                   0 sequence   2..4 interface (text)   4 mode   5 queues, one bit each   8.. figures
//!   2624..        sockets, 32 words each
//!                   0 sequence
//!                   1 kind | descriptor << 32
//!                   2 path | mode << 8 | state of TCP << 16 | queue + 1 << 24 | reason or engine << 32
//!                   3 descriptors that share the socket: dup(2)
//!                   4..6 local address, 6 its port | family << 16 | scope << 32
//!                   7..9 remote address, 9 its port ...
//!                   10 time of opening, CLOCK_MONOTONIC, nanoseconds
//!                   12.. figures
//! ```
//!
//! A sequence has two halves: the upper counts the uses of the row; the lower is 0 while the row is free, odd while its writer
//! changes words 1 to 10, else even. Figures change by themselves.

/// "SIDESTAT".
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"SIDESTAT");
pub(super) const VERSION: u64 = 1;

pub(super) const MAGIC_AT: usize = 0;
pub(super) const VERSION_AT: usize = 1;
pub(super) const PID_AT: usize = 2;
pub(super) const START_AT: usize = 3;
pub(super) const SOCKETS_AT: usize = 4;
pub(super) const BEYOND_AT: usize = 5;
pub(super) const OPENED_AT: usize = 6;
pub(super) const ROWS_USED_AT: usize = 7;
pub(super) const PROGRAM_AT: usize = 8;
pub(super) const PROFILE_AT: usize = 16;
pub(super) const NAME_WORDS: usize = 8;
pub(super) const REASONS_AT: usize = 24;

/// The size of what precedes the reasons, words.
pub(super) const HEAD_WORDS: usize = 64;

/// The most reasons for the kernel's path that a page can name.
pub const REASONS_MAX: usize = 128;
pub(super) const REASON_WORDS: usize = 16;
pub(super) const REASON_NAME_WORDS: usize = 4;

/// The most engines of a process at one time: one for each interface.
pub const ENGINES_MAX: usize = 8;
pub(super) const ENGINE_WORDS: usize = 64;
pub(super) const ENGINE_INTERFACE: usize = 2;
pub(super) const ENGINE_INTERFACE_WORDS: usize = 2;
pub(super) const ENGINE_MODE: usize = 4;
pub(super) const ENGINE_QUEUES: usize = 5;
pub(super) const ENGINE_FIGURES: usize = 8;

/// The fewest rows for sockets.
pub const SOCKETS_MIN: u32 = 16;
/// The most rows for sockets: a page of 32 MiB.
pub const SOCKETS_MAX: u32 = 131_072;
pub(super) const SOCKET_WORDS: usize = 32;
pub(super) const SOCKET_KIND: usize = 1;
pub(super) const SOCKET_PATH: usize = 2;
pub(super) const SOCKET_DESCRIPTORS: usize = 3;
pub(super) const SOCKET_LOCAL: usize = 4;
pub(super) const SOCKET_REMOTE: usize = 7;
pub(super) const SOCKET_SINCE: usize = 10;
pub(super) const SOCKET_FIGURES: usize = 12;

/// The word of a row that has its sequence.
pub(super) const SEQUENCE: usize = 0;
/// The half of a sequence that is 0 in a free row.
pub(super) const IN_USE: u64 = 0xffff_ffff;
/// One use of a row, in its sequence.
pub(super) const ONE_USE: u64 = 1 << 32;

pub(super) const fn reason_at(number: usize) -> usize {
    HEAD_WORDS + number * REASON_WORDS
}

pub(super) const fn engine_at(number: usize) -> usize {
    reason_at(REASONS_MAX) + number * ENGINE_WORDS
}

pub(super) const fn socket_at(number: usize) -> usize {
    engine_at(ENGINES_MAX) + number * SOCKET_WORDS
}

const _: () = assert!(engine_at(0) == 2112 && socket_at(0) == 2624, "the diagram above");

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SocketKind {
    /// A stream of TCP.
    TcpStream = 1,
    /// A listener of TCP.
    TcpListener = 2,
    /// A socket of UDP.
    UdpSocket = 3,
}

impl SocketKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::TcpStream, Self::TcpListener, Self::UdpSocket];

    /// Returns the name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "tcp",
            Self::TcpListener => "tcp-listen",
            Self::UdpSocket => "udp",
        }
    }

    pub(super) fn numbered(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == number)
    }
}

pub(super) const PATH_UNDECIDED: u64 = 0;
pub(super) const PATH_ACCELERATED: u64 = 1;
pub(super) const PATH_KERNEL: u64 = 2;

//! Captures of market data: readers over any [`std::io::Read`], a file of gigabytes or a pipe, in memory of fixed size; writers over
//! any [`std::io::Write`]. No file is opened here; what is compressed is unpacked before (`zcat FILE.gz |`).
//!
//! | format | reader | writer |
//! |---|---|---|
//! | BinaryFILE (Nasdaq): length and message, no sequence numbers | [`BinaryFile`] | [`BinaryFileWriter`] |
//! | pcap: both byte orders, microseconds and nanoseconds | [`Capture`] | |
//! | pcapng: both byte orders, several interfaces and sections | [`Capture`] | [`Writer`] |
//!
//! [`datagram`] finds the UDP datagram of a captured packet. Every length that a file tells is checked; what ends in the middle of
//! a record is told as [`CaptureError::Truncated`], once.

mod binary_file;
mod frame;
mod interface;
mod pcap;
mod pcapng;
mod source;
mod writer;

pub use binary_file::{BinaryFile, BinaryFileWriter, End};
pub use frame::{Datagram, NotUdp, datagram};
pub use interface::{Interface, LinkType};
pub use writer::{Counts, InterfaceId, Writer};

use pcap::Pcap;
use pcapng::Pcapng;
use source::Source;
use std::fmt;
use std::io::{self, Read};

/// The longest packet of a capture, bytes: what libpcap and Wireshark accept (MAXIMUM_SNAPLEN).
pub const PACKET_BYTES_MAX: usize = 262_144;

/// The most interfaces of a section: far more than a capture host has.
pub const INTERFACES_MAX: usize = 1024;

/// A capture that cannot be read on.
#[derive(Debug)]
pub enum CaptureError {
    /// The source failed.
    Io(io::Error),
    /// The bytes from `offset` on are not what the format says.
    Malformed {
        /// Bytes before.
        offset: u64,
        /// The reason.
        why: &'static str,
    },
    /// The capture ends in the middle of the record at `offset`: what was being written when it was copied, or killed.
    Truncated {
        /// Bytes before.
        offset: u64,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed { offset, why } => write!(f, "at byte {offset}: {why}"),
            Self::Truncated { offset } => write!(f, "it ends in the middle of the record at byte {offset}"),
        }
    }
}

impl std::error::Error for CaptureError {}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Receipt, ns since 1970; nothing if the capture does not tell it.
    pub time_ns: Option<u64>,
    /// The interface, by its number in the section ([`Capture::interface`]).
    pub interface: u32,
    /// The link's headers with which it begins.
    pub link: LinkType,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
    /// The bytes that the packet had; more than were captured if the snapshot length was shorter.
    pub original_bytes: u32,
}

/// A reader of pcap and pcapng.
pub struct Capture<R> {
    format: Format<R>,
    /// Set after an error that ends the reading.
    is_over: bool,
}

enum Format<R> {
    Pcap(Pcap<R>),
    Pcapng(Pcapng<R>),
}

impl<R: Read> Capture<R> {
    /// Recognises the format by its first bytes.
    pub fn new(read: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(read);
        let malformed = |why| CaptureError::Malformed { offset: 0, why };
        let format = match *source.peek(4)? {
            [0x0a, 0x0d, 0x0d, 0x0a] => Format::Pcapng(Pcapng::new(source)),
            [0x1f, 0x8b, ..] => return Err(malformed("it is compressed by gzip: unpack it before (zcat FILE.gz |)")),
            [0x28, 0xb5, 0x2f, 0xfd] => {
                return Err(malformed("it is compressed by zstd: unpack it before (zstdcat FILE.zst |)"));
            }
            [a, b, c, d] if Pcap::<R>::is_magic([a, b, c, d]) => Format::Pcap(Pcap::new(source)?),
            _ => return Err(malformed("it is neither pcap nor pcapng")),
        };
        Ok(Self { format, is_over: false })
    }

    /// The next packet; nothing at the end. After an error comes nothing more.
    pub fn try_next(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        if self.is_over {
            return Ok(None);
        }
        let next = match &mut self.format {
            Format::Pcap(pcap) => pcap.try_next(),
            Format::Pcapng(pcapng) => pcapng.try_next(),
        };
        self.is_over = !matches!(next, Ok(Some(_)));
        next
    }

    /// An interface of the section that is being read.
    pub fn interface(&self, number: u32) -> Option<&Interface> {
        match &self.format {
            Format::Pcap(pcap) => (number == 0).then(|| pcap.interface()),
            Format::Pcapng(pcapng) => pcapng.interfaces().get(number as usize),
        }
    }
}

/// Captures made by hand, and readings of them.
#[cfg(test)]
mod tests;

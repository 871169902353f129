//! L1: links of whole Ethernet frames, AF_XDP (`xdp`) and simulated (`sim`), below the user-space stack.
//!
//! Frames are lent, not copied. A frame is received as a token, read through the link, and released or sent on. Every
//! frame of a link is always in exactly one state ([`Tally`]), and reports of the other side are checked against that.
//! No allocation happens after the link is made, and receiving makes no system call.
//!
//! ```
//! use sidestep_frame::{FrameLink, sim};
//!
//! let (mut left, mut right) = sim::pair(&sim::SimOptions::default());
//! let frame = left.allocate().expect("frames are free");
//! left.buffer(&frame)[..14].copy_from_slice(b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x88\xb5");
//! left.send(frame, 14)?;
//! left.flush()?;
//! let frame = right.receive().expect("it has come");
//! assert_eq!(right.bytes(&frame)[12..], [0x88, 0xb5]);
//! right.release(frame);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accounting;
mod facts;
pub mod fault;
mod pcapng;
pub mod sim;
mod token;
pub mod trace;
pub mod xdp;

pub use accounting::Tally;
pub use facts::{Counters, FrameFacts, Sender};
pub use token::{Outgoing, Reason, Received, Unsent};

use std::io;

/// The shortest frame that can be sent: an Ethernet header.
pub const FRAME_BYTES_MIN: usize = 14;

/// A link of whole Ethernet frames, without preamble and check sequence.
///
/// One thread drives it: it receives, and calls [`FrameLink::poll`] when nothing has come. The tokens of one link are
/// invalid on another, which counts a fault and shows no bytes.
pub trait FrameLink {
    /// Facts about the link.
    fn facts(&self) -> &FrameFacts;

    /// The counters of the link.
    fn counters(&self) -> Counters;

    /// Takes the next received frame. No system call.
    fn receive(&mut self) -> Option<Received>;

    /// The bytes of a received frame.
    fn bytes(&self, frame: &Received) -> &[u8];

    /// Returns a received frame to the link.
    fn release(&mut self, frame: Received);

    /// Turns a received frame into one to send, in place: its bytes stay where they are.
    fn answer(&mut self, frame: Received) -> Outgoing;

    /// Allocates a frame to fill; `None` if all are in use ([`FrameLink::poll`] takes sent ones back).
    fn allocate(&mut self) -> Option<Outgoing>;

    /// The memory of a frame to send: as much as fits. A fresh frame has its old content.
    fn buffer(&mut self, frame: &Outgoing) -> &mut [u8];

    /// Hands over the first `len` bytes of a frame. It is sent at the next [`FrameLink::flush`].
    ///
    /// Fails with the frame if the queue is full or `len` is impossible: it is still the caller's, to be sent later or
    /// discarded.
    fn send(&mut self, frame: Outgoing, len: usize) -> Result<(), Unsent>;

    /// Returns a frame that will not be sent to the link.
    fn discard(&mut self, frame: Outgoing);

    /// Sends the frames that were handed over. Frames that do not fit the device now are sent at a later flush or poll.
    /// An error means that the link is down (ENETDOWN) or gone (ENXIO); the frames stay in the queue.
    fn flush(&mut self) -> io::Result<()>;

    /// Does the housekeeping when nothing has come: takes back sent frames, lends free ones for receiving, retries
    /// unsent ones, reports errors of the sender. It makes a system call only if one is due.
    fn poll(&mut self) -> io::Result<()>;

    /// Checks by a system call that the link still exists: a link that only receives would not notice otherwise.
    fn check(&mut self) -> io::Result<()>;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

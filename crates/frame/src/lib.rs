//! L1: links of whole Ethernet frames, AF_XDP (`xdp`) and simulated (`sim`): what a stack in user space stands on.
//!
//! Frames are lent, not copied. A frame is received as a token, read through the link, and given back or sent on; every
//! frame of a link is always in exactly one place ([`Tally`]), and what the other side says of a frame is checked against
//! that. Nothing here allocates once the link is made, and receiving makes no system call.
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
/// One thread drives it: receive, and when nothing has come, [`FrameLink::poll`]. The tokens of a link mean nothing to
/// another one, which counts a fault and shows no bytes.
pub trait FrameLink {
    /// What the link is.
    fn facts(&self) -> &FrameFacts;

    /// What has happened on it.
    fn counters(&self) -> Counters;

    /// The next frame that has come. No system call.
    fn receive(&mut self) -> Option<Received>;

    /// The bytes of a received frame.
    fn bytes(&self, frame: &Received) -> &[u8];

    /// Gives a received frame back.
    fn release(&mut self, frame: Received);

    /// Turns a received frame into one to send, in place: its bytes stay where they are.
    fn answer(&mut self, frame: Received) -> Outgoing;

    /// A frame to fill; `None` when all are in use ([`FrameLink::poll`] brings sent ones back).
    fn allocate(&mut self) -> Option<Outgoing>;

    /// Where a frame to send is written: as much as fits. A fresh one holds what it held before.
    fn buffer(&mut self, frame: &Outgoing) -> &mut [u8];

    /// Hands over the first `len` bytes of a frame. It leaves at the next [`FrameLink::flush`].
    ///
    /// Errs with the frame when the queue is full or `len` cannot be: it is still the caller's, to be sent later or
    /// discarded.
    fn send(&mut self, frame: Outgoing, len: usize) -> Result<(), Unsent>;

    /// Gives back a frame that will not be sent.
    fn discard(&mut self, frame: Outgoing);

    /// Makes the frames handed over leave. What the device has no room for now leaves at a later flush or poll; an error
    /// says that the link is down (ENETDOWN) or gone (ENXIO), and the frames stay where they are.
    fn flush(&mut self) -> io::Result<()>;

    /// Housekeeping, for when nothing has come: takes back sent frames, lends free ones for receiving, tries again what
    /// could not leave, reports what the sender met. A system call only where one is due.
    fn poll(&mut self) -> io::Result<()>;

    /// Asks whether the link is still there, by a system call: a link that only receives does not notice otherwise.
    fn check(&mut self) -> io::Result<()>;
}

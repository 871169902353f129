//! Hand-over of a live connection to another TCP: the kernel's, by TCP_REPAIR (decision 0031).
//!
//! [`Tcp::freeze`] takes a connection out of service and gives its record ([`Handover`]). From then on no segment of it leaves, and
//! what arrives for it is dropped without an answer: its sender retransmits. [`Tcp::thaw`] puts the connection back into service
//! where the hand-over failed. [`Tcp::forget`] frees the connection; its tuple stays occupied, and its late
//! segments stay unanswered, until [`Tcp::release`].
//!
//! Bytes beyond a hole are not in the record. SACK blocks are advisory (RFC 2018 section 8): the peer keeps the bytes until they are
//! acknowledged, and sends them again.

mod record;
#[cfg(feature = "audit")]
mod resume;
mod service;

pub use record::{Handover, OwnFin, Unfit, Windows};

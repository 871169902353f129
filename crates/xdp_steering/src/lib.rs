//! Steering: an XDP program that redirects the frames of hot flows to the AF_XDP socket of the stack that owns them,
//! and passes every other frame to the kernel, unchanged.
//!
//! [`Steering`] attaches the program to one interface and pins its objects, so that it outlives the process and the
//! next process can adopt it. [`Tables`] holds the flows, listeners and groups of each stack. [`Rehearsal`] is the same
//! program with its own tables, not attached: it tells the outcome of a frame. A **feed** is a set of rings into which the
//! program copies the packets of entries, beside the receiver that they have or instead of it ([`Tables::feed_create`]).
//!
//! Linux 5.15 or later. Attaching needs CAP_BPF and CAP_NET_ADMIN, on a thread inside the interface's namespace.
//!
//! The user of this crate must take care of the following, because a program in the driver cannot:
//!
//! * A redirected frame has one receiver. A steered multicast group is not seen by the kernel's sockets of this host,
//!   nor by a second stack; the entry has one owner, and a second one is refused.
//! * VLAN tags that the device strips are invisible here: switch that off (`ethtool -K DEV rxvlan off`) before frames
//!   of VLANs are steered, or a tagged frame looks like an untagged one.
//! * In generic mode frames come after GRO: switch that off (`ethtool -K DEV gro off`), or merged frames are too long
//!   for a socket and stay with the kernel.
//! * A socket must be set at the queue to which it is bound. The kernel drops frames redirected to a socket of another
//!   queue.
//! * Checksums are not verified here.
#![forbid(unsafe_code)]

mod bpffs;
mod counters;
mod entry;
mod feed;
mod handed_over;
mod layout;
mod maps;
mod ports;
mod program;
mod reason;
mod rehearsal;
mod stack;
mod stack_id;
mod steering;
mod tables;

pub use bpffs::{mount, unmount};
pub use counters::Counter;
pub use entry::{Flow, Group, Listener, MapEntry, Protocol, Vlan, VlanMatch};
pub use feed::{FeedEntry, FeedFacts, FeedId, is_map};
pub use layout::{
    DOORBELLS_MAX, FEED_CELLS, FEEDS_MAX, FLOWS_MAX, GROUPS_MAX, LISTENERS_MAX, QUEUES_MAX, RING_PACKET_BYTES_MAX,
    STACKS_MAX, ring_packet,
};
pub use reason::{Reason, Verdict};
pub use rehearsal::{Outcome, Rehearsal};
pub use stack::{StackFacts, StackOptions, Swept};
pub use stack_id::StackId;
pub use steering::{Attach, AttachMode, Facts, Steering};
pub use tables::{DEADLINE_DEFAULT, DEADLINE_MAX, Tables};

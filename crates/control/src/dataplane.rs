//! What the registry asks of whoever moves the frames: the real one attaches programs and binds sockets, the one of the
//! tests only remembers.

use sidestep_plane::message::{Entry, OpenStack, Refusal, StackFacts};
use sidestep_plane::table::Link;
use sidestep_sys::Problem;
use std::os::fd::OwnedFd;

/// A stack that has just been opened.
pub(crate) struct Opened {
    pub(crate) facts: StackFacts,
    /// The AF_XDP socket, the packet memory, the heartbeat: for the application alone.
    pub(crate) descriptors: [OwnedFd; 3],
}

/// Frames between interfaces and stacks. A refusal has changed nothing.
pub(crate) trait Dataplane {
    /// Opens stack number `stack` on an interface.
    fn open(&mut self, stack: u32, label: &str, link: &Link, wish: &OpenStack) -> Result<Opened, Refusal>;

    /// Takes over a stack that an earlier process of control opened; returns what is steered to it.
    fn adopt(&mut self, facts: &StackFacts) -> Result<Vec<Entry>, Problem>;

    /// Nothing more is taken over: what is left of the earlier process goes.
    fn settle(&mut self);

    /// Sends traffic to a stack; again changes nothing.
    fn steer(&mut self, stack: u32, entry: &Entry) -> Result<(), Refusal>;

    /// Gives traffic back to the kernel.
    fn unsteer(&mut self, stack: u32, entry: &Entry) -> Result<(), Refusal>;

    /// Closes a stack with all that is steered to it.
    fn close(&mut self, stack: u32) -> Result<(), Problem>;

    /// Looks after the interfaces, which may have changed; returns the stacks that have lost theirs.
    fn look(&mut self, links: &[Link]) -> Vec<(u32, Refusal)>;

    /// Detaches everything.
    fn end(&mut self) -> Result<(), Problem>;
}

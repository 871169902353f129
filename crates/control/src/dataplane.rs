//! What the registry asks of whoever moves the frames: the real one attaches programs and binds sockets, the one of the
//! tests only remembers.

use sidestep_plane::message::{Entry, OpenStack, Prepared, Refusal, StackFacts};
use sidestep_plane::table::Link;
use sidestep_sys::Problem;
use std::os::fd::OwnedFd;

/// A stack that has just been opened.
pub(crate) struct Opened {
    pub(crate) facts: StackFacts,
    /// For the application alone.
    pub(crate) heartbeat: OwnedFd,
}

/// A socket that its application is to map before it is bound.
pub(crate) struct Begun<P> {
    /// What control keeps of it; dropped, it is given up.
    pub(crate) kept: P,
    pub(crate) facts: Prepared,
    /// The AF_XDP socket, the packet memory: for the application alone.
    pub(crate) descriptors: [OwnedFd; 2],
}

/// Frames between interfaces and stacks. A refusal has changed nothing.
pub(crate) trait Dataplane {
    /// A socket that is not bound yet.
    type Kept;

    /// Makes the socket and the memory of a stack.
    fn begin(&mut self, link: &Link, wish: &OpenStack) -> Result<Begun<Self::Kept>, Refusal>;

    /// Binds the socket and opens stack number `stack` on an interface. Refused, the socket is given up.
    fn open(
        &mut self,
        stack: u32,
        label: &str,
        link: &Link,
        wish: &OpenStack,
        kept: Self::Kept,
    ) -> Result<Opened, Refusal>;

    /// Takes over a stack that an earlier process of control opened; returns what is steered to it.
    fn adopt(&mut self, facts: &StackFacts) -> Result<Vec<Entry>, Problem>;

    /// Nothing more is taken over: what is left of the earlier process goes.
    fn settle(&mut self);

    /// Sends traffic to a stack; again changes nothing. `links` are the host's.
    fn steer(&mut self, stack: u32, entry: &Entry, links: &[Link]) -> Result<(), Refusal>;

    /// Gives traffic back to the kernel.
    fn unsteer(&mut self, stack: u32, entry: &Entry) -> Result<(), Refusal>;

    /// Sends all TCP to these ports to a stack; again changes nothing.
    fn steer_ports(&mut self, stack: u32, ports: &[u16]) -> Result<(), Refusal>;

    /// Gives ports back to the kernel.
    fn unsteer_ports(&mut self, stack: u32, ports: &[u16]);

    /// The ports whose TCP goes to a stack, in order.
    fn ports(&self, stack: u32) -> Vec<u16>;

    /// Frames on the interface of a stack that went where they should not, by the steering program's names for it, as far as
    /// there were any.
    fn counted(&self, stack: u32) -> Vec<(String, u64)>;

    /// Closes a stack with all that is steered to it.
    fn close(&mut self, stack: u32) -> Result<(), Problem>;

    /// Looks after the interfaces, which may have changed; returns the stacks that have lost theirs.
    fn look(&mut self, links: &[Link]) -> Vec<(u32, Refusal)>;

    /// Detaches everything.
    fn end(&mut self) -> Result<(), Problem>;
}

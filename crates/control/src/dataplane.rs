//! What the registry asks of whoever moves the frames: the real one attaches programs and binds sockets, the one of the
//! tests only remembers.

use sidestep_control_api::message::{Entry, OpenStack, Prepared, ProgramLine, Refusal, StackFacts};
use sidestep_control_api::table::Link;
use sidestep_sys::Problem;
use std::io;
use std::os::fd::OwnedFd;

/// A stack that has just been opened.
pub(crate) struct Opened {
    pub(crate) facts: StackFacts,
    /// For the application alone.
    pub(crate) heartbeat: OwnedFd,
}

/// Sockets that their application is to map before they are bound.
pub(crate) struct Begun<P> {
    /// What control keeps of them; dropped, they are given up.
    pub(crate) kept: P,
    pub(crate) facts: Prepared,
    /// The packet memory: for the application alone.
    pub(crate) frames: OwnedFd,
}

/// How far opening has come.
pub(crate) enum Step<P> {
    /// Some queues are still to be bound.
    More(P),
    /// All that can be had are.
    Done(Box<Opened>),
}

/// Frames between interfaces and stacks. A refusal has changed nothing.
pub(crate) trait Dataplane {
    /// Sockets that are not all bound yet.
    type Kept;

    /// The queues of an interface that can be steered.
    fn queues(&self, link: &Link) -> u32;

    /// How many queues a wish may get.
    fn plan(&self, link: &Link, wish: &OpenStack) -> Result<u32, Refusal>;

    /// Attaches the program, and tells again how many queues the wish may get: virtio-net has more with a program than without.
    fn attach(&mut self, link: &Link, wish: &OpenStack) -> Result<u32, Refusal> {
        self.plan(link, wish)
    }

    /// Makes the memory of a stack and its sockets, one for each queue.
    fn begin(&mut self, link: &Link, wish: &OpenStack, queues: u32) -> Result<Begun<Self::Kept>, Refusal>;

    /// Copies of at most `count` sockets from number `from` on, for the application alone.
    fn sockets(kept: &Self::Kept, from: usize, count: usize) -> io::Result<Vec<OwnedFd>>;

    /// Binds some of the sockets; with the last one opens stack number `stack` on an interface. Refused, the sockets are given
    /// up.
    fn open(
        &mut self,
        stack: u32,
        label: &str,
        link: &Link,
        wish: &OpenStack,
        kept: Self::Kept,
    ) -> Result<Step<Self::Kept>, Refusal>;

    /// Takes over a stack that an earlier process of control opened; returns what is steered to it.
    fn adopt(&mut self, facts: &StackFacts) -> Result<Vec<Entry>, Problem>;

    /// Nothing more is taken over: what is left of the earlier process goes.
    fn settle(&mut self);

    /// Sends traffic to a stack; again changes nothing. `links` are the host's.
    fn steer(&mut self, stack: u32, entry: &Entry, links: &[Link]) -> Result<(), Refusal>;

    /// Why ports and groups that are steered to a stack cannot stay: they may come by queues that are not its own by now.
    fn elsewhere(&self, stack: u32) -> Option<String>;

    /// Gives traffic back to the kernel.
    fn unsteer(&mut self, stack: u32, entry: &Entry) -> Result<(), Refusal>;

    /// Sends all TCP to these ports, which control holds, to a stack; again if the kernel had sockets upon them meanwhile.
    fn steer_ports(&mut self, stack: u32, ports: &[u16]) -> Result<(), Refusal>;

    /// The ports whose TCP goes to a stack, in order.
    fn ports(&self, stack: u32) -> Vec<u16>;

    /// Interfaces that have the program, by number.
    fn programs(&self) -> Vec<ProgramLine>;

    /// Detaches from an interface that no stack is on.
    fn release(&mut self, interface: &str) -> Result<(), Refusal>;

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

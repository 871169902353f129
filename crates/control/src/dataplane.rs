//! The interface between the registry and the frame path: the real implementation attaches programs and binds sockets,
//! that of the tests only records the calls.

use sidestep_control_api::message::{Entry, FeedFacts, OpenStack, Prepared, ProgramLine, Refusal, StackFacts};
use sidestep_control_api::table::Link;
use sidestep_sys::Problem;
use std::io;
use std::os::fd::OwnedFd;

/// A newly opened stack.
pub(crate) struct Opened {
    pub(crate) facts: StackFacts,
    /// Sent to the application alone.
    pub(crate) heartbeat: OwnedFd,
}

/// Sockets that their application maps before they are bound.
pub(crate) struct Begun<P> {
    /// Control's part of them; dropping it discards them.
    pub(crate) kept: P,
    pub(crate) facts: Prepared,
    /// The packet memory, sent to the application alone.
    pub(crate) frames: OwnedFd,
}

/// The progress of opening.
pub(crate) enum Step<P> {
    /// Some queues are still to be bound.
    More(P),
    /// All available queues are bound.
    Done(Box<Opened>),
}

/// A newly opened feed.
pub(crate) struct OpenedFeed {
    pub(crate) facts: FeedFacts,
    /// The rings, which can be mapped read-only.
    pub(crate) map: OwnedFd,
    /// The map's number in the kernel.
    pub(crate) map_id: u32,
}

/// The rings that the program fills. A refusal has changed nothing.
pub(crate) trait FeedPlane {
    /// The number of rings that a feed on this interface gets, and the bytes of each.
    fn feed_size(&self, link: &Link) -> (u32, u64);

    /// Attaches the program to an interface if it is not yet, and makes feed number `feed` there.
    fn open_feed(&mut self, feed: u32, label: &str, link: &Link) -> Result<OpenedFeed, Refusal>;

    /// The rings of a feed, once more.
    fn feed_map(&self, feed: u32) -> Result<OwnedFd, Refusal>;

    /// Returns whether the memory of a feed is still there: as long as anybody has it open or mapped.
    fn is_held(&self, map_id: u32) -> bool;

    /// Removes a feed with its entries and doorbells; one that is gone is no error.
    fn close_feed(&mut self, feed: u32) -> Result<(), Problem>;

    /// Has packets copied into a feed; a new entry passes them on, and a repetition changes nothing.
    fn feed_add(&mut self, feed: u32, entry: &Entry, links: &[Link]) -> Result<(), Refusal>;

    /// Ends that.
    fn feed_take(&mut self, feed: u32, entry: &Entry) -> Result<(), Problem>;

    /// Sets whether the packets of an entry of feeds go nowhere else.
    fn set_drop(&mut self, interface: u32, entry: &Entry, drops: bool) -> Result<(), Problem>;

    /// Makes a doorbell: its number, the page of its flag, and its ring buffer.
    fn open_doorbell(&mut self, feed: u32) -> Result<(u32, OwnedFd, OwnedFd), Refusal>;

    /// Removes a doorbell.
    fn close_doorbell(&mut self, feed: u32, slot: u32) -> Result<(), Problem>;

    /// Feeds that have lost their interface, its program or its queues; to be called after [`Dataplane::look`].
    fn lost_feeds(&mut self, links: &[Link]) -> Vec<(u32, Refusal)>;

    /// Stores control's heartbeat on interfaces with feeds: without it every packet passes.
    fn beat(&self) -> Result<(), Problem>;
}

/// The path of frames between interfaces and stacks. A refusal has changed nothing.
pub(crate) trait Dataplane: FeedPlane {
    /// Sockets that are not all bound yet.
    type Kept;

    /// The number of an interface's queues that can be steered.
    fn queues(&self, link: &Link) -> u32;

    /// The number of queues that a request can get.
    fn plan(&self, link: &Link, wish: &OpenStack) -> Result<u32, Refusal>;

    /// Attaches the program, and returns the number of queues that the request can get then: virtio-net has more with a
    /// program than without.
    fn attach(&mut self, link: &Link, wish: &OpenStack) -> Result<u32, Refusal> {
        self.plan(link, wish)
    }

    /// Makes the memory of a stack and its sockets, one for each queue.
    fn begin(&mut self, link: &Link, wish: &OpenStack, queues: u32) -> Result<Begun<Self::Kept>, Refusal>;

    /// Duplicates at most `count` sockets from number `from` on, for the application alone.
    fn sockets(kept: &Self::Kept, from: usize, count: usize) -> io::Result<Vec<OwnedFd>>;

    /// Binds some of the sockets; with the last one it opens stack number `stack` on an interface. If refused, the
    /// sockets are discarded.
    fn open(
        &mut self,
        stack: u32,
        label: &str,
        link: &Link,
        wish: &OpenStack,
        kept: Self::Kept,
    ) -> Result<Step<Self::Kept>, Refusal>;

    /// Adopts a stack of an earlier control process; returns its entries.
    fn adopt(&mut self, facts: &StackFacts) -> Result<Vec<Entry>, Problem>;

    /// Ends the adoption: removes what is left of the earlier process.
    fn settle(&mut self);

    /// Steers traffic to a stack; a repetition changes nothing. `links` are the host's.
    fn steer(&mut self, stack: u32, entry: &Entry, links: &[Link]) -> Result<(), Refusal>;

    /// The reason why a stack's ports and groups cannot stay: their packets may now come by queues of others.
    fn elsewhere(&self, stack: u32) -> Option<String>;

    /// Gives traffic back to the kernel.
    fn unsteer(&mut self, stack: u32, entry: &Entry) -> Result<(), Refusal>;

    /// Gives each segment of a flow to the kernel if that has the connection, else to the stack.
    fn share_flow(&mut self, stack: u32, flow: &Entry) -> Result<(), Refusal>;

    /// Gives a flow to the kernel, whatever steers it to the stack.
    fn pass(&mut self, stack: u32, flow: &Entry) -> Result<(), Refusal>;

    /// Ends either of them, on the interface of this index.
    fn unpass(&mut self, interface: u32, flow: &Entry) -> Result<(), Problem>;

    /// The flows that the kernel has or shares, with the index of their interface.
    fn passed(&self) -> Vec<(u32, Entry)>;

    /// Has the segments to a port of a stack looked up among the kernel's sockets, until the port is steered again.
    fn share_port(&mut self, stack: u32, port: u16) -> Result<(), Refusal>;

    /// Steers all TCP to these ports, which control holds, to a stack; again if the kernel had sockets on them
    /// meanwhile.
    fn steer_ports(&mut self, stack: u32, ports: &[u16]) -> Result<(), Refusal>;

    /// The ports whose TCP is steered to a stack, in order.
    fn ports(&self, stack: u32) -> Vec<u16>;

    /// Interfaces with the program, by index.
    fn programs(&self) -> Vec<ProgramLine>;

    /// Detaches the program from an interface without stacks.
    fn release(&mut self, interface: &str) -> Result<(), Refusal>;

    /// Counters of misrouted frames on the interface of a stack, under the steering program's names, each that is not
    /// 0.
    fn counted(&self, stack: u32) -> Vec<(String, u64)>;

    /// Closes a stack and removes its entries.
    fn close(&mut self, stack: u32) -> Result<(), Problem>;

    /// Checks the interfaces, which may have changed; returns the stacks that have lost theirs.
    fn look(&mut self, links: &[Link]) -> Vec<(u32, Refusal)>;

    /// Detaches everything.
    fn end(&mut self) -> Result<(), Problem>;
}

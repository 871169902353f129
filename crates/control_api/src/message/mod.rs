//! The protocol between applications and control: one request, one reply, each a JSON packet on a Unix socket
//! (SOCK_SEQPACKET), with descriptors (SCM_RIGHTS). Control messages are not on the fast path; they are short, bounded,
//! and readable in a trace.
//!
//! ```text
//! application                                  control
//!   Hello {version, name}          ->
//!                                  <-   Welcome {version, pid}              + table
//!   OpenStack {interface, ...}     ->
//!                                  <-   Prepared {frames, rings, ...}       + frames, AF_XDP socket
//!   TakeSockets {from}             ->                                        of several queues alone
//!                                  <-   Sockets                             + AF_XDP sockets
//!   BindStack                      ->
//!                                  <-   Stack {id, queues, mode, ...}       + heartbeat, counters
//!   Steer {stack, entry}  + twin   ->
//!                                  <-   Done | Refused {code, thing, reason, next}
//!   ReservePorts {stack}           ->
//!                                  <-   Ports {first, members}
//!   HandOver {stack, connection} + socket, bytes, token ->
//!                                  <-   Done | Refused                       the socket is the connection
//!                                  <-   Ended {stack, local, remote}         number 0: that one has ended
//!                                  <-   HandOverTwin {cookie} | HandOverAll  number 0: for others
//!   OpenFeed {interface, name}     ->
//!                                  <-   Feed {feed, rings, cells, ...}      + the map of the rings
//!   SteerFeed {feed, entry, verdict} + twin, or none ->
//!                                  <-   FeedSteered {verdict, reason} | Refused
//!   OpenDoorbell {feed}            ->
//!                                  <-   Doorbell                            + flag page, ring buffer
//!                                  <-   FeedVerdict {...} | FeedRevoked     number 0: it has changed
//!   Stay                           ->
//!                                  <-   Done
//!   ...                            <-   Revoked {stack, ...}                number 0: nobody asked
//!                                  <-   IcmpError {kind, local, ...}           number 0, too
//! ```
//!
//! A connection owns the stacks that it opened. When it ends, they are closed after [`GRACE`], so that an application
//! that lost control to a restart can connect again and resume ([`Request::ResumeStack`]).
//!
//! A stack is opened in two steps, because Linux before 6.4 allows the rings of an AF_XDP socket to be mapped only
//! until it is bound. An application that never requests the second step loses the first after [`BIND_WAIT`].

mod channel;
mod entry;
mod feed;
mod hand_over;
mod icmp;
mod ports;
mod queues;
mod refusal;
mod stack;

pub use channel::{Channel, Fault, Incoming};
pub use entry::{Entry, Protocol};
pub use feed::{FEED_NAME_BYTES_MAX, FeedFacts, FeedLine, FeedRevoked, FeedVerdict, Verdict};
#[cfg(test)]
pub(crate) use hand_over::tests::sound;
pub use hand_over::{BUFFER_BYTES_MAX, HandOver, QUEUE_BYTES_MAX};
pub use icmp::{IcmpError, IcmpErrorKind, Unreachable};
pub use ports::{BLOCK_PORTS, PortBlock};
pub use queues::{ELSEWHERE_MAX, Missing, QUEUES_MAX, QueueFacts, Queues, miss};
pub use refusal::{Code, Refusal};
pub use sidestep_sys::printable::ranges;
pub use stack::{BusyPoll, Downgrade, Mode, OpenStack, Prepared, RingSizes, StackFacts};

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the protocol. Both sides must have the same: they are of one release.
pub const VERSION: u32 = 7;

/// The longest packet, bytes: the facts of a stack of 64 queues. A page of a list is cut to fit.
pub const PACKET_BYTES_MAX: usize = 8192;

/// The most descriptors of one packet. A stack of more queues fetches its sockets in groups of this size.
pub const DESCRIPTORS_MAX: usize = 4;

/// The longest name of an application, bytes; the subject of a report may be twice as long.
pub const NAME_BYTES_MAX: usize = 64;

/// The time for which control keeps the stacks of a connection that ended while its process lives.
pub const GRACE: Duration = Duration::from_secs(2);

/// The time for which control keeps a socket until its application has mapped the rings and requests the rest: as long
/// as an application waits for a reply, because touching the frames takes about a second per gibibyte.
pub const BIND_WAIT: Duration = Duration::from_secs(10);

/// The time for which a restarted control keeps its predecessor's stacks until their owners reconnect.
pub const RESTART_GRACE: Duration = Duration::from_secs(10);

/// The time for which an ending control waits for applications to hand their connections over, and a process for the
/// connection whose twin it has.
pub const HAND_OVER_WAIT: Duration = Duration::from_secs(2);

/// A message with the number that the reply repeats. 0 is for unsolicited messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered<T> {
    /// The number, chosen by the requesting side.
    pub number: u32,
    /// The message.
    pub body: T,
}

/// A request of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Request {
    /// The greeting, first and once.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The application's name, for display.
        name: String,
    },
    /// Begins to open a stack. Discards a stack that this connection began before and did not bind.
    OpenStack(OpenStack),
    /// Fetches further sockets of the stack that was begun, at most [`DESCRIPTORS_MAX`].
    TakeSockets {
        /// The number of sockets received so far.
        from: u32,
    },
    /// The rings are mapped: binds the sockets and opens the stack that was begun. If refused, the stack is discarded.
    /// After [`Reply::Binding`] the request is to be repeated, because binding to a busy device takes tenths of a
    /// second per queue.
    BindStack,
    /// Resumes a stack of this very process after control or the connection was lost. The page of its counters is sent
    /// with it; nothing is sent back, as the process still has the rest.
    ResumeStack {
        /// Its number.
        stack: u32,
    },
    /// Steers traffic to a stack. The kernel socket of the same address and port is sent with it.
    Steer {
        /// The stack.
        stack: u32,
        /// The traffic.
        entry: Entry,
    },
    /// Gives traffic back to the kernel.
    Unsteer {
        /// The stack.
        stack: u32,
        /// The traffic.
        entry: Entry,
    },
    /// Reserves another block of local ports for outgoing connections of a stack: control holds them in the kernel, so
    /// that no other program gets them, and steers all TCP to them to the stack. They are the stack's until it is
    /// closed.
    ReservePorts {
        /// The stack.
        stack: u32,
    },
    /// Hands a live TCP connection of a stack over to the kernel. An unconnected TCP socket, bound to the local end or to nothing,
    /// a file with the bytes of its queues, and a token ([`crate::token`]) are sent with it. The socket becomes the connection, and the
    /// kernel gets its segments. The stack has stopped: no segment of the connection leaves it from the record on.
    ///
    /// Control takes the token before it changes anything. An application that has stopped waiting takes it first, and goes on; where
    /// control has it, the application waits for the reply or the end of control: the stack cannot go on beside the kernel.
    HandOver {
        /// The stack.
        stack: u32,
        /// The record.
        connection: HandOver,
    },
    /// Requests the hand-over of an accelerated connection whose kernel twin this process has, too: a child of fork(2), a
    /// receiver of SCM_RIGHTS. A descriptor of the twin is sent with it. The reply comes when the connection is the kernel's.
    HandOverTwin,
    /// The reply of an owner to [`Reply::HandOverTwin`] for a connection that cannot be handed over.
    TwinStays {
        /// The twin's cookie (SO_COOKIE).
        cookie: u64,
        /// The reason.
        code: Code,
    },
    /// Has an application hand over all of its connections, and use the kernel from then on. For its user, and root.
    ReleaseProcess {
        /// The process.
        pid: u32,
    },
    /// Opens a feed on an interface. Clients of one user that give the same name share it.
    OpenFeed {
        /// Name of the interface, or its index.
        interface: String,
        /// The name, of at most [`FEED_NAME_BYTES_MAX`] bytes; if it is empty, nobody else gets the feed.
        #[serde(default)]
        name: String,
    },
    /// Has the packets of an entry copied into a feed; a repetition changes the verdict and the proof. The kernel socket that
    /// receives them is sent with it; without one it is a tap, which is for root and for named groups.
    SteerFeed {
        /// The feed.
        feed: u32,
        /// The traffic.
        entry: Entry,
        /// What is to happen to the packets then.
        verdict: Verdict,
    },
    /// Ends that.
    UnsteerFeed {
        /// The feed.
        feed: u32,
        /// The traffic.
        entry: Entry,
    },
    /// Requests a doorbell of a feed, for a reader that sleeps.
    OpenDoorbell {
        /// The feed.
        feed: u32,
    },
    /// Closes a feed, with this client's entries and doorbells of it.
    CloseFeed {
        /// The feed.
        feed: u32,
    },
    /// Makes the kernel resolve, or confirm, a neighbour's Ethernet address. The answer appears in the table, later.
    Resolve {
        /// The neighbour.
        address: std::net::IpAddr,
        /// The index of the interface.
        interface: u32,
    },
    /// Reports to control, for `sidestep ps`, that a socket stays with the kernel, and the reason.
    Report {
        /// The unaccelerated socket, in the application's words.
        subject: String,
        /// The reason.
        code: Code,
    },
    /// Keeps a control that ends when it is not used (`sidestep control --end-unused`) until the asking process has ended,
    /// connected or not.
    Stay,
    /// Requests one page of the list of clients.
    List {
        /// The start of the page: 0, then `next` of the last page.
        from: u32,
    },
    /// Requests one page of a client's entries and refusals.
    Inspect {
        /// The client's number from the list.
        client: u32,
        /// The start of the page.
        from: u32,
    },
    /// Requests one page of the list of interfaces with the steering program.
    Programs {
        /// The start of the page: 0, then `next` of the last page.
        from: u32,
    },
    /// Detaches the program from an interface without stacks. For root alone.
    Release {
        /// Its name.
        interface: String,
    },
    /// Requests an application's counters.
    Counters {
        /// The stack.
        stack: u32,
    },
    /// Closes a stack.
    CloseStack {
        /// Its number.
        stack: u32,
    },
    /// Closes the whole connection at once, without [`GRACE`].
    Bye,
}

/// A reply of control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Reply {
    /// The reply to a greeting, with the table.
    Welcome {
        /// [`VERSION`].
        version: u32,
        /// Control's process.
        pid: u32,
    },
    /// The reply to [`Request::OpenStack`], with frames and an unbound socket.
    Prepared(Prepared),
    /// The reply to [`Request::TakeSockets`], with at least one socket.
    Sockets,
    /// The reply to [`Request::BindStack`] if some queues are not bound yet; repeat the request.
    Binding,
    /// The reply to [`Request::BindStack`], with heartbeat and counters, and to [`Request::ResumeStack`], without.
    Stack(StackFacts),
    /// The reply to [`Request::ReservePorts`].
    Ports(PortBlock),
    /// The reply to [`Request::OpenFeed`], with the map of the rings.
    Feed(FeedFacts),
    /// The reply to [`Request::SteerFeed`].
    FeedSteered {
        /// The verdict in force.
        verdict: Verdict,
        /// Why it is not the one asked for, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The reply to [`Request::OpenDoorbell`], with flag page and ring buffer.
    Doorbell,
    /// The request was fulfilled.
    Done,
    /// The request was refused, and nothing has changed.
    Refused(Refusal),
    /// A page of the list.
    Listing {
        /// Clients.
        clients: Vec<ClientLine>,
        /// The start of the next page; `None` at the end.
        next: Option<u32>,
    },
    /// A page of a client's details.
    Details {
        /// Lines.
        lines: Vec<DetailLine>,
        /// The start of the next page; `None` at the end.
        next: Option<u32>,
    },
    /// A page of the list of interfaces.
    Programs {
        /// Interfaces.
        programs: Vec<ProgramLine>,
        /// The start of the next page; `None` at the end.
        next: Option<u32>,
    },
    /// An application's counters, and the steering program's counters of frames on its stack's interface that did not
    /// reach their owner, each that is not 0.
    Counters {
        /// Name and value.
        values: Vec<(String, u64)>,
    },
    /// Number 0: a stack has lost its interface, program or queue. The kernel has its traffic; the stack is closed.
    Revoked {
        /// The stack.
        stack: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// Number 0: traffic was given back to the kernel, because no socket of the owner held its port any more.
    GivenBack {
        /// The stack.
        stack: u32,
        /// The traffic.
        entry: Entry,
    },
    /// Number 0: a feed has lost its interface or program. No packet comes any more; the feed is closed.
    FeedRevoked(FeedRevoked),
    /// Number 0: the verdict in force of an entry has changed, or the entry was removed: no socket of the client proved the right to
    /// it any more.
    FeedVerdict(FeedVerdict),
    /// Number 0: an ICMP error about a packet that bypassed the kernel.
    IcmpError(IcmpError),
    /// Number 0: a connection that was handed over has ended in the kernel. Its tuple may be used again.
    Ended {
        /// The stack that had it.
        stack: u32,
        /// This host's end.
        local: std::net::SocketAddr,
        /// The other end.
        remote: std::net::SocketAddr,
    },
    /// Number 0: another process that has the twin with this cookie (SO_COOKIE) needs the connection. Its owner hands it over;
    /// others have nothing to do.
    HandOverTwin {
        /// The cookie.
        cookie: u64,
    },
    /// Number 0: all connections are to be handed over; the sockets of this program are the kernel's from now on. Where control
    /// ends it waits for that, up to [`HAND_OVER_WAIT`].
    HandOverAll {
        /// The program is not to use another stack, either.
        for_good: bool,
    },
}

/// A client in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLine {
    /// Its number, for [`Request::Inspect`].
    pub client: u32,
    /// Its process; `None` for one that control's pid namespace cannot see.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: u32,
    /// Its name for itself.
    pub name: String,
    /// True if it is connected. A disconnected client is kept for a moment, in case it returns.
    pub is_connected: bool,
    /// Its stacks.
    pub stacks: Vec<StackLine>,
    /// Its feeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<FeedLine>,
    /// The number of sockets that were refused, or that it reported as staying with the kernel.
    pub refused: u64,
}

/// A stack in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackLine {
    /// Its number.
    pub id: u32,
    /// Name of the interface.
    pub interface: String,
    /// Its queues.
    pub queues: Vec<u32>,
    /// The number of further queues that the interface receives by.
    pub elsewhere: u32,
    /// Its mode: of several queues, the slowest.
    pub mode: Mode,
    /// The number of its entries.
    pub entries: u32,
    /// The number of local ports reserved for its outgoing connections.
    pub ports: u32,
}

/// An interface with the steering program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramLine {
    /// Its name.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// The kernel's id of the program.
    pub id: u32,
    /// True if it runs in generic mode.
    pub is_generic: bool,
    /// The number of stacks on it.
    pub stacks: u32,
    /// The number of feeds on it.
    #[serde(default)]
    pub feeds: u32,
}

/// One line of a client's details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DetailLine {
    /// Traffic that bypasses the kernel.
    Accelerated {
        /// The stack that receives it.
        stack: u32,
        /// The traffic.
        entry: Entry,
    },
    /// Traffic that stays with the kernel.
    Kernel {
        /// The traffic, in words.
        subject: String,
        /// The reason.
        code: Code,
        /// The detailed reason.
        reason: String,
        /// The number of times.
        times: u64,
        /// The seconds since the last time.
        last_s: u64,
    },
    /// Traffic that is copied into a feed.
    Fed(FeedVerdict),
    /// Queues that a stack requested and did not get.
    WithoutQueues {
        /// The stack.
        stack: u32,
        /// The queues, and the reason.
        missing: Missing,
    },
    /// The reason why a stack is not in the mode that it requested.
    Downgraded {
        /// The stack.
        stack: u32,
        /// The step.
        downgrade: Downgrade,
    },
}

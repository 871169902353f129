//! The protocol between applications and control: one request, one reply, each a packet of JSON on a Unix socket of
//! packets (SOCK_SEQPACKET), descriptors beside it (SCM_RIGHTS). Control messages are not hot; they are short, bounded, and
//! readable in a trace.
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
//!   ...                            <-   Revoked {stack, ...}                number 0: nobody asked
//!                                  <-   IcmpError {kind, local, ...}           number 0, too
//! ```
//!
//! A connection owns the stacks that it opened. When it ends, they are closed after [`GRACE`], so that an application that
//! lost control to a restart can connect again and go on ([`Request::ResumeStack`]).
//!
//! A stack is opened in two steps, as Linux before 6.4 lets the rings of an AF_XDP socket be mapped only until it is bound. An
//! application that never asks for the second one loses the first after [`BIND_WAIT`].

mod channel;
mod entry;
mod icmp;
mod ports;
mod queues;
mod refusal;
mod stack;

pub use channel::{Channel, Fault, Incoming};
pub use entry::{Entry, Protocol};
pub use icmp::{IcmpError, IcmpErrorKind, Unreachable};
pub use ports::{BLOCK_PORTS, PortBlock};
pub use queues::{ELSEWHERE_MAX, Missing, QUEUES_MAX, QueueFacts, Queues, miss};
pub use refusal::{Code, Refusal};
pub use sidestep_sys::printable::ranges;
pub use stack::{BusyPoll, Downgrade, Mode, OpenStack, Prepared, RingSizes, StackFacts};

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the protocol. Both sides must have the same: they come from one release.
pub const VERSION: u32 = 5;

/// Longest packet, bytes: the facts of a stack of 64 queues. A page of a list is cut to fit.
pub const PACKET_BYTES_MAX: usize = 8192;

/// Most descriptors beside one packet. A stack of more queues fetches its sockets by so many at a time.
pub const DESCRIPTORS_MAX: usize = 4;

/// Longest name that an application gives itself, bytes; also of what it reports not to be accelerated, twice as long.
pub const NAME_BYTES_MAX: usize = 64;

/// How long control keeps the stacks of a connection that ended while its process lives.
pub const GRACE: Duration = Duration::from_secs(2);

/// How long control keeps a socket for its application to map the rings of it and ask for the rest: as long as an application
/// waits for an answer, as touching the frames takes about a second for each gibibyte.
pub const BIND_WAIT: Duration = Duration::from_secs(10);

/// How long a restarted control keeps the stacks of its predecessor for their owners to come back.
pub const RESTART_GRACE: Duration = Duration::from_secs(10);

/// A message with the number that the reply repeats. 0 is for what nobody asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered<T> {
    /// Chosen by the side that asks.
    pub number: u32,
    /// The message.
    pub body: T,
}

/// What an application asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Request {
    /// The greeting, first and once.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// What the application calls itself, for people.
        name: String,
    },
    /// Begins to open a stack. One that was begun before by this connection, and not bound, is given up.
    OpenStack(OpenStack),
    /// Fetches further sockets of the stack that was begun, at most [`DESCRIPTORS_MAX`].
    TakeSockets {
        /// How many have come.
        from: u32,
    },
    /// The rings are mapped: binds the sockets and opens the stack that was begun. Refused, it is given up.
    /// [`Reply::Binding`] asks for the same again, as to bind to a busy device takes tenths of a second for each queue.
    BindStack,
    /// Takes up a stack of this very process again, after control or the connection was lost. Its page of counters comes
    /// along; nothing comes back, as the process still has the rest.
    ResumeStack {
        /// Its number.
        stack: u32,
    },
    /// Sends traffic to a stack. The kernel's socket of the same address and port comes along.
    Steer {
        /// The stack.
        stack: u32,
        /// Which traffic.
        entry: Entry,
    },
    /// Gives traffic back to the kernel.
    Unsteer {
        /// The stack.
        stack: u32,
        /// Which traffic.
        entry: Entry,
    },
    /// Reserves another block of local ports for outgoing connections of a stack: control holds them in the kernel, so that
    /// nobody else gets them, and sends all TCP to them to the stack. They are the stack's until it is closed.
    ReservePorts {
        /// The stack.
        stack: u32,
    },
    /// Makes the kernel ask for, or confirm, a neighbour's Ethernet address. The answer is in the table, later.
    Resolve {
        /// The neighbour.
        address: std::net::IpAddr,
        /// Number of the interface.
        interface: u32,
    },
    /// Tells control, for `sidestep ps`, that a socket stays with the kernel and why.
    Report {
        /// What is not accelerated, in the application's words.
        subject: String,
        /// Why.
        code: Code,
    },
    /// Asks for one page of the list of clients.
    List {
        /// Where the page begins: 0, then what the page before said.
        from: u32,
    },
    /// Asks for one page of what a client has steered and what it was refused.
    Inspect {
        /// The client's number out of the list.
        client: u32,
        /// Where the page begins.
        from: u32,
    },
    /// Asks for one page of the list of interfaces that have the steering program.
    Programs {
        /// Where the page begins: 0, then what the page before said.
        from: u32,
    },
    /// Detaches the program from an interface that no stack is on. For root alone.
    Release {
        /// Its name.
        interface: String,
    },
    /// Asks what an application has counted.
    Counters {
        /// The stack.
        stack: u32,
    },
    /// Closes a stack.
    CloseStack {
        /// Its number.
        stack: u32,
    },
    /// Closes everything of this connection at once, without [`GRACE`].
    Bye,
}

/// What control answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Reply {
    /// To a greeting; the table comes along.
    Welcome {
        /// [`VERSION`].
        version: u32,
        /// Control's process.
        pid: u32,
    },
    /// To [`Request::OpenStack`]; frames and a socket that is not bound yet come along.
    Prepared(Prepared),
    /// To [`Request::TakeSockets`]; at least one comes along.
    Sockets,
    /// To [`Request::BindStack`]: some queues are still to come; ask again.
    Binding,
    /// To [`Request::BindStack`]; heartbeat and counters come along. To [`Request::ResumeStack`] without.
    Stack(StackFacts),
    /// To [`Request::ReservePorts`].
    Ports(PortBlock),
    /// It is done.
    Done,
    /// It is not, and nothing has changed.
    Refused(Refusal),
    /// A page of the list.
    Listing {
        /// Clients.
        clients: Vec<ClientLine>,
        /// Where the next page begins; `None` at the end.
        next: Option<u32>,
    },
    /// A page of a client's details.
    Details {
        /// Lines.
        lines: Vec<DetailLine>,
        /// Where the next page begins; `None` at the end.
        next: Option<u32>,
    },
    /// A page of the list of interfaces.
    Programs {
        /// Interfaces.
        programs: Vec<ProgramLine>,
        /// Where the next page begins; `None` at the end.
        next: Option<u32>,
    },
    /// What an application has counted, and frames of its stack's interface that the steering program could not give to whom
    /// they were for, as far as it is not 0.
    Counters {
        /// Name and value.
        values: Vec<(String, u64)>,
    },
    /// Number 0: a stack has lost its interface, program or queue. The kernel has its traffic; the stack is closed.
    Revoked {
        /// The stack.
        stack: u32,
        /// Why.
        refusal: Refusal,
    },
    /// Number 0: traffic was given back to the kernel, as no socket of the owner held its port any more.
    GivenBack {
        /// The stack.
        stack: u32,
        /// Which traffic.
        entry: Entry,
    },
    /// Number 0: ICMP has told something of a packet that went past the kernel.
    IcmpError(IcmpError),
}

/// A client in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLine {
    /// Its number, for [`Request::Inspect`].
    pub client: u32,
    /// Its process; `None` for one that control's pid namespace does not show.
    pub pid: Option<u32>,
    /// Its user.
    pub uid: u32,
    /// What it calls itself.
    pub name: String,
    /// Whether its connection stands. One without is kept for a moment, in case it comes back.
    pub is_connected: bool,
    /// Its stacks.
    pub stacks: Vec<StackLine>,
    /// Sockets it was refused, or that it said stay with the kernel.
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
    /// How many queues the interface receives by beside them.
    pub elsewhere: u32,
    /// Its mode: of several queues the slowest.
    pub mode: Mode,
    /// Rules that send traffic to it.
    pub entries: u32,
    /// Local ports that are reserved for its outgoing connections.
    pub ports: u32,
}

/// An interface that has the steering program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramLine {
    /// Its name.
    pub interface: String,
    /// Its number.
    pub index: u32,
    /// The kernel's number of the program.
    pub id: u32,
    /// Whether it runs in generic mode.
    pub is_generic: bool,
    /// Stacks on it.
    pub stacks: u32,
}

/// One line of a client's details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DetailLine {
    /// Traffic that goes past the kernel.
    Accelerated {
        /// To this stack.
        stack: u32,
        /// Which.
        entry: Entry,
    },
    /// Traffic that does not.
    Kernel {
        /// Which, in words.
        subject: String,
        /// Why not.
        code: Code,
        /// The reason at length.
        reason: String,
        /// How often.
        times: u64,
        /// When last: so many seconds ago.
        last_s: u64,
    },
    /// Queues that a stack asked for and did not get.
    WithoutQueues {
        /// The stack.
        stack: u32,
        /// Which, and why.
        missing: Missing,
    },
    /// Why a stack is not in the mode it asked for.
    Downgraded {
        /// The stack.
        stack: u32,
        /// The step.
        downgrade: Downgrade,
    },
}

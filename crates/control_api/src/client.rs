//! The application's end of the connection: sends requests, waits for replies, takes the descriptors.

mod feed;
mod hand_over;
mod notice;

pub use feed::Feed;
pub use notice::Notice;

use crate::counters::Counters;
use crate::heartbeat::Heartbeat;
use crate::message::{
    Channel, ClientLine, Code, DetailLine, Entry, Fault, NAME_BYTES_MAX, Numbered, OpenStack, PortBlock, ProgramLine,
    QUEUES_MAX, Refusal, Reply, Request, StackFacts, VERSION,
};
use crate::place;
use crate::table::Reader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_sys::Problem;
use sidestep_sys::xdp::{Rings, Umem};
use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit of a reply. Binding an AF_XDP socket to a busy NIC takes hundreds of milliseconds.
const REPLY_WAIT: Duration = Duration::from_secs(10);

/// The most unread notices: more than a connection has stacks, plus a short burst of errors.
const NOTICES_MAX: usize = 64;

/// The most pages of a list; a longer one does not end.
const PAGES_MAX: usize = 4096;

/// The reason why a request failed.
#[derive(Debug)]
pub enum Error {
    /// Control has refused; nothing has changed.
    Refused(Refusal),
    /// Control is unreachable: connect again and resume, or stay with the kernel.
    Lost(Problem),
}

impl Error {
    /// The reason as a code.
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(refusal) => refusal.code,
            Self::Lost(_) => Code::NoControl,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::Lost(problem) => write!(f, "{}", problem.brief()),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Lost(problem) => problem,
        }
    }
}

/// A stack of this process.
#[derive(Debug)]
pub struct Stack {
    /// The facts of the opened stack; [`StackFacts::socket_facts`] is for the maker of frame links.
    pub facts: StackFacts,
    /// The AF_XDP sockets, bound and unused, each with its rings: in the order of [`StackFacts::queues`].
    pub sockets: Vec<(OwnedFd, Rings)>,
    /// The packet memory.
    pub frames: Umem,
    /// The heartbeat, to be written while the stack is polled; without it the kernel gets the traffic.
    pub heartbeat: Heartbeat,
    /// Counters that `sidestep ps` shows.
    pub counters: Counters,
    /// The page of the counters, for [`Client::resume_stack`].
    pub counters_page: OwnedFd,
}

/// A connection to control.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// Of the last request.
    number: u32,
    reply_wait: Duration,
    table: Option<Reader>,
    control_pid: u32,
    notices: VecDeque<Notice>,
}

impl Client {
    /// Connects to the control of this network namespace (or `$SIDESTEP_CONTROL`) and sends the greeting; `name` is for
    /// display.
    pub fn connect(name: &str) -> Result<Self, Error> {
        Self::connect_to(&place::socket().map_err(Error::Lost)?, name)
    }

    /// Connects to the control at `path`.
    pub fn connect_to(path: &Path, name: &str) -> Result<Self, Error> {
        let channel = Channel::connect(path).map_err(|error| {
            // The kernel refuses users who are not on control's list.
            if error.kind() == std::io::ErrorKind::PermissionDenied {
                let thing = format!("user {} cannot bypass the kernel", sidestep_sys::process::effective_uid());
                let refusal = Refusal::plain(Code::NotAllowed, thing);
                return Error::Refused(
                    refusal.next("have the administrator add it: group sidestep, or sidestep control --allow-uid"),
                );
            }
            Error::Lost(
                Problem::failed(format!("cannot reach the control plane at {}", path.display()), error)
                    .next("start it as root in this network namespace: sidestep control"),
            )
        })?;
        let mut client = Self::over(channel);
        client.greet(name)?;
        Ok(client)
    }

    fn over(channel: Channel) -> Self {
        let (table, notices) = (None, VecDeque::new());
        Self { channel, number: 0, reply_wait: REPLY_WAIT, table, control_pid: 0, notices }
    }

    fn greet(&mut self, name: &str) -> Result<(), Error> {
        let end = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        let hello = Request::Hello { version: VERSION, name: name[..end].to_owned() };
        let (reply, descriptors) = self.ask(hello, None)?;
        let Reply::Welcome { version: VERSION, pid } = reply else { return Err(strange(&reply)) };
        let [table] = counted(descriptors)?;
        self.table = Some(Reader::open(table.as_fd()).map_err(Error::Lost)?);
        self.control_pid = pid;
        Ok(())
    }

    /// Takes the view of the shared tables; `None` the second time. It stays valid after the connection ends, and
    /// current as long as control lives.
    pub fn take_table(&mut self) -> Option<Reader> {
        self.table.take()
    }

    /// Control's process.
    pub fn control_pid(&self) -> u32 {
        self.control_pid
    }

    /// Opens a stack: maps what control has prepared, then asks control to bind it. If this process cannot map it, the
    /// stack is refused, and control discards it.
    pub fn open_stack(&mut self, wish: OpenStack) -> Result<Stack, Error> {
        let thing = format!("cannot open a stack on {}", wish.interface);
        let (reply, descriptors) = self.ask(Request::OpenStack(wish), None)?;
        let Reply::Prepared(prepared) = reply else { return Err(strange(&reply)) };
        let [frames, first] = counted(descriptors)?;
        let descriptors = self.take_sockets(first, prepared.sockets)?;
        let refused = |problem: Problem| Error::Refused(Refusal::of(Code::Kernel, thing.clone(), &problem));
        let frames = Umem::open(frames, prepared.geometry()).map_err(refused)?;
        let mut sockets = Vec::with_capacity(descriptors.len());
        for socket in descriptors {
            let rings = Rings::map(socket.as_fd(), prepared.rings.into()).map_err(refused)?;
            sockets.push((socket, rings));
        }
        let (facts, descriptors) = self.bind_stack()?;
        if facts.queues.is_empty() || facts.queues.len() > sockets.len() {
            return Err(lost(Fault::Malformed(format!("{} queues, {} sockets", facts.queues.len(), sockets.len()))));
        }
        // The sockets for which there was no queue.
        sockets.truncate(facts.queues.len());
        let [heartbeat, counters_page] = counted(descriptors)?;
        let counters = Counters::open(counters_page.as_fd()).map_err(Error::Lost)?;
        let heartbeat = Heartbeat::open(heartbeat.as_fd()).map_err(Error::Lost)?;
        Ok(Stack { facts, sockets, frames, heartbeat, counters, counters_page })
    }

    /// Asks control to bind the sockets, a few queues at a time.
    fn bind_stack(&mut self) -> Result<(StackFacts, Vec<OwnedFd>), Error> {
        for _ in 0..=QUEUES_MAX {
            match self.ask(Request::BindStack, None)? {
                (Reply::Stack(facts), descriptors) => return Ok((facts, descriptors)),
                (Reply::Binding, _) => {}
                (reply, _) => return Err(strange(&reply)),
            }
        }
        Err(strange(&Reply::Binding))
    }

    /// Fetches the sockets of a stack that was begun, a few at a time.
    fn take_sockets(&mut self, first: OwnedFd, count: u32) -> Result<Vec<OwnedFd>, Error> {
        let count = count.min(QUEUES_MAX) as usize;
        let mut sockets = vec![first];
        while sockets.len() < count {
            let (reply, more) = self.ask(Request::TakeSockets { from: sockets.len() as u32 }, None)?;
            if reply != Reply::Sockets || more.is_empty() || sockets.len() + more.len() > count {
                return Err(strange(&reply));
            }
            sockets.extend(more);
        }
        Ok(sockets)
    }

    /// Resumes a stack that this process opened on an earlier connection, with the page of its counters. Its steering
    /// entries are still in force; steering them again gives a restarted control the kernel sockets to hold.
    pub fn resume_stack(&mut self, stack: u32, counters_page: BorrowedFd<'_>) -> Result<StackFacts, Error> {
        match self.ask(Request::ResumeStack { stack }, Some(counters_page))?.0 {
            Reply::Stack(facts) => Ok(facts),
            reply => Err(strange(&reply)),
        }
    }

    /// Steers traffic to a stack. `twin` is the kernel socket bound to the same address and port; control keeps a
    /// descriptor of it as long as the entry exists, so the port stays taken.
    pub fn steer(&mut self, stack: u32, entry: Entry, twin: BorrowedFd<'_>) -> Result<(), Error> {
        self.expect_done(Request::Steer { stack, entry }, Some(twin))
    }

    /// Gives traffic back to the kernel.
    pub fn unsteer(&mut self, stack: u32, entry: Entry) -> Result<(), Error> {
        self.expect_done(Request::Unsteer { stack, entry }, None)
    }

    /// Reserves another block of local ports for a stack's outgoing connections.
    pub fn reserve_ports(&mut self, stack: u32) -> Result<PortBlock, Error> {
        match self.ask(Request::ReservePorts { stack }, None)?.0 {
            Reply::Ports(block) => Ok(block),
            reply => Err(strange(&reply)),
        }
    }

    /// Makes the kernel resolve a neighbour; the answer appears in the tables.
    pub fn resolve(&mut self, address: IpAddr, interface: u32) -> Result<(), Error> {
        self.expect_done(Request::Resolve { address, interface }, None)
    }

    /// Reports to control, for `sidestep ps`, that a socket stays with the kernel.
    pub fn report(&mut self, subject: &str, code: Code) -> Result<(), Error> {
        self.expect_done(Request::Report { subject: subject.to_owned(), code }, None)
    }

    /// Keeps a control that ends when it is not used until this process has ended.
    pub fn stay(&mut self) -> Result<(), Error> {
        self.expect_done(Request::Stay, None)
    }

    /// The counters of some application's stack, and those of the steering program on its interface that should be 0:
    /// name and value of each that is not zero.
    pub fn counters(&mut self, stack: u32) -> Result<Vec<(String, u64)>, Error> {
        match self.ask(Request::Counters { stack }, None)?.0 {
            Reply::Counters { values } => Ok(values),
            reply => Err(strange(&reply)),
        }
    }

    /// Closes a stack.
    pub fn close_stack(&mut self, stack: u32) -> Result<(), Error> {
        self.expect_done(Request::CloseStack { stack }, None)
    }

    /// Closes the whole connection at once.
    pub fn bye(mut self) -> Result<(), Error> {
        self.expect_done(Request::Bye, None)
    }

    /// All clients of control.
    pub fn clients(&mut self) -> Result<Vec<ClientLine>, Error> {
        self.pages(
            |from| Request::List { from },
            |reply| match reply {
                Reply::Listing { clients, next } => Ok((clients, next)),
                reply => Err(strange(&reply)),
            },
        )
    }

    /// The interfaces with the steering program attached.
    pub fn programs(&mut self) -> Result<Vec<ProgramLine>, Error> {
        self.pages(
            |from| Request::Programs { from },
            |reply| match reply {
                Reply::Programs { programs, next } => Ok((programs, next)),
                reply => Err(strange(&reply)),
            },
        )
    }

    /// Detaches the program from an interface without stacks; for root.
    pub fn release(&mut self, interface: &str) -> Result<(), Error> {
        self.expect_done(Request::Release { interface: interface.to_owned() }, None)
    }

    /// The entries and refusals of one client.
    pub fn details(&mut self, client: u32) -> Result<Vec<DetailLine>, Error> {
        self.pages(
            |from| Request::Inspect { client, from },
            |reply| match reply {
                Reply::Details { lines, next } => Ok((lines, next)),
                reply => Err(strange(&reply)),
            },
        )
    }

    /// Fetches a notice, without waiting. A lost connection is an error; [`Self::as_fd`] becomes readable for both.
    pub fn notice(&mut self) -> Result<Option<Notice>, Error> {
        while self.notices.is_empty() && self.is_readable(Duration::ZERO)? {
            self.receive()?;
        }
        Ok(self.notices.pop_front())
    }

    fn pages<T>(
        &mut self,
        ask: impl Fn(u32) -> Request,
        split: impl Fn(Reply) -> Result<(Vec<T>, Option<u32>), Error>,
    ) -> Result<Vec<T>, Error> {
        let (mut all, mut from) = (Vec::new(), 0);
        for _ in 0..PAGES_MAX {
            let (reply, _) = self.ask(ask(from), None)?;
            let (page, next) = split(reply)?;
            all.extend(page);
            match next {
                Some(next) if next > from => from = next,
                _ => break,
            }
        }
        Ok(all)
    }

    fn expect_done(&mut self, request: Request, descriptor: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        match self.ask(request, descriptor)?.0 {
            Reply::Done => Ok(()),
            reply => Err(strange(&reply)),
        }
    }

    /// Sends one request and returns its reply; notices that arrive meanwhile are queued.
    fn ask(&mut self, request: Request, twin: Option<BorrowedFd<'_>>) -> Result<(Reply, Vec<OwnedFd>), Error> {
        self.ask_with(request, &twin.into_iter().collect::<Vec<_>>())
    }

    fn ask_with(&mut self, request: Request, descriptors: &[BorrowedFd<'_>]) -> Result<(Reply, Vec<OwnedFd>), Error> {
        self.number = self.number.checked_add(1).unwrap_or(1);
        let number = self.number;
        match self.channel.send(&Numbered { number, body: request }, descriptors) {
            // Already refused; the last message before the hang-up is still to be read.
            Ok(()) | Err(Fault::Closed) => {}
            Err(fault) => return Err(lost(fault)),
        }
        let deadline = Instant::now() + self.reply_wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.is_readable(left)? {
                if left.is_zero() {
                    return Err(lost(Fault::WouldBlock));
                }
                continue;
            }
            match self.receive()? {
                Some((answered, Reply::Refused(refusal), _)) if answered == number => {
                    return Err(Error::Refused(refusal));
                }
                Some((answered, reply, descriptors)) if answered == number => return Ok((reply, descriptors)),
                // The reply to an abandoned request.
                _ => {}
            }
        }
    }

    /// Returns whether a packet or the end of the connection came within `timeout`; a signal may cut the wait short.
    fn is_readable(&self, timeout: Duration) -> Result<bool, Error> {
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(lost(Fault::Io(error.into()))),
        }
    }

    /// Queues a notice. A full queue drops the least one, the oldest of several.
    fn put_aside(&mut self, notice: Notice) {
        self.notices.push_back(notice);
        if self.notices.len() > NOTICES_MAX {
            let least = (0..self.notices.len()).min_by_key(|place| self.notices[*place].weight());
            least.and_then(|place| self.notices.remove(place));
        }
    }

    /// Receives one packet: a reply, or a notice, which is queued.
    fn receive(&mut self) -> Result<Option<(u32, Reply, Vec<OwnedFd>)>, Error> {
        let incoming = self.channel.receive::<Reply>().map_err(lost)?;
        match (incoming.message.number, incoming.message.body) {
            (0, Reply::Revoked { stack, refusal }) => {
                self.put_aside(Notice::Revoked { stack, refusal });
                Ok(None)
            }
            (0, Reply::GivenBack { stack, entry }) => {
                self.put_aside(Notice::GivenBack { stack, entry });
                Ok(None)
            }
            (0, Reply::FeedRevoked(revoked)) => {
                self.put_aside(Notice::FeedRevoked(revoked));
                Ok(None)
            }
            (0, Reply::FeedVerdict(verdict)) => {
                self.put_aside(Notice::FeedVerdict(verdict));
                Ok(None)
            }
            (0, Reply::IcmpError(error)) => {
                self.put_aside(Notice::IcmpError(error));
                Ok(None)
            }
            (0, Reply::Ended { stack, local, remote }) => {
                self.put_aside(Notice::Ended { stack, local, remote });
                Ok(None)
            }
            (0, Reply::HandOverTwin { cookie }) => {
                self.put_aside(Notice::HandOverTwin { cookie });
                Ok(None)
            }
            (0, Reply::HandOverAll { for_good }) => {
                self.put_aside(Notice::HandOverAll { for_good });
                Ok(None)
            }
            // An unsolicited refusal ends the connection: too many clients, not on the list.
            (0, Reply::Refused(refusal)) => Err(Error::Refused(refusal)),
            (0, _) => Ok(None),
            (number, reply) => Ok(Some((number, reply, incoming.descriptors))),
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

fn counted<const N: usize>(descriptors: Vec<OwnedFd>) -> Result<[OwnedFd; N], Error> {
    let count = descriptors.len();
    descriptors.try_into().map_err(|_| lost(Fault::Malformed(format!("{count} descriptors came, not {N}"))))
}

fn strange(reply: &Reply) -> Error {
    lost(Fault::Malformed(format!("an answer to another question: {reply:?}")))
}

fn lost(fault: Fault) -> Error {
    Error::Lost(
        Problem::failed("lost the control plane", fault)
            .next("see whether it runs (sidestep ps) and what it says; sockets go on by the kernel meanwhile"),
    )
}

//! The thread beside the owner: it sleeps on the connection to control and on the kernel twins, so that the owner's loop
//! learns of both by one load and never waits for either.

mod answer;
#[cfg(test)]
mod fake;
mod rss_watch;
mod settle;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use answer::{Answer, AnswerView, Question, question};
#[cfg(test)]
pub(crate) use fake::{facts, spread_over};
pub(crate) use rss_watch::spread_of;

use crate::reason::Reason;
use rustix::event::{EventfdFlags, epoll, eventfd};
use sidestep_control_api::client::Client;
use sidestep_control_api::counters::Counters;
use sidestep_control_api::heartbeat::Heartbeat;
use sidestep_control_api::message::{Code, Entry, HandOver, IcmpError, OpenStack, PortBlock, StackFacts};
use sidestep_control_api::rss::Spread;
use sidestep_control_api::table::Reader;
use sidestep_sys::Problem;
use sidestep_sys::own_descriptors::{keep, own_thread};
use sidestep_sys::signals::with_all_blocked;
use sidestep_sys::xdp::{Rings, Umem};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time for which the owner waits for control where it asks to: to listen, and to end that. Control's client waits ten seconds.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(11);

/// ICMP errors that wait for the owner: anybody can send them. The oldest goes; what it said is said again with the next packet.
const ICMP_ERRORS_MAX: usize = 64;

/// Questions for twins that wait for the owner: any process can cause them. The oldest goes, and who has asked is told that there is no
/// answer.
const TWINS_MAX: usize = 1024;

/// Events for the owner.
#[derive(Debug)]
pub(crate) enum Event {
    /// The kernel twin of this token is readable.
    Twin(u64),
    /// The stack was lost.
    Revoked(Reason, String),
    /// Another control is there, with tables of its own.
    Tables(Reader),
    /// The stack was opened again.
    Opened(Box<Reopened>),
    /// ICMP has told something of a packet that went past the kernel.
    IcmpError(IcmpError),
    /// Control has given traffic back to the kernel, and does not take it again.
    GivenBack(Entry, Reason),
    /// Another block of local ports, or why there is none.
    Ports(Result<PortBlock, Reason>),
    /// A connection that was handed over has ended in the kernel: its ends, this host's first.
    Ended(SocketAddr, SocketAddr),
    /// Another process needs the connection whose twin has this cookie.
    HandOverTwin(u64),
    /// All connections are to be handed over; for good.
    HandOverAll(bool),
    /// The device's RSS has changed, or control has refused an entry because of it.
    Spread(Box<Spread>),
}

/// Commands of the owner.
pub(crate) enum Command {
    /// Steers traffic here.
    Steer(Entry, OwnedFd, Question),
    /// Gives traffic back to the kernel.
    Unsteer(Entry, Question),
    /// Hands a connection over to the kernel.
    HandOver(Box<Surrender>, Question),
    /// Reports that the connection of a twin cannot be handed over.
    KeepTwin(u64, Code),
    /// Reserves another block of local ports.
    ReservePorts,
    /// Has the kernel find a neighbour, or keep it fresh.
    Resolve(IpAddr, u32),
    /// Reports to `sidestep ps` the reason why a socket is with the kernel.
    Report(String, Code),
    /// Opens a stack again, as soon as control can.
    Reopen(OpenStack),
    /// Closes the stack.
    Close(Question),
    /// Ends the thread.
    Stop,
}

/// A connection to be handed over: the record, the socket that becomes it, and the bytes of its queues.
#[derive(Debug)]
pub(crate) struct Surrender {
    pub(crate) connection: HandOver,
    pub(crate) socket: OwnedFd,
    pub(crate) bytes: OwnedFd,
}

/// The parts of a stack that was opened again. The page of its counters stays with the agent.
#[derive(Debug)]
pub(crate) struct Reopened {
    pub(crate) facts: StackFacts,
    /// The device's distribution, where it receives by other queues, too.
    pub(crate) spread: Option<Spread>,
    pub(crate) sockets: Vec<(OwnedFd, Rings)>,
    pub(crate) frames: Umem,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) counters: Counters,
}

/// State shared by both threads.
#[derive(Debug)]
struct Shared {
    /// True if the mailbox has something.
    has_events: AtomicBool,
    mailbox: Mutex<Vec<Event>>,
    /// An eventfd that wakes the thread.
    wake: OwnedFd,
    /// An epoll of the twins, each told once until it is armed again.
    twins: OwnedFd,
    /// An eventfd on which the owner sleeps: written after whatever the thread has done.
    owner: OnceLock<Arc<OwnedFd>>,
}

/// The stack that a lost connection is taken up with again.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) stack: u32,
    /// Number of its interface.
    pub(crate) interface: u32,
    pub(crate) counters_page: OwnedFd,
    /// The device's distribution as the owner knows it, where the device receives by queues that are not the stack's.
    pub(crate) spread: Option<Spread>,
}

/// The arguments of the thread.
pub(crate) struct Start {
    pub(crate) client: Client,
    pub(crate) held: Option<Held>,
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) cpu: Option<u32>,
}

/// The owner's end.
#[derive(Debug)]
pub(crate) struct ControlAgent {
    shared: Arc<Shared>,
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl ControlAgent {
    pub(crate) fn start(start: Start) -> Result<Self, Problem> {
        let failed =
            |error: io::Error| Problem::failed("cannot start the thread that talks to the control plane", error);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        let twins = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let (wake, twins) = (keep(wake), keep(twins));
        let shared = Arc::new(Shared {
            has_events: AtomicBool::new(false),
            mailbox: Mutex::default(),
            wake,
            twins,
            owner: OnceLock::new(),
        });
        let (commands, inbox): (_, Receiver<Command>) = channel();
        let theirs = Arc::clone(&shared);
        let run = move || {
            own_thread();
            thread::run(start, &theirs, &inbox);
        };
        let builder = std::thread::Builder::new().name("sidestep-agent".into());
        let thread = with_all_blocked(|| builder.spawn(run)).map_err(failed)?;
        Ok(Self { shared, commands, thread: Some(thread) })
    }

    /// Returns whether there is something to be taken. One load.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        self.shared.has_events.load(Ordering::Acquire)
    }

    /// Takes the events since the last call.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        self.shared.has_events.store(false, Ordering::Release);
        std::mem::take(&mut *self.shared.mailbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Steers traffic to the stack; waits for control.
    pub(crate) fn steer(&self, entry: Entry, twin: OwnedFd) -> Result<(), Reason> {
        self.begin_to_steer(entry, twin).wait(ANSWER_WAIT).unwrap_or(Err(Reason::ControlSilent))
    }

    /// The same; the answer comes later. Dropped, the rule is taken back as soon as it stands.
    pub(crate) fn begin_to_steer(&self, entry: Entry, twin: OwnedFd) -> Answer {
        let (question, answer) = question();
        self.tell(Command::Steer(entry, twin, question));
        answer
    }

    /// Gives traffic back; when the answer comes the port is free.
    pub(crate) fn begin_to_unsteer(&self, entry: Entry) -> Answer {
        let (question, answer) = question();
        self.tell(Command::Unsteer(entry, question));
        answer
    }

    /// Gives traffic back to the kernel; does not wait.
    pub(crate) fn unsteer_later(&self, entry: Entry) {
        drop(self.begin_to_unsteer(entry));
    }

    /// Hands a connection over to the kernel; the answer comes later.
    pub(crate) fn begin_to_hand_over(&self, surrender: Surrender) -> Answer {
        let (question, answer) = question();
        self.tell(Command::HandOver(Box::new(surrender), question));
        answer
    }

    /// Reports that the connection of a twin cannot be handed over; does not wait.
    pub(crate) fn keep_twin(&self, cookie: u64, code: Code) {
        self.tell(Command::KeepTwin(cookie, code));
    }

    /// Asks for another block of local ports; does not wait. [`Event::Ports`] brings it.
    pub(crate) fn reserve_ports(&self) {
        self.tell(Command::ReservePorts);
    }

    /// Has the kernel resolve a neighbour; does not wait.
    pub(crate) fn resolve(&self, address: IpAddr, interface: u32) {
        self.tell(Command::Resolve(address, interface));
    }

    /// Reports a socket's path to `sidestep ps`; does not wait.
    pub(crate) fn report(&self, subject: String, code: Code) {
        self.tell(Command::Report(subject, code));
    }

    /// Asks for another stack in the place of one that was lost; does not wait. [`Event::Opened`] brings it.
    pub(crate) fn reopen(&self, wish: OpenStack) {
        self.tell(Command::Reopen(wish));
    }

    /// Closes the stack, after all that was asked for before; the answer comes later, or is not waited for.
    pub(crate) fn begin_to_close(&self) -> Answer {
        let (question, answer) = question();
        self.tell(Command::Close(question));
        answer
    }

    /// Has the owner told when the twin has something, once.
    pub(crate) fn watch(&self, twin: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match epoll::add(&self.shared.twins, twin, epoll::EventData::new_u64(token), flags) {
            // Of a stack that was lost.
            Err(rustix::io::Errno::EXIST) => self.watch_again(twin, token),
            watched => Ok(watched?),
        }
    }

    /// Watches a twin again after it was told.
    pub(crate) fn watch_again(&self, twin: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        Ok(epoll::modify(&self.shared.twins, twin, epoll::EventData::new_u64(token), flags)?)
    }

    /// Has the owner told when the twin has an error, once, as often as this is called.
    pub(crate) fn watch_for_errors(&self, twin: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        // EPOLLERR is told without being asked for.
        let (flags, data) = (epoll::EventFlags::ONESHOT, epoll::EventData::new_u64(token));
        match epoll::add(&self.shared.twins, twin, data, flags) {
            Err(rustix::io::Errno::EXIST) => Ok(epoll::modify(&self.shared.twins, twin, data, flags)?),
            watched => Ok(watched?),
        }
    }

    /// Stops watching a twin.
    pub(crate) fn forget(&self, twin: BorrowedFd<'_>) {
        // One that was never watched is not watched afterwards, either.
        let _ = epoll::delete(&self.shared.twins, twin);
    }

    /// Has an eventfd written after whatever the thread does, for an owner that sleeps.
    pub(crate) fn wake_owner_by(&self, owner: Arc<OwnedFd>) {
        // Set once, by the one that owns the engine.
        let _ = self.shared.owner.set(owner);
    }

    fn tell(&self, command: Command) {
        // A thread that has died takes no orders; the owner learns of it when it asks for something.
        let _ = self.commands.send(command);
        self.shared.wake();
    }
}

impl Drop for ControlAgent {
    fn drop(&mut self) {
        self.tell(Command::Stop);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn wake(&self) {
        // Full is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn wake_owner(&self) {
        if let Some(owner) = self.owner.get() {
            // Full is awake.
            let _ = rustix::io::write(owner, &1_u64.to_ne_bytes());
        }
    }

    fn post(&self, event: Event) {
        let mut mailbox = self.mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        let most = match event {
            Event::IcmpError(_) => ICMP_ERRORS_MAX,
            Event::HandOverTwin(_) => TWINS_MAX,
            _ => usize::MAX,
        };
        let kind = std::mem::discriminant(&event);
        let is_alike = |event: &Event| std::mem::discriminant(event) == kind;
        if mailbox.len() >= most
            && mailbox.iter().filter(|event| is_alike(event)).count() >= most
            && let Some(oldest) = mailbox.iter().position(is_alike)
        {
            mailbox.remove(oldest);
        }
        mailbox.push(event);
        drop(mailbox);
        self.has_events.store(true, Ordering::Release);
    }
}

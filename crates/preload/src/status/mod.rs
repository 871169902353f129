//! The status page of this process: what `sidestep ps` and `sidestep top` show of its sockets, in whatever state the process is.
//!
//! The page is made with the first socket of the internet families. A socket has a row from socket(2) or accept(2) to the close(2)
//! of its last number. `numbers` knows which row a descriptor number has, `reason` the reasons for the kernel's path; `samples` copies
//! the figures of connections and listeners past the kernel, in a poll of the engine: no call of the program pays for them.

mod numbers;
mod reason;
mod samples;

pub(crate) use reason::Why;
pub(crate) use samples::Samples;

use crate::{engine, environment, report};
use libc::c_int;
use numbers::Numbers;
use sidestep_socket::{Engine, Reason};
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::process::Process;
use sidestep_unmodified::status::{EngineRow, Path, SocketKind, SocketRow, StatusPage};
use std::io;
use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// The longest name of a thread (TASK_COMM_LEN, linux/sched.h), and a line feed.
const NAME_BYTES_MAX: u64 = 64;

/// Turns in which a thread waits for the page that another one makes.
const TURNS_MAX: u32 = 10_000;

/// The page of one process, and the rows of its descriptor numbers.
#[derive(Debug)]
pub(crate) struct Status {
    /// Its descriptor, by which `sidestep ps` finds it, is none of the low numbers that the program gets.
    page: StatusPage,
    numbers: Numbers,
    process: u32,
    guard: ForkGuard,
}

/// The page. One that was replaced stays, because another thread may be writing it.
static STATUS: AtomicPtr<Status> = AtomicPtr::new(null_mut());

/// The process ([`identity`]) whose thread makes the page, or has made it.
static MAKER: AtomicU64 = AtomicU64::new(0);

/// No page can be made.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A socket was made.
pub(crate) fn socket_made(number: c_int, family: c_int, kind: c_int) {
    if let Some(kind) = kind_of(family, kind)
        && let Some(status) = wanted()
    {
        status.open(number, kind);
    }
}

/// The kernel's socket has accepted a connection.
pub(crate) fn accepted_by_kernel(listening: c_int, number: c_int) {
    if let Some(status) = wanted() {
        // Of a listener that neither listen(2) nor socket(2) has shown here: of another family, or another program's.
        let Some((SocketKind::TcpListener, path)) = numbers::row(listening).and_then(|row| status.page.socket(row))
        else {
            return;
        };
        status.open(number, SocketKind::TcpStream);
        let path = match path {
            Path::Kernel { .. } => path,
            Path::Accelerated { .. } | Path::Undecided => Why::Of(Reason::CameByKernel).path(),
        };
        numbers::row(number).into_iter().for_each(|row| status.page.set_path(row, path));
    }
}

/// The kernel carries a socket of TCP.
pub(crate) fn by_kernel(number: c_int, kind: SocketKind, why: Why) {
    if let Some(status) = wanted() {
        status.open_unless_known(number, kind);
        status.set_kind(number, kind);
        status.by_kernel(number, why);
    }
}

/// A number stands for the same socket as another one.
pub(crate) fn duplicated(number: c_int, new: c_int) {
    closed(new);
    if let Some(status) = listed(number) {
        status.numbers.share(number, new, &status.page);
    }
}

/// A number is closed.
pub(crate) fn closed(number: c_int) {
    if let Some(status) = listed(number) {
        status.close(number);
    }
}

/// A range of numbers is closed.
pub(crate) fn closed_range(first: u32, last: u32) {
    numbers::listed(first, last).for_each(closed);
}

/// The row of a socket that goes past the kernel; `None` where there is none to be had.
pub(crate) fn row(number: c_int, kind: SocketKind) -> Option<SocketRow> {
    let status = wanted()?;
    status.open_unless_known(number, kind);
    status.set_kind(number, kind);
    numbers::row(number)
}

/// The page of this process; `None` where there is none, and in a child of vfork(2), which has its parent's memory.
fn page() -> Option<&'static Status> {
    // SAFETY: it points to a leaked value, or is null.
    let status = unsafe { STATUS.load(Ordering::Acquire).as_ref() }?;
    status.guard.is_same_process().then_some(status)
}

/// The page for a change of a number that has a row.
fn listed(number: c_int) -> Option<&'static Status> {
    if !numbers::is_listed(number) {
        return None;
    }
    page().filter(|status| status.process == std::process::id())
}

/// The page, made where there is none of this process.
fn wanted() -> Option<&'static Status> {
    if let Some(status) = page() {
        return (status.process == std::process::id()).then_some(status);
    }
    if IS_REFUSED.load(Ordering::Acquire) {
        return None;
    }
    let process = identity()?;
    if MAKER.swap(process, Ordering::AcqRel) == process { made_by_another_thread() } else { make() }
}

/// The page that another thread is making. Where that takes too long the socket has no row.
#[cold]
fn made_by_another_thread() -> Option<&'static Status> {
    for _ in 0..TURNS_MAX {
        if page().is_some() || IS_REFUSED.load(Ordering::Acquire) {
            break;
        }
        std::thread::yield_now();
    }
    page()
}

/// This process: its number, which an ancestor may have had, and the end of the time at which it was started.
fn identity() -> Option<u64> {
    let process = Process::this().ok()?;
    Some(u64::from(process.pid) << 32 | process.start_ticks & u64::from(u32::MAX))
}

/// Makes the page, as the one thread of this process that does.
#[cold]
fn make() -> Option<&'static Status> {
    let made = Status::new().map_err(|problem| {
        IS_REFUSED.store(true, Ordering::Release);
        report::say(&environment::settings().log, &format!("no status page: {problem}"));
    });
    let made: &'static Status = Box::leak(Box::new(made.ok()?));
    // SAFETY: it points to a leaked value, or is null.
    made.inherit(unsafe { STATUS.load(Ordering::Acquire).as_ref() });
    STATUS.store(std::ptr::from_ref(made).cast_mut(), Ordering::Release);
    Some(made)
}

fn kind_of(family: c_int, kind: c_int) -> Option<SocketKind> {
    match kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
        _ if ![libc::AF_INET, libc::AF_INET6].contains(&family) => None,
        libc::SOCK_STREAM => Some(SocketKind::TcpStream),
        libc::SOCK_DGRAM => Some(SocketKind::UdpSocket),
        _ => None,
    }
}

/// The name of the process, as ps(1) shows it.
fn program_name() -> String {
    let name = sidestep_sys::file::read_text(std::path::Path::new("/proc/self/comm"), NAME_BYTES_MAX);
    name.map(|name| name.trim_end().to_owned()).unwrap_or_default()
}

impl Status {
    fn new() -> io::Result<Self> {
        let settings = environment::settings();
        let page = StatusPage::create(&program_name(), &settings.profile, settings.status_sockets, &reason::all())
            .map_err(io::Error::other)?;
        let file = engine::duplicate(page.as_fd()).ok_or(io::ErrorKind::QuotaExceeded)?;
        let page = page.kept_by(file);
        let numbers = Numbers::new(settings.status_sockets);
        Ok(Self { page, numbers, process: std::process::id(), guard: ForkGuard::new()? })
    }

    /// Adds an engine.
    pub(crate) fn open_engine(&self, engine: &Engine) -> Option<EngineRow> {
        let facts = engine.link()?;
        let (mode, interface) = facts.xsks.last().map(|xsk| (xsk.mode, xsk.interface.as_str()))?;
        let queues: Vec<u32> = facts.xsks.iter().map(|xsk| xsk.queue).collect();
        self.page.open_engine(interface, mode.into(), &queues)
    }

    fn open(&self, number: c_int, kind: SocketKind) {
        // Its last use may have ended by a call that is not followed.
        self.close(number);
        self.numbers.insert(number, self.page.open_socket(number, kind), &self.page);
    }

    fn open_unless_known(&self, number: c_int, kind: SocketKind) {
        if !numbers::is_listed(number) {
            self.open(number, kind);
        }
    }

    fn set_kind(&self, number: c_int, kind: SocketKind) {
        if let Some(row) = numbers::row(number) {
            self.page.set_kind(row, kind);
        }
    }

    fn by_kernel(&self, number: c_int, why: Why) {
        if let Some(row) = numbers::row(number) {
            self.page.set_path(row, why.path());
        }
    }

    fn close(&self, number: c_int) {
        self.numbers.remove(number, &self.page);
    }

    /// In a forked child: the numbers that it has from its parent. What went past the kernel there is the kernel's here.
    fn inherit(&self, parent: Option<&Self>) {
        let Some(parent) = parent else { return };
        for number in numbers::listed(0, u32::MAX) {
            let seen = numbers::take(number).and_then(|row| parent.page.socket(row));
            let Some((kind, path)) = seen else { continue };
            // SAFETY: borrowed for one system call; a closed one gives an error.
            let is_open = rustix::io::fcntl_getfd(unsafe { std::os::fd::BorrowedFd::borrow_raw(number) }).is_ok();
            if !is_open {
                continue;
            }
            self.open(number, kind);
            match path {
                Path::Accelerated { .. } => self.by_kernel(number, Why::Of(Reason::HandedOver)),
                path => numbers::row(number).into_iter().for_each(|row| self.page.set_path(row, path)),
            }
        }
    }
}

//! The program's end of a status page.

use super::figure::{EngineFigure, Figure};
use super::layout::*;
use super::tcp_state::TcpState;
use super::text::{address_to_words, to_words};
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_control_api::message::{Mode, QUEUES_MAX};
use sidestep_sys::Problem;
use sidestep_sys::own_descriptors::keep;
use sidestep_sys::process::Process;
use sidestep_sys::words::{Words, Writers};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

/// The status page of this process.
///
/// Any thread may call any method, also in a signal handler: nothing is locked. A child of fork(2) shares the memory and must
/// not write it: it makes a page of its own.
#[derive(Debug)]
pub struct StatusPage {
    words: Words,
    file: OwnedFd,
    sockets: u32,
    /// Rows in use, those of sockets.
    used: AtomicU32,
    /// A row that is probably free.
    free: AtomicU32,
}

/// One use of a row by a socket. Once the socket has gone, what is written to it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRow {
    number: u32,
    uses: u32,
}

impl SocketRow {
    /// The row as a number above 0.
    pub fn to_bits(self) -> u64 {
        u64::from(self.uses) << 32 | (u64::from(self.number) + 1)
    }

    /// The row of such a number.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let number = (bits as u32).checked_sub(1)?;
        Some(Self { number, uses: (bits >> 32) as u32 })
    }

    /// Its place among the rows of the page.
    pub fn place(self) -> usize {
        self.number as usize
    }

    fn at(self) -> usize {
        socket_at(self.number as usize)
    }
}

/// The row of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRow(u32);

/// The path of a socket's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Not decided: the socket is neither connected, nor listening, nor bound.
    Undecided,
    /// Past the kernel.
    Accelerated {
        /// The engine that carries it.
        engine: EngineRow,
        /// The mode of its queue.
        mode: Mode,
        /// The queue, if it is one.
        queue: Option<u32>,
    },
    /// By the kernel.
    Kernel {
        /// The reason: its place in the list that the page was made with.
        reason: u32,
    },
}

impl StatusPage {
    /// Makes the page of this process, with rows for so many sockets ([`SOCKETS_MIN`] to [`SOCKETS_MAX`]). `reasons` are those
    /// of the kernel's path, each with name and description, at most [`REASONS_MAX`]; [`Path::Kernel`] names one by its place.
    ///
    /// The page's descriptor must stay open: `sidestep ps` finds the page by it.
    pub fn create(program: &str, profile: &str, sockets: u32, reasons: &[(&str, &str)]) -> Result<Self, Problem> {
        let failed = |error| Problem::failed("cannot make a status page", error).next("free some memory");
        let sockets = sockets.clamp(SOCKETS_MIN, SOCKETS_MAX);
        let process = Process::this().map_err(failed)?;
        let (words, file) =
            Words::create(super::find::MEMFD_NAME, socket_at(sockets as usize), Writers::Maker).map_err(failed)?;
        let page = Self { words, file: keep(file), sockets, used: AtomicU32::new(0), free: AtomicU32::new(0) };
        page.store(VERSION_AT, VERSION);
        page.store(PID_AT, process.pid.into());
        page.store(START_AT, process.start_ticks);
        page.store(SOCKETS_AT, sockets.into());
        page.store_all(PROGRAM_AT, to_words::<NAME_WORDS>(program));
        page.store_all(PROFILE_AT, to_words::<NAME_WORDS>(profile));
        let reasons = &reasons[..reasons.len().min(REASONS_MAX)];
        for (number, (name, description)) in reasons.iter().enumerate() {
            page.store_all(reason_at(number), to_words::<REASON_NAME_WORDS>(name));
            let words = to_words::<{ REASON_WORDS - REASON_NAME_WORDS }>(description);
            page.store_all(reason_at(number) + REASON_NAME_WORDS, words);
        }
        page.store(REASONS_AT, reasons.len() as u64);
        page.words.word(MAGIC_AT).store(MAGIC, Release);
        Ok(page)
    }

    /// Keeps the page open by another descriptor of it.
    #[must_use]
    pub fn kept_by(self, file: OwnedFd) -> Self {
        Self { file, ..self }
    }

    /// Adds an engine on `interface`; `None` if there are [`ENGINES_MAX`].
    pub fn open_engine(&self, interface: &str, mode: Mode, queues: &[u32]) -> Option<EngineRow> {
        let number = (0..ENGINES_MAX).find(|number| self.claim(engine_at(*number)))?;
        let at = engine_at(number);
        self.store_all(at + ENGINE_INTERFACE, to_words::<ENGINE_INTERFACE_WORDS>(interface));
        self.store(at + ENGINE_MODE, mode_number(mode));
        let bits = queues.iter().filter(|queue| **queue < QUEUES_MAX).fold(0, |bits, queue| bits | 1 << queue);
        self.store(at + ENGINE_QUEUES, bits);
        self.clear(at + ENGINE_FIGURES, EngineFigure::ALL.len());
        self.leave(at);
        Some(EngineRow(number as u32))
    }

    /// Removes an engine.
    pub fn close_engine(&self, row: EngineRow) {
        self.release(engine_at(row.0 as usize));
    }

    /// Adds to a number of an engine. Two threads that do so at once may lose one addition: callers hold the engine's lock.
    #[inline]
    pub fn add_engine(&self, row: EngineRow, figure: EngineFigure, count: u64) {
        add(self.engine_figure(row, figure), count);
    }

    /// Sets a number of an engine.
    #[inline]
    pub fn set_engine(&self, row: EngineRow, figure: EngineFigure, value: u64) {
        self.engine_figure(row, figure).store(value, Relaxed);
    }

    /// Adds a socket; `None` if the table is full, in which case it is counted until [`Self::close_beyond`].
    pub fn open_socket(&self, descriptor: i32, kind: SocketKind) -> Option<SocketRow> {
        self.words.word(OPENED_AT).fetch_add(1, Relaxed);
        let Some(row) = self.claim_socket() else {
            self.words.word(BEYOND_AT).fetch_add(1, Relaxed);
            return None;
        };
        let at = row.at();
        self.store(at + SOCKET_KIND, kind_word(kind, descriptor));
        self.store(at + SOCKET_PATH, PATH_UNDECIDED);
        self.store(at + SOCKET_DESCRIPTORS, 1);
        self.store_all(at + SOCKET_LOCAL, [0; 3]);
        self.store_all(at + SOCKET_REMOTE, [0; 3]);
        self.store(at + SOCKET_SINCE, monotonic_ns());
        self.clear(at + SOCKET_FIGURES, Figure::ALL.len());
        self.leave(at);
        self.words.word(ROWS_USED_AT).fetch_max(u64::from(row.number) + 1, Release);
        Some(row)
    }

    /// Removes a socket.
    pub fn close_socket(&self, row: SocketRow) {
        if self.is_current(row) {
            self.release(row.at());
            self.free.store(row.number, Relaxed);
            self.used.fetch_sub(1, Release);
        }
    }

    /// Returns the kind and the path of a socket.
    pub fn socket(&self, row: SocketRow) -> Option<(SocketKind, Path)> {
        let (kind, path) = (self.load(row.at() + SOCKET_KIND), self.load(row.at() + SOCKET_PATH));
        let subject = (path >> 32) as u32;
        let path = match path & 0xff {
            PATH_ACCELERATED => Path::Accelerated { engine: EngineRow(subject), mode: Mode::Copy, queue: None },
            PATH_KERNEL => Path::Kernel { reason: subject },
            _ => Path::Undecided,
        };
        SocketKind::numbered(kind & u64::from(u32::MAX)).map(|kind| (kind, path)).filter(|_| self.is_current(row))
    }

    #[inline]
    fn is_current(&self, row: SocketRow) -> bool {
        let sequence = self.words.word(row.at() + SEQUENCE).load(Relaxed);
        sequence >> 32 == u64::from(row.uses) && sequence & IN_USE != 0
    }

    /// Notes the end of a socket for which there was no row.
    pub fn close_beyond(&self) {
        self.words.word(BEYOND_AT).fetch_sub(1, Relaxed);
    }

    /// Sets the descriptor of a socket: one of its numbers, and how many it has.
    pub fn set_descriptor(&self, row: SocketRow, descriptor: i32, descriptors: u32) {
        self.change(row, |at| {
            self.store(at + SOCKET_DESCRIPTORS, descriptors.into());
            let kind = self.load(at + SOCKET_KIND) & u64::from(u32::MAX);
            self.store(at + SOCKET_KIND, kind | descriptor_bits(descriptor));
        });
    }

    /// Returns the descriptor of a socket.
    pub fn descriptor(&self, row: SocketRow) -> i32 {
        ((self.load(row.at() + SOCKET_KIND) >> 32) as u32).cast_signed()
    }

    /// Sets the kind of a socket: listen(2) makes a listener of a stream.
    pub fn set_kind(&self, row: SocketRow, kind: SocketKind) {
        self.change(row, |at| {
            let descriptor = self.load(at + SOCKET_KIND) >> 32;
            self.store(at + SOCKET_KIND, kind as u64 | descriptor << 32);
        });
    }

    /// Sets the addresses of a socket.
    pub fn set_addresses(&self, row: SocketRow, local: Option<SocketAddr>, remote: Option<SocketAddr>) {
        let (local, remote) = (address_to_words(local), address_to_words(remote));
        let at = row.at();
        let is_same = |from: usize, words: [u64; 3]| (0..3).all(|index| self.load(from + index) == words[index]);
        if is_same(at + SOCKET_LOCAL, local) && is_same(at + SOCKET_REMOTE, remote) {
            return;
        }
        self.change(row, |at| {
            self.store_all(at + SOCKET_LOCAL, local);
            self.store_all(at + SOCKET_REMOTE, remote);
        });
    }

    /// Sets the path of a socket.
    pub fn set_path(&self, row: SocketRow, path: Path) {
        let word = match path {
            Path::Undecided => PATH_UNDECIDED,
            Path::Accelerated { engine, mode, queue } => {
                let queue = queue.filter(|queue| *queue < QUEUES_MAX).map_or(0, |queue| u64::from(queue) + 1);
                PATH_ACCELERATED | mode_number(mode) << 8 | queue << 24 | u64::from(engine.0) << 32
            }
            Path::Kernel { reason } => PATH_KERNEL | u64::from(reason) << 32,
        };
        if self.load(row.at() + SOCKET_PATH) & !TCP_STATE_BITS == word {
            return;
        }
        self.change(row, |at| {
            let state = self.load(at + SOCKET_PATH) & TCP_STATE_BITS;
            self.store(at + SOCKET_PATH, word | state);
        });
    }

    /// Sets the state of a connection.
    pub fn set_tcp_state(&self, row: SocketRow, state: TcpState) {
        let at = row.at() + SOCKET_PATH;
        let others = self.load(at) & !TCP_STATE_BITS;
        if self.is_current(row) {
            self.store(at, others | (state as u64) << 16);
        }
    }

    /// Adds to a number of a socket. Two threads that do so at once may lose one addition: callers hold the engine's lock.
    #[inline]
    pub fn add(&self, row: SocketRow, figure: Figure, count: u64) {
        if self.is_current(row) {
            add(self.figure(row, figure), count);
        }
    }

    /// Sets a number of a socket.
    #[inline]
    pub fn set(&self, row: SocketRow, figure: Figure, value: u64) {
        if self.is_current(row) {
            self.figure(row, figure).store(value, Relaxed);
        }
    }

    fn figure(&self, row: SocketRow, figure: Figure) -> &AtomicU64 {
        self.words.word(row.at() + SOCKET_FIGURES + figure as usize)
    }

    fn engine_figure(&self, row: EngineRow, figure: EngineFigure) -> &AtomicU64 {
        self.words.word(engine_at(row.0 as usize) + ENGINE_FIGURES + figure as usize)
    }

    fn claim_socket(&self) -> Option<SocketRow> {
        let more = |used: u32| (used < self.sockets).then_some(used + 1);
        // As many rows are free as this leaves, so that the search ends.
        self.used.fetch_update(AcqRel, Acquire, more).ok()?;
        let first = self.free.load(Relaxed);
        let rows = (first..self.sockets).chain(0..first);
        let row = rows.clone().chain(rows).find(|row| self.claim(socket_at(*row as usize)));
        if row.is_none() {
            self.used.fetch_sub(1, Release);
        }
        row.map(|row| {
            self.free.store((row + 1) % self.sockets, Relaxed);
            let uses = (self.words.word(socket_at(row as usize) + SEQUENCE).load(Relaxed) >> 32) as u32;
            SocketRow { number: row, uses }
        })
    }

    /// Takes a free row; until [`Self::leave`] it is being changed.
    fn claim(&self, at: usize) -> bool {
        let sequence = self.words.word(at + SEQUENCE);
        let now = sequence.load(Relaxed);
        let next = now.wrapping_add(ONE_USE) | 1;
        let is_ours = now & IN_USE == 0 && sequence.compare_exchange(now, next, AcqRel, Relaxed).is_ok();
        fence(Release);
        is_ours
    }

    fn release(&self, at: usize) {
        let sequence = self.words.word(at + SEQUENCE);
        sequence.store(sequence.load(Relaxed) & !IN_USE, Release);
    }

    fn change(&self, row: SocketRow, words: impl FnOnce(usize)) {
        if self.is_current(row) {
            self.enter(row.at());
            words(row.at());
            self.leave(row.at());
        }
    }

    /// Marks a row as being changed. Another thread that changes it takes nanoseconds; a signal handler that interrupts it does not wait.
    fn enter(&self, at: usize) {
        let sequence = self.words.word(at + SEQUENCE);
        for _ in 0..TURNS_MAX {
            let now = sequence.load(Relaxed);
            if now & 1 == 0 && sequence.compare_exchange(now, stepped(now), Acquire, Relaxed).is_ok() {
                break;
            }
            std::hint::spin_loop();
        }
        fence(Release);
    }

    fn leave(&self, at: usize) {
        let sequence = self.words.word(at + SEQUENCE);
        let now = sequence.load(Relaxed);
        if now & 1 == 1 {
            sequence.store(stepped(now), Release);
        }
    }

    fn load(&self, at: usize) -> u64 {
        self.words.word(at).load(Relaxed)
    }

    fn store(&self, at: usize, value: u64) {
        self.words.word(at).store(value, Relaxed);
    }

    fn store_all<const N: usize>(&self, at: usize, values: [u64; N]) {
        values.into_iter().enumerate().for_each(|(index, value)| self.store(at + index, value));
    }

    fn clear(&self, at: usize, count: usize) {
        (at..at + count).for_each(|at| self.store(at, 0));
    }
}

impl AsFd for StatusPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

const TCP_STATE_BITS: u64 = 0xff << 16;

/// Attempts to change a row that is being changed.
const TURNS_MAX: u32 = 1000;

/// The next sequence of a row; its lower half stays above 0.
fn stepped(now: u64) -> u64 {
    let half = if now & IN_USE == IN_USE { 2 } else { (now & IN_USE) + 1 };
    now & !IN_USE | half
}

fn add(word: &AtomicU64, count: u64) {
    word.store(word.load(Relaxed).wrapping_add(count), Relaxed);
}

fn kind_word(kind: SocketKind, descriptor: i32) -> u64 {
    kind as u64 | descriptor_bits(descriptor)
}

fn descriptor_bits(descriptor: i32) -> u64 {
    u64::from(descriptor.cast_unsigned()) << 32
}

/// The number of a mode in a page.
pub(super) fn mode_number(mode: Mode) -> u64 {
    match mode {
        Mode::ZeroCopy => 0,
        Mode::Copy => 1,
        Mode::Generic => 2,
    }
}

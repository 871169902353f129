//! The reader's end of a status page. Its bytes are the process's, and may be anything.

use super::figure::{EngineFigure, Figure};
use super::layout::*;
use super::snapshot::{Engine, PathNow, Snapshot, Socket};
use super::tcp_state::TcpState;
use super::text::{address_from_words, from_words};
use sidestep_control_api::message::{Mode, QUEUES_MAX};
use sidestep_sys::Problem;
use sidestep_sys::words::WordsView;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

/// The attempts to read a row while its writer changes it, which takes some hundred nanoseconds.
const TRIES: usize = 64;

/// A read-only view of a status page.
#[derive(Debug)]
pub struct StatusView {
    words: WordsView,
    sockets: u32,
}

impl StatusView {
    /// Maps the page of a process.
    ///
    /// # Errors
    /// Fails if the file can shrink, is none of ours, is of another version, or is shorter than it claims.
    pub fn open(file: BorrowedFd<'_>) -> Result<Self, Problem> {
        let head = WordsView::open(file, HEAD_WORDS)?;
        let found = [head.load(MAGIC_AT, Acquire), head.load(VERSION_AT, Relaxed)];
        if found != [MAGIC, VERSION] {
            return Err(Problem::failed("cannot read a status page", "it is none, or of another version")
                .next("use sidestep ps and libsidestep.so of the same version"));
        }
        let sockets = head.load(SOCKETS_AT, Relaxed);
        let is_possible = |count: &u32| (SOCKETS_MIN..=SOCKETS_MAX).contains(count);
        let sockets = u32::try_from(sockets).ok().filter(is_possible).ok_or_else(|| {
            Problem::failed("cannot read a status page", format!("it claims {sockets} rows"))
                .next("restart the program: it has overwritten its page")
        })?;
        Ok(Self { words: WordsView::open(file, socket_at(sockets as usize))?, sockets })
    }

    /// The process that made the page, as it sees itself, and its start.
    pub fn process(&self) -> (u64, u64) {
        (self.load(PID_AT), self.load(START_AT))
    }

    /// Returns everything that the page has now.
    pub fn snapshot(&self) -> Snapshot {
        let reasons: Vec<(String, String)> =
            (0..self.load(REASONS_AT).min(REASONS_MAX as u64)).map(|number| self.reason(number as usize)).collect();
        let mut spoilt = 0;
        let mut sockets = Vec::new();
        for row in 0..self.sockets.min(u32::try_from(self.load(ROWS_USED_AT)).unwrap_or(u32::MAX)) {
            match self.row::<SOCKET_FIGURES>(socket_at(row as usize)) {
                None => {}
                Some((words, is_torn)) => match self.socket(row, &words, is_torn, &reasons) {
                    Some(socket) => sockets.push(socket),
                    // A row that is just being opened.
                    None if is_torn => {}
                    None => spoilt += 1,
                },
            }
        }
        sockets.sort_by_key(|socket| socket.descriptor);
        let (pid, start_ticks) = self.process();
        Snapshot {
            pid,
            start_ticks,
            program: self.text(PROGRAM_AT, NAME_WORDS),
            profile: self.text(PROFILE_AT, NAME_WORDS),
            engines: (0..ENGINES_MAX).filter_map(|number| self.engine(number)).collect(),
            sockets,
            beyond: self.load(BEYOND_AT),
            opened: self.load(OPENED_AT),
            spoilt,
        }
    }

    fn load(&self, at: usize) -> u64 {
        self.words.load(at, Relaxed)
    }

    fn text(&self, at: usize, count: usize) -> String {
        from_words((at..at + count).map(|at| self.load(at)))
    }

    fn reason(&self, number: usize) -> (String, String) {
        let at = reason_at(number);
        let description = self.text(at + REASON_NAME_WORDS, REASON_WORDS - REASON_NAME_WORDS);
        (self.text(at, REASON_NAME_WORDS), description)
    }

    /// Returns the words of a row that precede its figures, and whether they may be torn; `None` if it is free.
    fn row<const N: usize>(&self, at: usize) -> Option<([u64; N], bool)> {
        for attempt in 0..TRIES {
            let before = self.words.load(at + SEQUENCE, Acquire);
            if before & IN_USE == 0 {
                return None;
            }
            let words = std::array::from_fn(|index| self.load(at + index));
            fence(Acquire);
            let after = self.words.load(at + SEQUENCE, Relaxed);
            if before == after && before & 1 == 0 {
                return Some((words, false));
            }
            if attempt + 1 == TRIES {
                return Some((words, true));
            }
            std::hint::spin_loop();
        }
        None
    }

    fn figures(&self, at: usize, count: usize) -> Vec<u64> {
        (at..at + count).map(|at| self.load(at)).collect()
    }

    fn engine(&self, number: usize) -> Option<Engine> {
        let at = engine_at(number);
        let (words, _) = self.row::<ENGINE_FIGURES>(at)?;
        let interface = &words[ENGINE_INTERFACE..ENGINE_INTERFACE + ENGINE_INTERFACE_WORDS];
        Some(Engine {
            number: number as u32,
            interface: from_words(interface.iter().copied()),
            mode: mode(words[ENGINE_MODE]),
            queues: (0..QUEUES_MAX).filter(|queue| words[ENGINE_QUEUES] >> queue & 1 == 1).collect(),
            figures: self.figures(at + ENGINE_FIGURES, EngineFigure::ALL.len()),
        })
    }

    /// Returns a socket; `None` if its row makes no sense.
    fn socket(
        &self,
        row: u32,
        words: &[u64; SOCKET_FIGURES],
        is_torn: bool,
        reasons: &[(String, String)],
    ) -> Option<Socket> {
        let address = |at: usize| address_from_words([words[at], words[at + 1], words[at + 2]]);
        let path = words[SOCKET_PATH];
        Some(Socket {
            descriptor: u32::try_from(words[SOCKET_KIND] >> 32).ok().filter(|number| *number <= i32::MAX as u32)?,
            kind: SocketKind::numbered(words[SOCKET_KIND] & u64::from(u32::MAX))?,
            path: path_now(path, reasons)?,
            state: TcpState::numbered(path >> 16 & 0xff),
            local: address(SOCKET_LOCAL),
            remote: address(SOCKET_REMOTE),
            descriptors: u32::try_from(words[SOCKET_DESCRIPTORS]).unwrap_or(u32::MAX).max(1),
            since_ns: words[SOCKET_SINCE],
            is_torn,
            row: Some(row),
            figures: self.figures(socket_at(row as usize) + SOCKET_FIGURES, Figure::ALL.len()),
        })
    }
}

fn path_now(word: u64, reasons: &[(String, String)]) -> Option<PathNow> {
    let subject = (word >> 32) as usize;
    match word & 0xff {
        PATH_UNDECIDED => Some(PathNow::Undecided),
        PATH_ACCELERATED if subject < ENGINES_MAX => {
            let queue = (word >> 24 & 0xff) as u32;
            let queue = queue.checked_sub(1).filter(|queue| *queue < QUEUES_MAX);
            Some(PathNow::Accelerated { engine: subject as u32, mode: mode(word >> 8 & 0xff), queue })
        }
        PATH_KERNEL => {
            let (name, description) = reasons.get(subject).cloned()?;
            Some(PathNow::Kernel { name, description })
        }
        _ => None,
    }
}

fn mode(number: u64) -> Option<Mode> {
    match number {
        0 => Some(Mode::ZeroCopy),
        1 => Some(Mode::Copy),
        2 => Some(Mode::Generic),
        _ => None,
    }
}

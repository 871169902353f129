//! What the reader and its agent share. The reader learns of everything by one load; it waits for control only in calls that ask control
//! for something.

use super::agent;
use super::path::Why;
use super::rings::Rings;
use super::session::Session;
use super::twin::Proof;
use super::{EntryPath, FlowOptions, Verdict};
use crate::reason::Reason;
use rustix::event::{EventfdFlags, eventfd};
use sidestep_control_api::message::Entry;
use sidestep_sys::Problem;
use sidestep_sys::own_descriptors::{keep, own_thread};
use sidestep_sys::signals::with_all_blocked;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The most entries of a flow: each may have a kernel socket, and these are looked at in turn without rings.
pub(super) const ENTRIES_MAX: usize = 1024;

/// The owner's end.
pub(super) struct Link {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

pub(super) struct Shared {
    pub(super) options: FlowOptions,
    /// True if the board has news.
    has_news: AtomicBool,
    /// Held for moments only.
    board: Mutex<Board>,
    /// Held while control is asked.
    pub(super) state: Mutex<State>,
    /// An eventfd that wakes the agent.
    pub(super) wake: OwnedFd,
    /// An eventfd that wakes the reader.
    bell: OwnedFd,
}

/// The side of the agent, and of calls that ask control.
pub(super) struct State {
    pub(super) session: Option<Session>,
    pub(super) entries: BTreeMap<u32, Wanted>,
    pub(super) why: Why,
    pub(super) stops: bool,
}

/// An entry as it was asked for.
pub(super) struct Wanted {
    pub(super) entry: Entry,
    pub(super) verdict: Verdict,
    pub(super) proof: Option<Proof>,
}

/// The side of the reader.
#[derive(Default)]
struct Board {
    paths: BTreeMap<u32, EntryPath>,
    news: News,
}

/// What has happened since the reader looked last.
#[derive(Default)]
pub(super) struct News {
    /// Rings, in the place of those before.
    pub(super) opened: Option<Box<Rings>>,
    /// The feed was lost; true if its rings may still be the only way of some packets.
    pub(super) lost: Option<bool>,
}

impl Link {
    /// Opens the feed if control can, and starts the agent.
    pub(super) fn start(options: &FlowOptions) -> Result<Self, Problem> {
        let failed =
            |error: io::Error| Problem::failed("cannot start the thread that talks to the control plane", error);
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(keep);
        let (wake, bell) =
            (event().map_err(|error| failed(error.into()))?, event().map_err(|error| failed(error.into()))?);
        let reason = if options.accelerate { Reason::ControlAbsent } else { Reason::NotWanted };
        let state = State { session: None, entries: BTreeMap::new(), why: Why::plain(reason), stops: false };
        let shared = Arc::new(Shared {
            options: options.clone(),
            has_news: AtomicBool::new(false),
            board: Mutex::default(),
            state: Mutex::new(state),
            wake,
            bell,
        });
        if !options.accelerate {
            return Ok(Self { shared, thread: None });
        }
        shared.open(&mut shared.state());
        let theirs = Arc::clone(&shared);
        let run = move || {
            own_thread();
            agent::run(&theirs);
        };
        let builder = std::thread::Builder::new().name("sidestep-flow".into());
        let thread = with_all_blocked(|| builder.spawn(run)).map_err(failed)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Adds an entry; waits for control.
    pub(super) fn add(&self, number: u32, wanted: Wanted) {
        let mut state = self.shared.state();
        self.shared.steer(&mut state, number, &wanted);
        state.entries.insert(number, wanted);
    }

    /// Returns whether there is such an entry.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        self.shared.state().entries.values().any(|wanted| wanted.entry == *entry)
    }

    /// The number of entries.
    pub(super) fn count(&self) -> usize {
        self.shared.board().paths.len()
    }

    /// Removes an entry; waits for control.
    pub(super) fn remove(&self, number: u32) {
        let mut state = self.shared.state();
        let removed = state.entries.remove(&number);
        if let (Some(wanted), Some(session)) = (&removed, &mut state.session)
            && let Err(why) = session.unsteer(wanted.entry)
        {
            self.shared.lose(&mut state, why);
        }
        self.shared.board().paths.remove(&number);
    }

    /// Returns whether the reader has something to take. One load.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.shared.has_news.load(Ordering::Acquire)
    }

    /// Takes the news, and tells for each entry whether rings carry it.
    pub(super) fn take_news(&self, mut is_carried: impl FnMut(u32, bool)) -> News {
        let mut board = self.shared.board();
        // Under the lock, as it is written: what is rung for is taken.
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        self.shared.has_news.store(false, Ordering::Release);
        board.paths.iter().for_each(|(number, path)| is_carried(*number, path.is_ring()));
        std::mem::take(&mut board.news)
    }

    /// The path of an entry.
    pub(super) fn path(&self, number: u32) -> Option<EntryPath> {
        self.shared.board().paths.get(&number).cloned()
    }

    /// The reason why there is no feed; `None` if there is one.
    pub(super) fn refusal(&self) -> Option<Why> {
        let state = self.shared.state();
        state.session.is_none().then(|| state.why.clone())
    }

    /// Gives up a feed whose rings are out of use.
    pub(super) fn give_up(&self, detail: String) {
        let why = Why { reason: Reason::Revoked, detail };
        self.shared.lose(&mut self.shared.state(), why);
        self.shared.wake();
    }

    /// A descriptor that is readable while there are news.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.state().stops = true;
        self.shared.wake();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Full is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn post(&self, change: impl FnOnce(&mut Board)) {
        let mut board = self.board();
        change(&mut board);
        self.has_news.store(true, Ordering::Release);
        // Full is awake.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Opens a feed, and steers all entries into it.
    pub(super) fn open(&self, state: &mut State) {
        let (session, rings) = match Session::open(&self.options) {
            Ok(opened) => opened,
            Err(why) => {
                let paths = |board: &mut Board| state.entries.iter().for_each(|entry| board.set_lost(entry, &why));
                self.post(paths);
                state.why = why;
                return;
            }
        };
        state.session = Some(session);
        // The reader attends to the rings before the first packet is in them.
        self.post(|board| board.news.opened = Some(Box::new(rings)));
        let entries = std::mem::take(&mut state.entries);
        entries.iter().for_each(|(number, wanted)| self.steer(state, *number, wanted));
        state.entries = entries;
        if state.session.is_none() {
            self.silence(state);
        }
    }

    fn refused(&self, state: &State) -> Vec<u32> {
        let board = self.board();
        let is_refused = |number: &&u32| board.paths.get(number).is_some_and(|path| !path.is_ring());
        state.entries.keys().filter(is_refused).copied().collect()
    }

    /// Returns whether control has not taken every entry, or has taken one away.
    pub(super) fn has_refused(&self, state: &State) -> bool {
        !self.refused(state).is_empty()
    }

    /// Asks again for such entries: what stood in their way may be gone.
    pub(super) fn steer_refused(&self, state: &mut State) {
        let refused = self.refused(state);
        let entries = std::mem::take(&mut state.entries);
        for (number, wanted) in entries.iter().filter(|(number, _)| refused.contains(number)) {
            if state.session.is_some() {
                self.steer(state, *number, wanted);
            }
        }
        state.entries = entries;
        if state.session.is_none() {
            self.silence(state);
        }
    }

    /// Steers one entry into the feed, and has its kernel socket drop what the rings carry.
    pub(super) fn steer(&self, state: &mut State, number: u32, wanted: &Wanted) {
        let proof = wanted.proof.as_ref();
        let steered = match &mut state.session {
            None => Err(state.why.clone()),
            Some(session) => match session.steer(wanted.entry, wanted.verdict, proof.map(AsFd::as_fd)) {
                Ok(steered) => steered,
                Err(why) => {
                    self.lose(state, why.clone());
                    Err(why)
                }
            },
        };
        let path = steered.unwrap_or_else(|why| EntryPath::without(&why, proof.is_some()));
        if let (Some(proof), true) = (proof, path.is_ring()) {
            proof.deafen();
        }
        self.post(|board| drop(board.paths.insert(number, path)));
    }

    /// Ends the session: kernel sockets take over.
    pub(super) fn lose(&self, state: &mut State, why: Why) {
        if state.session.take().is_none() {
            return;
        }
        state.why = why;
        self.silence(state);
    }

    /// Has every kernel socket receive again. Where control went without a word, packets may still be dropped by its verdict.
    fn silence(&self, state: &State) {
        let is_silent = matches!(state.why.reason, Reason::ControlAbsent | Reason::ControlSilent);
        state.entries.values().filter_map(|wanted| wanted.proof.as_ref()).for_each(Proof::undeafen);
        self.post(|board| {
            let drops = |path: &EntryPath| matches!(path, EntryPath::Ring { verdict: Verdict::Drop, .. });
            let some_drop = board.paths.values().any(drops);
            state.entries.iter().for_each(|entry| board.set_lost(entry, &state.why));
            board.news.opened = None;
            board.news.lost = Some(is_silent && some_drop);
        });
    }

    /// Another verdict is in force, or rings carry the entry no more.
    pub(super) fn set_path(&self, state: &State, entry: Entry, path: Result<&EntryPath, &Why>) {
        let same = state.entries.iter().filter(|(_, wanted)| wanted.entry.canonical() == entry.canonical());
        let same: Vec<(&u32, &Wanted)> = same.collect();
        for proof in same.iter().filter_map(|(_, wanted)| wanted.proof.as_ref()) {
            if path.is_ok() { proof.deafen() } else { proof.undeafen() }
        }
        self.post(|board| {
            for (number, wanted) in same {
                let path = path.cloned();
                let path = path.unwrap_or_else(|why| EntryPath::without(why, wanted.proof.is_some()));
                board.paths.insert(*number, path);
            }
        });
    }
}

impl Board {
    fn set_lost(&mut self, (number, wanted): (&u32, &Wanted), why: &Why) {
        self.paths.insert(*number, EntryPath::without(why, wanted.proof.is_some()));
    }
}

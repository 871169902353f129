//! Descriptor numbers of this process whose traffic goes past the kernel.
//!
//! A number that is not ours costs one load. One of ours is a reference to its open file description, which dup(2) shares. Of the numbers
//! that a forked child has from its parent, the child knows the kind alone.

use crate::description::{Description, Kind};
use crate::per_process::PerProcess;
use crate::signals::Inside;
use crate::{inherited, process};
use sidestep_sys::own_descriptors;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers from here on are the kernel's: the default limit of descriptors of a process (fs.nr_open).
pub(crate) const NUMBERS_MAX: usize = 1 << 20;

/// Numbers that one allocation serves.
const CHUNK: usize = 1024;

type Slot = Mutex<Option<Arc<Description>>>;

/// The slots of one allocation.
struct Chunk(Box<[Slot]>);

impl Default for Chunk {
    fn default() -> Self {
        Self((0..CHUNK).map(|_| Slot::default()).collect())
    }
}

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Nothing of ours.
    Kernel,
    /// A socket of ours.
    Socket,
    /// An epoll set of ours.
    Set,
    /// A socket of another process, which this one has, too.
    InheritedSocket,
    /// An epoll set of another process.
    InheritedSet,
    /// A listening socket of the kernel that may go past it once this process waits for its connections.
    Listens,
}

impl State {
    const ALL: [Self; 6] =
        [Self::Kernel, Self::Socket, Self::Set, Self::InheritedSocket, Self::InheritedSet, Self::Listens];

    const fn is_ours(self) -> bool {
        matches!(self, Self::Socket | Self::Set)
    }

    /// The state of the same number in a forked child.
    const fn in_child(self) -> Self {
        match self {
            Self::Socket => Self::InheritedSocket,
            Self::Set => Self::InheritedSet,
            other => other,
        }
    }
}

/// The [`State`] of each number. In zeroed memory, of which only the pages that are touched exist.
static STATES: [AtomicU8; NUMBERS_MAX] = [const { AtomicU8::new(State::Kernel as u8) }; NUMBERS_MAX];
static SLOTS: [PerProcess<Chunk>; NUMBERS_MAX / CHUNK] = [const { PerProcess::new() }; NUMBERS_MAX / CHUNK];
/// One more than the highest number that ever was something else than the kernel's.
static END: AtomicUsize = AtomicUsize::new(0);

/// What a number is.
#[inline]
pub(crate) fn state(number: c_int) -> State {
    match STATES.get(number as usize) {
        Some(state) => State::ALL[usize::from(state.load(Ordering::Acquire))],
        None => State::Kernel,
    }
}

/// Notes what a number is that has no open file description of ours. Returns false where it is beyond those that can be.
pub(crate) fn set_state(number: c_int, state: State) -> bool {
    let Some(place) = STATES.get(number as usize) else { return false };
    place.store(state as u8, Ordering::Release);
    END.fetch_max(number as usize + 1, Ordering::AcqRel);
    true
}

/// Returns whether a number is ours.
#[inline]
pub(crate) fn is_ours(number: c_int) -> bool {
    state(number).is_ours() && process::is_owner()
}

/// Returns whether a number is ours, for a call that uses what it stands for: one that another process has given becomes the kernel's
/// before.
#[inline]
pub(crate) fn is_ours_to_use(number: c_int) -> bool {
    match state(number) {
        State::Kernel => false,
        State::Socket | State::Set if process::is_owner() => true,
        _ => inherited::use_number(number),
    }
}

/// Returns whether a number is the kernel's alone.
#[inline]
pub(crate) fn is_of_kernel(number: c_int) -> bool {
    state(number) == State::Kernel
}

/// Returns whether a number is one of the library's own descriptors, and the caller is the program.
#[inline]
pub(crate) fn is_library(number: c_int) -> bool {
    own_descriptors::is_own(number) && !Inside::is_entered()
}

/// The open file description of a number, if it is ours.
#[inline]
pub(crate) fn find(number: c_int) -> Option<Arc<Description>> {
    if !is_ours(number) {
        return None;
    }
    slot(number as usize).clone()
}

/// Makes a number ours. Returns false where it is beyond those that can be.
pub(crate) fn insert(number: c_int, description: Arc<Description>) -> bool {
    if number as usize >= NUMBERS_MAX {
        return false;
    }
    let state = if matches!(description.kind, Kind::Epoll(_)) { State::Set } else { State::Socket };
    description.add_number();
    let before = slot(number as usize).replace(description);
    set_state(number, state);
    before.iter().for_each(|before| _ = before.remove_number());
    drop(before);
    true
}

/// Makes a number the kernel's.
pub(crate) fn remove(number: c_int) -> Option<Arc<Description>> {
    take(number).map(|(description, _)| description)
}

/// The same, with whether it was the last number of its open file description.
pub(crate) fn take(number: c_int) -> Option<(Arc<Description>, bool)> {
    let place = STATES.get(number as usize)?;
    let state = State::ALL[usize::from(place.swap(State::Kernel as u8, Ordering::AcqRel))];
    let description = if state.is_ours() { slot(number as usize).take() } else { None }?;
    let is_last = description.remove_number();
    Some((description, is_last))
}

/// Forgets the parent's descriptions in a forked child, and remembers which numbers have them.
pub(crate) fn inherit() {
    let end = END.load(Ordering::Acquire);
    for place in &STATES[..end] {
        let state = State::ALL[usize::from(place.load(Ordering::Relaxed))];
        place.store(state.in_child() as u8, Ordering::Relaxed);
    }
    SLOTS[..end.div_ceil(CHUNK)].iter().for_each(PerProcess::renew);
}

/// The numbers of a state.
pub(crate) fn numbers_of(state: State) -> impl Iterator<Item = c_int> {
    places().filter(move |number| self::state(*number) == state)
}

/// Makes every number of an open file description the kernel's. What was registered for it is told.
pub(crate) fn release(description: &Arc<Description>) {
    for (number, other) in all() {
        if Arc::ptr_eq(&other, description) {
            drop(remove(number));
        }
    }
    description.watchers.gone();
}

/// Our numbers.
pub(crate) fn numbers() -> impl Iterator<Item = c_int> {
    places().filter(|number| is_ours(*number))
}

/// The numbers that are more than the kernel's.
pub(crate) fn known() -> impl Iterator<Item = c_int> {
    places().filter(|number| state(*number) != State::Kernel)
}

fn places() -> impl Iterator<Item = c_int> {
    (0..END.load(Ordering::Acquire)).filter_map(|number| c_int::try_from(number).ok())
}

/// Our numbers with their open file descriptions.
pub(crate) fn all() -> Vec<(c_int, Arc<Description>)> {
    numbers().filter_map(|number| Some((number, find(number)?))).collect()
}

fn slot(number: usize) -> MutexGuard<'static, Option<Arc<Description>>> {
    let Chunk(slots) = SLOTS[number / CHUNK].get();
    // Nothing panics while it is held.
    slots[number % CHUNK].lock().unwrap_or_else(PoisonError::into_inner)
}

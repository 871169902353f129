//! One epoll set of the program: what of it is ours, and what the kernel's set has.

use super::disarmed::Disarmed;
use super::items::{Interest, Items, Now, Told};
use super::turns::Turns;
use crate::description::Description;
use crate::descriptors;
use crate::engine;
use crate::engine::Shared;
use crate::per_process::PerProcess;
use crate::signals::DroppedInside;
use crate::stream::UNSETTLED;
use crate::watchers::{Watcher, Watchers};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLEXCLUSIVE, EPOLLONESHOT, c_int, epoll_event};
use rustix::event::PollFlags;
use rustix::io::Errno;
use sidestep_socket::Engine;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

/// An item's key: the number by which it was added, and its open file description (epoll(7), Q1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    number: c_int,
    description: usize,
}

impl Key {
    fn of(number: c_int, description: &Arc<Description>) -> Self {
        Self { number, description: Arc::as_ptr(description).addr() }
    }
}

/// An item's socket.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) number: c_int,
    description: Weak<Description>,
    /// The kernel's set has the number, too.
    pub(super) is_in_both: bool,
    /// Its edges are those of reading alone.
    marks_reading: bool,
    /// Kept here alone: it ends with the item.
    _watcher: Arc<ItemWatcher>,
}

/// A set. Locks are taken in this order: the engine, the outer set, the inner set.
#[derive(Debug)]
pub(crate) struct Set {
    items: Mutex<Items<Key, Target>>,
    /// What the kernel's set has, as far as it was added by numbers that may go past the kernel later, or stand in both.
    by_kernel: Mutex<HashMap<c_int, Interest>>,
    /// Items that are in neither, until they are armed again.
    disarmed: Disarmed,
    /// A descriptor of our own of the kernel's set.
    real: DroppedInside<OwnedFd>,
    watchers: Arc<Watchers>,
    engine: OnceLock<Arc<Shared>>,
    /// Threads that wait for what is ours, and for what is the kernel's.
    waiting: AtomicUsize,
    /// Threads in the real epoll_wait(2), which see nothing of ours.
    pub(super) waiting_in_kernel: AtomicUsize,
    /// Wakes them: a descriptor in the kernel's set.
    pub(super) doorbell: Mutex<Option<DroppedInside<OwnedFd>>>,
    pub(super) has_doorbell: AtomicBool,
    unsettled: Mutex<Unsettled>,
    pub(super) turns: Turns,
    /// One-shot items stand in both sets: an event of one disarms both.
    has_one_shot_in_both: AtomicBool,
}

/// All sets, for sockets that go past the kernel later.
static SETS: PerProcess<Mutex<Vec<Weak<Set>>>> = PerProcess::new();

/// Forgets the parent's sets in a forked child.
pub(crate) fn renew() {
    SETS.renew();
}

impl Set {
    /// The set beside a real one; `None` where there is no descriptor for it.
    pub(crate) fn new(number: c_int, watchers: &Arc<Watchers>) -> Option<Arc<Self>> {
        // SAFETY: the number was just made by the call that this serves.
        let real = engine::duplicate(unsafe { BorrowedFd::borrow_raw(number) })?;
        let set = Arc::new(Self {
            items: Mutex::default(),
            by_kernel: Mutex::default(),
            disarmed: Disarmed::default(),
            real: DroppedInside::new(real),
            watchers: Arc::clone(watchers),
            engine: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            waiting_in_kernel: AtomicUsize::new(0),
            doorbell: Mutex::new(None),
            has_doorbell: AtomicBool::new(false),
            unsettled: Mutex::default(),
            turns: Turns::new(Instant::now()),
            has_one_shot_in_both: AtomicBool::new(false),
        });
        let mut sets = lock(SETS.get());
        sets.retain(|set| set.strong_count() != 0);
        sets.push(Arc::downgrade(&set));
        Some(set)
    }

    /// Returns whether something past the kernel stands in it. Sets within sets are nothing while there is no engine.
    pub(crate) fn has_ours(&self) -> bool {
        !lock(&self.items).is_empty() && self.engine().is_some()
    }

    /// The engine of this process, if it is open.
    pub(super) fn engine(&self) -> Option<&Arc<Shared>> {
        if self.engine.get().is_none() {
            let _ = self.engine.set(engine::opened()?);
        }
        self.engine.get()
    }

    /// Those who wait for an event of the set.
    pub(super) fn watchers(&self) -> &Arc<Watchers> {
        &self.watchers
    }

    /// The kernel's set.
    pub(super) fn real(&self) -> &OwnedFd {
        &self.real
    }

    /// Notes what the real epoll_ctl(2) has done.
    pub(crate) fn note_real(&self, operation: c_int, number: c_int, interest: Interest) {
        match operation {
            EPOLL_CTL_DEL => _ = lock(&self.by_kernel).remove(&number),
            _ => _ = lock(&self.by_kernel).insert(number, interest),
        }
    }

    /// epoll_ctl(2) on a descriptor past the kernel.
    pub(crate) fn control(
        self: &Arc<Self>,
        operation: c_int,
        number: c_int,
        description: &Arc<Description>,
        interest: Interest,
    ) -> Result<(), Errno> {
        let key = Key::of(number, description);
        match operation {
            EPOLL_CTL_ADD => self.add(key, description, interest)?,
            EPOLL_CTL_MOD => self.modify(key, interest)?,
            EPOLL_CTL_DEL => _ = lock(&self.items).remove(key)?,
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    /// epoll_ctl(2) on a number of the kernel that was disarmed when the kernel got it; `None` for all others.
    pub(crate) fn control_disarmed(
        &self,
        operation: c_int,
        number: c_int,
        interest: Option<Interest>,
    ) -> Option<Result<(), Errno>> {
        if !self.disarmed.has(number) {
            return None;
        }
        Some(match (operation, interest) {
            (EPOLL_CTL_ADD, _) => Err(Errno::EXIST),
            (EPOLL_CTL_MOD, Some(interest)) if interest.has(EPOLLEXCLUSIVE) => Err(Errno::INVAL),
            (EPOLL_CTL_MOD, Some(interest)) => self.real_control(EPOLL_CTL_ADD, number, interest).inspect(|()| {
                self.disarmed.remove(number);
                self.note_real(EPOLL_CTL_ADD, number, interest);
            }),
            (EPOLL_CTL_MOD, None) => Err(Errno::FAULT),
            (EPOLL_CTL_DEL, _) => {
                self.disarmed.remove(number);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        })
    }

    fn add(self: &Arc<Self>, key: Key, description: &Arc<Description>, interest: Interest) -> Result<(), Errno> {
        let is_exclusive = interest.has(EPOLLEXCLUSIVE);
        let watcher = Arc::new(ItemWatcher { set: Arc::downgrade(self), key, is_exclusive });
        let weak: Weak<dyn Watcher> = Arc::downgrade(&watcher) as Weak<dyn Watcher>;
        let is_in_both = description.twin_also_receives();
        self.note_one_shot(is_in_both, interest);
        let there = Arc::downgrade(description);
        let marks_reading = interest.is_of_marks();
        let target = Target { number: key.number, description: there, is_in_both, marks_reading, _watcher: watcher };
        {
            let mut items = lock(&self.items);
            items.sweep(|target| target.description.strong_count() != 0);
            items.add(key, target, interest)?;
        }
        description.watchers.add(weak);
        self.announce();
        if descriptors::find(key.number).is_none_or(|present| !Arc::ptr_eq(&present, description)) {
            // The kernel has got it meanwhile, and told the watchers before this one was there.
            self.return_to_kernel(key);
        }
        Ok(())
    }

    fn modify(&self, key: Key, interest: Interest) -> Result<(), Errno> {
        let is_in_both = {
            let mut items = lock(&self.items);
            items.modify(key, interest)?;
            let target = items.target(key);
            target.is_some_and(|target| {
                target.marks_reading = interest.is_of_marks();
                target.is_in_both
            })
        };
        self.note_one_shot(is_in_both, interest);
        self.announce();
        Ok(())
    }

    fn note_one_shot(&self, is_in_both: bool, interest: Interest) {
        if is_in_both && interest.has(EPOLLONESHOT) {
            self.has_one_shot_in_both.store(true, Ordering::Relaxed);
        }
    }

    /// Something may be ready: whoever waits looks.
    fn announce(&self) {
        self.watchers.notify();
        super::wait::ring_doorbell(self);
    }

    /// Returns whether something past the kernel is ready, or has to be settled.
    pub(super) fn is_ready(&self, engine: &mut Engine, unsettled: &mut Unsettled) -> bool {
        let mut asked = Asked::default();
        let is_ready = lock(&self.items).is_ready(|target| asked.readiness(target, engine));
        asked.finish(engine, unsettled);
        is_ready || !unsettled.is_empty()
    }

    /// The readiness of the set itself, of what is past the kernel: for sets around it, and poll(2).
    pub(crate) fn readiness(&self, engine: &mut Engine) -> PollFlags {
        let mut unsettled = Unsettled::new();
        let is_ready = self.is_ready(engine, &mut unsettled);
        match unsettled.is_empty() {
            false => {
                *lock(&self.unsettled) = unsettled;
                UNSETTLED
            }
            true if is_ready => PollFlags::IN | PollFlags::RDNORM,
            true => PollFlags::empty(),
        }
    }

    /// The connections for which the set's readiness was [`UNSETTLED`].
    pub(crate) fn take_unsettled(&self) -> Unsettled {
        std::mem::take(&mut lock(&self.unsettled))
    }

    /// Takes events of descriptors past the kernel.
    pub(super) fn take(
        &self,
        engine: &mut Engine,
        max: usize,
        unsettled: &mut Unsettled,
        mut tell: impl FnMut(&Told<'_, Target>) -> bool,
    ) -> usize {
        let mut asked = Asked::default();
        let mut told_in_both = Vec::new();
        let count = lock(&self.items).take(
            max,
            |target| asked.readiness(target, engine),
            |told| {
                if told.target.is_in_both && told.interest.has(EPOLLONESHOT) {
                    told_in_both.push((told.target.number, told.interest.disarmed()));
                }
                tell(&told)
            },
        );
        asked.finish(engine, unsettled);
        for (number, interest) in told_in_both {
            // One that was closed meanwhile has left the kernel's set.
            let _ = self.real_control(EPOLL_CTL_MOD, number, interest);
        }
        count
    }

    /// The number of items that may be ready.
    pub(super) fn listed(&self) -> usize {
        lock(&self.items).listed()
    }

    /// The kernel's set has told these events: one-shot items that stand in both are disarmed in ours.
    pub(super) fn note_told_by_kernel(&self, events: &[epoll_event]) {
        if self.has_one_shot_in_both.load(Ordering::Relaxed) {
            let is_told = |data| events.iter().any(|event| { event.u64 } == data);
            lock(&self.items).disarm(|target, interest| target.is_in_both && is_told(interest.data));
        }
    }

    /// A socket of the kernel's set goes past the kernel.
    pub(super) fn adopt(self: &Arc<Self>, number: c_int, description: &Arc<Description>) {
        let Some(interest) = lock(&self.by_kernel).get(&number).copied() else { return };
        let stands_in_both = description.twin_also_receives();
        // What was closed since is not there any more; its number is another socket's.
        let operation = if stands_in_both { EPOLL_CTL_MOD } else { EPOLL_CTL_DEL };
        let is_there = self.real_control(operation, number, interest) != Err(Errno::NOENT);
        if !is_there || !stands_in_both {
            lock(&self.by_kernel).remove(&number);
        }
        if !is_there {
            return;
        }
        // It cannot be there: it was not ours before.
        let _ = self.add(Key::of(number, description), description, interest);
    }

    /// A number is closed.
    fn forget(&self, number: c_int) {
        let there = lock(&self.by_kernel).remove(&number);
        if let Some(interest) = there {
            let _ = self.real_control(EPOLL_CTL_DEL, number, interest);
        }
    }

    /// The kernel has got an item's socket.
    fn return_to_kernel(&self, key: Key) {
        let Ok((target, interest)) = lock(&self.items).remove(key) else { return };
        let stands_in_both = lock(&self.by_kernel).contains_key(&key.number);
        let is_open = !stands_in_both && target.description.strong_count() != 0;
        if is_open && !interest.is_armed() && self.disarmed.insert(key.number) {
            return self.watchers.notify();
        }
        if is_open {
            // A number that was closed meanwhile has left the set.
            let _ = self.real_control(EPOLL_CTL_ADD, key.number, interest);
            lock(&self.by_kernel).insert(key.number, interest);
        }
        self.watchers.notify();
    }

    fn real_control(&self, operation: c_int, number: c_int, interest: Interest) -> Result<(), Errno> {
        let mut event = epoll_event { events: interest.events, u64: interest.data };
        // SAFETY: the event is ours; the kernel refuses numbers that are not open.
        let done = unsafe { crate::table::real::epoll_ctl(self.real.as_raw_fd(), operation, number, &raw mut event) };
        if done == 0 { Ok(()) } else { Err(crate::errno::last()) }
    }
}

fn sets() -> Vec<Arc<Set>> {
    lock(SETS.get()).iter().filter_map(Weak::upgrade).collect()
}

/// A socket that stands in sets of the kernel goes past it.
pub(crate) fn adopt(number: c_int, description: &Arc<Description>) {
    sets().iter().for_each(|set| set.adopt(number, description));
}

/// A number of the kernel's sets is closed. The kernel would keep it in them as long as the engine has a descriptor of its socket.
pub(crate) fn forget(number: c_int) {
    sets().iter().for_each(|set| set.forget(number));
}

/// Connections that turned out to be the kernel's, which has to begin them.
pub(crate) type Unsettled = Vec<(c_int, Arc<Description>)>;

/// The descriptions that were asked with the engine locked. The program may close one meanwhile: then the last reference is here, and
/// the engine is needed to end it.
#[derive(Default)]
struct Asked(Unsettled);

impl Asked {
    /// The events of epoll(7) that are on; `None` where the description has ended.
    fn readiness(&mut self, target: &Target, engine: &mut Engine) -> Option<Now> {
        let description = target.description.upgrade()?;
        let now = description.readiness(engine);
        let marked = description.stream().filter(|_| target.marks_reading);
        let mark = marked.and_then(|stream| stream.mark_of_reading(engine, now));
        self.0.push((if now.contains(UNSETTLED) { target.number } else { NOT_UNSETTLED }, description));
        Some(Now { events: u32::from((now & !UNSETTLED & PollFlags::all()).bits()), mark })
    }

    /// Called without a set locked.
    fn finish(self, engine: &mut Engine, unsettled: &mut Unsettled) {
        for (number, description) in self.0 {
            if number != NOT_UNSETTLED {
                unsettled.push((number, description));
            } else if let Some(last) = Arc::into_inner(description) {
                last.end_in(engine);
            }
        }
    }
}

/// No number of a descriptor.
const NOT_UNSETTLED: c_int = -1;

/// Tells the set of changes of an item.
#[derive(Debug)]
pub(super) struct ItemWatcher {
    set: Weak<Set>,
    key: Key,
    /// EPOLLEXCLUSIVE
    is_exclusive: bool,
}

impl Watcher for ItemWatcher {
    fn changed(&self) {
        if let Some(set) = self.set.upgrade()
            && lock(&set.items).list(self.key)
        {
            set.watchers.notify();
        }
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn takes_change(&self) -> bool {
        self.changed();
        self.set.upgrade().is_some_and(|set| set.waiting.load(Ordering::SeqCst) != 0)
    }

    fn moved_to_kernel(&self) {
        if let Some(set) = self.set.upgrade() {
            set.return_to_kernel(self.key);
        }
    }
}

pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts threads that wait.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }

    /// In the real epoll_wait(2).
    pub(super) fn in_kernel(set: &'a Set) -> Self {
        Self::enter(&set.waiting_in_kernel)
    }

    /// For both sides.
    pub(super) fn for_both(set: &'a Set) -> Self {
        Self::enter(&set.waiting)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

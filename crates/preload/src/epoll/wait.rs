//! epoll_wait(2): events of the kernel's set and of ours in one list.
//!
//! Each side has half of the places, so that neither starves where the program takes few events at a time (`turns`). A thread
//! that waits while nothing of the set is ours does so in the real call; a doorbell in the kernel's set tells it of the first item
//! that is.

use super::set::{Counted, Set, Unsettled, lock};
use crate::accelerate;
use crate::engine::{Shared, Woken};
use crate::errno;
use crate::signals::DroppedInside;
use crate::table::real;
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLIN, c_int, epoll_event};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;
use sidestep_socket::Engine;
use sidestep_sys::own_descriptors::keep;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The doorbell's data in the kernel's set: an address of ours, which is no data of the program.
static DOORBELL: u8 = 0;

fn doorbell_data() -> u64 {
    (&raw const DOORBELL).addr() as u64
}

/// Waits for events until the deadline; returns their number.
pub(crate) fn wait(set: &Arc<Set>, events: &mut [epoll_event], deadline: Option<Instant>) -> Result<usize, Errno> {
    let engine = set.engine().ok_or(Errno::BADF)?;
    let may_wait = deadline.is_none_or(|deadline| deadline > Instant::now());
    let _waiting = Counted::for_both(set);
    let mut unsettled = Unsettled::new();
    loop {
        let count = look(engine, set, events, &mut unsettled)?;
        let was_settled = settle(&mut unsettled);
        if count != 0 || (!may_wait && !was_settled) {
            return Ok(count);
        }
        if was_settled {
            continue;
        }
        let also = [(set.real().as_fd(), PollFlags::IN)];
        let is_ready = |engine: &mut Engine| set.is_ready(engine, &mut unsettled).then_some(());
        let woken = engine.wait(&[set.watchers()], &also, deadline, is_ready);
        settle(&mut unsettled);
        match woken {
            Woken::Interrupted => return Err(Errno::INTR),
            Woken::Deadline => return look(engine, set, events, &mut unsettled),
            Woken::Ready(()) | Woken::Kernel => {}
        }
    }
}

/// Has the kernel begin connections; returns whether there were any.
fn settle(unsettled: &mut Unsettled) -> bool {
    let was_any = !unsettled.is_empty();
    unsettled.drain(..).for_each(|(number, description)| accelerate::settle(number, &description));
    was_any
}

/// Takes what is there now.
fn look(engine: &Shared, set: &Set, events: &mut [epoll_event], unsettled: &mut Unsettled) -> Result<usize, Errno> {
    let now = Instant::now();
    if !set.turns.is_kernel_due(now) {
        let count = of_ours(engine, set, events, 0, unsettled);
        if count != 0 {
            return Ok(count);
        }
    }
    let places = events.len() - set.turns.kept_for_ours(events.len(), set.listed());
    let of_kernel = if places == 0 { 0 } else { ask_kernel(set, &mut events[..places], now)? };
    let count = of_kernel + of_ours(engine, set, events, of_kernel, unsettled);
    if count == 0 && places != events.len() {
        // What was kept for ours was not needed.
        return ask_kernel(set, events, now);
    }
    Ok(count)
}

/// Takes our events behind the first `count`, which are the kernel's. Returns how many more there are.
fn of_ours(engine: &Shared, set: &Set, events: &mut [epoll_event], count: usize, unsettled: &mut Unsettled) -> usize {
    let (of_kernel, places) = events.split_at_mut(count);
    let max = places.len();
    let mut places = places.iter_mut();
    engine.with_polled(|engine| {
        set.take(engine, max, unsettled, |told| {
            let data = told.interest.data;
            if told.target.is_in_both && merge(of_kernel, data, told.events) {
                return false;
            }
            if let Some(place) = places.next() {
                *place = epoll_event { events: told.events, u64: data };
            }
            true
        })
    })
}

/// A socket that both sides have is told once; returns whether the kernel has told it.
fn merge(of_kernel: &mut [epoll_event], data: u64, events: u32) -> bool {
    let known = of_kernel.iter_mut().find(|event| { event.u64 } == data);
    known.map(|event| event.events |= events).is_some()
}

fn ask_kernel(set: &Set, events: &mut [epoll_event], now: Instant) -> Result<usize, Errno> {
    let count = real_wait(set, events, 0)?;
    set.turns.note_kernel(now);
    set.note_told_by_kernel(&events[..count]);
    Ok(count)
}

/// The real call on the kernel's set. The doorbell is no event of the program.
fn real_wait(set: &Set, events: &mut [epoll_event], timeout_ms: c_int) -> Result<usize, Errno> {
    let max = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    // SAFETY: the array has so many places.
    let count = unsafe { real::epoll_wait(set.real().as_raw_fd(), events.as_mut_ptr(), max, timeout_ms) };
    let count = usize::try_from(count).map_err(|_| errno::last())?;
    let left = without_doorbell(events, count);
    if left != count {
        silence_doorbell(set);
    }
    Ok(left)
}

/// Moves the doorbell out of the list; returns how many events are left.
pub(crate) fn without_doorbell(events: &mut [epoll_event], count: usize) -> usize {
    let is_doorbell = |event: &epoll_event| ({ event.u64 }) == doorbell_data();
    match events[..count].iter().position(is_doorbell) {
        Some(place) => {
            events.copy_within(place + 1..count, place);
            count - 1
        }
        None => count,
    }
}

/// Runs the real call of a thread that finds nothing of ours in the set; `None` where something of ours has come meanwhile.
pub(crate) fn wait_in_kernel(set: &Set, wait: impl FnOnce() -> c_int) -> Option<c_int> {
    let inside = Counted::in_kernel(set);
    if set.has_ours() {
        return None;
    }
    let result = wait();
    drop(inside);
    silence_doorbell(set);
    Some(result)
}

/// Wakes threads in the real call: something of ours is in the set from now on.
pub(super) fn ring_doorbell(set: &Set) {
    if set.waiting_in_kernel.load(Ordering::SeqCst) == 0 {
        return;
    }
    let mut doorbell = lock(&set.doorbell);
    if doorbell.is_some() {
        return;
    }
    // Without a descriptor those threads learn of it when the kernel's set has something.
    let Ok(bell) = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) else { return };
    let mut event = epoll_event { events: EPOLLIN as u32, u64: doorbell_data() };
    // SAFETY: both descriptors are ours, and the event is.
    unsafe { real::epoll_ctl(set.real().as_raw_fd(), EPOLL_CTL_ADD, bell.as_raw_fd(), &raw mut event) };
    *doorbell = Some(DroppedInside::new(keep(bell)));
    set.has_doorbell.store(true, Ordering::SeqCst);
}

/// Takes the doorbell away when the last thread has come back.
fn silence_doorbell(set: &Set) {
    if !set.has_doorbell.load(Ordering::SeqCst) {
        return;
    }
    let mut doorbell = lock(&set.doorbell);
    if set.waiting_in_kernel.load(Ordering::SeqCst) == 0
        && let Some(bell) = doorbell.take()
    {
        set.has_doorbell.store(false, Ordering::SeqCst);
        // SAFETY: both descriptors are ours.
        unsafe { real::epoll_ctl(set.real().as_raw_fd(), EPOLL_CTL_DEL, bell.as_raw_fd(), std::ptr::null_mut()) };
    }
}

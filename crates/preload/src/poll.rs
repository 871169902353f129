//! poll(2) over descriptors of ours and of the kernel.

use crate::accelerate;
use crate::datagram::Datagrams;
use crate::description::Description;
use crate::descriptors;
use crate::engine::{Shared, Woken};
use crate::signals::is_pending;
use crate::stream::UNSETTLED;
use crate::watchers::Watchers;
use libc::{c_int, pollfd};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use sidestep_socket::Engine;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

/// Events that are told without being asked for.
const ALWAYS: PollFlags = PollFlags::ERR.union(PollFlags::HUP).union(PollFlags::NVAL);

/// One entry of the program's list.
struct Entry {
    number: c_int,
    wanted: PollFlags,
    ours: Option<Arc<Description>>,
    told: PollFlags,
}

impl Entry {
    fn of(entry: &pollfd) -> Self {
        let wanted = PollFlags::from_bits_retain(entry.events as u16) | ALWAYS;
        Self { number: entry.fd, wanted, ours: descriptors::find(entry.fd), told: PollFlags::empty() }
    }

    /// Returns whether the kernel has something to say of it.
    fn is_asked_of_kernel(&self) -> bool {
        self.number >= 0 && self.ours.as_ref().is_none_or(|description| description.twin_also_receives())
    }
}

/// Returns whether the list names a descriptor of ours.
pub(crate) fn has_ours(list: &[pollfd]) -> bool {
    // All of them: each may have to become ours, or the kernel's.
    list.iter().filter(|entry| accelerate::is_ours_to_wait(entry.fd)).count() != 0
}

/// Waits for events of the list until the deadline. Returns the number of entries that have some.
pub(crate) fn wait(engine: &Shared, list: &mut [pollfd], deadline: Option<Instant>) -> Result<c_int, Errno> {
    let may_wait = deadline.is_none_or(|deadline| deadline > Instant::now());
    loop {
        let mut entries: Vec<Entry> = list.iter().map(Entry::of).collect();
        let numbers: Vec<BorrowedFd<'_>> = entries
            .iter()
            .filter(|entry| entry.is_asked_of_kernel())
            // SAFETY: the program answers for its numbers during the call; the kernel tells of closed ones (POLLNVAL).
            .map(|entry| unsafe { BorrowedFd::borrow_raw(entry.number) })
            .collect();
        let also: Vec<(BorrowedFd<'_>, PollFlags)> = entries
            .iter()
            .filter(|entry| entry.is_asked_of_kernel())
            .zip(numbers)
            .map(|(entry, number)| (number, entry.wanted))
            .collect();
        engine.with_polled(|engine| ask(engine, &mut entries));
        ask_kernel(&mut entries, &also)?;
        if settle(&entries) {
            continue;
        }
        let count = tell(list, &entries);
        if count > 0 {
            return Ok(count);
        }
        if !may_wait {
            // As the kernel: a signal that has come is told before the end of the time (fs/select.c, do_poll).
            return if is_pending() { Err(Errno::INTR) } else { Ok(0) };
        }
        let descriptions: Vec<Arc<Description>> = entries.iter().filter_map(|entry| entry.ours.clone()).collect();
        let watchers: Vec<&Arc<Watchers>> = descriptions.iter().map(|description| &description.watchers).collect();
        match engine.wait(&watchers, &also, deadline, |engine| ask(engine, &mut entries).then_some(())) {
            Woken::Interrupted => {
                list.iter_mut().for_each(|entry| entry.revents = 0);
                return Err(Errno::INTR);
            }
            Woken::Deadline => {
                ask_kernel(&mut entries, &also)?;
                return Ok(tell(list, &entries));
            }
            Woken::Ready(()) | Woken::Kernel => {}
        }
    }
}

/// Asks our side of all entries; returns whether there is an event, or something to be done.
fn ask(engine: &mut Engine, entries: &mut [Entry]) -> bool {
    let mut is_ready = false;
    for entry in entries {
        let Some(description) = &entry.ours else { continue };
        entry.told = description.readiness(engine) & (entry.wanted | UNSETTLED);
        is_ready |= !entry.told.is_empty();
    }
    is_ready
}

/// Adds what the kernel says now.
fn ask_kernel(entries: &mut [Entry], also: &[(BorrowedFd<'_>, PollFlags)]) -> Result<(), Errno> {
    if also.is_empty() {
        return Ok(());
    }
    let mut also: Vec<PollFd<'_>> =
        also.iter().map(|(number, wanted)| PollFd::from_borrowed_fd(*number, *wanted)).collect();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut also, Some(&now))?;
    let asked = entries.iter_mut().filter(|entry| entry.is_asked_of_kernel());
    for (entry, told) in asked.zip(also) {
        entry.told |= told.revents();
        if let (true, Some(description)) = (told.revents().contains(PollFlags::ERR), &entry.ours) {
            description.datagrams().into_iter().for_each(Datagrams::note_error);
        }
    }
    Ok(())
}

/// Begins connections that the kernel has to make; returns whether there were any.
fn settle(entries: &[Entry]) -> bool {
    let mut was_any = false;
    for entry in entries.iter().filter(|entry| entry.told.contains(UNSETTLED)) {
        if let Some(description) = &entry.ours {
            accelerate::settle(entry.number, description);
            was_any = true;
        }
    }
    was_any
}

fn tell(list: &mut [pollfd], entries: &[Entry]) -> c_int {
    let mut count = 0;
    for (entry, known) in list.iter_mut().zip(entries) {
        entry.revents = (known.told & known.wanted).bits() as i16;
        count += c_int::from(entry.revents != 0);
    }
    count
}

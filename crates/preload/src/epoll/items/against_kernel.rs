//! The same random schedule on the items of a set and on a set of the kernel: the same errors, the same events.

use super::{Interest, Items};
use crate::signals::tests::PROCESSES;
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP,
    c_int, epoll_event,
};
use rustix::event::epoll::{CreateFlags, create};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, send, shutdown, socketpair};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::PoisonError;

/// Sources of a schedule, each with two numbers.
const SOURCES: usize = 6;
const STEPS: usize = 400;
const SCHEDULES: u64 = 300;

/// More than a set ever has.
const ALL: usize = 4 * SOURCES;

/// A kernel object whose readiness both sets tell.
#[derive(Debug)]
struct Source {
    /// Tells an item of an earlier source by the same number from one of this.
    generation: usize,
    /// Two numbers of the same open file description.
    numbers: [OwnedFd; 2],
    /// The other end of a pair of sockets; `None` for an eventfd, and when it is closed.
    peer: Option<OwnedFd>,
    is_socket: bool,
    has_finished: bool,
}

impl Source {
    fn new(generation: usize, is_socket: bool) -> Self {
        let (end, peer) = if is_socket {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let (end, peer) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            (end, Some(peer))
        } else {
            (eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap(), None)
        };
        let numbers = [end.try_clone().unwrap(), end];
        Self { generation, numbers, peer, is_socket, has_finished: false }
    }

    fn readiness(&self) -> u32 {
        let wanted = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
        let mut list = [PollFd::new(&self.numbers[0], wanted)];
        poll(&mut list, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        u32::from(list[0].revents().bits())
    }

    /// Gives it something to be read; returns whether it has changed.
    fn fill(&self) -> bool {
        match &self.peer {
            Some(peer) => !self.has_finished && send(peer, b"x", SendFlags::NOSIGNAL).is_ok(),
            None => !self.is_socket && rustix::io::write(&self.numbers[0], &1_u64.to_ne_bytes()).is_ok(),
        }
    }

    fn drain(&self) {
        while rustix::io::read(&self.numbers[0], &mut [0_u8; 64]).is_ok_and(|count| count != 0) {}
    }

    /// The peer ends its direction; returns whether it has changed.
    fn finish(&mut self) -> bool {
        let Some(peer) = self.peer.as_ref().filter(|_| !self.has_finished) else { return false };
        self.has_finished = true;
        shutdown(peer, Shutdown::Write).is_ok()
    }

    /// Events that a program may ask for. Edges are told of what our notes do not tell apart, so no edge-triggered interest asks for
    /// less than reading.
    fn interest(&self) -> u32 {
        const IN: i32 = EPOLLIN;
        let of_eventfd = [IN, IN | EPOLLET, IN | EPOLLONESHOT, IN | EPOLLET | EPOLLONESHOT, 0, IN | EPOLLEXCLUSIVE];
        let of_socket = [
            IN,
            IN | EPOLLET,
            IN | EPOLLRDHUP,
            IN | EPOLLRDHUP | EPOLLET,
            IN | EPOLLOUT,
            EPOLLOUT,
            IN | EPOLLONESHOT,
            EPOLLRDHUP | EPOLLONESHOT,
            0,
            EPOLLET,
            IN | EPOLLEXCLUSIVE | EPOLLET,
            IN | EPOLLRDHUP | EPOLLEXCLUSIVE,
            IN | EPOLLONESHOT | EPOLLEXCLUSIVE,
        ];
        let any_of = |list: &[i32]| list[fastrand::usize(..list.len())] as u32;
        if self.is_socket { any_of(&of_socket) } else { any_of(&of_eventfd) }
    }
}

/// Source and generation, and which of its numbers.
type Key = (usize, usize, usize);

/// Both sets.
struct Sets {
    kernel: OwnedFd,
    ours: Items<Key, (usize, usize)>,
    sources: Vec<Source>,
    generations: usize,
}

/// Events by their data: how often each was told, and with which bits.
type Told = BTreeMap<u64, Vec<u32>>;

impl Sets {
    fn new() -> Self {
        let sources = (0..SOURCES).map(|place| Source::new(place, place % 2 == 0)).collect();
        let kernel = create(CreateFlags::CLOEXEC).unwrap();
        Self { kernel, ours: Items::default(), sources, generations: SOURCES }
    }

    fn step(&mut self) {
        let place = fastrand::usize(..SOURCES);
        match fastrand::u8(..100) {
            0..35 => self.control(place),
            35..60 => {
                if self.sources[place].fill() {
                    self.note(place);
                }
            }
            60..75 => self.sources[place].drain(),
            75..78 => {
                if self.sources[place].finish() {
                    self.note(place);
                }
            }
            78..80 => {
                if self.sources[place].peer.take().is_some() {
                    self.note(place);
                }
            }
            80..83 => self.replace(place),
            _ => self.wait(),
        }
    }

    /// Adds, changes or removes an item in both; they refuse the same.
    fn control(&mut self, place: usize) {
        let which = fastrand::usize(..2);
        let source = &self.sources[place];
        let key = (place, source.generation, which);
        let data = (place * 2 + which + source.generation * ALL) as u64;
        let interest = Interest { events: source.interest(), data };
        let operation = [EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL][fastrand::usize(..3)];
        let by_kernel = control(&self.kernel, operation, &source.numbers[which], interest);
        let by_us = match operation {
            EPOLL_CTL_ADD => self.ours.add(key, (place, source.generation), interest),
            EPOLL_CTL_MOD => self.ours.modify(key, interest),
            _ => self.ours.remove(key).map(drop),
        };
        assert_eq!(by_us, by_kernel, "operation {operation}, {interest:?}");
    }

    /// A source has changed: what a watcher tells the set.
    fn note(&mut self, place: usize) {
        let generation = self.sources[place].generation;
        for which in 0..2 {
            self.ours.list((place, generation, which));
        }
    }

    /// Both numbers of a source are closed: its items leave.
    fn replace(&mut self, place: usize) {
        let is_socket = self.sources[place].is_socket;
        self.sources[place] = Source::new(self.generations, is_socket);
        self.generations += 1;
    }

    /// Takes a few events, and then all: each set tells the same, though perhaps not in the same order.
    fn wait(&mut self) {
        let max = fastrand::usize(1..=4);
        let [few_of_kernel, few_of_ours] = [self.take_of_kernel(max), self.take_of_ours(max)];
        let count = |told: &Told| told.values().map(Vec::len).sum::<usize>();
        assert_eq!(count(&few_of_ours), count(&few_of_kernel), "{few_of_ours:?}, the kernel: {few_of_kernel:?}");
        let [rest_of_kernel, rest_of_ours] = [self.take_of_kernel(ALL), self.take_of_ours(ALL)];
        let told = |few: Told, rest: Told| {
            let mut told = rest;
            few.into_iter().for_each(|(data, events)| told.entry(data).or_default().extend(events));
            told
        };
        let [by_kernel, by_us] = [told(few_of_kernel, rest_of_kernel), told(few_of_ours, rest_of_ours)];
        let all = |told: &Told| told.iter().map(|(data, events)| (*data, events[0])).collect::<Vec<_>>();
        assert_eq!(all(&by_us), all(&by_kernel), "{:?}", self.sources);
        for (data, events) in by_us.iter().chain(&by_kernel) {
            assert!(events.iter().all(|other| *other == events[0]), "{data}: {events:?}");
            assert!(events.len() == 1 || self.is_level_triggered(*data), "{data}: {events:?}");
        }
    }

    fn is_level_triggered(&self, data: u64) -> bool {
        let once = (EPOLLET | EPOLLONESHOT) as u32;
        self.ours.items.values().any(|item| item.interest.data == data && item.interest.events & once == 0)
    }

    fn take_of_kernel(&self, max: usize) -> Told {
        let mut list = vec![epoll_event { events: 0, u64: 0 }; max];
        // SAFETY: the list has as many places as the call is told.
        let count = unsafe { libc::epoll_wait(self.kernel.as_raw_fd(), list.as_mut_ptr(), max as c_int, 0) };
        let mut told = Told::new();
        list[..usize::try_from(count).unwrap()]
            .iter()
            .for_each(|one| told.entry(one.u64).or_default().push(one.events));
        told
    }

    fn take_of_ours(&mut self, max: usize) -> Told {
        let mut told = Told::new();
        let sources = &self.sources;
        let readiness = |(place, generation): &(usize, usize)| {
            (sources[*place].generation == *generation).then(|| sources[*place].readiness())
        };
        let count = self.ours.take(max, readiness, |one| {
            told.entry(one.interest.data).or_default().push(one.events);
            true
        });
        assert!(count <= max && count == told.values().map(Vec::len).sum::<usize>());
        told
    }
}

fn control(set: &OwnedFd, operation: c_int, number: &OwnedFd, interest: Interest) -> Result<(), Errno> {
    let mut event = epoll_event { events: interest.events, u64: interest.data };
    // SAFETY: both descriptors are open, and the event is ours.
    let done = unsafe { libc::epoll_ctl(set.as_fd().as_raw_fd(), operation, number.as_raw_fd(), &raw mut event) };
    if done == 0 { Ok(()) } else { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()) }
}

#[test]
fn random_schedules_have_the_kernels_events_and_errors() {
    // The kernel keeps an item while a process that was just forked has a copy of its descriptor.
    let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    for seed in 0..SCHEDULES {
        fastrand::seed(seed);
        let mut sets = Sets::new();
        for step in 0..STEPS {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sets.step()));
            assert!(outcome.is_ok(), "schedule {seed}, step {step}");
        }
    }
}

/// However few events a program takes at a time, each ready descriptor has its turn.
#[test]
fn small_lists_starve_nobody() {
    for (count, max) in [(7, 1), (7, 2), (7, 3), (64, 5), (64, 64)] {
        let mut items = Items::default();
        for key in 0..count {
            items.add(key, key, Interest { events: EPOLLIN as u32, data: key as u64 }).unwrap();
        }
        let mut seen = vec![0; count];
        for _ in 0..count * 3 {
            items.take(
                max,
                |_| Some(EPOLLIN as u32),
                |one| {
                    seen[*one.target] += 1;
                    true
                },
            );
        }
        let [least, most] = [seen.iter().min(), seen.iter().max()].map(|bound| *bound.unwrap());
        assert!(most - least <= 1, "{count} items, {max} at a time: {seen:?}");
    }
}

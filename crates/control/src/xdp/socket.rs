//! The socket of a stack: on the queue that was asked for, or on the first that is free.

use crate::dataplane::Begun;
use sidestep_plane::message::{Code, Mode, OpenStack, Prepared, Refusal};
use sidestep_plane::table::Link;
use sidestep_sys::Problem;
use sidestep_sys::xdp::{self, RingSizes, Umem, Unbound, XskFacts, XskOptions};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How long a queue is tried for whose stack was closed a moment ago. A closed socket gives it back a little later (RCU).
const PATIENCE: Duration = Duration::from_secs(1);
/// The same for one of many, and for a queue that a program without a stack may just have closed. With [`BUSY_REST`] it
/// bounds how much of the time somebody who keeps a copy of a queue's socket can hold up all others: a tenth.
const PATIENCE_ANY: Duration = Duration::from_millis(200);
/// How long a queue counts as just closed.
const CLOSED_LATELY: Duration = Duration::from_secs(2);
/// How long a queue that a stranger has is not tried again: to say who it is takes a search of /proc.
const BUSY_REST: Duration = Duration::from_secs(2);
/// How long one request may take to find a queue.
const SEARCH_MAX: Duration = Duration::from_secs(1);

/// What is known of queues that no stack has: by interface and number. Bounded by their number.
#[derive(Default)]
pub(super) struct Queues(BTreeMap<(u32, u32), (Instant, Known)>);

enum Known {
    /// Its stack was closed at that time.
    Closed,
    /// It was found to be a stranger's.
    Busy(Refusal),
}

impl Queues {
    /// The stack of a queue was closed.
    pub(super) fn close(&mut self, interface: u32, queue: u32) {
        self.0.insert((interface, queue), (Instant::now(), Known::Closed));
    }

    /// Forgets an interface.
    pub(super) fn forget(&mut self, interface: u32) {
        self.0.retain(|(index, _), _| *index != interface);
    }

    /// How long to try for a queue, or why not at all.
    fn patience(&self, interface: u32, queue: u32, is_one_of_many: bool, now: Instant) -> Result<Duration, Refusal> {
        match self.0.get(&(interface, queue)) {
            Some((at, Known::Busy(refusal))) if now.duration_since(*at) < BUSY_REST => Err(refusal.clone()),
            Some((at, Known::Closed)) if now.duration_since(*at) < CLOSED_LATELY => {
                Ok(if is_one_of_many { PATIENCE_ANY } else { PATIENCE })
            }
            _ => Ok(PATIENCE_ANY),
        }
    }

    fn note(&mut self, interface: u32, queue: u32, result: Option<&Refusal>) {
        match result {
            Some(refusal) if refusal.code == Code::QueueBusy => {
                self.0.insert((interface, queue), (Instant::now(), Known::Busy(refusal.clone())));
            }
            _ => _ = self.0.remove(&(interface, queue)),
        }
    }
}

/// Makes memory and a socket that only this interface can have. `used` are the queues of other stacks.
pub(super) fn make(link: &Link, wish: &OpenStack, used: &[u32]) -> Result<Begun<Unbound>, Refusal> {
    let thing = format!("cannot open a stack on {}", link.name);
    // Before the memory is made, which takes long.
    candidates(link, wish, used, &thing)?;
    let refused = |problem: Problem| Refusal::of(code_of(&problem), thing.clone(), &problem);
    let rings = RingSizes::all(wish.ring_entries);
    rings.check().map_err(refused)?;
    let umem = Umem::create(wish.geometry()).map_err(|problem| Refusal::of(Code::Memory, thing.clone(), &problem))?;
    let unbound = Unbound::new(&umem, rings).map_err(refused)?;
    unbound.confine(&link.name).map_err(refused)?;
    let copy = |descriptor: BorrowedFd<'_>| {
        descriptor.try_clone_to_owned().map_err(|error| Refusal::new(Code::Kernel, thing.clone(), error))
    };
    let descriptors = [copy(unbound.socket())?, copy(umem.memfd())?];
    let OpenStack { frames, frame_bytes, headroom, .. } = *wish;
    Ok(Begun { kept: unbound, facts: Prepared { frames, frame_bytes, headroom, rings: rings.into() }, descriptors })
}

/// Binds the socket to the queue that is wanted, or the first that is free.
pub(super) fn bind(
    unbound: &Unbound,
    link: &Link,
    wish: &OpenStack,
    used: &[u32],
    best: Mode,
    known: &mut Queues,
) -> Result<XskFacts, Refusal> {
    let thing = format!("cannot open a stack on {}", link.name);
    let queues = candidates(link, wish, used, &thing)?;
    let options = XskOptions {
        rings: RingSizes::all(wish.ring_entries),
        best: xdp::Mode::from(wish.mode).max(best.into()),
        tx_budget: wish.tx_budget,
        busy_poll: wish.busy_poll.map(Into::into),
        ..XskOptions::default()
    };
    let (is_one_of_many, begun) = (queues.len() > 1, Instant::now());
    let mut refusal = Refusal::plain(Code::NoQueue, thing.clone());
    for queue in queues {
        if begun.elapsed() > SEARCH_MAX {
            break;
        }
        let patience = match known.patience(link.index, queue, is_one_of_many, Instant::now()) {
            Ok(patience) => patience,
            Err(busy) => {
                refusal = busy;
                continue;
            }
        };
        match unbound.bind(&link.name, queue, &XskOptions { patience, ..options.clone() }) {
            Ok(facts) => {
                known.note(link.index, queue, None);
                return Ok(facts);
            }
            Err(problem) => refusal = Refusal::of(code_of(&problem), thing.clone(), &problem),
        }
        known.note(link.index, queue, Some(&refusal));
        if refusal.code != Code::QueueBusy {
            break;
        }
    }
    Err(refusal)
}

/// The queues to try.
fn candidates(link: &Link, wish: &OpenStack, used: &[u32], thing: &str) -> Result<Vec<u32>, Refusal> {
    let count = u32::from(link.receive_queues).min(sidestep_steer::QUEUES_MAX);
    let refuse = |code, reason: String| Err(Refusal::new(code, thing, reason).next("sidestep ps shows who has which"));
    match wish.queue {
        Some(queue) if queue >= count => refuse(Code::NoQueue, format!("it has {count} queues that can be steered")),
        Some(queue) if used.contains(&queue) => refuse(Code::QueueBusy, format!("another stack has queue {queue}")),
        Some(queue) => Ok(vec![queue]),
        None => {
            let free: Vec<u32> = (0..count).filter(|queue| !used.contains(queue)).collect();
            if free.is_empty() { refuse(Code::QueueBusy, format!("all {count} queues have stacks")) } else { Ok(free) }
        }
    }
}

/// The kernel's error stands in the text by its name.
fn code_of(problem: &Problem) -> Code {
    let text = problem.brief();
    let codes = [
        ("EBUSY", Code::QueueBusy),
        ("EPERM", Code::Privilege),
        ("ENOBUFS", Code::Memory),
        ("ENOMEM", Code::Memory),
        ("EOPNOTSUPP", Code::Unsupported),
        ("EINVAL", Code::NoQueue),
        ("ENETDOWN", Code::InterfaceDown),
    ];
    codes.iter().find(|(name, _)| text.contains(name)).map_or(Code::Kernel, |(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_waited_for_longer_after_its_stack_was_closed() {
        let mut queues = Queues::default();
        let now = Instant::now();
        assert_eq!(queues.patience(2, 0, false, now), Ok(PATIENCE_ANY));
        queues.close(2, 0);
        assert_eq!(queues.patience(2, 0, false, now), Ok(PATIENCE));
        assert_eq!(queues.patience(2, 0, true, now), Ok(PATIENCE_ANY));
        assert_eq!(queues.patience(2, 1, false, now), Ok(PATIENCE_ANY), "another queue");
        // Somebody has kept a copy of the socket: from now on it is refused without a try, for a while.
        let busy = Refusal::plain(Code::QueueBusy, "cannot open a stack on eth1");
        queues.note(2, 0, Some(&busy));
        assert_eq!(queues.patience(2, 0, false, now), Err(busy));
        assert_eq!(queues.patience(2, 0, false, now + 2 * BUSY_REST), Ok(PATIENCE_ANY));
        queues.note(2, 0, None);
        assert_eq!(queues.patience(2, 0, false, now), Ok(PATIENCE_ANY));
    }
}

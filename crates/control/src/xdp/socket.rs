//! The socket of a stack: on the queue that was asked for, or on the first that is free.

use sidestep_plane::message::{Code, Mode, OpenStack, Refusal};
use sidestep_plane::table::Link;
use sidestep_sys::Problem;
use sidestep_sys::xdp::{self, RingSizes, Umem, Xsk, XskOptions};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long a queue is tried for that was asked for by number. A closed socket gives it back a little later (RCU).
const PATIENCE: Duration = Duration::from_secs(1);
/// The same for one of many.
const PATIENCE_ANY: Duration = Duration::from_millis(100);

/// A bound socket and the memory of its frames.
pub(super) struct Made {
    pub(super) socket: Xsk,
    pub(super) frames: OwnedFd,
}

/// Makes memory and socket. `used` are the queues of other stacks.
pub(super) fn open(link: &Link, wish: &OpenStack, used: &[u32], best: Mode) -> Result<Made, Refusal> {
    let thing = format!("cannot open a stack on {}", link.name);
    let queues = candidates(link, wish, used, &thing)?;
    let umem = Umem::create(wish.geometry()).map_err(|problem| Refusal::of(Code::Memory, thing.clone(), &problem))?;
    let options = XskOptions {
        rings: RingSizes::all(wish.ring_entries),
        best: xdp::Mode::from(wish.mode).max(best.into()),
        tx_budget: wish.tx_budget,
        busy_poll: wish.busy_poll.map(Into::into),
        patience: if queues.len() == 1 { PATIENCE } else { PATIENCE_ANY },
        ..XskOptions::default()
    };
    let mut refusal = Refusal::plain(Code::NoQueue, thing.clone());
    for queue in queues {
        match Xsk::open(&umem, &link.name, queue, &options) {
            Ok(socket) => {
                let frames = umem.memfd().try_clone_to_owned();
                let frames = frames.map_err(|error| Refusal::new(Code::Kernel, thing, error))?;
                return Ok(Made { socket, frames });
            }
            Err(problem) => refusal = Refusal::of(code_of(&problem), thing.clone(), &problem),
        }
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

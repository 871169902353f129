//! The sockets of a stack: on the requested queues, or on the first free one.

use super::known::Known;
use crate::dataplane::Begun;
use sidestep_control_api::message::{
    Code, Missing, Mode, OpenStack, Prepared, QUEUES_MAX, Queues, Refusal, miss, ranges,
};
use sidestep_control_api::table::Link;
use sidestep_sys::problem::note;
use sidestep_sys::xdp::{self, RingSizes, Umem, Unbound, XskFacts, XskOptions};
use sidestep_sys::{Problem, ethtool, offload};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The longest wait of one stack for busy queues.
const SEARCH_MAX: Duration = Duration::from_secs(1);

/// The longest time that one request binds. A zero-copy driver takes tenths of a second for each queue, and all clients
/// wait meanwhile.
const TURN_MAX: Duration = Duration::from_millis(200);

/// The Ethernet header with two tags, in addition to the IP packet, bytes.
const ETHERNET_BYTES_MAX: u32 = 22;

// Each queue that a stack can have is one that the program can steer.
const _: () = assert!(QUEUES_MAX == sidestep_xdp_steering::QUEUES_MAX);

/// Sockets that are being bound to queues.
pub(crate) struct Sockets {
    unbound: Vec<Unbound>,
    rings: RingSizes,
    /// The facts of those that are bound.
    bound: Vec<XskFacts>,
    missing: Vec<Missing>,
    /// The queues still to be tried; `None` before the first.
    left: Option<VecDeque<u32>>,
    /// The time spent on busy queues.
    waited: Duration,
    /// The reason why the last unavailable queue was refused.
    refusal: Refusal,
}

/// The result.
pub(super) struct Bound {
    /// At least one queue, each with its socket.
    pub(super) queues: Vec<(XskFacts, Unbound)>,
    pub(super) missing: Vec<Missing>,
}

/// The number of queues that an interface receives by at present.
pub(super) fn receiving(link: &Link) -> u32 {
    // A driver that does not report the number in use has allocated that many.
    ethtool::receive_queues(&link.name).unwrap_or_else(|_| u32::from(link.receive_queues))
}

/// The number of those that can be steered.
pub(super) fn steerable(link: &Link) -> u32 {
    receiving(link).min(QUEUES_MAX)
}

/// The number of sockets for a request. `used` are the queues of other stacks.
pub(super) fn plan(link: &Link, wish: &OpenStack, used: &[u32]) -> Result<u32, Refusal> {
    let (free, _) = candidates(link, wish, used)?;
    Ok(if wish.queues == Queues::Any { 1 } else { free.len() as u32 })
}

/// Makes memory, and sockets confined to this interface. Each registers the memory for itself (decision 0015).
pub(super) fn make(link: &Link, wish: &OpenStack, queues: u32) -> Result<Begun<Sockets>, Refusal> {
    let thing = thing(link);
    let refused = |problem: Problem| Refusal::of(code_of(&problem), thing.clone(), &problem);
    let geometry = wish.geometry(queues);
    let rings = rings(link, wish, geometry.frames / queues.max(1));
    rings.check().map_err(refused)?;
    let umem = Umem::create(geometry).map_err(|problem| Refusal::of(Code::Memory, thing.clone(), &problem))?;
    let socket = |_| {
        let unbound = Unbound::new(&umem, rings)?;
        unbound.confine(&link.name).map(|()| unbound)
    };
    let unbound: Result<Vec<Unbound>, Problem> = (0..queues).map(socket).collect();
    let frames = umem.memfd().try_clone_to_owned();
    let frames = frames.map_err(|error| Refusal::new(Code::Kernel, thing.clone(), error))?;
    let kept = Sockets {
        unbound: unbound.map_err(refused)?,
        rings,
        bound: Vec::new(),
        missing: Vec::new(),
        left: None,
        waited: Duration::ZERO,
        refusal: Refusal::plain(Code::NoQueue, thing),
    };
    let OpenStack { frame_bytes, headroom, .. } = *wish;
    let facts = Prepared { frames: geometry.frames, frame_bytes, headroom, rings: rings.into(), sockets: queues };
    Ok(Begun { kept, facts, frames })
}

impl Sockets {
    pub(super) fn copies(&self, from: usize, count: usize) -> io::Result<Vec<OwnedFd>> {
        self.unbound.iter().skip(from).take(count).map(|unbound| unbound.socket().try_clone_to_owned()).collect()
    }

    /// Binds to the wanted queues, for a while; returns true if nothing is left to do. `used` are the queues of other
    /// stacks.
    pub(super) fn bind(
        &mut self,
        link: &Link,
        wish: &OpenStack,
        used: &[u32],
        best: Mode,
        known: &mut Known,
    ) -> Result<bool, Refusal> {
        if self.left.is_none() {
            let (free, taken) = candidates(link, wish, used)?;
            taken.into_iter().for_each(|queue| miss(&mut self.missing, queue, "another stack has it"));
            self.left = Some(free.into());
        }
        let best = xdp::Mode::from(wish.mode).max(best.into());
        let begun = Instant::now();
        while self.bound.len() < self.unbound.len() && begun.elapsed() < TURN_MAX {
            let Some(queue) = self.left.as_mut().and_then(VecDeque::pop_front) else { return Ok(true) };
            let began = Instant::now();
            match self.bind_next(link, wish, queue, best, known) {
                Ok(facts) => self.bound.push(facts),
                Err(refusal) => {
                    self.waited += began.elapsed();
                    self.record_refusal(wish, queue, refusal);
                }
            }
        }
        if self.bound.len() == self.unbound.len() && wish.queues != Queues::Any {
            self.miss_left();
        }
        Ok(self.bound.len() == self.unbound.len() || self.left.as_ref().is_some_and(VecDeque::is_empty))
    }

    fn record_refusal(&mut self, wish: &OpenStack, queue: u32, refusal: Refusal) {
        if wish.queues != Queues::Any {
            miss(&mut self.missing, queue, &refusal.reason);
        }
        // A failure that does not depend on the queue would repeat for the next one.
        if refusal.code != Code::QueueBusy && self.bound.is_empty() {
            self.left = Some(VecDeque::new());
        }
        self.refusal = refusal;
    }

    /// Records the queues that are left as missing: all sockets are bound.
    fn miss_left(&mut self) {
        let reason = "it is beyond the share of its user: control --user-queues N gives more";
        self.left.take().into_iter().flatten().for_each(|queue| miss(&mut self.missing, queue, reason));
        self.left = Some(VecDeque::new());
    }

    fn bind_next(
        &self,
        link: &Link,
        wish: &OpenStack,
        queue: u32,
        best: xdp::Mode,
        known: &mut Known,
    ) -> Result<XskFacts, Refusal> {
        let is_one_of_many = self.left.as_ref().is_some_and(|left| !left.is_empty()) || self.unbound.len() > 1;
        let patience = known.patience(link.index, queue, is_one_of_many, Instant::now())?;
        let options = XskOptions {
            rings: self.rings,
            best,
            tx_budget: wish.tx_budget,
            busy_poll: wish.busy_poll.map(Into::into),
            multi_buffer: wants_multi_buffer(link, wish),
            patience: patience.min(SEARCH_MAX.saturating_sub(self.waited)),
            ..XskOptions::default()
        };
        let unbound = &self.unbound[self.bound.len()];
        let bound = unbound.bind(&link.name, queue, &options);
        let bound = bound.map_err(|problem| Refusal::of(code_of(&problem), thing(link), &problem));
        known.note(link.index, queue, bound.as_ref().err());
        bound
    }

    /// The bound sockets; else the reason why none could be bound.
    pub(super) fn finish(self) -> Result<Bound, Refusal> {
        if self.bound.is_empty() {
            return Err(self.refusal);
        }
        Ok(Bound { queues: self.bound.into_iter().zip(self.unbound).collect(), missing: self.missing })
    }
}

/// The rings of each queue. If frames may lie in the device itself (zero copy), the RX ring holds half of those lent to
/// it: a stopped owner must not have all of them (decision 0023).
fn rings(link: &Link, wish: &OpenStack, frames: u32) -> RingSizes {
    let all = RingSizes::all(wish.ring_entries);
    let is_copied = wish.mode != Mode::ZeroCopy || offload::driver(&link.name).is_ok_and(|driver| driver == "veth");
    let lent = (frames / 2).min(wish.ring_entries);
    let half = (lent / 2).max(1);
    // The greatest power of two up to half of them: any number of queues share the frames.
    if is_copied { all } else { RingSizes { rx: 1 << half.ilog2(), ..all } }
}

/// Returns whether the interface has frames longer than one buffer, and they are wanted.
pub(super) fn wants_multi_buffer(link: &Link, wish: &OpenStack) -> bool {
    wish.multi_buffer && link.mtu + ETHERNET_BYTES_MAX > wish.geometry(1).receive_bytes_max()
}

fn thing(link: &Link) -> String {
    format!("cannot open a stack on {}", link.name)
}

/// The queues to try, and the wanted ones that belong to other stacks; an error if there is none to try.
fn candidates(link: &Link, wish: &OpenStack, used: &[u32]) -> Result<(Vec<u32>, Vec<u32>), Refusal> {
    let count = steerable(link);
    let refuse =
        |code, reason: String| Err(Refusal::new(code, thing(link), reason).next("sidestep ps shows who has which"));
    let queues = if count == 1 { "1 queue".to_owned() } else { format!("{count} queues") };
    let wanted: BTreeSet<u32> = match &wish.queues {
        Queues::Any | Queues::Every => (0..count).collect(),
        Queues::These(queues) => queues.iter().copied().collect(),
    };
    if wanted.is_empty() || wanted.iter().any(|queue| *queue >= count) {
        let reason = format!("it has {queues} that can be steered, and another one is asked for");
        let next = format!("choose from 0 to {}, or any", count.saturating_sub(1));
        return Err(Refusal::new(Code::NoQueue, thing(link), reason).next(next));
    }
    let (taken, mut free): (Vec<u32>, Vec<u32>) = wanted.into_iter().partition(|queue| used.contains(queue));
    // Most hosts have their own traffic on the first queue: it is taken last.
    if wish.queues == Queues::Any && free.first() == Some(&0) {
        free.rotate_left(1);
    }
    match free.is_empty() {
        true if count == 1 => refuse(Code::QueueBusy, "another stack has its only queue".to_owned()),
        true if count as usize == taken.len() => refuse(Code::QueueBusy, format!("all {queues} have stacks")),
        true => refuse(Code::QueueBusy, format!("another stack has queue {}", ranges(taken))),
        false => Ok((free, taken)),
    }
}

/// The code of a problem, by the name of the kernel's error in its text.
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

/// Notes that frames longer than `frame_bytes_max` stay with the kernel.
pub(super) fn note_no_multi_buffer(link: &Link, frame_bytes_max: u32) {
    let (name, mtu) = (&link.name, link.mtu);
    note(format!(
        "{name} has an MTU of {mtu}, but neither this kernel nor its driver gives frames of more than {frame_bytes_max} bytes to \
        a program (Linux 6.6 and drivers with multi-buffer XDP do): longer datagrams go by the kernel; all of them come past \
        it with: ip link set {name} mtu 1500"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// A device that this machine does not have: its type is only in the table.
    fn device(receive_queues: u16) -> Link {
        Link { receive_queues, ..testing::link(7, "none0") }
    }

    #[test]
    fn any_queue_is_the_first_one_last() {
        let any =
            |queues, used: &[u32]| candidates(&device(queues), &OpenStack::on("none0"), used).map(|(free, _)| free);
        assert_eq!(any(4, &[]).unwrap(), [1, 2, 3, 0]);
        assert_eq!(any(4, &[1, 2]).unwrap(), [3, 0]);
        assert_eq!(any(4, &[1, 2, 3]).unwrap(), [0]);
        assert_eq!(any(1, &[]).unwrap(), [0]);
        assert!(any(2, &[0, 1]).is_err());
        let every = OpenStack { queues: Queues::Every, ..OpenStack::on("none0") };
        assert_eq!(candidates(&device(3), &every, &[]).unwrap().0, [0, 1, 2]);
    }

    #[test]
    fn in_zero_copy_the_receive_ring_leaves_frames_to_the_device() {
        let sizes = |wish: &OpenStack, frames| rings(&device(4), wish, frames);
        let wish = OpenStack::on("none0");
        assert_eq!(sizes(&wish, 4096), RingSizes { rx: 1024, ..RingSizes::all(2048) });
        // Each of several queues is lent its part of the frames.
        assert_eq!(sizes(&wish, 512), RingSizes { rx: 128, ..RingSizes::all(2048) });
        let copied = OpenStack { mode: Mode::Copy, ..OpenStack::on("none0") };
        assert_eq!(sizes(&copied, 4096), RingSizes::all(2048));
        for queues in 1..=64 {
            let geometry = OpenStack::on("none0").geometry(queues);
            let lent = geometry.frames / 2 / queues;
            let rx = sizes(&wish, geometry.frames / queues).rx;
            assert!(rx.is_power_of_two() && 2 * rx <= lent.max(2), "{queues} queues: {rx} of {lent}");
        }
        for frames in [0, 1, 2, 3, 64, 1 << 20] {
            assert!(sizes(&wish, frames).check().is_ok(), "{frames} frames");
        }
    }
}

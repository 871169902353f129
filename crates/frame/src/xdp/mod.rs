//! Frames of one device queue, or of several, with an AF_XDP socket for each (linux/if_xdp.h; Linux 5.11).
//!
//! The link needs the sockets' descriptors, their rings and the frame memory, mapped, and their facts; it needs no
//! privilege. The sockets are made and bound elsewhere (by `sidestep control`, or by this process as root).
//!
//! Several queues share one memory and one accounting of its frames. Received frames are taken from each queue in turn.
//! The lowest queue sends, so that frames leave in the order in which they were handed over, by one system call for all
//! of them.

mod budget;
mod kick;
mod level;
mod long;
mod queue;
mod sending;
mod sqpoll;
mod thread;

pub use kick::Kick;
pub use queue::XdpQueue;
pub use sending::Sending;

use super::accounting::{Frames, Place};
use super::{Counters, FRAME_BYTES_MIN, FrameFacts, FrameLink, Outgoing, Reason, Received, Sender, Unsent};
use budget::Budget;
use kick::Kicker;
use long::Long;
use queue::{Queue, Turns};
use rustix::event::epoll;
use sidestep_sys::Problem;
use sidestep_sys::own_descriptors::keep;
use sidestep_sys::printable::ranges;
use sidestep_sys::xdp::statistics;
use sidestep_sys::xdp::{
    Consumer, Descriptor, MULTI_BUFFER_BYTES_MAX, Producer, Rings, Umem, Xsk, XskFacts, take_error,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// The number of frames lent to the kernel at a time: one store of the index, one cache line of addresses, for eight of
/// them.
const FILL_BATCH: u32 = 8;

/// The options of a link over AF_XDP.
#[derive(Clone, Copy, Debug, Default)]
pub struct XdpOptions {
    /// The thread that sends.
    pub kick: Kick,
    /// The number of frames lent to the kernel for receiving by each queue. With fewer, each is reused sooner, while it is
    /// still in the cache, and bursts must be shorter. By default half of all frames for all queues, or the size of the FILL
    /// ring; in copy mode down to 256 while frames come one by one, until a burst needs more.
    pub fill: Option<u32>,
}

/// Device queues of one interface, mostly one.
#[derive(Debug)]
pub struct XdpLink {
    // Before the rings: its thread reads them.
    kicker: Kicker,
    queues: Box<[Queue]>,
    turns: Turns,
    /// The index of the queue that sends.
    sender: usize,
    /// The TX ring of that queue.
    tx: Producer<Descriptor>,
    completion: Consumer<u64>,
    frames: Frames,
    long: Long,
    /// The number of sent frames after which `send` takes them back by itself: the kernel sends nothing while the
    /// COMPLETION ring is full, and a caller that always finds something to receive need not poll.
    reap_at: u32,
    facts: FrameFacts,
    received: u64,
    sent: u64,
    full: u64,
    calls: u64,
    umem: Umem,
    /// An epoll of the sockets, if there are several.
    all: Option<OwnedFd>,
}

impl XdpLink {
    /// Makes a link over a socket and memory of this process.
    pub fn over(xsk: Xsk, umem: Umem, options: &XdpOptions) -> Result<Self, Problem> {
        let (socket, facts, rings) = xsk.into_parts();
        Self::open(socket, rings, umem, facts, options)
    }

    /// Makes a link over a socket made elsewhere. The socket must be unused: the state of its frames cannot be read
    /// from it.
    pub fn open(
        socket: OwnedFd,
        rings: Rings,
        umem: Umem,
        facts: XskFacts,
        options: &XdpOptions,
    ) -> Result<Self, Problem> {
        Self::open_all(vec![XdpQueue { socket, rings, facts }], umem, options)
    }

    /// Makes a link over a socket for each of several queues of one interface, all with this memory.
    pub fn open_all(sockets: Vec<XdpQueue>, umem: Umem, options: &XdpOptions) -> Result<Self, Problem> {
        let refused = |why: &str| {
            Problem::failed("cannot make a link of AF_XDP sockets", why).next("give it a fresh socket for each queue")
        };
        let count = u8::try_from(sockets.len()).map_err(|_| refused("a link has at most 255 sockets"))?;
        let (mut queues, mut facts, mut senders) = (Vec::new(), Vec::new(), Vec::new());
        for (number, socket) in (0..count).zip(sockets) {
            let (queue, sender, of_queue) = Queue::open(socket, (number, count), options)?;
            queues.push(queue);
            facts.push(of_queue);
            senders.push(sender);
        }
        // A device may receive by more queues than it transmits by, as virtio-net does with an XDP program: the
        // low-numbered ones do both. In copy mode the kernel leaves frames of the others unsent, without an error.
        let lowest = (0..queues.len()).min_by_key(|at| facts[*at].queue);
        let Some(sender) = lowest else { return Err(refused("there is none")) };
        let (xsk, queue) = (&facts[sender], &queues[sender]);
        let queue::Sender { tx, completion } = senders.swap_remove(sender);
        let kicker = Kicker::start(options.kick, queue.socket.as_fd(), &tx, Budget::new(xsk.tx_budget))?;
        let geometry = xsk.geometry;
        let reap_at = (xsk.rings.completion / 2).max(1);
        let multi_buffer = facts.iter().all(|facts| facts.multi_buffer);
        let mut link = Self {
            facts: link_facts(facts, sender, kicker.sender(), multi_buffer),
            kicker,
            turns: Turns::new(queues.len()),
            all: if count == 1 { None } else { Some(watch(&queues)?) },
            queues: queues.into(),
            sender,
            tx,
            completion,
            frames: Frames::new(geometry.frames, geometry.frame_bytes, count),
            long: Long::new(geometry.frames, multi_buffer)?,
            reap_at,
            received: 0,
            sent: 0,
            full: 0,
            calls: 0,
            umem,
        };
        link.queues.iter_mut().for_each(|queue| queue.begin(&mut link.frames));
        Ok(link)
    }

    /// The descriptor that becomes readable when a frame arrives (poll(2), epoll(7)): the socket, or an epoll of
    /// several.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.all.as_ref().map_or_else(|| self.sender(), AsFd::as_fd)
    }

    /// Frames that the kernel has dropped since the link was opened, all queues together: no frame was lent to it, or the RX ring was
    /// full. In zero-copy mode a device without frames drops by itself, in its own counters (`ethtool -S`). One system call for each
    /// queue.
    pub fn dropped(&self) -> u64 {
        let counted = self.queues.iter().filter_map(|queue| statistics(queue.socket.as_fd()).ok());
        counted.map(|counted| counted.rx_dropped + counted.rx_ring_full).sum()
    }

    /// The most frames that are lent to the device for receiving, all queues together.
    pub fn fill_most(&self) -> u32 {
        self.queues.iter().map(Queue::lent_most).sum()
    }

    /// The number of received frames that are with the caller.
    #[inline]
    pub fn lent(&self) -> u32 {
        self.frames.tally().lent
    }

    /// The socket that sends.
    fn sender(&self) -> BorrowedFd<'_> {
        self.queues[self.sender].socket.as_fd()
    }

    /// Takes back frames that have been sent.
    #[inline]
    fn reap(&mut self) {
        let mut any = false;
        while let Some(address) = self.completion.pop() {
            self.frames.complete(address);
            any = true;
        }
        if any {
            self.completion.release();
        }
    }

    /// The number of bytes from `offset` to the end of a frame.
    #[inline]
    fn room(&self, index: u32, offset: u32) -> usize {
        let is_long = self.long.place_of(index).is_some();
        if is_long { self.long.frames.room(offset) } else { self.frames.room(offset) }
    }

    /// The address of bytes in a frame, if the frame is in state `place` and has this many.
    #[inline]
    fn locate(&self, index: u32, offset: u32, len: usize, place: Place) -> Option<NonNull<u8>> {
        if let Some(index) = self.long.place_of(index) {
            return self.long.locate(index, offset, len).filter(|_| self.long.frames.is_at(index, place));
        }
        let is_ours = self.frames.is_at(index, place) && len <= self.frames.room(offset);
        self.umem.locate(self.frames.address(index, offset), len).filter(|_| is_ours)
    }

    fn kick(&mut self) -> io::Result<()> {
        let socket = self.queues[self.sender].socket.as_fd();
        self.kicker.kick(socket, &self.tx, &mut self.calls)
    }
}

/// The facts of a link over these sockets; number `sender` sends for all of them.
fn link_facts(xsks: Vec<XskFacts>, sender: usize, sent_by: Sender, multi_buffer: bool) -> FrameFacts {
    let (geometry, interface) = (xsks[sender].geometry, &xsks[sender].interface);
    let (receive_bytes_max, send_bytes_max) = match multi_buffer {
        true => (MULTI_BUFFER_BYTES_MAX, MULTI_BUFFER_BYTES_MAX),
        false => (geometry.receive_bytes_max(), geometry.frame_bytes),
    };
    let numbers = ranges(xsks.iter().map(|facts| facts.queue));
    FrameFacts {
        place: format!("queue{} {numbers} of {interface}", if xsks.len() == 1 { "" } else { "s" }),
        frames: geometry.frames,
        frame_bytes: geometry.frame_bytes,
        receive_bytes_max,
        send_bytes_max,
        sender: sent_by,
        xsks,
    }
}

/// An epoll that becomes readable with any of the sockets.
fn watch(queues: &[Queue]) -> Result<OwnedFd, Problem> {
    let failed = |error: rustix::io::Errno| Problem::failed("cannot watch several AF_XDP sockets", error);
    let all = keep(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?);
    for queue in queues {
        epoll::add(&all, &queue.socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(failed)?;
    }
    Ok(all)
}

impl FrameLink for XdpLink {
    fn facts(&self) -> &FrameFacts {
        &self.facts
    }

    fn counters(&self) -> Counters {
        Counters {
            received: self.received,
            sent: self.sent,
            full: self.full,
            calls: self.calls,
            faults: self.frames.faults()
                + self.long.frames.faults()
                + self.queues.iter().map(|queue| queue.rx.faults()).sum::<u64>()
                + self.completion.faults(),
            long_dropped: self.long.dropped,
            tally: self.frames.tally() + self.long.tally(),
        }
    }

    #[inline]
    fn receive(&mut self) -> Option<Received> {
        for _ in 0..self.queues.len() {
            let number = self.turns.at();
            let queue = &mut self.queues[number];
            if let Some(descriptor) = queue.rx.pop() {
                queue.rx.release();
                let frame = if descriptor.is_continued() || queue.partial.is_some() {
                    self.gather(number, descriptor)
                } else {
                    self.frames.receive(number as u8, descriptor, None)
                };
                self.received += u64::from(frame.is_some());
                self.queues[number].refill(&mut self.frames);
                self.turns.took();
                return frame;
            }
            self.turns.next();
        }
        None
    }

    #[inline]
    fn bytes(&self, frame: &Received) -> &[u8] {
        let place = self.locate(frame.index, frame.offset, frame.len(), Place::Lent);
        // SAFETY: the bytes lie inside of one frame of a mapping, and that frame is with the caller: it is in no ring,
        // so the kernel does not write to it, and writing by `buffer` takes `&mut self`.
        place.map_or(&[], |place| unsafe { std::slice::from_raw_parts(place.as_ptr(), frame.len()) })
    }

    #[inline]
    fn release(&mut self, frame: Received) {
        match self.long.place_of(frame.index) {
            None => self.frames.release(&frame),
            Some(index) => _ = self.long.frames.step(index, Place::Lent, Place::Free),
        }
    }

    #[inline]
    fn answer(&mut self, frame: Received) -> Outgoing {
        match self.long.place_of(frame.index) {
            None => self.frames.answer(&frame),
            Some(index) => {
                self.long.frames.step(index, Place::Lent, Place::Held);
                Outgoing { index: frame.index, offset: frame.offset }
            }
        }
    }

    #[inline]
    fn allocate(&mut self) -> Option<Outgoing> {
        if self.frames.tally().free == 0 {
            self.reap();
        }
        self.frames.take(Place::Held).map(|index| Outgoing { index, offset: 0 })
    }

    #[inline]
    fn buffer(&mut self, frame: &Outgoing) -> &mut [u8] {
        let room = self.room(frame.index, frame.offset);
        match self.locate(frame.index, frame.offset, room, Place::Held) {
            // SAFETY: the bytes lie inside of one frame of a mapping, and that frame is with the caller: it is in no
            // ring, so the kernel does not touch it, and `&mut self` keeps every other slice away.
            Some(place) => unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), room) },
            None => &mut [],
        }
    }

    #[inline]
    fn send(&mut self, frame: Outgoing, len: usize) -> Result<(), Unsent> {
        if !(FRAME_BYTES_MIN..=self.room(frame.index, frame.offset)).contains(&len) {
            return Err(Unsent { frame, reason: Reason::Length });
        }
        if let Some(index) = self.long.place_of(frame.index) {
            return self.send_long(index, frame, len);
        }
        if self.frames.tally().sent >= self.reap_at {
            self.reap();
        }
        if self.tx.free(1) == 0 {
            self.full += 1;
            return Err(Unsent { frame, reason: Reason::Full });
        }
        if self.frames.step(frame.index, Place::Held, Place::Sent) {
            let address = self.frames.address(frame.index, frame.offset);
            self.tx.push(Descriptor { address, len: len as u32, options: 0 });
            self.sent += 1;
        }
        Ok(())
    }

    #[inline]
    fn discard(&mut self, frame: Outgoing) {
        match self.long.place_of(frame.index) {
            None => self.frames.discard(&frame),
            Some(index) => _ = self.long.frames.step(index, Place::Held, Place::Free),
        }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.tx.publish();
        self.kick()
    }

    #[inline]
    fn poll(&mut self) -> io::Result<()> {
        self.reap();
        for queue in &mut self.queues {
            queue.poll(&mut self.frames, &mut self.calls)?;
        }
        // Descriptors that a kick left unsent: the device was full, or a call's limit was reached.
        if self.tx.pending() != 0 { self.kick() } else { self.kicker.report() }
    }

    fn check(&mut self) -> io::Result<()> {
        self.calls += 1;
        self.queues.iter().try_for_each(|queue| take_error(queue.socket.as_fd()))?;
        self.kicker.report()
    }
}

/// The sender's kind, for facts.
impl From<Kick> for Sender {
    fn from(kick: Kick) -> Self {
        match kick {
            Kick::Caller => Self::Caller,
            Kick::Thread { idle, .. } if idle.parks() => Self::ParkingThread,
            Kick::Thread { .. } => Self::SpinningThread,
            Kick::Sqpoll { .. } => Self::Sqpoll,
        }
    }
}

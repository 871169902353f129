//! Frames of one device queue, over an AF_XDP socket (linux/if_xdp.h; Linux 5.11).
//!
//! The link needs the socket's descriptor, its rings and the frame memory, mapped, and their facts; it needs no privilege. Who
//! has made the socket and bound it is another matter (`sidestep control`, or this process as root).

mod kick;
mod sending;
mod sqpoll;
mod thread;

pub use kick::{Idle, Kick};
pub use sending::Sending;

use super::accounting::{Frames, Place};
use super::{Counters, FRAME_BYTES_MIN, FrameFacts, FrameLink, Outgoing, Reason, Received, Sender, Unsent};
use kick::Kicker;
use sidestep_sys::Problem;
use sidestep_sys::xdp::{Consumer, Descriptor, Producer, Rings, Umem, Xsk, XskFacts, kick as call, take_error};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Frames lent to the kernel at a time: one store of the index, one cache line of addresses, for eight of them.
const FILL_BATCH: u32 = 8;

/// How a link over AF_XDP is driven.
#[derive(Clone, Copy, Debug, Default)]
pub struct XdpOptions {
    /// Who makes frames leave.
    pub kick: Kick,
    /// Frames lent to the kernel for receiving; half of all, or what the FILL ring holds, if none is given. The fewer there
    /// are, the sooner each is used again while the cache still has it, and the shorter a burst may be.
    pub fill: Option<u32>,
}

/// One device queue.
#[derive(Debug)]
pub struct XdpLink {
    // Before the rings: its thread looks at them.
    kicker: Kicker,
    rx: Consumer<Descriptor>,
    tx: Producer<Descriptor>,
    fill: Producer<u64>,
    completion: Consumer<u64>,
    frames: Frames,
    fill_target: u32,
    /// Frames handed over after which `send` takes sent ones back by itself: the kernel sends nothing while the COMPLETION
    /// ring is full, and a caller that always finds something to receive need not poll.
    reap_at: u32,
    facts: FrameFacts,
    polls_device: bool,
    received: u64,
    sent: u64,
    full: u64,
    calls: u64,
    umem: Umem,
    socket: OwnedFd,
}

impl XdpLink {
    /// Over a socket and memory of this process.
    pub fn over(xsk: Xsk, umem: Umem, options: &XdpOptions) -> Result<Self, Problem> {
        let (socket, facts, rings) = xsk.into_parts();
        Self::open(socket, rings, umem, facts, options)
    }

    /// Over a socket made elsewhere. It must not have been used before: whose frames are where is not to be learnt from it.
    pub fn open(
        socket: OwnedFd,
        rings: Rings,
        umem: Umem,
        xsk: XskFacts,
        options: &XdpOptions,
    ) -> Result<Self, Problem> {
        let place = format!("queue {} of {}", xsk.queue, xsk.interface);
        let refused = |why: &str| {
            Problem::failed(format!("cannot use the AF_XDP socket of {place}"), why)
                .next("give it a fresh socket with four rings of its own")
        };
        let (Some(rx), Some(tx), Some(fill), Some(completion)) = (rings.rx, rings.tx, rings.fill, rings.completion)
        else {
            return Err(refused("it lacks a ring"));
        };
        if !tx.is_fresh() || !fill.is_fresh() {
            return Err(refused("it has been used before"));
        }
        let kicker = Kicker::start(options.kick, socket.as_fd(), &tx)?;
        let geometry = xsk.geometry;
        let fill_target = options.fill.unwrap_or(geometry.frames.div_ceil(2)).min(xsk.rings.fill).min(geometry.frames);
        let reap_at = (xsk.rings.completion / 2).max(1);
        let facts = FrameFacts {
            place,
            frames: geometry.frames,
            frame_bytes: geometry.frame_bytes,
            receive_bytes_max: geometry.receive_bytes_max(),
            send_bytes_max: geometry.frame_bytes,
            sender: kicker.sender(),
            xsk: Some(xsk),
        };
        let polls_device = facts.xsk.as_ref().is_some_and(|xsk| xsk.busy_poll.is_some());
        let frames = Frames::new(geometry.frames, geometry.frame_bytes);
        let (received, sent, full, calls) = (0, 0, 0, 0);
        let mut link = Self {
            kicker,
            rx,
            tx,
            fill,
            completion,
            frames,
            fill_target,
            reap_at,
            facts,
            polls_device,
            received,
            sent,
            full,
            calls,
            umem,
            socket,
        };
        link.refill(1);
        Ok(link)
    }

    /// The socket, to be slept on (poll(2), epoll(7)) or looked at.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Lends free frames to the kernel, if at least `batch` are missing there.
    #[inline]
    fn refill(&mut self, batch: u32) {
        let missing = self.fill_target.saturating_sub(self.frames.tally().fill);
        if missing < batch {
            return;
        }
        let count = missing.min(self.fill.free(missing));
        for _ in 0..count {
            let Some(index) = self.frames.take(Place::Fill) else { break };
            self.fill.push(self.frames.address(index, 0));
        }
        self.fill.publish();
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

    /// Has the kernel look at the FILL ring, or polls the device by our own call.
    #[cold]
    fn drive_receiving(&mut self) -> io::Result<()> {
        self.calls += 1;
        match call::receive(self.socket.as_fd()) {
            Err(error) if !call::is_retry(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn kick(&mut self) -> io::Result<()> {
        self.kicker.kick(self.socket.as_fd(), &self.tx, &mut self.calls)
    }
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
            faults: self.frames.faults() + self.rx.faults() + self.completion.faults(),
            tally: self.frames.tally(),
        }
    }

    #[inline]
    fn receive(&mut self) -> Option<Received> {
        let descriptor = self.rx.pop()?;
        self.rx.release();
        let frame = self.frames.receive(descriptor, None);
        self.received += u64::from(frame.is_some());
        self.refill(FILL_BATCH);
        frame
    }

    #[inline]
    fn bytes(&self, frame: &Received) -> &[u8] {
        let is_ours = self.frames.is_at(frame.index, Place::Lent) && frame.len() <= self.frames.room(frame.offset);
        let place = self.umem.locate(self.frames.address(frame.index, frame.offset), frame.len()).filter(|_| is_ours);
        // SAFETY: the bytes lie inside of one frame of the mapping, and that frame is with the caller: it is in no ring,
        // so the kernel does not write to it, and writing by `buffer` takes `&mut self`.
        place.map_or(&[], |place| unsafe { std::slice::from_raw_parts(place.as_ptr(), frame.len()) })
    }

    #[inline]
    fn release(&mut self, frame: Received) {
        self.frames.release(&frame);
    }

    #[inline]
    fn answer(&mut self, frame: Received) -> Outgoing {
        self.frames.answer(&frame)
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
        let room = self.frames.room(frame.offset);
        let place = self.umem.locate(self.frames.address(frame.index, frame.offset), room);
        match place.filter(|_| self.frames.is_at(frame.index, Place::Held)) {
            // SAFETY: the bytes lie inside of one frame of the mapping, and that frame is with the caller: it is in no
            // ring, so the kernel does not touch it, and `&mut self` keeps every other slice away.
            Some(place) => unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), room) },
            None => &mut [],
        }
    }

    #[inline]
    fn send(&mut self, frame: Outgoing, len: usize) -> Result<(), Unsent> {
        if !(FRAME_BYTES_MIN..=self.frames.room(frame.offset)).contains(&len) {
            return Err(Unsent { frame, reason: Reason::Length });
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
        self.frames.discard(&frame);
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.tx.publish();
        self.kick()
    }

    #[inline]
    fn poll(&mut self) -> io::Result<()> {
        self.reap();
        self.refill(FILL_BATCH.min(self.fill_target));
        if self.polls_device || self.fill.needs_wakeup() {
            self.drive_receiving()?;
        }
        // What a kick has left behind, when the device had no room or a call sends only so many.
        if self.tx.pending() != 0 { self.kick() } else { self.kicker.report() }
    }

    fn check(&mut self) -> io::Result<()> {
        self.calls += 1;
        take_error(self.socket.as_fd())?;
        self.kicker.report()
    }
}

/// The sender's kind, for facts.
impl From<Kick> for Sender {
    fn from(kick: Kick) -> Self {
        match kick {
            Kick::Caller => Self::Caller,
            Kick::Thread { idle: Idle::Spin, .. } => Self::SpinningThread,
            Kick::Thread { idle: Idle::Park, .. } => Self::ParkingThread,
            Kick::Sqpoll { .. } => Self::Sqpoll,
        }
    }
}

//! The sender of the frames in a TX ring.

use super::budget::Budget;
use super::sqpoll::Sqpoll;
use super::thread::Thread;
use crate::Sender;
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::xdp::{Descriptor, Producer, kick as call};
use std::io;
use std::os::fd::BorrowedFd;

/// The thread that sends frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kick {
    /// The caller, by sendto(2), when the kernel requires it. In copy mode the frame is sent when the call returns.
    #[default]
    Caller,
    /// A second thread makes the system calls, so that the caller makes none; it costs a CPU, or a wake-up.
    Thread {
        /// Its behaviour when there is nothing to send.
        idle: IdleStrategy,
        /// The CPU to pin it to.
        cpu: Option<u32>,
    },
    /// A kernel thread polls an io_uring: no system call by the caller while it is awake. It costs a CPU.
    Sqpoll {
        /// The CPU to pin it to.
        cpu: Option<u32>,
        /// The time without a frame after which it sleeps; the next flush then wakes it by a system call; milliseconds.
        idle_ms: u32,
    },
}

/// The sender of a link.
#[derive(Debug)]
pub(super) enum Kicker {
    Caller { budget: Budget },
    Thread(Thread, Kick),
    Sqpoll(Box<Sqpoll>),
}

impl Kicker {
    pub(super) fn start(
        kick: Kick,
        socket: BorrowedFd<'_>,
        tx: &Producer<Descriptor>,
        budget: Budget,
    ) -> Result<Self, Problem> {
        match kick {
            Kick::Caller => Ok(Self::Caller { budget }),
            Kick::Thread { idle, cpu } => Ok(Self::Thread(Thread::start(idle, cpu, socket, tx.probe())?, kick)),
            Kick::Sqpoll { cpu, idle_ms } => Ok(Self::Sqpoll(Box::new(Sqpoll::start(cpu, idle_ms, budget)?))),
        }
    }

    pub(super) fn sender(&self) -> Sender {
        match self {
            Self::Caller { .. } => Sender::Caller,
            Self::Thread(_, kick) => (*kick).into(),
            Self::Sqpoll(_) => Sender::Sqpoll,
        }
    }

    /// Sends the published descriptors of `tx`. `calls` counts system calls.
    #[inline]
    pub(super) fn kick(
        &mut self,
        socket: BorrowedFd<'_>,
        tx: &Producer<Descriptor>,
        calls: &mut u64,
    ) -> io::Result<()> {
        match self {
            Self::Caller { budget } => by_caller(socket, tx, *budget, calls),
            Self::Thread(thread, _) => thread.kick(calls),
            Self::Sqpoll(sqpoll) if tx.needs_wakeup() => sqpoll.kick(socket, tx.pending(), calls),
            Self::Sqpoll(sqpoll) => sqpoll.report(),
        }
    }

    /// The errors since the last report.
    #[inline]
    pub(super) fn report(&mut self) -> io::Result<()> {
        match self {
            Self::Caller { .. } => Ok(()),
            Self::Thread(thread, _) => thread.report(),
            Self::Sqpoll(sqpoll) => sqpoll.report(),
        }
    }
}

/// Sends by the caller's system calls. A call in copy mode sends 32 descriptors unless configured otherwise (EAGAIN),
/// so a full ring takes several calls: as many as that would take. Before Linux 6.17, which publishes the index at each
/// call, the progress of one call is not visible. Descriptors left after these calls, or when the device is full, are
/// for a later poll.
#[inline]
fn by_caller(socket: BorrowedFd<'_>, tx: &Producer<Descriptor>, budget: Budget, calls: &mut u64) -> io::Result<()> {
    for _ in 0..budget.calls(tx.pending()) {
        if !tx.needs_wakeup() {
            break;
        }
        *calls += 1;
        match call::transmit(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if !call::is_retry(&error) => return Err(error),
            _ => break,
        }
    }
    Ok(())
}

//! One call of the program on a descriptor of ours: from the outermost frame, in which nothing has to be dropped, into the safe
//! modules and back.

use crate::accelerate;
use crate::answer::{Answer, Stop};
use crate::description::Description;
use crate::descriptors;
use crate::errno;
use crate::handover;
use crate::signals::{self, Inside, cancellation, has_handled};
use crate::waiting::Waiting;
use libc::{c_int, ssize_t};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use std::sync::Arc;

/// The outcome of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome<T> {
    /// Served.
    Done(Result<T, Errno>),
    /// The real call is to be made.
    Real,
}

/// How a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// MSG_DONTWAIT
    pub(crate) dont_wait: bool,
    /// The option that has its timeout.
    pub(crate) timeout: Timeout,
    /// It is a cancellation point (pthreads(7)).
    is_point: bool,
}

impl Manner {
    pub(crate) const RECEIVING: Self = Self { dont_wait: false, timeout: Timeout::Recv, is_point: true };
    pub(crate) const SENDING: Self = Self { dont_wait: false, timeout: Timeout::Send, is_point: true };
    /// That of calls in which no thread is cancelled.
    pub(crate) const WHOLE: Self = Self { is_point: false, ..Self::SENDING };

    pub(crate) fn with_flags(self, flags: c_int) -> Self {
        Self { dont_wait: flags & libc::MSG_DONTWAIT != 0, ..self }
    }
}

/// Serves a call, again after a signal whose handlers let it go on.
#[inline]
pub(crate) fn serve<T>(
    number: c_int,
    manner: Manner,
    mut call: impl FnMut(&Arc<Description>, &mut Waiting<'_>) -> Answer<T>,
) -> Outcome<T> {
    if !descriptors::is_ours_to_use(number) || Inside::is_entered() {
        return if descriptors::is_library(number) { Outcome::Done(Err(Errno::BADF)) } else { Outcome::Real };
    }
    loop {
        if manner.is_point {
            cancellation::point();
        } else {
            cancellation::put_off();
        }
        let (answer, may_restart) = {
            let _inside = Inside::enter();
            let Some(description) = descriptors::find(number) else { return Outcome::Real };
            if accelerate::settle_detour(number, &description) {
                return Outcome::Real;
            }
            let is_nonblocking = manner.dont_wait || description.is_nonblocking();
            let mut waiting = Waiting::new(&description, is_nonblocking, manner.timeout);
            let answer = call(&description, &mut waiting);
            if matches!(answer, Err(Stop::Kernel)) {
                accelerate::settle_detour(number, &description);
                handover::leave_if_handed_over(&description);
                if accelerate::settle_urgent(&description) {
                    continue;
                }
            }
            (answer, !waiting.has_timeout())
        };
        match answer {
            Ok(value) => return Outcome::Done(Ok(value)),
            Err(Stop::Kernel) => return Outcome::Real,
            // The handlers ran when the thread left. A cancellation that the thread has disabled interrupts nothing.
            Err(Stop::Errno(Errno::INTR)) if !has_handled() || may_restart && signals::may_restart() => {}
            Err(Stop::Errno(errno)) => return Outcome::Done(Err(errno)),
        }
    }
}

/// A result as C has it, with errno.
pub(crate) trait CResult: Copy {
    const FAILED: Self;
}

impl CResult for c_int {
    const FAILED: Self = -1;
}

impl CResult for ssize_t {
    const FAILED: Self = -1;
}

/// Gives C the outcome.
#[inline]
pub(crate) fn give<R: CResult>(outcome: Outcome<R>, real: impl FnOnce() -> R) -> R {
    match outcome {
        Outcome::Done(Ok(value)) => value,
        Outcome::Done(Err(errno)) => {
            errno::set(errno);
            R::FAILED
        }
        Outcome::Real => real(),
    }
}

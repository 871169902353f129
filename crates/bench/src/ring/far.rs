//! The far end: it answers, or it sends as fast as it can. It reads no clock.

use super::payload::{Inbox, Payload};
use super::{End, Job, Load, Step};
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of the first message that is counted; hellos have lower ones.
pub(super) const FIRST_NUMBER: u64 = 1000;
/// Messages of a stream between two looks at the flag that ends it.
const MESSAGES_PER_LOOK: u64 = 64;

/// Serves until the near end is gone, or `stop` is set.
pub(super) fn serve<E: End>(end: &mut E, job: &Job, stop: &AtomicBool) {
    match job.load {
        Load::Stream => stream(end, job.shape.size, stop),
        Load::ClosedLoop | Load::Paced(_) | Load::Events(_) => answer(end, job.shape.size, stop),
    }
}

fn answer<E: End>(end: &mut E, size: usize, stop: &AtomicBool) {
    let mut hello = Payload::new(size);
    for number in 1..=E::HELLOS {
        if !send(end, hello.numbered(number), stop) {
            return;
        }
    }
    let mut inbox = Inbox::new(size);
    loop {
        match end.receive(|message| inbox.take(message)) {
            Step::Done => {
                if !send(end, inbox.message(), stop) {
                    return;
                }
            }
            Step::Again if !stop.load(Ordering::Relaxed) => {}
            Step::Again | Step::Gone => return,
        }
    }
}

fn stream<E: End>(end: &mut E, size: usize, stop: &AtomicBool) {
    let mut payload = Payload::new(size);
    let mut number = FIRST_NUMBER;
    while !number.is_multiple_of(MESSAGES_PER_LOOK) || !stop.load(Ordering::Relaxed) {
        if !send(end, payload.numbered(number), stop) {
            return;
        }
        number += 1;
    }
}

/// Sends one message; false when it is time to end.
#[inline(always)]
fn send<E: End>(end: &mut E, message: &[u8], stop: &AtomicBool) -> bool {
    loop {
        match end.send(message) {
            Step::Done => return true,
            Step::Again if !stop.load(Ordering::Relaxed) => {}
            Step::Again | Step::Gone => return false,
        }
    }
}

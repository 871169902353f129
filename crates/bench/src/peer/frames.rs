//! Answers bare frames in place.

use super::protocol::{Done, Echo};
use super::watch::Watch;
use crate::cpu_time::SpentSince;
use crate::frames::{End, turn_round};
use crate::message::Header;
use crate::service_time::{ServiceTime, Worker};
use sidestep_frame::{FrameLink, Received};
use sidestep_sys::{Problem, cpu};
use std::time::{Duration, Instant};

/// Time for the first message: the other end opens its interface after this one, which restarts some devices for seconds.
const FIRST_MAX: Duration = Duration::from_secs(12);

/// Serves one slice, until the other end says that it is over.
pub(super) fn run(end: &mut End, request: &Echo, service: ServiceTime, mut watch: Watch<'_>) -> Result<Done, Problem> {
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let lost = |error| Problem::failed("lost the wire", error);
    let (mut received, mut worker, first_until) = (0, Worker::new(service), Instant::now() + FIRST_MAX);
    loop {
        let Some(frame) = end.link.receive() else {
            end.link.poll().map_err(lost)?;
            if received == 0 && Instant::now() < first_until {
                watch.finishing()?;
            } else {
                watch.waited()?;
            }
            continue;
        };
        match header(end, &frame, request.size) {
            Some(header) if header.last => break,
            Some(_) => {
                worker.work();
                answer(end, frame).map_err(lost)?;
                received += 1;
            }
            None => end.link.release(frame),
        }
        watch.heard()?;
    }
    let involuntary_switches = cpu::involuntary_switches() - switches;
    Ok(Done { received, involuntary_switches, cpu: spent.on(received), ..Done::default() })
}

/// Of a message of this slice; nobody but the measuring end is answered.
#[inline]
fn header(end: &End, frame: &Received, size: u32) -> Option<Header> {
    let message = end.message(frame)?;
    Header::read(message).filter(|_| message.len() == size as usize)
}

#[inline]
fn answer(end: &mut End, frame: Received) -> std::io::Result<()> {
    let len = frame.len();
    let answer = end.link.answer(frame);
    turn_round(end.link.buffer(&answer));
    if let Err(unsent) = end.link.send(answer, len) {
        // The other end takes it for lost; with one message under way the ring is never full.
        end.link.discard(unsent.frame);
    }
    end.link.flush()
}

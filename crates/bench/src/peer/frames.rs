//! Answers bare frames in place.

use super::protocol::{Done, Echo};
use super::watch::{Watch, work};
use crate::cpu_time::SpentSince;
use crate::frames::{End, payload, turn_round};
use crate::message::Header;
use sidestep_frame::{FrameLink, Received};
use sidestep_sys::{Problem, cpu};
use std::time::Duration;

/// Serves one slice, until the other end says that it is over.
pub(super) fn run(end: &mut End, request: &Echo, service: Duration, mut watch: Watch<'_>) -> Result<Done, Problem> {
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let lost = |error| Problem::failed("lost the wire", error);
    let mut received = 0;
    loop {
        let Some(frame) = end.link.receive() else {
            end.link.poll().map_err(lost)?;
            watch.waited()?;
            continue;
        };
        match header(end, &frame, request.size) {
            Some(header) if header.last => break,
            Some(_) => {
                work(service);
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

/// Of a message of this slice; the port may be heard by others, too.
#[inline]
fn header(end: &End, frame: &Received, size: u32) -> Option<Header> {
    let message = payload(end.link.bytes(frame))?;
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

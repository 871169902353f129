//! Counts a stream of datagrams and sends some of them back.

use super::protocol::Done;
use super::sequence::Sequence;
use super::watch::Watch;
use crate::cpu_time::SpentSince;
use crate::link::Link;
use crate::message::Header;
use sidestep_socket::stream::is_retry;
use sidestep_sys::{Problem, cpu};
use std::io::ErrorKind;

/// Serves one slice: the stream comes over `group`, or over `back` when there is none (or when `back` hears both); every `reflect_every`-th message
/// goes back over `back`.
pub(super) fn run(
    back: &mut dyn Link,
    mut group: Option<&mut dyn Link>,
    reflect_every: u64,
    mut watch: Watch<'_>,
) -> Result<Done, Problem> {
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let mut sequence = Sequence::new();
    let mut buffer = vec![0; 1 << 16];
    let every = reflect_every.max(1);
    loop {
        let received = match &mut group {
            Some(group) => group.receive(&mut buffer),
            None => back.receive(&mut buffer),
        };
        let count = match received {
            Ok(count) => count,
            Err(error) if is_retry(&error) => {
                watch.waited()?;
                continue;
            }
            // The other end's socket is gone; so is the slice.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
            Err(error) => return Err(Problem::failed("cannot receive", error)),
        };
        watch.heard()?;
        let Some(header) = Header::read(&buffer[..count]) else { continue };
        if header.last {
            break;
        }
        sequence.note(header.sequence);
        if header.sequence.is_multiple_of(every) {
            // A reflected sample that does not get through is a lost sample, which the other end counts.
            let _ = watch.send_all(back, &buffer[..count]);
            let _ = back.flush();
        }
    }
    Ok(Done {
        received: sequence.received,
        gaps: sequence.gaps,
        duplicates: sequence.duplicates,
        reordered: sequence.reordered,
        involuntary_switches: cpu::involuntary_switches() - switches,
        napi: false,
        cpu: spent.on(sequence.received),
        ..Done::default()
    })
}

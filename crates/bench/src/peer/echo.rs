//! The peer of `bench rr`: answers every message with itself.

use super::protocol::{Done, Echo};
use super::watch::Watch;
use crate::cpu_time::SpentSince;
use crate::link::Link;
use crate::message::Header;
use crate::service_time::{ServiceTime, Worker};
use sidestep_socket::stream::is_retry;
use sidestep_sys::socket::incoming_napi_id;
use sidestep_sys::{Problem, cpu};
use std::io::{self, ErrorKind};

/// Serves one slice over a connected stream, until the other end closes.
pub(super) fn run(
    link: &mut dyn Link,
    request: &Echo,
    service: ServiceTime,
    mut watch: Watch<'_>,
) -> Result<Done, Problem> {
    Watch::bound_sends(link)?;
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let mut message = vec![0; request.size as usize];
    let (mut received, mut worker) = (0, Worker::new(service));
    let ends_by_message = request.transport.is_datagram();
    while receive(link, &mut message, &mut watch)? {
        if ends_by_message && Header::read(&message).is_some_and(|header| header.last) {
            break;
        }
        worker.work();
        watch.send_all(link, &message)?;
        if request.pipelined
            && let Err(error) = link.flush()
            && !is_retry(&error)
        {
            return Err(Problem::failed("cannot answer", error));
        }
        received += 1;
    }
    let napi = link.descriptor().is_some_and(|socket| incoming_napi_id(socket).is_ok_and(|id| id != 0));
    let involuntary_switches = cpu::involuntary_switches() - switches;
    Ok(Done { received, involuntary_switches, napi, cpu: spent.on(received), ..Done::default() })
}

/// Fills `message`; false when the other end has finished.
#[inline]
fn receive(link: &mut dyn Link, message: &mut [u8], watch: &mut Watch<'_>) -> Result<bool, Problem> {
    let mut filled = 0;
    while filled < message.len() {
        match link.receive(&mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(count) => filled += count,
            Err(error) if is_retry(&error) => watch.waited()?,
            Err(error) if is_end(&error) => return Ok(false),
            Err(error) => return Err(Problem::failed("cannot receive", error)),
        }
    }
    watch.heard()?;
    Ok(true)
}

/// Returns whether an error means that the other end has closed its socket.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused | ErrorKind::BrokenPipe)
}

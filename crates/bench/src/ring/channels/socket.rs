//! A pair of connected Unix stream sockets, blocking.

use super::pipe::StreamEnd;
use super::threads;
use crate::ring::{Channel, Contestant, Shape, cannot_open};
use sidestep_sys::Problem;
use std::os::unix::net::UnixStream;

pub(super) fn all() -> Vec<Box<dyn Contestant>> {
    vec![Box::new(threads(
        Sockets,
        "uds",
        true,
        "A pair of Unix stream sockets, write(2) and blocking read(2): every message wakes a sleeping thread.",
    ))]
}

struct Sockets;

impl Channel for Sockets {
    type End = StreamEnd<UnixStream, UnixStream>;
    type Ticket = Self::End;

    fn open(&self, shape: Shape) -> Result<(Self::End, Self::End), Problem> {
        let failed = |error| cannot_open("a Unix socket", error);
        let (near, far) = UnixStream::pair().map_err(failed)?;
        let end = |socket: UnixStream| {
            Ok::<_, Problem>(StreamEnd {
                out: socket.try_clone().map_err(failed)?,
                back: socket,
                buffer: vec![0; shape.size],
            })
        };
        Ok((end(near)?, end(far)?))
    }

    fn join(&self, ticket: Self::End) -> Result<Self::End, Problem> {
        Ok(ticket)
    }
}

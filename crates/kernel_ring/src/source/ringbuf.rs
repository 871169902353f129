//! A reader of a BPF ring buffer: the kernel's own way, with the library that everybody uses.

use libbpf_rs::{Map, RingBuffer, RingBufferBuilder};
use sidestep_sys::Problem;
use std::io;
use std::time::Duration;

/// A reader of a BPF ring buffer. There is one reader of a buffer at a time: it tells the kernel how far it has come.
pub struct Ringbuf(RingBuffer<'static>);

impl Ringbuf {
    pub(super) fn open(map: &Map<'_>, mut take: impl FnMut(&[u8]) + 'static) -> Result<Self, Problem> {
        let mut builder = RingBufferBuilder::new();
        let added = builder.add(map, move |record| {
            take(record);
            0
        });
        added.map_err(failed)?;
        builder.build().map(Self).map_err(failed)
    }

    /// Passes on what is there, and does not wait.
    #[inline]
    pub fn consume(&self) -> Result<(), Problem> {
        // The raw call is negative for an error alone.
        if self.0.consume_raw() < 0 { Err(failed("its memory is not that of a ring buffer")) } else { Ok(()) }
    }

    /// Sleeps in epoll_wait(2) until something is there, for at most this time, and passes it on.
    pub fn poll(&self, timeout: Duration) -> Result<(), Problem> {
        let found = self.0.poll_raw(timeout);
        if found >= 0 {
            return Ok(());
        }
        // A signal is no fault: the caller looks again.
        let error = io::Error::from_raw_os_error(-found);
        if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(failed(error)) }
    }
}

fn failed(why: impl std::fmt::Display) -> Problem {
    Problem::failed("cannot read a BPF ring buffer", why)
}

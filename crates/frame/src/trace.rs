//! A link that captures its traffic: pcapng with nanoseconds and directions, for tshark and others. Other captures on
//! the host do not see AF_XDP traffic.

use super::pcapng::{Direction, Writer};
use super::{Counters, FrameFacts, FrameLink, Outgoing, Received, Unsent};
use std::io::{self, Write};

/// A link and its capture. `N` supplies the time of a frame without a timestamp, ns since 1970.
#[derive(Debug)]
pub struct Trace<L, W, N> {
    link: L,
    writer: Writer<W>,
    now_ns: N,
    /// The error that ended the capture; the link continues.
    failure: Option<io::Error>,
    missed: u64,
    scratch: Vec<u8>,
}

impl<L: FrameLink, W: Write, N: FnMut() -> u64> Trace<L, W, N> {
    /// Begins a capture. Pass a buffered writer: a block is written per frame.
    pub fn new(link: L, output: W, now_ns: N) -> io::Result<Self> {
        let writer = Writer::new(output, &link.facts().place)?;
        let scratch = Vec::with_capacity(link.facts().frame_bytes as usize);
        Ok(Self { link, writer, now_ns, failure: None, missed: 0, scratch })
    }

    /// The wrapped link.
    pub fn inner(&self) -> &L {
        &self.link
    }

    /// The number of frames missing in the capture after a failed write.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Ends the capture: returns the link, and the output with the whole capture, or the error.
    pub fn finish(mut self) -> (L, io::Result<W>) {
        let result = match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.writer.flush(),
        };
        (self.link, result.map(|()| self.writer.into_inner()))
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
        self.missed += u64::from(self.failure.is_some());
    }
}

impl<L: FrameLink, W: Write, N: FnMut() -> u64> FrameLink for Trace<L, W, N> {
    fn facts(&self) -> &FrameFacts {
        self.link.facts()
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }

    fn receive(&mut self) -> Option<Received> {
        let frame = self.link.receive()?;
        let written = match &self.failure {
            None => {
                let time_ns = frame.timestamp_ns().unwrap_or_else(&mut self.now_ns);
                self.writer.frame(time_ns, Direction::Inbound, self.link.bytes(&frame))
            }
            Some(_) => Ok(()),
        };
        self.note(written);
        Some(frame)
    }

    fn bytes(&self, frame: &Received) -> &[u8] {
        self.link.bytes(frame)
    }

    fn release(&mut self, frame: Received) {
        self.link.release(frame);
    }

    fn answer(&mut self, frame: Received) -> Outgoing {
        self.link.answer(frame)
    }

    fn allocate(&mut self) -> Option<Outgoing> {
        self.link.allocate()
    }

    fn buffer(&mut self, frame: &Outgoing) -> &mut [u8] {
        self.link.buffer(frame)
    }

    fn send(&mut self, frame: Outgoing, len: usize) -> Result<(), Unsent> {
        // Copied before, written after: a frame that the link refuses was not sent.
        self.scratch.clear();
        self.scratch.extend(self.link.buffer(&frame).iter().take(len));
        self.link.send(frame, len)?;
        let written = match &self.failure {
            None => self.writer.frame((self.now_ns)(), Direction::Outbound, &self.scratch),
            Some(_) => Ok(()),
        };
        self.note(written);
        Ok(())
    }

    fn discard(&mut self, frame: Outgoing) {
        self.link.discard(frame);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.link.flush()
    }

    fn poll(&mut self) -> io::Result<()> {
        self.link.poll()
    }

    fn check(&mut self) -> io::Result<()> {
        self.link.check()
    }
}

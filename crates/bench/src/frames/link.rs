//! The measuring end as a transport of the measuring loop.

use super::end::End;
use super::next_hop::mac_toward;
use super::packet::{FRAME_BYTES_MIN, HEADERS_BYTES, Headers};
use crate::link::{Link, send_all};
use crate::message::{Header, filled};
use sidestep_frame::FrameLink;
use sidestep_socket::stream::is_retry;
use sidestep_sys::Problem;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Time for the first answer: attaching programs restarts interfaces.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(10);
/// Between two questions without an answer.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// The sequence number of the questions before the slice, which no message of it reaches.
const QUESTION: u64 = 1 << 62;

/// A connection in bare frames.
pub(crate) struct FramesLink {
    end: End,
    macs: [[u8; 6]; 2],
    /// Headers and size of the last message: all messages of a slice have the same.
    headers: Headers,
    size: usize,
}

impl FramesLink {
    /// Over an open end, by the kernel's way to the peer.
    pub(crate) fn new(end: End) -> Result<Self, Problem> {
        let to = mac_toward(&end.interface, *end.flow.local.ip(), *end.flow.remote.ip())?;
        let macs = [end.mac, to];
        Ok(Self { headers: Headers::new(&end.flow, macs, 0), size: 0, macs, end })
    }

    /// Asks with messages of `size` bytes until the first answer has come: the wire carries frames then, by queues of ours.
    pub(crate) fn wait_until_answered(&mut self, size: u32) -> Result<(), Problem> {
        let lost = |error| Problem::failed("lost the wire", error);
        let (mut message, mut answer) = (filled(size), vec![0; size as usize]);
        Header { sequence: QUESTION, last: false }.write(&mut message);
        let deadline = Instant::now() + FIRST_ANSWER_MAX;
        while Instant::now() < deadline {
            match send_all(self, &message) {
                Err(error) if error.raw_os_error() != Some(rustix::io::Errno::NETDOWN.raw_os_error()) => {
                    return Err(lost(error));
                }
                _ => {}
            }
            let again = Instant::now() + ASK_AGAIN;
            while Instant::now() < again {
                match self.receive(&mut answer) {
                    Ok(_) if answer == message => return Ok(()),
                    Ok(_) => {}
                    Err(error) if is_retry(&error) => {}
                    Err(error) => return Err(lost(error)),
                }
            }
        }
        let why = if self.end.port.has_heard() {
            "answers come by the kernel: by a queue of the device that is not this end's"
        } else {
            "no answer came"
        };
        Err(Problem::failed(format!("cannot exchange bare frames with {}", self.end.flow.remote), why)
            .next("see the way to the peer and back (ip route get), and what filters UDP between the hosts"))
    }

    /// Returns a note for the report.
    pub(crate) fn note(&self) -> String {
        self.end.note()
    }
}

impl Link for FramesLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() != self.size {
            (self.headers, self.size) = (Headers::new(&self.end.flow, self.macs, bytes.len()), bytes.len());
        }
        let link = &mut self.end.link;
        let Some(frame) = link.allocate() else {
            link.poll()?;
            return Err(ErrorKind::WouldBlock.into());
        };
        let len = (HEADERS_BYTES + bytes.len()).max(FRAME_BYTES_MIN);
        let buffer = link.buffer(&frame);
        self.headers.write(bytes, buffer);
        // Padding shows nothing of an earlier frame.
        buffer[HEADERS_BYTES + bytes.len()..len].fill(0);
        if let Err(unsent) = link.send(frame, len) {
            link.discard(unsent.frame);
            link.poll()?;
            return Err(ErrorKind::WouldBlock.into());
        }
        link.flush()?;
        Ok(bytes.len())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(frame) = self.end.link.receive() else {
            self.end.link.poll()?;
            return Err(ErrorKind::WouldBlock.into());
        };
        let message = self.end.message(&frame);
        let count = message.map(|message| {
            let count = message.len().min(buffer.len());
            buffer[..count].copy_from_slice(&message[..count]);
            count
        });
        self.end.link.release(frame);
        count.ok_or_else(|| ErrorKind::WouldBlock.into())
    }
}
